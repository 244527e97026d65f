/* Options of norms: their rows on the command line, their values in a norm, and the values under
   which a trained model is measured. */
#include "model/lab/config.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Each kind's options come once in the list and in the table, with a default in their range. */
Test(norm_options, every_one_has_a_row) {
    struct config config;
    int count = 0;
    config_start(&config);
    for (size_t i = 0; norm_option_list()[i]; i++, count++) {
        const struct kind_option *o = norm_option_list()[i];
        const struct option *row = options_find(config_options, o->name);
        cr_assert(row, "--%s", o->name);
        cr_expect(!strcmp(row->help, o->help) && !strcmp(row->start, o->start), "--%s", o->name);
        cr_expect((union kind_value *)(void *)option_int(row, &config) ==
                      &config.model.norms.value[i],
                  "--%s is elsewhere", o->name);
        for (size_t k = 0; k < i; k++) cr_expect(norm_option_list()[k] != o, "--%s", o->name);
        if (i) cr_expect(norm_option_list()[i - 1]->rank <= o->rank, "--%s: order", o->name);
        if (o->type != KIND_REAL && o->type != KIND_INTEGER) continue;
        double start = o->type == KIND_REAL ? config.model.norms.value[i].real
                                            : (double)config.model.norms.value[i].integer;
        bool is_auto = start == OPTION_AUTO && !strcmp(o->start, "auto");
        cr_expect(is_auto || (start >= o->min && start <= o->max), "--%s=%g", o->name, start);
    }
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        for (size_t i = 0; (*kind)->options[i]; i++) {
            size_t at = 0;
            while (norm_option_list()[at] && norm_option_list()[at] != (*kind)->options[i]) at++;
            cr_expect(norm_option_list()[at], "%s: %s", (*kind)->name, (*kind)->options[i]->name);
        }
    cr_expect(count >= 10);
}

/* A norm has the values of its own kind, in the order of its row. */
Test(norm_options, a_norm_takes_the_values_of_its_options) {
    struct norm_options options = small_norms;
    for (size_t i = 0; norm_option_list()[i]; i++)
        if (norm_option_list()[i]->type == KIND_REAL) options.value[i].real = 0.001 * (double)i;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        struct lone_norm lone;
        lone_norm_init_with(&lone, *kind, &options, 2, 3, 4);
        for (size_t i = 0; (*kind)->options[i]; i++)
            cr_expect(lone.norm.option[i].integer ==
                          norm_option_value(&options, (*kind)->options[i]).integer,
                      "%s: --%s", (*kind)->name, (*kind)->options[i]->name);
        lone_norm_free(&lone);
    }
}

/* What is counted in heads becomes less in rows of fewer heads, and is 1 inside a head; all else
   stays. */
Test(norm_options, in_rows_of_fewer_heads) {
    static const struct {
        int64_t heads, value;
        size_t of_row;
        int64_t want;
    } cases[] = {{6, 6, 6, 6},  {6, 6, 3, 3}, {6, 12, 3, 6}, {6, 6, 1, 1},
                 {6, 24, 1, 1}, {6, 1, 3, 1}, {6, 5, 3, 2},  {6, 6, 2, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct norm_options options = small_norms;
        int changed = 0;
        options.heads = cases[k].heads;
        for (size_t i = 0; norm_option_list()[i]; i++) options.value[i].integer = cases[k].value;
        struct norm_options of_row = norm_options_of_heads(&options, cases[k].of_row);
        cr_expect(of_row.heads == (int64_t)cases[k].of_row && of_row.affine == options.affine);
        for (size_t i = 0; norm_option_list()[i]; i++) {
            bool counts = norm_option_list()[i]->auto_rule == KIND_AUTO_HEADS;
            cr_expect_eq(of_row.value[i].integer, counts ? cases[k].want : cases[k].value);
            changed += counts;
        }
        cr_expect(changed > 0);
    }
}

static double loss_by(const struct model *model, enum statistics_source source,
                      const struct batch *batch, const struct batch *other) {
    struct model measured;
    measure_init(&measured, model, source);
    struct score score = measure_score(&measured, source, batch, other);
    model_free(&measured);
    return score.loss;
}

/* Statistics of one batch do not depend on the run before: on the running statistics and on how far
   it was. A kind that pools over tokens says by its options' `measured` how to get there. */
static void check_measured_models_forget_their_run(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 7);
    struct batch other = make_batch(SMALL_B, SMALL_T, SMALL_V, 8);
    struct model fresh, old;
    norms_set(&config.norms, "pn-warmup", 3); // over before the run ends, as --prepbn-steps is
    model_init(&fresh, &config, SMALL_V, SMALL_B, 1);
    model_init(&old, &config, SMALL_V, SMALL_B, 1);
    for (int step = 0; step < 6; step++) { // the weights stay
        struct batch one = make_batch(SMALL_B, SMALL_T, SMALL_V, 40 + step);
        model_forward(&old, &one, true, step);
        model_backward(&old, &one, step, 1);
        batch_free(&one);
    }
    bool pools = kind_mixes_tokens(norm_kinds[pair->norm]);
    bool moved = loss_by(&old, STATISTICS_RUNNING, &batch, NULL) !=
                 loss_by(&fresh, STATISTICS_RUNNING, &batch, NULL);
    cr_expect(moved == pools, "running statistics");
    for (int source = STATISTICS_OWN; source < STATISTICS_SOURCES; source++) {
        if (!measure_has(&config, source)) continue;
        double a = loss_by(&fresh, source, &batch, &other),
               b = loss_by(&old, source, &batch, &other);
        cr_expect(fabs(a - b) <= (in_double() ? 1e-12 : 1e-5) * fabs(a), "%s: %.9g, %.9g",
                  statistics_name[source], a, b);
    }
    batch_free(&batch);
    batch_free(&other);
    model_free(&fresh);
    model_free(&old);
}

Test(norm_options, measured_models_forget_their_run) {
    every_norm(check_measured_models_forget_their_run);
}

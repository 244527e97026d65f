/* What the rows of norms and placements declare: names and options. What weight decay does to
   gamma. The number of batches that a norm has seen. */
#include "model/optimizer/optimizer.h"
#include "model/options/config.h"
#include "model/options/options.h"
#include "tests/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options that a kind lists have a row, which needs one of its kinds. */
Test(norm_kinds, the_options_that_they_list_need_them) {
    struct config config;
    config_parse(&config, 1, (char *[]){"train"});
    for (int kind = 0; norm_kinds[kind]; kind++)
        for (int i = 0; norm_kinds[kind]->options[i]; i++) {
            const struct option *o =
                options_find(config_options, norm_kinds[kind]->options[i]->name);
            cr_assert(o && config_uses(options_find(config_options, "norm"), kind, o));
            config.model.norm = kind;
            cr_expect(option_is_active(o, &config), "--norm=%s --%s", norm_kinds[kind]->name,
                      o->name);
            config.model.norm = 0; // none
            cr_expect(!option_is_active(o, &config), "--norm=none --%s", o->name);
        }
}

Test(norm_kinds, every_name_means_one_kind) {
    static const char *const options[] = {
        "norm",      "norm-attn", "norm-ffn",  "norm-final",     "qk-norm",      "v-norm",
        "attn-norm", "ffn-norm",  "placement", "placement-attn", "placement-ffn"};
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        const struct option *o = options_find(config_options, options[k]);
        int synonyms = 0;
        for (int64_t i = 0; option_choice_of(o, i).name; i++) {
            cr_expect(option_index(o, option_choice_of(o, i).name) == i, "--%s=%s", o->name,
                      option_choice_of(o, i).name);
            const char *synonym = option_choice_of(o, i).full_name;
            if (!synonym) continue;
            cr_expect(option_index(o, synonym) == i, "--%s=%s", o->name, synonym);
            synonyms++;
        }
        cr_expect(synonyms >= 2, "--%s has no full names", o->name);
    }
}

/* "name shape" of the tensors of the norm at this site, in the order of the model's file. */
static char *tensors_of(const struct model *model, const char *site) {
    char *text = hold(400);
    for (size_t i = 0; i < model->lists.param.count; i++) {
        const struct tensor *t = &model->lists.param.tensor[i];
        if (strncmp(t->name, site, strlen(site)) != 0) continue;
        char *end = text + strlen(text);
        sprintf(end, end > text ? ", %s" : "%s", t->name + strlen(site));
        for (int d = 0; d < t->dimensions; d++) sprintf(end + strlen(end), " %zu", t->shape[d]);
    }
    return text;
}

/* Files of kinds that are only a formula have the tensors that they had with functions of their own:
   6 channels, and 3 in a head. */
Test(norm_kinds, formulas_have_the_tensors_of_stored_models) {
    static const struct {
        const char *norm;
        int64_t bias;
        const char *of_stream, *of_head;
    } cases[] = {
        {"seednorm", 1, "weight 6, alpha 6, beta 6", "weight 3, alpha 3, beta 3"},
        {"seednorm", 0, "weight 6, alpha 6, beta 6", "weight 3, alpha 3, beta 3"},
        {"bhyt", 1, "weight 6, lam 1", "weight 3, lam 1"},
        {"dyt", 1, "alpha 1, weight 6, bias 6", "alpha 1, weight 3, bias 3"},
        {"dyt", 0, "alpha 1, weight 6", "alpha 1, weight 3"},
        {"derf", 1, "alpha 1, shift 1, weight 6, bias 6", "alpha 1, shift 1, weight 3, bias 3"},
        {"derf", 0, "alpha 1, shift 1, weight 6", "alpha 1, shift 1, weight 3"},
        {"scale", 1, "scale", "scale"},
        {"l2", 1, "", ""},
        {"gn", 1, "weight 6, bias 6", "weight 3, bias 3"},
        {"gn", 0, "weight 6", "weight 3"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct model_config config = small_config(norm_index(cases[k].norm), 0);
        config.qk_norm = INNER_NORM_ON;
        config.bias = cases[k].bias;
        struct model model = held_model(&config, SMALL_V, SMALL_B, 1);
        cr_expect_str_eq(tensors_of(&model, "transformer.h.0.ln_1."), cases[k].of_stream, "%s",
                         cases[k].norm);
        cr_expect_str_eq(tensors_of(&model, "transformer.h.0.attn.q_norm."), cases[k].of_head, "%s",
                         cases[k].norm);
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
        struct norm_options options = small_norms();
        int changed = 0;
        options.heads = cases[k].heads;
        for (size_t i = 0; norm_option_list()[i]; i++) options.value[i].integer = cases[k].value;
        struct norm_options of_row = norm_options_of_heads(&options, cases[k].of_row);
        cr_expect(of_row.heads == (int64_t)cases[k].of_row && of_row.affine == options.affine);
        for (size_t i = 0; norm_option_list()[i]; i++) {
            bool counts = norm_option_list()[i] == &norm_groups;
            cr_expect_eq(of_row.value[i].integer, counts ? cases[k].want : cases[k].value);
            changed += counts;
        }
        cr_expect(changed > 0);
    }
}

static const double rate = 0.1, weight_decay = 0.5, keep = 1 - 0.1 * 0.5;

/* One update without gradients: matrices decay towards 0, gamma towards the target, what else is
   learned stays to the bit. */
static void expect_decay(const struct model_config *config, double zero, double one) {
    const int64_t choice = config->norms.decay_gamma;
    size_t gammas = 0;
    struct model model = held_model(config, SMALL_V, SMALL_B, 1);
    struct tensor_list *param = &model.lists.param;
    struct optimizer adam =
        held_adamw((struct adamw_numbers){0.9, 0.99, 1e-8, weight_decay, 0}, param, 1);
    real *before = random_reals(param->size, 1);
    memcpy(param->value, before, param->size * sizeof(real));
    model_zero_grad(&model);
    optimizer_step(&adam, param, rate, 0);
    for (size_t k = 0; k < param->count; k++) {
        const struct tensor *t = &param->tensor[k];
        bool gamma = t->dimensions < 2 && (strstr(t->name, ".weight") || strstr(t->name, ".scale"));
        bool decays = t->dimensions == 2 || (gamma && choice != NORM_DECAY_OFF);
        double target = gamma ? (choice == NORM_DECAY_ONE ? one : zero) : 0;
        gammas += gamma;
        for (size_t i = t->offset; i < t->offset + t->size; i++) {
            double was = (double)before[i], is = (double)param->value[i];
            double want = decays ? target + keep * (was - target) : was;
            cr_assert(fabs(is - want) <= (!decays       ? 0
                                          : in_double() ? 1e-15
                                                        : 1e-6) *
                                             4,
                      "%s: %g became %g, not %g", t->name, was, is, want);
        }
    }
    cr_expect(gammas > 0 || !model_norm(config, SITE_FINAL)->param[0].name, "no gamma");
}

static void check_gamma_decays_as_it_is_told(const struct pair *pair) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    struct model_config config = pair_config(pair);
    if (!kind->forward) return;
    bool less_one = !strcmp(kind->name, "ts");  // learns gamma - 1
    bool scaled = !strcmp(kind->name, "scale"); // gamma times sqrt(C)
    double one = less_one ? 0 : scaled ? sqrt((double)config.n_embd) : 1;
    for (int64_t choice = NORM_DECAY_OFF; choice <= NORM_DECAY_ONE; choice++) {
        config.norms.decay_gamma = choice;
        expect_decay(&config, less_one ? -1 : 0, one);
    }
}

Test(norm_decay, gamma_decays_as_it_is_told) {
    every_norm(check_gamma_decays_as_it_is_told);
}

/* The number of batches that a norm has seen is an integer: it grows beyond 2^24, where a float would
   stop. */
enum { EDGE = 1 << 24 };

/* A norm in training that has seen this many batches. */
static struct lone_norm counting(const char *name, const struct norm_options *options,
                                 int64_t batches) {
    enum { B = 3, T = 4, C = 6 };
    struct lone_norm lone = lone_norm_with(norm_find(name), options, B, T, C);
    *lone.norm.batches = batches;
    return lone;
}

static void forward(struct lone_norm *lone) {
    real x[3 * 4 * 6], y[3 * 4 * 6];
    memcpy(x, random_reals(3 * 4 * 6, 5), sizeof x);
    lone_norm_forward(lone, y, x);
}

static bool counts(const struct norm_kind *kind) {
    bool counts = false;
    for (int i = 0; kind->state[i].name; i++) counts |= kind->state[i].counts;
    return counts;
}

Test(norm_kinds, every_norm_counts_batches_beyond_2_to_the_24) {
    int kinds = 0;
    for (size_t i = 0; norm_kinds[i / 2]; i++) {
        const char *name = norm_kinds[i / 2]->name;
        if (!counts(norm_kinds[i / 2])) continue;
        struct norm_options options = small_norms();
        norms_set(&options, "bn-axis", i % 2 ? BN_AXIS_BATCH : BN_AXIS_BATCH_TIME);
        struct lone_norm lone = counting(name, &options, EDGE - 2);
        for (int batch = 0; batch < 6; batch++) {
            lone.tokens.training = batch < 5;
            forward(&lone);
        }
        cr_expect(*lone.norm.batches == EDGE + 3, "%s: %lld", name, (long long)*lone.norm.batches);
        kinds++;
    }
    cr_expect(kinds == 2 * 5, "bn, brn, in, pn, prepbn");
}

/* The first state of prepbn is its lambda. */
Test(norm_kinds, prepbn_becomes_bn_beyond_2_to_the_24) {
    struct norm_options options = small_norms();
    norms_set(&options, "prepbn-steps", (double)(EDGE + 3));
    struct lone_norm lone = counting("prepbn", &options, EDGE);
    for (int i = 0; i < 5; i++) {
        forward(&lone);
        cr_expect((lone.norm.saved[0] > 0) == (i < 3), "batch %d: lambda %g", i,
                  (double)lone.norm.saved[0]);
    }
}

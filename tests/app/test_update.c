/* An update, against its batches one by one: their mean loss and gradient; and what its probe
   sees; and that a probe changes nothing; and that a gradient without numbers changes nothing. */
#include "data/die.h"
#include "model/app/session.h"
#include "model/model_pass.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <omp.h>
#include <string.h>

TestSuite(update, .init = corpora_enter, .fini = folder_leave);

enum { ROWS_MAX = 512, SHORT = 48 };

/* What a probe says of activations and their gradients, which are those of a batch. */
struct rows {
    int count;
    struct {
        char name[SHORT];
        double value;
    } row[ROWS_MAX];
};

static void collect(void *context, int64_t step, int layer, const char *site, const char *metric,
                    double value) {
    static const char *const of_weights[] = {"weight_norm", "grad_norm", "update_ratio"};
    struct rows *rows = context;
    for (int i = 0; i < 3; i++)
        if (!strcmp(metric, of_weights[i])) return;
    cr_assert(rows->count < ROWS_MAX);
    rows->row[rows->count].value = value;
    snprintf(rows->row[rows->count++].name, SHORT, "%d %d %s %s", (int)step, layer, site, metric);
}

static void start(struct session *t, struct rows *rows, const char *options) {
    memory_start(t, say(TINY "--quiet --norm=ln --dropout=0.1 %s", options));
    optimizer_init(&t->optimizer, &t->plan.config.optimizer, &t->model.lists.param,
                   model_team(&t->model));
    probe_init(&t->probe, &t->model, collect, rows);
    *rows = (struct rows){0};
}

static void end(struct session *t) {
    probe_free(&t->probe);
    optimizer_free(&t->optimizer);
    memory_end(t);
}

/* The gradient of batch i of the run, times `scale`, is added; returns the batch's loss. */
static double add_batch(struct session *t, int i, double scale) {
    corpus_sample(&t->loader.corpus, t->plan.config.seed, i, &t->loader.batch);
    return model_gradient(&t->model, &t->loader.batch, (uint64_t)i, scale);
}

/* Fails unless update number `step` is the mean over its batches by targets, and its probe's rows of
   activations are those of the last batch alone, in an update that has no other. */
static void check(const char *options, int accum, int step) {
    static struct session t, alone;
    static struct rows rows, last;
    start(&t, &rows, say("%s --grad-accum=%d --probe-interval=1", options, accum));
    start(&alone, &last, say("%s --probe-interval=1", options));
    double loss = 0, targets = 0, share[8];
    for (int i = 0; i < accum; i++) {
        corpus_sample(&alone.loader.corpus, alone.plan.config.seed, step * accum + i,
                      &alone.loader.batch);
        targets += share[i] = (double)batch_targets(&alone.loader.batch);
    }
    const real *tracked = copy_values(&alone.probe.watch.tracked);
    model_zero_grad(&alone.model);
    for (int i = 0; i < accum; i++)
        loss += add_batch(&alone, step * accum + i, share[i] / targets) * share[i] / targets;
    const double norm = optimizer_grad_norm(&alone.optimizer, &alone.model.lists.param);
    restore_values(&alone.probe.watch.tracked, tracked); // which every batch moves
    for (int i = 0; i < accum; i++) {
        model_zero_grad(&alone.model);
        alone.model.probing = i == accum - 1;
        add_batch(&alone, step * accum + i, 1);
        watch_batch(&alone.probe.watch, &alone.loader.batch);
    }
    probe_keep(&alone.probe, &alone.model);
    probe_write(&alone.probe, &alone.model, &alone.loader.batch, 1, step);

    const struct update update = update_model(&t.loader, &t.model, &t.optimizer, &t.probe, step,
                                              t.plan.config.schedule.rate);
    cr_expect_float_eq(update.loss, loss, 1e-6 * loss, "%s: %g, not %g", options, update.loss,
                       loss);
    cr_expect_float_eq(update.grad_norm, norm, 1e-5 * norm, "%s: %g, not %g", options,
                       update.grad_norm, norm);
    cr_expect((double)update.trained.targets == targets);
    cr_assert(rows.count == last.count && rows.count > 20, "%d, %d", rows.count, last.count);
    for (int i = 0; i < rows.count; i++) {
        const double want = last.row[i].value;
        cr_expect_str_eq(rows.row[i].name, last.row[i].name);
        cr_expect_float_eq(rows.row[i].value, want, 1e-4 * fabs(want) + 1e-9, "%s: %s: %g, not %g",
                           options, last.row[i].name, rows.row[i].value, want);
    }
    end(&t);
    end(&alone);
}

Test(update, is_the_mean_over_its_batches_and_probes_the_last_one) {
    static const char *const corpora[] = {"text.txt", "--items items.txt",
                                          "--items --bucket --pad-to=block items.txt",
                                          "--corpus=random --random-chars=20"};
    for (int i = 0; i < 4; i++)
        for (int accum = 1; accum <= 3; accum++)
            for (int step = 0; step < 2; step++) check(corpora[i], accum, step);
}

Test(update, probes_are_written_where_they_are_due) {
    static struct session t;
    static struct rows rows;
    start(&t, &rows, "--grad-accum=2 --probe-interval=2 text.txt");
    for (int step = 0; step < 5; step++) {
        rows.count = 0;
        update_model(&t.loader, &t.model, &t.optimizer, &t.probe, step,
                     t.plan.config.schedule.rate);
        cr_expect((rows.count > 0) == (step % 2 == 0), "update %d: %d rows", step, rows.count);
        cr_expect(!t.model.probing || step % 2 == 0);
    }
    end(&t);
}

/* The loss of an update is finite, its gradient is not: the z-loss is part of the gradient alone. */
Test(update, an_update_without_a_finite_gradient_changes_nothing) {
    struct session t;
    struct probe probe = {0};
    memory_start(&t, TINY "--learning-rate=0.1 text.txt");
    struct tensor_list *param = &t.model.lists.param;
    optimizer_init(&t.optimizer, &t.plan.config.optimizer, param, 1);
    for (int64_t step = 0; step < 2; step++) {
        const real *before = copy_values(param);
        t.model.config.z_loss = step ? INFINITY : 0;
        const struct update made = update_model(&t.loader, &t.model, &t.optimizer, &probe, step,
                                                t.plan.config.schedule.rate);
        cr_expect(isfinite(made.loss) && (!isfinite(made.grad_norm)) == step);
        cr_expect((made.trained.targets == 0) == step);
        cr_expect((difference(param->size, before, param->value) == 0) == step, "update %d",
                  (int)step);
    }
    optimizer_free(&t.optimizer);
    memory_end(&t);
}

/* Losses, gradients, states and weights of three updates, the second one probed, are the same to
   the bit without probes, and with them on one thread and on three. */
static void check_probes_change_nothing(const struct pair *pair) {
    enum { SEQUENCES = 9, LENGTH = 13 };
    double losses[3][3];
    real *weights[3] = {NULL}, *states[3] = {NULL};
    struct rows *rows = hold(3 * sizeof *rows);
    size_t size = 0, state_size = 0;
    for (int run = 0; run < 3; run++) {
        struct model_config config = pair_config(pair);
        config.dropout = 0.1;
        config.block_size = LENGTH;
        config.whole_batch = run > 0;
        omp_set_num_threads(run == 2 ? 3 : 1);
        struct probe probes;
        struct batch batch = make_batch(SEQUENCES, LENGTH, SMALL_V, 3);
        struct model model = held_model(&config, SMALL_V, SEQUENCES, 1);
        model.threads = run == 2 ? 3 : 1;
        struct optimizer adam = held_adamw(fit_options, &model.lists.param, 1);
        if (run) probe_init(&probes, &model, collect, &rows[run]);
        for (int step = 0; step < 3; step++) {
            if (run == 2) model_forward(&model, &batch, false, step); // an evaluation
            model.probing = run && step == 1;
            losses[run][step] = gradient_of(&model, &batch, step, 1);
            if (run) watch_batch(&probes.watch, &batch);
            if (model.probing) probe_keep(&probes, &model);
            optimizer_step(&adam, &model.lists.param, 1e-2,
                           optimizer_grad_norm(&adam, &model.lists.param));
            if (model.probing) probe_write(&probes, &model, &batch, 1, step);
        }
        size = model.lists.param.size;
        state_size = model.lists.state.size;
        weights[run] = copy_values(&model.lists.param);
        states[run] = copy_values(&model.lists.state);
        if (run) probe_free(&probes);
    }
    for (int run = 1; run < 3; run++) {
        cr_expect(!memcmp(losses[0], losses[run], sizeof losses[0]), "losses of run %d", run);
        cr_expect(!memcmp(weights[0], weights[run], size * sizeof(real)), "weights of run %d", run);
        cr_expect(!memcmp(states[0], states[run], state_size * sizeof(real)), "states");
    }
    cr_expect(rows[0].count == 0 && rows[1].count > 20 && rows[1].count == rows[2].count);
    cr_expect(!memcmp(&rows[1], &rows[2], sizeof rows[1]), "rows of one thread and of three");
    for (int i = 0; i < rows[1].count; i++)
        cr_expect(isfinite(rows[1].row[i].value), "%s", rows[1].row[i].name);
}

Test(update, probes_change_nothing) {
    every_norm_and_placement(check_probes_change_nothing);
}

/* Batches. The number of batches that a norm has seen is an integer: it grows beyond 2^24, where a
   float would stop, in memory and in files. Update s with --grad-accum=N takes the batches s N, s N
   + 1, ..., s N + N - 1: the number of a batch determines its sequences and its dropout masks,
   forward and backward. The log of a run is compared with the same numbers computed here, batch by
   batch, at a learning rate of 0. --hold-out: the end of the training split validates, and the
   validation split is not read. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include "model/app/session.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <string.h>

TestSuite(batches, .init = text_enter, .fini = folder_leave);

enum { edge = 1 << 24 };

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

Test(batches, every_norm_counts_beyond_2_to_the_24) {
    int kinds = 0;
    for (size_t i = 0; norm_kinds[i / 2]; i++) {
        const char *name = norm_kinds[i / 2]->name;
        if (!counts(norm_kinds[i / 2])) continue;
        struct norm_options options = small_norms();
        norms_set(&options, "bn-axis", i % 2 ? BN_AXIS_BATCH : BN_AXIS_BATCH_TIME);
        struct lone_norm lone = counting(name, &options, edge - 2);
        for (int batch = 0; batch < 6; batch++) {
            lone.tokens.training = batch < 5;
            forward(&lone);
        }
        cr_expect(*lone.norm.batches == edge + 3, "%s: %lld", name, (long long)*lone.norm.batches);
        kinds++;
    }
    cr_expect(kinds == 2 * 5, "bn, brn, in, pn, prepbn");
}

/* The first state of prepbn is its lambda. */
Test(batches, prepbn_becomes_bn_beyond_2_to_the_24) {
    struct norm_options options = small_norms();
    norms_set(&options, "prepbn-steps", (double)(edge + 3));
    struct lone_norm lone = counting("prepbn", &options, edge);
    for (int i = 0; i < 5; i++) {
        forward(&lone);
        cr_expect((lone.norm.saved[0] > 0) == (i < 3), "batch %d: lambda %g", i,
                  (double)lone.norm.saved[0]);
    }
}

/* Of the arrays of a file whose names end with `name`, the value is this, or they get `data`. */
static void visit_counts(const char *path, const char *name, int64_t value,
                         const struct stored *data) {
    size_t found = 0;
    edited_load(path);
    for (size_t i = 0; i < edited.array_count; i++) {
        struct stored *array = &edited.arrays[i];
        const char *end = strstr(array->name, name);
        if (!end || strcmp(end, name) != 0) continue;
        cr_expect(array->type == STORED_I64 && !array->dimensions, "%s", array->name);
        cr_expect(!memcmp(array->data, &value, sizeof value), "%s: not %lld", path,
                  (long long)value);
        if (data) array->type = data->type, array->data = data->data;
        found++;
    }
    cr_assert(found > 2, "%s: no %s", path, name);
}

static void check_file(const char *norm, const char *name) {
    static const int64_t before = edge - 1, large = ((int64_t)1 << 53) - 2,
                         beyond = ((int64_t)1 << 53) + 1, negative = -1;
    static const float real_number = 16777215, half = 2.5;
    static const struct {
        struct stored stored;
        int64_t after; // two further updates; -1: refused
    } cases[] = {{{.type = STORED_I64, .data = &before}, edge + 1},
                 {{.type = STORED_I64, .data = &large}, large + 2},
                 {{.type = STORED_F32, .data = &real_number}, edge + 1},
                 {{.type = STORED_I64, .data = &beyond}, -1},
                 {{.type = STORED_I64, .data = &negative}, -1},
                 {{.type = STORED_F32, .data = &half}, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        output_of(TINY "--quiet --norm=%s --force --out=run text.txt", norm);
        visit_counts("run/model.safetensors", name, 4, NULL);
        visit_counts("run/checkpoint.safetensors", name, 4, &cases[i].stored);
        edited_save("run/checkpoint.safetensors");
        if (cases[i].after < 0) {
            train_refuses(STATUS_MACHINE, "is not a number of batches",
                          "--resume=run --max-iters=6");
            continue;
        }
        output_of("--quiet --resume=run --max-iters=6");
        visit_counts("run/checkpoint.safetensors", name, cases[i].after, NULL);
        visit_counts("run/model.safetensors", name, cases[i].after, NULL);
    }
}

Test(batches, files_keep_integers) {
    check_file("bn", ".num_batches_tracked");
    check_file("pn", ".iters");
}

static void enter_counted(void) {
    folder_enter();
    char text[3000]; // of varied words, so that batches differ
    for (int i = 0; i < 3000; i++)
        text[i] = "abcdefgh ijkl mno p\n"[random_below(random_key(1, "text", 0), i, 20)];
    file_put("text.txt", text, sizeof text);
    items_put("items.txt", 200);
}

TestSuite(counter, .init = enter_counted, .fini = folder_leave);

enum { UPDATES = 4, ACCUM = 3 };

#define COUNTED                                                                                    \
    TINY "--quiet --threads=1 --init=xavier --dropout=0.3 --seed=3 --learning-rate=0 "             \
         "--weight-decay=0 --grad-accum=3 --max-iters=4 --eval-interval=2 --eval-iters=3 "

/* The mean loss over all targets of an update, and the norm of its gradient. */
static double update(struct session *t, int64_t step, double *norm) {
    struct tensor_list *param = &t->model.lists.param;
    struct batch *batch = &t->loader.batch;
    size_t targets[ACCUM], total = 0;
    double loss = 0, squares = 0;
    for (int64_t i = 0; i < ACCUM; i++) {
        corpus_sample(&t->loader.corpus, t->plan.config.seed, step * ACCUM + i, batch);
        total += targets[i] = batch_targets(batch);
    }
    model_zero_grad(&t->model);
    for (int64_t i = 0; i < ACCUM; i++) {
        uint64_t count = step * ACCUM + i;
        double fraction = (double)targets[i] / (double)total;
        corpus_sample(&t->loader.corpus, t->plan.config.seed, count, batch);
        model_forward(&t->model, batch, true, count);
        loss += fraction * model_backward(&t->model, batch, count, fraction);
    }
    for (size_t i = 0; i < param->size; i++)
        squares += (double)param->grad[i] * (double)param->grad[i];
    *norm = sqrt(squares);
    return loss;
}

/* --eval-iters batches, spread evenly over the validation split. */
static double evaluation(struct session *t) {
    const struct corpus *corpus = &t->loader.corpus;
    struct batch *batch = &t->loader.batch;
    size_t B = (size_t)t->plan.config.batch_size,
           blocks = corpus_blocks(corpus, CORPUS_VALIDATION, batch->T), targets = 0;
    size_t batches = (blocks + B - 1) / B, used = 3;
    double loss = 0;
    cr_assert(batches > 2 * used, "%zu batches to validate", batches);
    for (size_t i = 0; i < used; i++) {
        double sum;
        corpus_validation(corpus, i * batches / used * B, B, batch);
        model_forward(&t->model, batch, false, 0);
        targets += head_loss(&t->model, batch, &sum);
        loss += sum;
    }
    return loss / (double)targets;
}

static void expect_logged(const struct log *log, int row, int column, double want, double error) {
    double logged = log_number(log, row, column);
    cr_expect(fabs(logged - want) < error * want, "row %d, column %d: %.9g, not %.9g", row, column,
              logged, want);
}

static void expect_log(const char *options) {
    struct session t;
    memory_start(&t, say(COUNTED "--out=run %s", options));
    output_of(COUNTED "--out=run %s", options);
    struct log log = log_of("run");
    double losses[UPDATES], norm;
    for (int step = 0; step < UPDATES; step++) {
        losses[step] = update(&t, step, &norm);
        expect_logged(&log, step, TRAIN_LOSS, losses[step], 2e-6);
        expect_logged(&log, step, GRAD_NORM, norm, 1e-5);
        if (step % 2 == 0) expect_logged(&log, step, VAL_LOSS, evaluation(&t), 2e-6);
        for (int k = 0; k < step; k++)
            cr_expect(fabs(losses[k] / losses[step] - 1) > 1e-4, "updates %d and %d are equal", k,
                      step);
    }
    memory_end(&t);
}

Test(counter, every_kind_of_corpus) {
    expect_log("text.txt");
    expect_log("--force --items items.txt");
    expect_log("--force --items --bucket --pad-to=block items.txt");
    expect_log("--force --corpus=random --random-chars=20");
}

/* The loss of an update is finite, its gradient is not: the z-loss is part of the gradient alone. */
Test(counter, an_update_without_a_finite_gradient_changes_nothing) {
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

enum { LENGTH = 2000, TRAINING = 1800 };

TestSuite(hold_out, .init = corpora_enter, .fini = folder_leave);

#define HELD TINY "--quiet --norm=bn --max-iters=6 --eval-interval=2 --eval-iters=0 "

/* So that nothing of the validation split is read, except for the characters of the vocabulary. */
Test(hold_out, is_the_run_of_a_text_without_its_validation_split) {
    char *text = file_text("text.txt", NULL);
    file_put("first.txt", text, TRAINING);
    expect_done(train(HELD "--val-fraction=0.1 --hold-out=0.2 --out=held text.txt"));
    expect_done(train(HELD "--val-fraction=0.2 --out=first first.txt"));
    expect_same_log("held", "first");
}

Test(hold_out, an_evaluation_measures_the_same) {
    char *text = file_text("text.txt", NULL);
    file_put("last.txt", text + TRAINING, LENGTH - TRAINING);
    output_of(HELD "--hold-out=0.1 --out=run text.txt");
    const char *held = output_of("--evaluate=run"),
               *split = output_of("--evaluate=run --hold-out=0"),
               *other = output_of("--evaluate=run --corpus=last.txt"); // all of another text
    expect_part(held, "the held-out part of the training split of text.txt, 179 char");
    expect_member("run", "val_loss", say("%.9g", loss_in(held)));
    expect_part(split, "the validation split of text.txt, 199 char");
    expect_part(other, ": last.txt, 199 char");
    cr_expect(loss_in(split) == loss_in(other) && loss_in(split) != loss_in(held));
}

Test(hold_out, a_resumed_run_holds_out_the_same) {
    static const char *const corpora[] = {"text.txt", "--items items.txt"};
    for (int i = 0; i < 2; i++) {
        output_of(HELD "--hold-out=0.3 --force --out=whole %s", corpora[i]);
        output_of(HELD "--hold-out=0.3 --max-iters=4 --lr-decay-iters=6 --force --out=resumed %s",
                  corpora[i]);
        train_refuses(STATUS_USAGE, "--hold-out=0.1: contradicts --hold-out=0.3",
                      "--quiet --resume=resumed --max-iters=6 --hold-out=0.1");
        output_of("--quiet --resume=resumed --max-iters=6");
        expect_same_log("whole", "resumed");
    }
}

Test(hold_out, both_parts_must_be_long_enough) {
    train_refuses(STATUS_USAGE, "the training split has 0 characters",
                  HELD "--hold-out=1 text.txt");
    train_refuses(STATUS_USAGE, "--hold-out", HELD "--hold-out=1e-9 --out=out text.txt");
    train_refuses(STATUS_USAGE, "0 of 100 items train and 90 validate",
                  HELD "--hold-out=1 --items items.txt");
    train_refuses(STATUS_USAGE, "--hold-out", HELD "--hold-out=-0.1 text.txt");
}

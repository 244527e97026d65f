/* Batches. The number of batches that a norm has seen is an integer: it grows beyond 2^24, where a float
   would stop, in memory and in files. Update s with --grad-accum=N takes the batches s N, s N + 1, ...,
   s N + N - 1: the number of a batch determines its sequences and its dropout masks, forward and
   backward. The log of a run is compared with the same numbers computed here, batch by batch, at a
   learning rate of 0. --hold-out: the end of the training split validates, and the validation split is
   not read. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include "model/lab/session.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(batches, .init = folder_enter, .fini = folder_leave);

static const int64_t edge = 1 << 24;

static const struct norm_kind *const *first_counting(const struct norm_kind *const *kind) {
    for (; *kind; kind++)
        for (int i = 0; (*kind)->state[i].name; i++)
            if ((*kind)->state[i].counts) return kind;
    return NULL;
}

static void expect_to_move_on(const struct norm_kind *kind, int64_t axis) {
    enum { B = 3, T = 4, C = 6, MORE = 5 };
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", (double)axis);
    struct lone_norm lone = lone_norm_with(kind, &options, B, T, C);
    real *x = random_reals(B * T * C, 5), *y = random_reals(B * T * C, 6);
    lone.tokens.training = true;
    *lone.norm.batches = edge - 2;
    for (int i = 0; i < MORE; i++) lone_norm_forward(&lone, y, x);
    cr_expect(*lone.norm.batches == edge - 2 + MORE, "%s: %lld", kind->name,
              (long long)*lone.norm.batches);
    lone.tokens.training = false;
    lone_norm_forward(&lone, y, x);
    cr_expect(*lone.norm.batches == edge - 2 + MORE, "%s: evaluation counts batches", kind->name);
}

Test(batches, every_norm_counts_beyond_2_to_the_24) {
    int kinds = 0;
    for (const struct norm_kind *const *kind = norm_kinds; (kind = first_counting(kind));
         kind++, kinds++) {
        expect_to_move_on(*kind, BN_AXIS_BATCH_TIME);
        expect_to_move_on(*kind, BN_AXIS_BATCH);
    }
    cr_expect(kinds == 5, "%d kinds: bn, brn, in, pn, prepbn", kinds);
}

/* The first state of prepbn is its lambda. */
Test(batches, prepbn_becomes_bn_beyond_2_to_the_24) {
    enum { B = 3, T = 4, C = 6 };
    struct norm_options options = small_norms;
    norms_set(&options, "prepbn-steps", (double)(edge + 3));
    struct lone_norm lone = lone_norm_with(norm_find("prepbn"), &options, B, T, C);
    real *x = random_reals(B * T * C, 5), *y = random_reals(B * T * C, 6);
    lone.tokens.training = true;
    *lone.norm.batches = edge;
    for (int i = 0; i < 5; i++) {
        lone_norm_forward(&lone, y, x);
        cr_expect((lone.norm.saved[0] > 0) == (i < 3), "batch %d: lambda %g", i,
                  (double)lone.norm.saved[0]);
    }
}

/* Sets all arrays of a file whose names end with `name` to `value`. */
static void set_counts(const char *path, const char *name, const void *value, int type) {
    size_t changed = 0;
    edited_load(path);
    for (size_t i = 0; i < edited.array_count; i++) {
        struct stored *array = &edited.arrays[i];
        size_t length = strlen(array->name), end = strlen(name);
        if (length < end || strcmp(array->name + length - end, name) != 0) continue;
        cr_expect(array->type == STORED_I64 && !array->dimensions, "%s", array->name);
        array->type = type;
        array->data = value;
        changed++;
    }
    cr_assert(changed > 2, "%s: no %s", path, name);
    edited_save(path);
}

static void expect_counts(const char *path, const char *name, int64_t value) {
    struct safetensors file;
    int64_t found;
    size_t count = 0;
    safetensors_open(&file, path);
    for (size_t i = 0; i < file.array_count; i++) {
        const struct stored *array = &file.arrays[i];
        if (!strstr(array->name, name)) continue;
        cr_assert(array->type == STORED_I64);
        safetensors_read(&file, array, STORED_I64, &found);
        cr_expect(found == value, "%s: %lld, not %lld", array->name, (long long)found,
                  (long long)value);
        count++;
    }
    cr_expect(count > 2);
    safetensors_close(&file);
}

static void check_file(const char *norm, const char *name) {
    const int64_t before = edge - 1, large = ((int64_t)1 << 53) + 1, negative = -1;
    const float real_number = 16777215, half = 2.5;
    expect_done(train(TINY "--quiet --norm=%s --force --out=run text.txt", norm));
    expect_counts("run/model.safetensors", name, 4);
    set_counts("run/checkpoint.safetensors", name, &before, STORED_I64);
    expect_done(train("--quiet --resume=run --max-iters=8"));
    expect_counts("run/checkpoint.safetensors", name, edge + 3);
    expect_counts("run/model.safetensors", name, edge + 3);
    set_counts("run/checkpoint.safetensors", name, &large, STORED_I64);
    expect_done(train("--quiet --resume=run --max-iters=9"));
    expect_counts("run/checkpoint.safetensors", name, large + 1);
    set_counts("run/checkpoint.safetensors", name, &real_number, STORED_F32);
    expect_done(train("--quiet --resume=run --max-iters=11"));
    expect_counts("run/checkpoint.safetensors", name, edge + 1);
    set_counts("run/checkpoint.safetensors", name, &negative, STORED_I64);
    train_refuses(STATUS_MACHINE, "is not a number of batches", "--resume=run --max-iters=12");
    expect_done(train(TINY "--quiet --norm=%s --force --out=run text.txt", norm));
    set_counts("run/checkpoint.safetensors", name, &half, STORED_F32);
    train_refuses(STATUS_MACHINE, "is not a number of batches", "--resume=run --max-iters=12");
}

Test(batches, files_keep_integers) {
    corpus_put_tiny("text.txt", 2000);
    check_file("bn", ".num_batches_tracked");
    check_file("pn", ".iters");
    check_file("prepbn", ".num_batches_tracked");
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
    size_t targets[ACCUM], all = 0;
    double loss = 0, squares = 0;
    for (int64_t i = 0; i < ACCUM; i++) {
        corpus_sample(&t->loader.corpus, t->config.seed, step * ACCUM + i, batch);
        all += targets[i] = batch_targets(batch);
    }
    model_zero_grad(&t->model);
    for (int64_t i = 0; i < ACCUM; i++) {
        uint64_t count = step * ACCUM + i;
        double fraction = (double)targets[i] / (double)all;
        corpus_sample(&t->loader.corpus, t->config.seed, count, batch);
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
    size_t B = (size_t)t->config.batch_size,
           blocks = corpus_blocks(corpus, CORPUS_VALIDATION, batch->T), targets = 0;
    size_t batches = (blocks + B - 1) / B, used = 3;
    double loss = 0;
    cr_assert(batches > 2 * used, "%zu batches to validate", batches);
    for (size_t i = 0; i < used; i++) {
        double sum;
        corpus_validation(corpus, i * batches / used * B, B, batch);
        model_forward(&t->model, batch, false, 0);
        targets += model_loss(&t->model, batch, &sum);
        loss += sum;
    }
    return loss / (double)targets;
}

static void expect_log(const char *options) {
    struct session t;
    memory_start(&t, say(COUNTED "--out=run %s", options));
    expect_done(train(COUNTED "--out=run %s", options));
    struct log log = log_of("run");
    double losses[UPDATES];
    for (int step = 0; step < UPDATES; step++) {
        double norm, loss = losses[step] = update(&t, step, &norm);
        double logged = log_number(&log, step, TRAIN_LOSS);
        cr_expect(fabs(logged - loss) < 2e-6 * loss, "%s, %d: loss %.9g, not %.9g", options, step,
                  logged, loss);
        logged = log_number(&log, step, GRAD_NORM);
        cr_expect(fabs(logged - norm) < 1e-5 * norm, "%s, %d: gradient %.9g, not %.9g", options,
                  step, logged, norm);
        for (int k = 0; k < step; k++)
            cr_expect(fabs(losses[k] / loss - 1) > 1e-4, "updates %d and %d are equal", k, step);
        if (step % 2) continue;
        logged = log_number(&log, step, VAL_LOSS);
        loss = evaluation(&t);
        cr_expect(fabs(logged - loss) < 2e-6 * loss, "%s, %d: val loss %.9g, not %.9g", options,
                  step, logged, loss);
    }
    memory_end(&t);
}

Test(counter, every_kind_of_corpus) {
    expect_log("text.txt");
    expect_log("--force --items items.txt");
    expect_log("--force --items --bucket --pad-to=block items.txt");
    expect_log("--force --corpus=random --random-chars=20");
}

enum { LENGTH = 2000, TRAINING = 1800 };

TestSuite(hold_out, .init = corpora_enter, .fini = folder_leave);

#define HELD TINY "--quiet --norm=bn --max-iters=6 --eval-interval=2 --eval-iters=0 "

static double loss_in(const char *text) {
    double loss;
    cr_assert(sscanf(text, "loss %lf nats", &loss) == 1, "%s", text);
    return loss;
}

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
    expect_done(train(HELD "--hold-out=0.1 --out=run text.txt"));
    struct ending ending = train("--evaluate=run");
    cr_expect(strstr(ending.out, "the held-out part of the training split of text.txt, 179 char"),
              "%s", ending.out);
    expect_member("run", "val_loss", say("%.9g", loss_in(ending.out)));
    struct ending whole = train("--evaluate=run --hold-out=0");
    struct ending other = train("--evaluate=run --corpus=last.txt"); // all of another text
    cr_expect(strstr(whole.out, "the validation split of text.txt, 199 char"), "%s", whole.out);
    cr_expect(strstr(other.out, ": last.txt, 199 char"), "%s", other.out);
    cr_expect(loss_in(whole.out) == loss_in(other.out), "%s%s", whole.out, other.out);
    cr_expect(loss_in(whole.out) != loss_in(ending.out), "%s", whole.out);
}

Test(hold_out, a_resumed_run_holds_out_the_same) {
    for (int items = 0; items < 2; items++) {
        const char *text = items ? "--items items.txt" : "text.txt";
        expect_done(train(HELD "--hold-out=0.3 --force --out=whole %s", text));
        expect_done(train(HELD "--hold-out=0.3 --max-iters=4 --lr-decay-iters=6 --force "
                               "--out=resumed %s",
                          text));
        train_refuses(STATUS_USAGE, "--hold-out=0.1: contradicts --hold-out=0.3",
                      "--quiet --resume=resumed --max-iters=6 --hold-out=0.1");
        expect_done(train("--quiet --resume=resumed --max-iters=6"));
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

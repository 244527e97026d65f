/* Update s with --grad-accum=N takes the batches s N, s N + 1, ..., s N + N - 1: the number of a
   batch determines its sequences and its dropout masks, forward and backward. The log of a run is
   compared with the same numbers computed here, batch by batch, at a learning rate of 0. */
#include "data/random.h"
#include "data/text/corpus.h"
#include "model/lab/config.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void enter(void) {
    folder_enter();
    char text[3000]; // of varied words, so that batches differ
    for (int i = 0; i < 3000; i++)
        text[i] = "abcdefgh ijkl mno p\n"[random_below(random_key(1, "text", 0), i, 20)];
    file_put("text.txt", text, sizeof text);
    items_put("items.txt", 200);
}

TestSuite(counter, .init = enter, .fini = folder_leave);

enum { UPDATES = 4, ACCUM = 3 };

#define RUN                                                                                        \
    TINY "--quiet --threads=1 --init=xavier --dropout=0.3 --seed=3 --learning-rate=0 "             \
         "--weight-decay=0 --grad-accum=3 --max-iters=4 --eval-interval=2 --eval-iters=3 "

/* The configuration that a command line gives, and the model and corpus that follow from it. */
static struct config config;
static struct corpus corpus;
static struct model model;
static struct batch batch;

static void set_up(const char *options) {
    static char line[1024];
    char *words[64] = {"train"};
    snprintf(line, sizeof line, RUN "--out=run %s", options);
    split(line, words + 1, 63);
    int count = 0;
    while (words[count]) count++;
    config_parse(&config, count, words);
    const struct corpus_options how = {.level = (int)config.level,
                                       .val_fraction = config.val_fraction,
                                       .kind = config.items ? &corpus_items : &corpus_text,
                                       .pad_to_block = config.pad_to == PAD_TO_BLOCK,
                                       .bucket = config.bucket};
    if (!strcmp(config.corpus, RANDOM_CORPUS))
        corpus_make_random(&corpus, (size_t)config.random_chars, NULL);
    else
        corpus_read(&corpus, config.corpus, &how);
    model_init(&model, &config.model, corpus.vocabulary.V, (size_t)config.batch_size, config.seed);
    batch = batch_make((size_t)config.batch_size, (size_t)config.model.block_size);
}

static void tear_down(void) {
    batch_free(&batch);
    model_free(&model);
    corpus_free(&corpus);
}

/* The mean loss over all targets of an update, and the norm of its gradient. */
static double update(int64_t step, double *norm) {
    size_t targets[ACCUM], all = 0;
    double loss = 0, squares = 0;
    for (int64_t i = 0; i < ACCUM; i++) {
        corpus_sample(&corpus, config.seed, step * ACCUM + i, &batch);
        all += targets[i] = batch_targets(&batch);
    }
    model_zero_grad(&model);
    for (int64_t i = 0; i < ACCUM; i++) {
        uint64_t count = step * ACCUM + i;
        double fraction = (double)targets[i] / (double)all;
        corpus_sample(&corpus, config.seed, count, &batch);
        model_forward(&model, &batch, true, count);
        loss += fraction * model_backward(&model, &batch, count, fraction);
    }
    for (size_t i = 0; i < model.lists.param.size; i++)
        squares += (double)model.lists.param.grad[i] * (double)model.lists.param.grad[i];
    *norm = sqrt(squares);
    return loss;
}

/* --eval-iters batches, spread evenly over the validation split. */
static double evaluation(void) {
    size_t B = (size_t)config.batch_size, blocks = corpus_blocks(&corpus, batch.T), targets = 0;
    size_t batches = (blocks + B - 1) / B, used = 3;
    double loss = 0;
    cr_assert(batches > 2 * used, "%zu batches to validate", batches);
    for (size_t i = 0; i < used; i++) {
        double sum;
        corpus_validation(&corpus, i * batches / used * B, B, &batch);
        model_forward(&model, &batch, false, 0);
        targets += model_loss(&model, &batch, &sum);
        loss += sum;
    }
    return loss / (double)targets;
}

static void expect_log(const char *options) {
    set_up(options);
    struct ending ending = train(RUN "--out=run %s", options);
    cr_assert(!ending.status, "%s: %s", options, ending.err);
    struct log log = log_of("run");
    double losses[UPDATES];
    for (int step = 0; step < UPDATES; step++) {
        double norm, loss = losses[step] = update(step, &norm);
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
        loss = evaluation();
        cr_expect(fabs(logged - loss) < 2e-6 * loss, "%s, %d: val loss %.9g, not %.9g", options,
                  step, logged, loss);
    }
    tear_down();
}

Test(counter, text) {
    expect_log("text.txt");
}

Test(counter, items) {
    expect_log("--items items.txt");
}

Test(counter, items_by_length) {
    expect_log("--items --bucket --pad-to=block items.txt");
}

Test(counter, random_characters) {
    expect_log("--corpus=random --random-chars=20");
}

/* --resume continues with the next batch. */
Test(counter, a_run_that_goes_on) {
    set_up("text.txt");
    struct ending ending = train(RUN "--max-iters=2 --out=run text.txt");
    cr_assert(!ending.status, "%s", ending.err);
    ending = train("--quiet --resume=run --max-iters=4");
    cr_assert(!ending.status, "%s", ending.err);
    struct log log = log_of("run");
    for (int step = 0; step < UPDATES; step++) {
        double norm, loss = update(step, &norm), logged = log_number(&log, step, TRAIN_LOSS);
        cr_expect(fabs(logged - loss) < 2e-6 * loss, "%d: loss %.9g, not %.9g", step, logged, loss);
    }
    tear_down();
}

/* --eval-train: the loss on a fixed slice of the training split, in evaluation mode. */
#include "data/die.h"
#include "data/text/items.h"
#include "model/lab/session.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

TestSuite(eval_train, .init = corpora_enter, .fini = folder_leave);

/* ---- The slice ---- */

/* Where each block of a text begins, if its character number i has id i. */
static void expect_even_blocks(const struct corpus *corpus, size_t T, size_t count, size_t B) {
    size_t blocks = corpus_blocks(corpus, CORPUS_TRAINING, T), done = 0, last = 0;
    struct batch batch = batch_make(B, T);
    while (done < count) {
        corpus_slice(corpus, count, done, B, &batch);
        cr_assert(batch.T == T && batch.B == (count - done < B ? count - done : B));
        for (size_t b = 0; b < batch.B; b++) {
            size_t begin = (size_t)batch.ids[b * T], k = done + b;
            cr_assert(begin % T == 0 && begin + T < corpus->train,
                      "not at the start of a block: %zu", begin);
            double even = (double)k * (double)blocks / (double)count;
            cr_assert(fabs((double)(begin / T) - even) < 1, "%zu is not near %g", begin / T, even);
            cr_assert(!k || begin > last, "%zu does not follow %zu", begin, last);
            last = begin;
            for (size_t t = 0; t < T; t++)
                cr_assert(batch.ids[b * T + t] == (int32_t)(begin + t) &&
                          batch.targets[b * T + t] == (int32_t)(begin + t + 1));
        }
        done += batch.B;
    }
    batch_free(&batch);
}

Test(eval_train, blocks_lie_evenly_over_the_training_part) {
    enum { LENGTH = 200, TRAIN = 150 };
    char text[2 * LENGTH], *end = text;
    for (int i = 0; i < LENGTH; i++) {
        *end++ = (char)(0xc0 | (0x100 + i) >> 6);
        *end++ = (char)(0x80 | ((0x100 + i) & 0x3f));
    }
    struct corpus corpus;
    corpus_make(&corpus, "numbers", text, sizeof text,
                &(struct corpus_options){.val_fraction = 0.25});
    cr_assert(corpus.train == TRAIN);
    static const size_t lengths[] = {1, 2, 7, 49, 50, 74, 75, 149};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t blocks = corpus_blocks(&corpus, CORPUS_TRAINING, lengths[i]);
        cr_assert(blocks == (TRAIN - 1) / lengths[i]);
        for (size_t count = 1; count <= blocks; count += 1 + count / 5)
            for (size_t B = 1; B < 6; B += 2) expect_even_blocks(&corpus, lengths[i], count, B);
    }
    corpus_free(&corpus);
}

/* Each item of the slice comes once, none is a validation item, and the slice does not depend on
   earlier samples. */
Test(eval_train, items_of_the_slice_train) {
    enum { T = 8, B = 7 };
    for (int bucket = 0; bucket < 2; bucket++) {
        struct corpus corpus;
        corpus_read(
            &corpus, "items.txt",
            &(struct corpus_options){.val_fraction = 0.1, .kind = &corpus_items, .bucket = bucket});
        cr_assert(corpus_blocks(&corpus, CORPUS_TRAINING, T) == 90);
        struct batch batch = batch_make(B, T), sampled = batch_make(B, T);
        for (size_t count = 10; count <= 90; count += 40) {
            for (size_t first = 0; first < count; first += B) {
                corpus_slice(&corpus, count, first, B, &batch);
                cr_assert(batch.B == (count - first < B ? count - first : B));
                size_t longest = 0;
                for (size_t b = 0; b < batch.B; b++) {
                    const struct item *item = &items_of(&corpus)[(first + b) * 90 / count];
                    longest = item->tokens > longest ? item->tokens : longest;
                    for (size_t t = 0; t < batch.T; t++) {
                        size_t n = b * batch.T + t;
                        bool inside = t < item->tokens;
                        cr_assert(batch.valid[n] == inside);
                        cr_assert(batch.targets[n] ==
                                  (inside ? ids_at(&corpus.ids, item->start + t) : -1));
                        cr_assert(batch.ids[n] == (t && inside
                                                       ? ids_at(&corpus.ids, item->start + t - 1)
                                                       : vocabulary_id(&corpus.vocabulary, '\n')));
                    }
                }
                cr_assert(batch.T == longest);
                corpus_sample(&corpus, 1, count + first, &sampled); // moves the pool
            }
        }
        batch_free(&batch);
        batch_free(&sampled);
        corpus_free(&corpus);
    }
}

Test(eval_train, random_characters_are_another_fixed_draw) {
    enum { T = 20, B = 4 };
    struct corpus corpus;
    corpus_make_random(&corpus, 50, NULL);
    struct batch a = batch_make(B, T), b = batch_make(B, T);
    size_t bytes = B * T * sizeof *a.ids;
    cr_expect(corpus_blocks(&corpus, CORPUS_TRAINING, T) == RANDOM_BLOCKS);
    corpus_slice(&corpus, 10, 0, B, &a);
    corpus_validation(&corpus, 0, B, &b);
    cr_expect(memcmp(a.ids, b.ids, bytes) != 0, "the slice is the validation split");
    corpus_slice(&corpus, 10, 8, B, &b);
    cr_expect(b.B == 2 && memcmp(a.ids, b.ids, 2 * T * sizeof *a.ids) != 0);
    corpus_slice(&corpus, 10, 0, B, &b);
    cr_expect(b.B == B && !memcmp(a.ids, b.ids, bytes));
    batch_free(&a);
    batch_free(&b);
    corpus_free(&corpus);
}

/* ---- The loss ---- */

#define MODEL                                                                                      \
    "--n-layer=2 --n-head=2 --n-embd=8 --block-size=8 --batch-size=3 --dropout=0.5 --pn-warmup=2 " \
    "--prepbn-steps=4 --init=xavier --val-fraction=0.2 --seed=3 "

/* A run whose running statistics have seen some batches. */
static void start(struct session *t, const char *options) {
    memory_start(t, say(MODEL "%s", options));
    for (int64_t step = 0; step < 6; step++) {
        corpus_sample(&t->loader.corpus, t->config.seed, (uint64_t)step, &t->loader.batch);
        model_forward(&t->model, &t->loader.batch, true, step);
    }
}

/* The loss of block k of `count` alone, from the definition of the slice. */
static struct batch alone(const struct session *t, size_t k, size_t count) {
    const struct corpus *corpus = &t->loader.corpus;
    size_t T = (size_t)t->config.model.block_size;
    struct batch batch = batch_make(1, T);
    if (items_of(corpus)) {
        const struct item *item = &items_of(corpus)[k * corpus->train / count];
        batch.T = item->tokens < T ? item->tokens : T;
        batch.ids[0] = vocabulary_id(&corpus->vocabulary, '\n');
        ids_get(&corpus->ids, item->start, batch.T - 1, batch.ids + 1);
        ids_get(&corpus->ids, item->start, batch.T, batch.targets);
    } else {
        size_t from = k * ((corpus->train - 1) / T) / count * T;
        ids_get(&corpus->ids, from, T, batch.ids);
        ids_get(&corpus->ids, from + 1, T, batch.targets);
    }
    return batch;
}

/* The slice's loss, block by block, with a model that never had dropout. */
static void check_loss(const char *options, size_t count) {
    struct session t;
    struct model plain;
    double loss = 0;
    size_t targets = 0;
    start(&t, options);
    measure_init(&plain, &t.model, STATISTICS_RUNNING);
    for (size_t k = 0; k < count; k++) {
        struct batch batch = alone(&t, k, count);
        double sum;
        model_forward(&plain, &batch, false, 0);
        targets += model_loss(&plain, &batch, &sum);
        loss += sum;
        batch_free(&batch);
    }
    struct score score = evaluate_split(&t.loader, &t.model, STATISTICS_RUNNING, CORPUS_TRAINING);
    cr_expect(score.targets == targets, "%s: %zu targets, not %zu", options, score.targets,
              targets);
    cr_expect(fabs(score.loss / loss - 1) < 1e-6, "%s: %.9g, not %.9g", options, score.loss, loss);
    struct score validation =
        evaluate_split(&t.loader, &t.model, STATISTICS_RUNNING, CORPUS_VALIDATION);
    cr_expect(fabs(validation.loss / (double)validation.targets - loss / (double)targets) > 1e-6,
              "%s: the validation split has the same loss", options);
    struct score again = evaluate_split(&t.loader, &t.model, STATISTICS_RUNNING, CORPUS_TRAINING);
    cr_expect(again.loss == score.loss, "another slice");
    model_free(&plain);
    memory_end(&t);
}

static void check_is_the_loss_of_the_slice(const struct pair *pair) {
    check_loss(say("%s --eval-iters=4 text.txt", pair_options(pair)), 4 * 3);
}

Test(eval_train, is_the_loss_of_the_slice) {
    every_row(check_is_the_loss_of_the_slice);
}

/* The slice has the size of the evaluated part of the validation split (400 characters are 50 blocks
   of 8, or 20 items), or of the training split if that is shorter. */
Test(eval_train, is_as_long_as_validation) {
    check_loss("--eval-iters=1 text.txt", 3);
    check_loss("--eval-iters=16 text.txt", 16 * 3);
    check_loss("--eval-iters=0 text.txt", 50);
    check_loss("--eval-iters=1000 text.txt", 50);
    check_loss("--eval-iters=0 --val-fraction=0.9 text.txt", 199 / 8);
    check_loss("--items --norm=bn --eval-iters=2 items.txt", 6);
    check_loss("--items --norm=bn --eval-iters=0 items.txt", 20);
    check_loss("--items --norm=bn --eval-iters=0 --bucket items.txt", 20);
    check_loss("--items --norm=bn --eval-iters=0 --pad-to=block --pad-stats=include items.txt", 20);
    check_loss("--items --block-size=4 --eval-iters=0 --val-fraction=0.8 items.txt", 19);
}

/* ---- Runs ---- */

#define RUN                                                                                        \
    TINY "--quiet --eval-interval=2 --eval-iters=3 --norm=bn --max-iters=6 --prepbn-steps=20 "

/* The column is filled in the rows of evaluations; all else is as without the option. */
static void check_run(const char *options) {
    expect_done(train(RUN "--dropout=0.3 --force --out=off %s", options));
    expect_done(train(RUN "--dropout=0.3 --eval-train --force --out=on %s", options));
    expect_same_log("off", "on");
    struct log off = log_of("off"), on = log_of("on");
    cr_assert(!off.cell[0][EVAL_TRAIN] && on.cell[0][EVAL_TRAIN]);
    for (int row = 0; row < on.rows; row++) {
        const char *loss = on.cell[row][EVAL_TRAIN], *val = on.cell[row][VAL_LOSS];
        cr_expect(!*val == !*loss, "%s: row %d has %s and %s", options, row, val, loss);
        cr_expect(!*loss || strcmp(loss, val) != 0, "%s: the loss is that of validation", options);
    }
    expect_member("on", "eval_train_loss", say("%s", on.cell[on.rows - 1][EVAL_TRAIN]));
    cr_expect(!strstr(summary_of("off"), "eval_train_loss"));
    // before the first update both have the same weights, and nothing is dropped
    expect_done(train(RUN "--dropout=0 --eval-train --force --out=plain %s", options));
    struct log plain = log_of("plain");
    cr_expect_str_eq(plain.cell[0][EVAL_TRAIN], on.cell[0][EVAL_TRAIN], "%s: dropout", options);
}

Test(eval_train, is_a_column_of_the_log) {
    check_run("text.txt");
    check_run("--items items.txt");
    check_run("--items --bucket --pad-stats=include items.txt");
    check_run("--corpus=random");
    check_run("--grammar-chars=3000");
}

Test(eval_train, is_shown) {
    struct ending ending = train(TINY "--eval-train --out=out text.txt");
    expect_done(ending);
    struct log log = log_of("out");
    char *line = say("val loss %.4f  eval train loss %.4f  ", atof(log.cell[0][VAL_LOSS]),
                     atof(log.cell[0][EVAL_TRAIN]));
    cr_expect(strstr(ending.err, line), "no \"%s\" in %s", line, ending.err);
    ending = train(TINY "--out=off text.txt");
    cr_expect(!strstr(ending.err, "eval train"), "%s", ending.err);
}

/* The training split is 1 + 100 blocks, and the validation split is longer. So the slice is the whole
   training split, which --evaluate measures when it is a text of its own. */
Test(eval_train, agrees_with_evaluate) {
    size_t bytes;
    char *text = file_text("text.txt", &bytes);
    file_put("head.txt", text, 801);
    file_put("both.txt", text, 1602); // --val-fraction=0.5
    expect_done(train(RUN "--val-fraction=0.5 --eval-iters=0 --eval-train --out=out both.txt"));
    struct log log = log_of("out");
    struct ending ending = train("--evaluate=out head.txt");
    char *measured = say("loss %s nats", log.cell[log.rows - 1][EVAL_TRAIN]);
    cr_expect(strstr(ending.out, measured), "no \"%s\" in %s", measured, ending.out);
}

/* An interrupted run reports its last measured loss, also when it was resumed and is interrupted
   again. */
Test(eval_train, the_last_loss_is_kept_in_the_checkpoint) {
    struct ending ending = train_interrupted(
        SIGTERM, "out/log.csv",
        RUN "--max-iters=1000000000 --eval-interval=1000000 --checkpoint-interval=0 --eval-train "
            "--out=out text.txt");
    cr_assert(ending.status == 143, "%s", ending.err);
    char *summary = strstr(summary_of("out"), "\"eval_train_loss\": ");
    cr_assert(summary && strncmp(summary + 19, "null", 4) != 0);
    struct process process = train_start("--quiet --resume=out");
    process_wait(process, "out/log.csv", 40);
    ending = process_end(process, SIGTERM);
    cr_assert(ending.status == 143, "%s", ending.err);
    char *after = strstr(summary_of("out"), "\"eval_train_loss\": ");
    cr_expect(after && !strncmp(after, summary, 24), "%.40s", after);
}

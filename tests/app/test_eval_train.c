/* --eval-train: the loss on a fixed slice of the training split, in evaluation mode.
   tests/cli/test_eval_train.py tests it in runs. */
#include "data/die.h"
#include "data/text/items.h"
#include "model/app/session.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

TestSuite(eval_train, .init = corpora_enter, .fini = folder_leave);

#define MODEL                                                                                      \
    "--n-layer=2 --n-head=2 --n-embd=8 --block-size=8 --batch-size=3 --dropout=0.5 --pn-warmup=2 " \
    "--prepbn-steps=4 --init=xavier --val-fraction=0.2 --seed=3 "

/* A run whose running statistics have seen some batches. */
static void start(struct session *t, const char *options) {
    memory_start(t, say(MODEL "%s", options));
    for (int64_t step = 0; step < 6; step++) {
        corpus_sample(&t->loader.corpus, t->plan.config.seed, (uint64_t)step, &t->loader.batch);
        model_forward(&t->model, &t->loader.batch, true, step);
    }
}

/* The loss of block k of `count` alone, from the definition of the slice. */
static struct batch alone(const struct session *t, size_t k, size_t count) {
    const struct corpus *corpus = &t->loader.corpus;
    size_t T = (size_t)t->plan.config.model.block_size;
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
    struct model_config config = t.model.config;
    config.dropout = 0;
    model_init(&plain, &config, t.model.V, t.model.B, t.model.seed);
    plain.threads = t.model.threads;
    plain.lists.param.version++;
    memcpy(plain.lists.param.value, t.model.lists.param.value,
           plain.lists.param.size * sizeof(real));
    if (plain.lists.state.size)
        memcpy(plain.lists.state.value, t.model.lists.state.value,
               plain.lists.state.size * sizeof(real));
    for (size_t k = 0; k < count; k++) {
        struct batch batch = alone(&t, k, count);
        double sum;
        model_forward(&plain, &batch, false, 0);
        targets += head_loss(&plain, &batch, &sum);
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

/* The slice has the size of the evaluated part of the validation split (400 characters are 50
   blocks of 8, or 20 items), or of the training split if that is shorter. */
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

/* --eval-iters batches, spread evenly over the validation split. */
static void check_validation(const char *options) {
    struct session t;
    memory_start(&t, say(MODEL "--eval-iters=3 %s", options));
    const struct corpus *corpus = &t.loader.corpus;
    struct batch *batch = &t.loader.batch;
    const size_t B = (size_t)t.plan.config.batch_size,
                 batches = (corpus_blocks(corpus, CORPUS_VALIDATION, batch->T) + B - 1) / B;
    size_t targets = 0;
    double loss = 0;
    cr_assert(batches > 6, "%zu batches to validate", batches);
    for (size_t i = 0; i < 3; i++) {
        double sum;
        corpus_validation(corpus, i * batches / 3 * B, B, batch);
        model_forward(&t.model, batch, false, 0);
        targets += head_loss(&t.model, batch, &sum);
        loss += sum;
    }
    const struct score score =
        evaluate_split(&t.loader, &t.model, STATISTICS_RUNNING, CORPUS_VALIDATION);
    cr_expect(score.targets == targets, "%s: %zu targets, not %zu", options, score.targets,
              targets);
    cr_expect(fabs(score.loss / loss - 1) < 1e-6, "%s: %.9g, not %.9g", options, score.loss, loss);
    memory_end(&t);
}

Test(eval_train, validation_batches_are_spread_evenly) {
    check_validation("text.txt");
    check_validation("--items items.txt");
    check_validation("--items --bucket --pad-to=block items.txt");
    check_validation("--corpus=random --random-chars=20");
}

/* --stats=other: statistics are those of the batch before. */
Test(eval_train, the_other_batch_is_the_one_before) {
    struct session t;
    struct batch other = {0};
    memory_start(&t, MODEL "--eval-iters=4 text.txt");
    for (size_t i = 0; i < 4; i++) {
        evaluate_batch(&t.loader, STATISTICS_OTHER, i, &other);
        evaluate_batch(&t.loader, STATISTICS_RUNNING, (i + 3) % 4, NULL);
        cr_expect_arr_eq(other.ids, t.loader.batch.ids, 3 * 8 * sizeof *other.ids, "batch %zu", i);
    }
    batch_free(&other);
    memory_end(&t);
}

/* Before the first update the running statistics may let one split overflow. A loss that does is
   not measured; afterwards it is reported. */
Test(eval_train, before_the_first_update_an_overflow_is_not_measured) {
    char text[401] = {0};
    for (size_t i = 0; i < 400; i++) text[i] = i < 40 ? 'z' : i % 3 ? 'a' : 'b';
    file_put("head.txt", text, 400);
    struct session t;
    memory_start(&t, MODEL "--norm=bn --head=untied --eval-train --eval-iters=0 head.txt");
    const size_t C = t.model.C;
    real *z = t.model.wte.value + vocabulary_id(&t.loader.corpus.vocabulary, 'z') * C;
    for (size_t c = 0; c < C; c++) z[c] = (real)1e30;
    for (int64_t step = 0; step < 2; step++) {
        struct state row = {
            .step = step, .val_loss = NOT_MEASURED, .eval_train_loss = NOT_MEASURED};
        evaluate_model(&t.loader, &t.model, &t.progress, &row);
        cr_expect(isfinite(row.val_loss) && row.val_loss > 0);
        if (step)
            cr_expect(!isfinite(row.eval_train_loss));
        else
            cr_expect(row.eval_train_loss == NOT_MEASURED, "%g", row.eval_train_loss);
    }
    memory_end(&t);
}

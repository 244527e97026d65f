/* --eval-train: the loss on a fixed slice of the training split, in evaluation mode. */
#include "data/die.h"
#include "data/text/items.h"
#include "model/app/session.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <signal.h>
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

/* ---- Runs ---- */

#define RUN                                                                                        \
    TINY "--quiet --eval-interval=2 --eval-iters=3 --norm=bn --max-iters=6 --prepbn-steps=20 "

/* The column is filled in the rows of evaluations; all else is as without the option. */
static void check_run(const char *options) {
    output_of(RUN "--dropout=0.3 --force --out=off %s", options);
    output_of(RUN "--dropout=0.3 --eval-train --force --out=on %s", options);
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
    output_of(RUN "--dropout=0 --eval-train --force --out=plain %s", options);
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
    const char *said = messages_of(TINY "--eval-train --out=out text.txt");
    struct log log = log_of("out");
    expect_part(said, say("val loss %.4f  eval train loss %.4f  ", atof(log.cell[0][VAL_LOSS]),
                          atof(log.cell[0][EVAL_TRAIN])));
    cr_expect(!strstr(messages_of(TINY "--out=off text.txt"), "eval train"));
}

/* The training split is 1 + 100 blocks, and the validation split is longer. So the slice is the
   whole training split, which --evaluate measures when it is a text of its own. */
Test(eval_train, agrees_with_evaluate) {
    size_t bytes;
    char *text = file_text("text.txt", &bytes);
    file_put("head.txt", text, 801);
    file_put("both.txt", text, 1602); // --val-fraction=0.5
    output_of(RUN "--val-fraction=0.5 --eval-iters=0 --eval-train --out=out both.txt");
    struct log log = log_of("out");
    expect_part(output_of("--evaluate=out head.txt"),
                say("loss: %s nats", log.cell[log.rows - 1][EVAL_TRAIN]));
}

/* An interrupted run reports its last measured loss, also when it was resumed and is interrupted
   again. */
Test(eval_train, the_last_loss_is_kept_in_the_checkpoint) {
    struct ending ending = train_interrupted(
        SIGTERM, "out/log.csv",
        RUN "--max-iters=1000000000 --eval-interval=1000000 --checkpoint-interval=0 --eval-train "
            "--out=out text.txt");
    cr_assert(ending.status == 143, "%s", ending.err);
    double loss = summary_number("out", "eval_train_loss");
    cr_expect(loss > 0);
    struct process process = train_start("--quiet --resume=out");
    process_wait(process, "out/log.csv", 40);
    ending = process_end(process, SIGTERM);
    cr_assert(ending.status == 143, "%s", ending.err);
    cr_expect(summary_number("out", "eval_train_loss") == loss);
}

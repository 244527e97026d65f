/* A batch that goes through the model in micro-batches: the same bits as at once, in less
   memory. */
#include "model/instruments/measure.h"
#include "model/norm/formula.h"
#include "model/partition.h"
#include "tests/support.h"
#include <omp.h>
#include <string.h>

enum { B = 20, T = 32, V = 7 };       // 5 sequences are a part, and a micro-batch
enum { PADS_FROM = 5, PADS_TO = 10 }; // sequences of nothing but pads: the second micro-batch

/* What a model makes of two batches whose gradients are added, and of an evaluation. */
struct made {
    real *grad; // (count)
    size_t count, rows, bytes;
    double loss[2];
    struct score score;
};

/* With pads at the ends of sequences, too. */
static void put_pads(struct batch *batch) {
    batch->valid = batch->marks;
    for (size_t b = 0; b < batch->B; b++)
        for (size_t t = 0, n = b * batch->T; t < batch->T; t++, n++) {
            batch->valid[n] = t < 1 + (3 * b + 5) % batch->T && (b < PADS_FROM || b >= PADS_TO);
            if (!batch->valid[n]) batch->targets[n] = -1;
        }
}

static struct made made_of(const struct model_config *config, struct batch *batches, size_t B_max) {
    struct made made;
    omp_set_num_threads(3);
    struct model model = held_model(config, V, B_max, 1);
    model.threads = config->micro_batch_tokens ? 2 : 1;
    struct tensor_list *param = &model.lists.param;
    shake(param);
    model_zero_grad(&model);
    for (int i = 0; i < 2; i++) made.loss[i] = model_gradient(&model, &batches[i], i, 0.5);
    made.score = measure_score(&model, STATISTICS_RUNNING, &batches[0], NULL);
    made.count = param->size;
    made.grad = copy_reals(made.count, param->grad);
    made.rows = model.rows;
    made.bytes = model.arena.bytes;
    return made;
}

/* Compares the two ways. Returns the tokens of a micro-batch. */
static size_t expect_same(struct model_config config, struct batch *batches, size_t B_max) {
    config.micro_batch_tokens = 0;
    struct made want = made_of(&config, batches, B_max);
    config.micro_batch_tokens = 1; // as few as there may be
    struct made got = made_of(&config, batches, B_max);
    cr_expect(want.rows == B_max * (size_t)config.block_size);
    cr_expect(!memcmp(got.grad, want.grad, want.count * sizeof(real)), "gradients");
    cr_expect(difference(want.count, got.grad, want.grad) == 0, "not NaN");
    for (int i = 0; i < 2; i++) cr_expect(got.loss[i] == want.loss[i], "loss %d", i);
    cr_expect(got.score.loss == want.score.loss && got.score.targets == want.score.targets &&
              got.score.correct == want.score.correct);
    if (got.rows < want.rows) cr_expect(got.bytes < want.bytes, "%zu", got.bytes);
    return got.rows;
}

static void check_the_same_bits(const struct pair *pair) {
    struct model_config config = pair_config(pair);
    struct batch batches[] = {make_batch(B, T, V, 1), make_batch(B, T, V, 2)};
    config.block_size = T;
    config.dropout = 0.1;
    put_pads(&batches[1]);
    const bool at_once = model_needs_batch(&config);
    cr_expect(expect_same(config, batches, B) == (at_once ? B * T : 256), "%s", pair_options(pair));
}

Test(micro_batch, the_same_bits) {
    (sweep() || !in_double() ? every_norm_and_placement : every_norm)(check_the_same_bits);
}

/* Norms that are formulas, of heads too; only means over the batch need it at once. */
Test(micro_batch, formulas) {
    static const char *const formulas[] = {"gamma * max_c(x) / (1 + abs(s * x)) + beta; s[1] = 0.5",
                                           "gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta"};
    for (int i = 0; i < 2; i++) {
        const int norm = norm_index(formula_add("norm", formulas[i]));
        struct model_config config = small_config(norm, 0);
        struct batch batches[] = {make_batch(B, T, V, 1), make_batch(B, T, V, 2)};
        config.block_size = T;
        config.dropout = 0.1;
        config.qk_norm = config.v_norm = INNER_NORM_KINDS + norm;
        put_pads(&batches[1]);
        cr_expect(expect_same(config, batches, B) == (i ? B * T : 256));
    }
}

/* Batches of any length up to the block: no sum is cut elsewhere, and there is memory for each.
   Those of 4 positions have more parts than those of a full block. */
Test(micro_batch, batches_of_any_length) {
    enum { MANY = 300, BLOCK = 7 };
    for (size_t t = 1; t <= BLOCK; t++) {
        struct model_config config = small_config(norm_index("ln"), 0);
        struct batch batches[] = {make_batch(MANY, t, V, 1), make_batch(MANY - 1, t, V, 2)};
        config.block_size = BLOCK;
        config.any_length = 1;
        cr_expect(expect_same(config, batches, MANY) == 256 * BLOCK);
    }
}

/* With more threads than 16 micro-batches are longer. */
Test(micro_batch, grow_with_threads) {
    struct model_config config = small_config(norm_index("ln"), 0);
    config.block_size = T;
    config.micro_batch_tokens = 256;
    static const size_t threads[] = {1, 16, 24, 32}, rows[] = {256, 256, 256, 512};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        cr_expect(partition_rows(&config, B, threads[i]) == rows[i], "%zu threads", threads[i]);
}

/* Micro-batches are whole rows of sums, one after another, and about equally long. */
Test(micro_batch, parts_are_the_batch) {
    struct model_config config = small_config(norm_index("ln"), 0);
    config.block_size = 96; // 8 sequences are 3 x 256 tokens
    config.micro_batch_tokens = 96 * 24 + 90;
    struct model model = held_model(&config, V, 50, 1);
    cr_expect(model.rows == 96 * 24);
    for (size_t sequences = 1; sequences <= 50; sequences++) {
        struct batch batch = make_batch(sequences, 96, V, 1), part;
        size_t first = 0, parts = 0;
        put_pads(&batch);
        for (; first < sequences; first += part.B, parts++) {
            part = partition_micro_batch(&model.config, model.rows, &batch, &batch, first);
            cr_expect(part.first == first && part.ids == batch.ids + first * 96 &&
                      part.targets == batch.targets + first * 96 &&
                      part.valid == batch.valid + first * 96);
            cr_expect(part.B <= 24 && (part.B % 8 == 0 || first + part.B == sequences));
        }
        cr_expect(first == sequences && parts == (sequences + 23) / 24);
    }
}

Test(micro_batch, what_needs_the_batch_has_it) {
    struct model_config config = small_config(norm_index("ln"), 0);
    cr_expect(!model_needs_batch(&config));
    config.qk_norm = INNER_NORM_KINDS + norm_index("bn");
    cr_expect(model_needs_batch(&config), "a norm that pools, at any site");
    config.qk_norm = INNER_NORM_OFF;
    config.whole_batch = 1;
    cr_expect(model_needs_batch(&config), "probes");
    config.whole_batch = 0;
    config.site_placement[SITE_FFN] = 1 + placement_index("admin");
    cr_expect(model_needs_batch(&config), "initial values by the first batch");
    for (int row = 0; norm_kinds[row]; row++) {
        config = small_config(row, 0);
        cr_expect(model_needs_batch(&config) == kind_mixes_tokens(norm_kinds[row]), "%s",
                  norm_kinds[row]->name);
    }
}

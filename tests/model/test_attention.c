/* Attention against a plain implementation of its formula. Norms of queries, keys and values: their
   extents, the heads of keys, and where a learned scale starts. */
#include "data/random.h"
#include "model/layer/attention.h"
#include "tests/support.h"

enum { T_MAX = 128 };

/* out = softmax(cap(q k^T / sqrt(HS)), causal) v, dropout on the probabilities. */
static void reference(size_t B, const struct attention *a, real *out) {
    const size_t T = a->T, C = a->C, NH = a->NH, HS = C / NH, E = C + 2 * HS * a->KV;
    const double softcap = (double)a->softcap;
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < NH; h++)
            for (size_t i = 0; i < T; i++) {
                const real *q = a->qkv + b * T * E + h * HS;
                const real *k = a->qkv + b * T * E + C + h * a->KV / NH * HS, *v = k + HS * a->KV;
                double p[T_MAX], sum = 0;
                for (size_t j = 0; j <= i; j++) {
                    double score = 0;
                    for (size_t c = 0; c < HS; c++)
                        score += (double)q[i * E + c] * (double)k[j * E + c] / sqrt((double)HS);
                    if (softcap > 0) score = softcap * tanh(score / softcap);
                    sum += p[j] = exp(score);
                }
                for (size_t c = 0; c < HS; c++) {
                    double mixed = 0;
                    for (size_t j = 0; j <= i; j++) {
                        uint64_t index = ((b * NH + h) * T + i) * T + j;
                        double keep =
                            a->dropout.threshold ? (double)dropout_factor(a->dropout, index) : 1;
                        mixed += keep * p[j] / sum * (double)v[j * E + c];
                    }
                    out[(b * T + i) * C + h * HS + c] = (real)mixed;
                }
            }
}

struct space {
    real *qkv, *out, *want, *softmax, *scratch, *dqkv;
    struct attention attention;
    struct range heads; // all of them
};

static struct space make_space(size_t B, struct attention a) {
    const size_t N = B * a.T, E = attention_row(&a), scratch = attention_scratch(&a);
    struct space s = {.qkv = random_reals(N * E, 1),
                      .out = random_reals(N * a.C, 2),
                      .want = random_reals(N * a.C, 3),
                      .softmax = random_reals(2 * N * a.NH, 4),
                      .scratch = random_reals(scratch, 5),
                      .dqkv = random_reals(N * E, 6),
                      .heads = {0, B * a.NH}};
    s.attention = a;
    s.attention.qkv = s.qkv;
    s.attention.softmax = s.softmax;
    s.attention.scratch_row = attention_scratch(&a);
    for (size_t i = 0; i < scratch; i++) s.scratch[i] = NAN;
    return s;
}

static void check(size_t B, struct attention attention) {
    struct space s = make_space(B, attention);
    reference(B, &s.attention, s.want);
    attention_forward(&s.attention, s.heads, s.out, s.scratch);
    expect_close("attention", B * attention.T * attention.C, s.out, s.want,
                 in_double() ? 1e-13 : 3e-6);
}

Test(attention, equals_its_formula) {
    const size_t lengths[] = {1, 2, 15, 31, 32, 33, 64, 65, 100};
    const struct dropout dropout = dropout_make(0.4, 11, 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t T = lengths[i];
        check(2, (struct attention){.T = T, .C = 6, .NH = 2, .KV = 2});
        check(1, (struct attention){.T = T, .C = 32, .NH = 1, .KV = 1});
        check(1, (struct attention){.T = T, .C = 51, .NH = 3, .KV = 3, .dropout = dropout});
        check(2, (struct attention){.T = T, .C = 24, .NH = 6, .KV = 2, .softcap = 1});
        check(1, (struct attention){.T = T, .C = 16, .NH = 4, .KV = 1, .dropout = dropout});
    }
}

Test(attention, huge_scores_stay_finite) {
    enum { T = 40, C = 8 };
    struct space s = make_space(1, (struct attention){.T = T, .C = C, .NH = 1, .KV = 1});
    for (size_t i = 0; i < T * 3 * C; i++) s.qkv[i] *= 1000;
    attention_forward(&s.attention, s.heads, s.out, s.scratch);
    attention_backward(&s.attention, s.heads, s.dqkv, s.want, s.scratch);
    for (size_t i = 0; i < T * C; i++) cr_assert(isfinite(s.out[i]));
    for (size_t i = 0; i < T * 3 * C; i++) cr_assert(isfinite(s.dqkv[i]));
}

enum { B = 3, T = 11, C = 12, NH = 3, HS = C / NH, V = 9 };

static struct model_config attention_config(const char *qk, const char *v, int64_t over) {
    struct model_config config = small_config(norm_index("ln"), 0);
    config.n_embd = C;
    config.n_head = NH;
    config.block_size = T;
    config.init = INIT_XAVIER;
    config.qk_norm = INNER_NORM_KINDS + norm_index(qk);
    config.v_norm = INNER_NORM_KINDS + norm_index(v);
    config.qk_norm_over = over;
    norms_set(&config.norms, "norm-eps", 1e-12);
    norms_set(&config.norms, "norm-groups", NH);
    return config;
}

static double loss_of(const struct model_config *config) {
    struct batch batch = make_batch(B, T, V, 5);
    struct model model = held_model(config, V, B, 1);
    return gradient_of(&model, &batch, 0, 1);
}

static void expect_equal_losses(const char *what, double a, double b) {
    const double tolerance = in_double() ? 1e-11 : 3e-6;
    cr_expect(fabs(a - b) <= tolerance * fabs(b), "%s: %.17g and %.17g", what, a, b);
}

/* A learned scale that starts at 1 / sqrt(HS) starts as the fixed one, with any norm or none, and
   auto starts there; with l2 at log2(T^2 - T). */
Test(qkv_norm, learned_scale_starts_where_the_fixed_one_is) {
    static const char *const kinds[] = {"none", "rms", "bn"};
    for (int k = 0; k < 3; k++)
        for (int over = EXTENT_HEAD; over <= EXTENT_WIDTH; over++) {
            struct model_config fixed = attention_config(kinds[k], "none", over);
            double start = model_qk_scale_start(&fixed);
            struct model_config learned = fixed;
            learned.qk_scale = QK_SCALE_LEARNED, learned.qk_scale_start = start;
            cr_expect_float_eq(start, 1 / sqrt(HS), 1e-12);
            expect_equal_losses(kinds[k], loss_of(&learned), loss_of(&fixed));
        }
    struct model_config unit = attention_config("l2", "none", EXTENT_HEAD);
    cr_expect_float_eq(model_qk_scale_start(&unit), log2(T * T - T), 1e-12);
    unit.block_size = 1;
    cr_expect_float_eq(model_qk_scale_start(&unit), 1, 1e-12, "one token");
}

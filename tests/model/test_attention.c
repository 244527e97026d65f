/* Attention against a plain implementation of its formula, and what causality promises. Norms of
   queries, keys and values: what follows from their definitions for the logits, for attention's
   output, and between one norm and another. */
#include "data/random.h"
#include "model/layer/attention.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

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
};

static struct space make_space(size_t B, struct attention a) {
    const size_t N = B * a.T, E = attention_row(&a), scratch = 8 * attention_scratch(&a);
    struct space s = {.qkv = random_reals(N * E, 1),
                      .out = random_reals(N * a.C, 2),
                      .want = random_reals(N * a.C, 3),
                      .softmax = random_reals(2 * N * a.NH, 4),
                      .scratch = random_reals(scratch, 5),
                      .dqkv = random_reals(N * E, 6)};
    s.attention = a;
    s.attention.qkv = s.qkv;
    s.attention.softmax = s.softmax;
    s.attention.scratch_row = attention_scratch(&a);
    for (size_t i = 0; i < scratch; i++) s.scratch[i] = NAN;
    return s;
}

static struct space make(size_t B, size_t T, size_t C, size_t NH, struct dropout dropout) {
    return make_space(B,
                      (struct attention){.T = T, .C = C, .NH = NH, .KV = NH, .dropout = dropout});
}

static void release(struct space s) {}

/* The calling thread's heads, in whole groups. */
static struct range heads_of(const struct space *s, size_t B) {
    return team_part(B * s->attention.NH, s->attention.NH / s->attention.KV);
}

/* Forward, and below it backward, by a team of `threads`, with `want` as the output's gradient. */
static void forward(struct space *s, int threads, size_t B) {
#pragma omp parallel num_threads(threads)
    attention_forward(&s->attention, heads_of(s, B), s->out, s->scratch);
}

static void backward(struct space *s, int threads, size_t B) {
#pragma omp parallel num_threads(threads)
    attention_backward(&s->attention, heads_of(s, B), s->dqkv, s->want, s->scratch);
}

static void check(size_t B, struct attention attention) {
    struct space s = make_space(B, attention);
    reference(B, &s.attention, s.want);
    forward(&s, 2, B);
    expect_close("attention", B * attention.T * attention.C, s.out, s.want,
                 in_double() ? 1e-13 : 3e-6);
    release(s);
}

Test(attention, equals_its_formula) {
    const size_t lengths[] = {1, 2, 15, 31, 32, 33, 64, 65, 100};
    const struct dropout dropout = dropout_make(0.4, 11);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t T = lengths[i];
        check(2, (struct attention){.T = T, .C = 6, .NH = 2, .KV = 2});
        check(1, (struct attention){.T = T, .C = 32, .NH = 1, .KV = 1});
        check(1, (struct attention){.T = T, .C = 51, .NH = 3, .KV = 3, .dropout = dropout});
        check(2, (struct attention){.T = T, .C = 24, .NH = 6, .KV = 2, .softcap = 1});
        check(1, (struct attention){.T = T, .C = 16, .NH = 4, .KV = 1, .dropout = dropout});
    }
}

Test(attention, the_first_token_sees_itself_only) {
    struct space s = make(1, 5, 4, 2, dropout_make(0, 0));
    attention_forward(&s.attention, (struct range){0, 2}, s.out, s.scratch);
    expect_close("first", 4, s.out, s.qkv + 8, in_double() ? 1e-15 : 1e-6);
    release(s);
}

Test(attention, later_tokens_do_not_reach_earlier_ones) {
    enum { T = 70, C = 8, NH = 2, CUT = 41 };
    struct space s = make(1, T, C, NH, dropout_make(0, 0));
    attention_forward(&s.attention, (struct range){0, NH}, s.want, s.scratch);
    for (size_t i = CUT * 3 * C; i < T * 3 * C; i++) s.qkv[i] = 100;
    attention_forward(&s.attention, (struct range){0, NH}, s.out, s.scratch);
    cr_expect(difference(CUT * C, s.out, s.want) == 0);
    cr_expect(difference((T - CUT) * C, s.out + CUT * C, s.want + CUT * C) > 1);
    release(s);
}

Test(attention, huge_scores_stay_finite) {
    enum { T = 40, C = 8 };
    struct space s = make(1, T, C, 1, dropout_make(0, 0));
    for (size_t i = 0; i < T * 3 * C; i++) s.qkv[i] *= 1000;
    attention_forward(&s.attention, (struct range){0, 1}, s.out, s.scratch);
    attention_backward(&s.attention, (struct range){0, 1}, s.dqkv, s.want, s.scratch);
    for (size_t i = 0; i < T * C; i++) cr_assert(isfinite(s.out[i]));
    for (size_t i = 0; i < T * 3 * C; i++) cr_assert(isfinite(s.dqkv[i]));
    release(s);
}

static void check_threads(size_t KV, real softcap) {
    enum { B = 3, T = 50, C = 12, NH = 6 };
    const struct attention a = {
        .T = T, .C = C, .NH = NH, .KV = KV, .softcap = softcap, .dropout = dropout_make(0.2, 3)};
    struct space one = make_space(B, a), many = make_space(B, a);
    for (int threads = 1; threads <= 8; threads++) {
        struct space *s = threads == 1 ? &one : &many;
        forward(s, threads, B);
        backward(s, threads, B);
        if (threads == 1) continue;
        cr_expect(difference(B * T * C, one.out, many.out) == 0, "%d threads", threads);
        cr_expect(difference(B * T * attention_row(&a), one.dqkv, many.dqkv) == 0, "%d threads",
                  threads);
    }
    release(one);
    release(many);
}

Test(attention, same_bits_for_any_number_of_threads) {
    check_threads(6, 0);
    check_threads(2, 1);
}

Test(attention, dropout_keeps_the_mean) {
    enum { COUNT = 200000 };
    struct dropout dropout = dropout_make(0.3, 5);
    double sum = 0, dropped = 0;
    for (size_t i = 0; i < COUNT; i++) {
        sum += (double)dropout_factor(dropout, i);
        dropped += dropout_factor(dropout, i) == 0;
    }
    cr_expect(fabs(sum / COUNT - 1) < 0.01, "%g", sum / COUNT);
    cr_expect(fabs(dropped / COUNT - 0.3) < 0.005, "%g", dropped / COUNT);
}

enum { B = 3, T = 11, N = B * T, C = 12, NH = 3, HS = C / NH, V = 9 };

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

static struct model_config with_scale(struct model_config config, double start) {
    config.qk_scale = QK_SCALE_LEARNED;
    config.qk_scale_start = start;
    return config;
}

/* Loss of a batch, the same for each call; the model has gradients, and is freed by the caller. */
static double run(struct model *model, const struct model_config *config) {
    struct batch batch = make_batch(B, T, V, 5);
    *model = held_model(config, V, B, 1);
    double loss = gradient_of(model, &batch, 0, 1);
    return loss;
}

static double loss_of(const struct model_config *config) {
    struct model model;
    double loss = run(&model, config);
    return loss;
}

static void expect_equal_losses(const char *what, double a, double b) {
    const double tolerance = in_double() ? 1e-11 : 3e-6;
    cr_expect(fabs(a - b) <= tolerance * fabs(b), "%s: %.17g and %.17g", what, a, b);
}

/* The length of a part of q, k, v: columns `begin` to `end` of a token's row. */
static double length_of(const struct sublayer *attention, size_t token, size_t begin, size_t end) {
    double squares = 0;
    for (size_t c = begin; c < end; c++) {
        double x = (double)attention->expanded[token * 3 * C + c];
        squares += x * x;
    }
    return sqrt(squares);
}

/* By head every head has the length sqrt(HS), over the full width the token has sqrt(C), and its
   heads share it as they like. */
Test(qkv_norm, extents) {
    struct model by_head, by_width;
    struct model_config of_heads = attention_config("rms", "rms", EXTENT_HEAD);
    struct model_config of_width = attention_config("rms", "rms", EXTENT_WIDTH);
    double difference = fabs(run(&by_head, &of_heads) - run(&by_width, &of_width));
    cr_expect(difference > 1e-4, "the extent changes nothing: %g", difference);
    const struct sublayer *heads = &by_head.layer[1].attention,
                          *width = &by_width.layer[1].attention;
    double spread = 0;
    for (size_t n = 0; n < N; n++)
        for (size_t part = 0; part < QKV_COUNT; part++) {
            double whole = length_of(width, n, part * C, (part + 1) * C);
            cr_expect(fabs(whole - sqrt(C)) < 1e-5, "part %zu of token %zu: %g", part, n, whole);
            for (size_t h = 0; h < NH; h++) {
                const size_t begin = part * C + h * HS;
                double of_head = length_of(heads, n, begin, begin + HS);
                cr_expect(fabs(of_head - sqrt(HS)) < 1e-5, "head %zu: %g", h, of_head);
                spread = fmax(spread, fabs(length_of(width, n, begin, begin + HS) - sqrt(HS)));
            }
        }
    cr_expect(spread > 0.1, "heads of one width all have one length: %g", spread);
    cr_expect_eq(heads->qkv_norm.norm[QKV_V].C, HS);
    cr_expect_eq(width->qkv_norm.norm[QKV_V].C, C);
}

/* With one head both extents are the same, to the bit. */
Test(qkv_norm, one_head_is_the_whole_width) {
    static const char *const kinds[] = {"ln", "bn", "cln", "l2"};
    for (int k = 0; k < 4; k++) {
        struct model_config head = attention_config(kinds[k], kinds[k], EXTENT_HEAD);
        struct model_config width = attention_config(kinds[k], kinds[k], EXTENT_WIDTH);
        head.n_head = width.n_head = 1;
        cr_expect(loss_of(&head) == loss_of(&width), "%s", kinds[k]);
    }
}

/* With as many groups as heads, gn over the width is ln of each head: initially, while all gammas
   are 1. A norm that pools over tokens is something else: by head it pools over the heads too. */
Test(qkv_norm, groups_over_the_width_are_heads) {
    struct model_config ln = attention_config("ln", "ln", EXTENT_HEAD);
    struct model_config gn = attention_config("gn", "gn", EXTENT_WIDTH);
    expect_equal_losses("ln and gn", loss_of(&ln), loss_of(&gn));
    ln.n_head = gn.n_head = 6, ln.n_kv_head = gn.n_kv_head = 3; // queries share keys and values
    norms_set(&gn.norms, "norm-groups", 6);
    expect_equal_losses("ln and gn with fewer keys", loss_of(&ln), loss_of(&gn));
    struct model_config bn = attention_config("bn", "bn", EXTENT_HEAD);
    struct model_config wide = attention_config("bn", "bn", EXTENT_WIDTH);
    cr_expect(fabs(loss_of(&bn) - loss_of(&wide)) > 1e-4);
}

/* Where pn scales groups, a group is a head of k too, of which there are fewer than of q. */
Test(qkv_norm, keys_have_heads_of_their_own) {
    struct model_config config = attention_config("pn", "pn", EXTENT_WIDTH);
    struct model model;
    config.n_head = 6, config.n_kv_head = 2;
    run(&model, &config);
    const struct qkv_norm *qkv = &model.layer[0].attention.qkv_norm;
    cr_expect_eq(qkv->norm[QKV_Q].heads, 6);
    cr_expect_eq(qkv->norm[QKV_K].heads, 2);
    cr_expect_eq(qkv->norm[QKV_V].heads, 2);
}

/* Attention averages values. So its output is no longer than they are: sqrt(HS) under rms. */
Test(qkv_norm, attention_makes_values_no_longer) {
    struct model_config config = attention_config("none", "rms", EXTENT_HEAD);
    struct model model;
    run(&model, &config);
    const struct sublayer *attention = &model.layer[0].attention;
    double longest = 0, first = 0;
    for (size_t n = 0; n < N; n++)
        for (size_t h = 0; h < NH; h++) {
            double squares = 0;
            for (size_t c = 0; c < HS; c++)
                squares += pow((double)attention->inner[n * C + h * HS + c], 2);
            longest = worse(longest, sqrt(squares));
            if (n % T == 0) first = sqrt(squares);
        }
    cr_expect(longest < sqrt(HS) + 1e-5, "%g", longest);
    cr_expect(fabs(first - sqrt(HS)) < 1e-5, "a first token attends to itself alone: %g", first);
}

/* QKNorm of Henry et al. 2020: with l2 the logits are t cos(q, k). scale, with the usual factor, is
   the same with t = g_q g_k / sqrt(HS) for all heads, and so t's gradients are those of g_q. */
Test(qkv_norm, scalenorm_is_l2_with_one_scale_for_all_heads) {
    struct model_config scaled = attention_config("scale", "none", EXTENT_HEAD);
    struct model_config unit = with_scale(attention_config("l2", "none", EXTENT_HEAD), sqrt(HS));
    struct model a, b;
    expect_equal_losses("scale and l2", run(&a, &scaled), run(&b, &unit));
    for (size_t l = 0; l < a.L; l++) {
        const struct qkv_norm *g = &a.layer[l].attention.qkv_norm;
        const struct qkv_norm *t = &b.layer[l].attention.qkv_norm;
        double dt = 0;
        for (size_t h = 0; h < NH; h++) dt += (double)t->scale.grad[h];
        cr_expect(dt != 0 && t->scale.grad[0] != t->scale.grad[1], "each head has its own");
        // dt/dg = g_k / sqrt(HS) = 1
        double dq = (double)g->norm[QKV_Q].param[0].grad[0];
        double dk = (double)g->norm[QKV_K].param[0].grad[0];
        double tolerance = (in_double() ? 1e-9 : 1e-3) * fabs(dt);
        cr_expect(fabs(dq - dt) < tolerance && fabs(dk - dt) < tolerance, "%g, %g and %g", dq, dk,
                  dt);
    }
}

/* A learned scale that starts at 1 / sqrt(HS) starts as the fixed one, with any norm or none, and
   auto starts there; with l2 at log2(T^2 - T). */
Test(qkv_norm, learned_scale_starts_where_the_fixed_one_is) {
    static const char *const kinds[] = {"none", "rms", "bn"};
    for (int k = 0; k < 3; k++)
        for (int over = EXTENT_HEAD; over <= EXTENT_WIDTH; over++) {
            struct model_config fixed = attention_config(kinds[k], "none", over);
            double start = model_qk_scale_start(&fixed);
            struct model_config learned = with_scale(fixed, start);
            cr_expect_float_eq(start, 1 / sqrt(HS), 1e-12);
            expect_equal_losses(kinds[k], loss_of(&learned), loss_of(&fixed));
        }
    struct model_config unit = attention_config("l2", "none", EXTENT_HEAD);
    cr_expect_float_eq(model_qk_scale_start(&unit), log2(T * T - T), 1e-12);
    unit.block_size = 1;
    cr_expect_float_eq(model_qk_scale_start(&unit), 1, 1e-12, "one token");
}

/* A scale of 0 makes all weights equal, so attention's output the mean of the values so far. */
Test(qkv_norm, without_scale_attention_is_the_mean) {
    struct model_config config = with_scale(attention_config("none", "none", EXTENT_HEAD), 1);
    struct batch batch = make_batch(B, T, V, 5);
    struct model model = held_model(&config, V, B, 1);
    struct sublayer *attention = &model.layer[0].attention;
    for (size_t h = 0; h < NH; h++) attention->qkv_norm.scale.value[h] = 0;
    model_forward(&model, &batch, false, 0);
    for (size_t b = 0; b < B; b++)
        for (size_t c = 0; c < C; c++) {
            double sum = 0;
            for (size_t t = 0; t < T; t++) {
                const size_t n = b * T + t;
                sum += (double)attention->expanded[n * 3 * C + 2 * C + c];
                cr_expect_float_eq((double)attention->inner[n * C + c], sum / (double)(t + 1),
                                   1e-5);
            }
        }
}

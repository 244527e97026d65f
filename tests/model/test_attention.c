/* Attention against a plain implementation of its formula, and what causality promises. */
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
    for (size_t i = 0; i < scratch; i++) s.scratch[i] = NAN;
    return s;
}

static struct space make(size_t B, size_t T, size_t C, size_t NH, struct dropout dropout) {
    return make_space(B,
                      (struct attention){.T = T, .C = C, .NH = NH, .KV = NH, .dropout = dropout});
}

static void release(struct space s) {}

static real *own_scratch(const struct space *s) {
    const struct attention *a = &s->attention;
    return s->scratch + (size_t)omp_get_thread_num() * attention_scratch(a);
}

/* The calling thread's heads, in whole groups. */
static struct range heads_of(const struct space *s, size_t B) {
    return team_part(B * s->attention.NH, s->attention.NH / s->attention.KV);
}

/* Forward, and below it backward, by a team of `threads`, with `want` as the output's gradient. */
static void forward(struct space *s, int threads, size_t B) {
#pragma omp parallel num_threads(threads)
    attention_forward(&s->attention, heads_of(s, B), s->out, own_scratch(s));
}

static void backward(struct space *s, int threads, size_t B) {
#pragma omp parallel num_threads(threads)
    attention_backward(&s->attention, heads_of(s, B), s->dqkv, s->want, own_scratch(s));
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

/* Causal multi-head attention. For each sequence and head, with q, k, v (T,HS) and s = 1 /
   sqrt(HS):

     S = s q k^T,  P = softmax over j <= i of S,  out = drop(P) v

   Backward. With dP = mask * (dout v^T) the gradient of the probabilities before dropout, and
   D_i = sum_j P_ij dP_ij,
     dS = P * (dP - D),  dq = s dS k,  dk = s dS^T q,  dv = drop(P)^T dout

   The T x T matrices are never stored: ROWS rows of queries are handled at a time, against the keys
   that they may see, and backward computes P again from the kept logarithms of its denominators
   (Rabe and Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135).

   Vaswani et al. 2017, equation 1 (arXiv:1706.03762). Heads and sequences are shared out over the
   threads, so no sum is split. */
#include "attention.h"
#include "matmul.h"
#include "profile.h"
#include "reduce.h"
#include "vecmath.h"

/* Where one (sequence, head) lies, and one thread's scratch. */
struct head {
    size_t T, HS;
    size_t row, out_row;   // steps between tokens in qkv and out: 3C, C
    const real *q, *k, *v; // (T,HS), rows `row` apart
    struct dropout dropout;
    uint64_t first;         // dropout's index of P[0][0]
    size_t keys;            // T in whole vectors: the step of what follows
    real *scores, *dscores; // (ROWS,keys)
    real *k_t, *v_t;        // (HS,keys): k and v transposed
};

size_t attention_scratch(size_t T, size_t C, size_t NH) {
    return 2 * (ROWS + C / NH) * whole_vectors(T);
}

static struct head head_at(size_t i, size_t T, size_t C, size_t NH, const real *qkv,
                           struct dropout dropout, real *scratch) {
    size_t b = i / NH, h = i % NH, HS = C / NH, keys = whole_vectors(T);
    struct head head = {.T = T, .HS = HS, .row = 3 * C, .out_row = C, .dropout = dropout};
    head.q = qkv + b * T * 3 * C + h * HS;
    head.k = head.q + C;
    head.v = head.k + C;
    head.first = (uint64_t)i * T * T;
    head.keys = keys;
    head.scores = scratch;
    head.dscores = head.scores + ROWS * keys;
    head.k_t = head.dscores + ROWS * keys;
    head.v_t = head.k_t + HS * keys;
    return head;
}

/* p (n) = the factors of dropout for row i times p; nothing happens without dropout. */
static void drop_row(const struct head *head, size_t i, size_t n, real *p) {
    if (!head->dropout.threshold) return;
    uint64_t first = head->first + i * head->T;
#pragma omp simd
    for (size_t j = 0; j < n; j++) p[j] *= dropout_factor(head->dropout, first + j);
}

/* A row p of scores of token i: what it may not see, within its last vector of n. */
static inline void hide(size_t i, size_t n, real *p, real value) {
    size_t first = n - LANES;
#pragma omp simd
    for (size_t l = 0; l < (size_t)LANES; l++) p[first + l] = first + l <= i ? p[first + l] : value;
}

/* Zeros in the vectors n .. end, which the products with the whole block's keys read. */
static inline void clear(size_t n, size_t end, real *p) {
    for (size_t j = n; j < end; j += LANES) vec_store(p + j, (vec){0});
}

/* Products with the first `end` keys. */
static inline void times_keys(const struct head *head, size_t count, size_t end, real *scores,
                              const real *left, size_t left_row, const real *keys) {
    matmul(count, whole_vectors(end), head->HS, rows_of(left, left_row), rows_of(keys, head->keys),
           rows_of(scores, head->keys), MATMUL_ZERO, NULL);
}

static void head_forward(const struct head *head, size_t first, real *out, real *logsum) {
    size_t T = head->T, HS = head->HS;
    real scale = 1 / sqrt_real((real)HS);
    matmul_transpose(T, HS, head->k_t, head->keys, head->k, head->row);
    for (size_t begin = first; begin < T; begin += ROWS) {
        size_t end = begin + ROWS < T ? begin + ROWS : T, count = end - begin;
        times_keys(head, count, end, head->scores, head->q + begin * head->row, head->row,
                   head->k_t);
        for (size_t i = begin; i < end; i++) {
            real *p = head->scores + (i - begin) * head->keys;
            size_t n = whole_vectors(i + 1); // what lies beyond i has no weight
            hide(i, n, p, -INFINITY);
            real largest = row_largest(n, p);
#pragma omp simd
            for (size_t j = 0; j < n; j++) p[j] = exp_nonpositive(scale * (p[j] - largest));
            real sum = row_sum(n, p), share = 1 / sum;
#pragma omp simd
            for (size_t j = 0; j < n; j++) p[j] *= share;
            clear(n, end, p);
            logsum[i] = scale * largest + log_real(sum);
            drop_row(head, i, i + 1, p);
        }
        matmul(count, HS, end, rows_of(head->scores, head->keys), rows_of(head->v, head->row),
               rows_of(out + begin * head->out_row, head->out_row), MATMUL_ZERO, NULL);
    }
}

static void head_backward(const struct head *head, real *dq, const real *dout, const real *logsum,
                          size_t C) {
    size_t T = head->T, HS = head->HS;
    real scale = 1 / sqrt_real((real)HS);
    struct matrix dk = rows_of(dq + C, head->row), dv = rows_of(dq + 2 * C, head->row); // (T,HS)
    matmul_transpose(T, HS, head->k_t, head->keys, head->k, head->row);
    matmul_transpose(T, HS, head->v_t, head->keys, head->v, head->row);
    // from the last rows on, which see every key: they write dk and dv, the others add
    enum matmul_start start = MATMUL_ZERO;
    for (size_t begin = (T - 1) / ROWS * ROWS, end = T;; end = begin, begin -= ROWS) {
        size_t count = end - begin;
        struct matrix q = rows_of(head->q + begin * head->row, head->row);
        struct matrix dout_rows = rows_of(dout + begin * head->out_row, head->out_row);
        struct matrix p_rows = rows_of(head->scores, head->keys);
        struct matrix ds_rows = rows_of(head->dscores, head->keys);
        times_keys(head, count, end, head->scores, q.data, q.row, head->k_t);
        times_keys(head, count, end, head->dscores, dout_rows.data, dout_rows.row, head->v_t);
        for (size_t i = begin; i < end; i++) {
            real *p = p_rows.data + (i - begin) * p_rows.row;
            real *ds = ds_rows.data + (i - begin) * ds_rows.row;
            real denominator = logsum[i];
            size_t n = whole_vectors(i + 1);
            drop_row(head, i, i + 1, ds);
            hide(i, n, p, -INFINITY);
            hide(i, n, ds, 0);
#pragma omp simd
            for (size_t j = 0; j < n; j++) p[j] = exp_nonpositive(scale * p[j] - denominator);
            real along = row_dot(n, p, ds); // D_i
#pragma omp simd
            for (size_t j = 0; j < n; j++) ds[j] = scale * p[j] * (ds[j] - along);
            clear(n, end, p);
            clear(n, end, ds);
            drop_row(head, i, i + 1, p);
        }
        matmul(count, HS, end, ds_rows, rows_of(head->k, head->row),
               rows_of(dq + begin * head->row, head->row), MATMUL_ZERO, NULL);
        matmul(end, HS, count, transposed(ds_rows), q, dk, start, NULL);
        matmul(end, HS, count, transposed(p_rows), dout_rows, dv, start, NULL);
        start = MATMUL_ADD;
        if (!begin) return;
    }
}

void attention_forward(size_t B, size_t T, size_t C, size_t NH, size_t first, real *out,
                       real *logsum, const real *qkv, struct dropout dropout, real *scratch) {
    struct rows own = team_share(B * NH, 1);
    for (size_t i = own.begin; i < own.end; i++) {
        struct head head = head_at(i, T, C, NH, qkv, dropout, scratch);
        head_forward(&head, first, out + i / NH * T * C + i % NH * head.HS, logsum + i * T);
    }
    profile_lap(PROFILE_ATTENTION);
}

void attention_backward(size_t B, size_t T, size_t C, size_t NH, real *dqkv, const real *dout,
                        const real *logsum, const real *qkv, struct dropout dropout,
                        real *scratch) {
    struct rows own = team_share(B * NH, 1);
    for (size_t i = own.begin; i < own.end; i++) {
        struct head head = head_at(i, T, C, NH, qkv, dropout, scratch);
        size_t at = i / NH * T * C + i % NH * head.HS;
        head_backward(&head, dqkv + (head.q - qkv), dout + at, logsum + i * T, C);
    }
    profile_lap(PROFILE_ATTENTION);
}

/* Causal multi-head attention. For each sequence and head, with q, k, v (T,HS) and s = 1 /
   sqrt(HS):

     S = q k^T,  P = softmax over j <= i of s S,  out = drop(P) v

   Backward. With dP = mask * (dout v^T) the gradient of the probabilities before dropout, and
   D_i = sum_j P_ij dP_ij,
     dS = s P * (dP - D),  dq = dS k,  dk = dS^T q,  dv = drop(P)^T dout

   The T x T matrices are never stored: ROWS queries are handled at a time, against the keys that
   they may see, and backward computes P again from each query's kept largest score and sum (Rabe
   and Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135). What lies in memory are
   the transposes S^T, P^T, dP^T and dS^T, a row for each key and in it the queries of the block
   side by side: so a softmax runs down the rows for a whole vector of queries at once, and no lane
   needs another.

   Vaswani et al. 2017, equation 1 (arXiv:1706.03762). A head of a sequence is one thread's, so no
   sum is split. */
#include "model/layer/attention.h"
#include "model/math/matmul.h"
#include "model/math/profile.h"
#include "model/math/simd.h"
#include "model/math/vecmath.h"

/* Where one (sequence, head) lies, and one thread's scratch. */
struct head {
    size_t T, HS;
    size_t row, out_row;   // steps between tokens in qkv and out: 3C, C
    const real *q, *k, *v; // (T,HS), rows `row` apart
    real *largest, *share; // (T) of each query: its largest score, 1 / the sum of its exponentials
    struct dropout dropout;
    uint64_t dropped;       // dropout's index of P[0][0]
    real *scores, *dscores; // (T,ROWS): S^T, then P^T; dP^T, then dS^T
    real *q_t, *dout_t;     // (HS,ROWS): the block's q and dout transposed
};

_Static_assert(ROWS % LANES == 0, "a block of queries is whole vectors");

size_t attention_scratch(size_t T, size_t C, size_t NH) {
    return 2 * ROWS * (T + C / NH);
}

/* Where head i begins in out (B,T,C). */
static size_t out_at(size_t i, size_t T, size_t C, size_t NH) {
    return i / NH * T * C + i % NH * (C / NH);
}

static struct head head_at(size_t i, size_t T, size_t C, size_t NH, const real *qkv,
                           const real *softmax, struct dropout dropout, real *scratch) {
    size_t b = i / NH, h = i % NH, HS = C / NH;
    struct head head = {.T = T, .HS = HS, .row = 3 * C, .out_row = C, .dropout = dropout};
    head.q = qkv + b * T * 3 * C + h * HS;
    head.k = head.q + C;
    head.v = head.k + C;
    head.largest = (real *)softmax + 2 * i * T; // forward's to write
    head.share = head.largest + T;
    head.dropped = (uint64_t)i * T * T;
    head.scores = scratch;
    head.dscores = head.scores + T * ROWS;
    head.q_t = head.dscores + T * ROWS;
    head.dout_t = head.q_t + HS * ROWS;
    return head;
}

/* What follows is about the LANES queries from `query` on, which are columns of the four matrices:
   p and dp point to their part of the row of key 0. Some of them see the keys before n. */

/* What query l of them may not see of key j. */
static inline void hide(size_t query, size_t j, real *p, real value) {
#pragma omp simd
    for (size_t l = 0; l < (size_t)LANES; l++) p[l] = j <= query + l ? p[l] : value;
}

/* p times the factors of dropout; nothing happens without dropout. */
static void drop(const struct head *head, size_t query, size_t n, real *p) {
    if (!head->dropout.threshold) return;
    for (size_t j = 0; j < n; j++)
#pragma omp simd
        for (size_t l = 0; l < (size_t)LANES; l++)
            p[j * ROWS + l] *=
                dropout_factor(head->dropout, head->dropped + (query + l) * head->T + j);
}

/* Zeros for the keys n .. end, which the products read with the others. */
static inline void clear(size_t n, size_t end, real *p) {
    for (size_t j = n; j < end; j++) vec_store(p + j * ROWS, (vec){0});
}

/* S to drop(P). */
static void softmax_forward(const struct head *head, size_t query, size_t n, size_t end, real *p) {
    real scale = 1 / sqrt_real((real)head->HS), most[LANES];
    for (size_t j = query + 1; j < n; j++) hide(query, j, p + j * ROWS, -INFINITY);
    vec largest = vec_load(p), sum = {0};
    for (size_t j = 1; j < n; j++) largest = vec_max(vec_load(p + j * ROWS), largest);
    vec_store(most, largest);
    for (size_t j = 0; j < n; j++) {
#pragma omp simd
        for (size_t l = 0; l < (size_t)LANES; l++)
            p[j * ROWS + l] = exp_nonpositive(scale * (p[j * ROWS + l] - most[l]));
        sum += vec_load(p + j * ROWS);
    }
    vec share = 1 / sum;
    for (size_t j = 0; j < n; j++) vec_store(p + j * ROWS, vec_load(p + j * ROWS) * share);
    clear(n, end, p);
    drop(head, query, n, p);
    size_t last = head->T - query < (size_t)LANES ? head->T - query : (size_t)LANES;
    vec_store_first(head->largest + query, largest, last);
    vec_store_first(head->share + query, share, last);
}

/* S to drop(P) once more, and v^T dout to dS. */
static void softmax_backward(const struct head *head, size_t query, size_t n, size_t end, real *p,
                             real *dp) {
    real scale = 1 / sqrt_real((real)head->HS), most[LANES], share[LANES];
    size_t last = head->T - query < (size_t)LANES ? head->T - query : (size_t)LANES;
    vec_store(most, vec_load_first(head->largest + query, last));
    vec_store(share, vec_load_first(head->share + query, last));
    for (size_t j = query + 1; j < n; j++) {
        hide(query, j, p + j * ROWS, -INFINITY);
        hide(query, j, dp + j * ROWS, 0);
    }
    drop(head, query, n, dp);
    vec along = {0}; // D
    for (size_t j = 0; j < n; j++) {
#pragma omp simd
        for (size_t l = 0; l < (size_t)LANES; l++)
            p[j * ROWS + l] = exp_nonpositive(scale * (p[j * ROWS + l] - most[l])) * share[l];
        along = vec_mul_add(vec_load(p + j * ROWS), vec_load(dp + j * ROWS), along);
    }
    for (size_t j = 0; j < n; j++)
        vec_store(dp + j * ROWS,
                  scale * vec_load(p + j * ROWS) * (vec_load(dp + j * ROWS) - along));
    clear(n, end, p);
    clear(n, end, dp);
    drop(head, query, n, p);
}

/* The keys before `end` that some of the LANES queries from `query` on see. */
static inline size_t seen(size_t query, size_t end) {
    return query + LANES < end ? query + LANES : end;
}

/* to (end,queries) = x (end,HS) y^T, y (count,HS) being the block's q or dout. */
static void scores_of(const struct head *head, size_t end, real *to, struct matrix x, size_t count,
                      struct matrix y, real *y_t) {
    matmul_transpose(count, head->HS, y_t, ROWS, y.data, y.row);
    matmul(end, vec_padded(count), head->HS, x, matrix_of(y_t, ROWS), matrix_of(to, ROWS),
           MATMUL_ZERO, NULL);
}

static void head_forward(const struct head *head, size_t first, real *out) {
    struct matrix k = matrix_of(head->k, head->row), v = matrix_of(head->v, head->row);
    struct matrix p_t = matrix_of(head->scores, ROWS);
    for (size_t begin = first, end; begin < head->T; begin = end) {
        end = begin + ROWS < head->T ? begin + ROWS : head->T;
        struct matrix q = matrix_of(head->q + begin * head->row, head->row);
        scores_of(head, end, p_t.data, k, end - begin, q, head->q_t);
        for (size_t i = begin; i < end; i += LANES)
            softmax_forward(head, i, seen(i, end), end, p_t.data + (i - begin));
        matmul(end - begin, head->HS, end, matrix_transposed(p_t), v,
               matrix_of(out + begin * head->out_row, head->out_row), MATMUL_ZERO, NULL);
    }
}

static void head_backward(const struct head *head, real *dq, const real *dout, size_t C) {
    struct matrix k = matrix_of(head->k, head->row), v = matrix_of(head->v, head->row);
    struct matrix dk = matrix_of(dq + C, head->row),
                  dv = matrix_of(dq + 2 * C, head->row); // (T,HS)
    struct matrix p_t = matrix_of(head->scores, ROWS), ds_t = matrix_of(head->dscores, ROWS);
    // from the last queries on, which see every key: they write dk and dv, the others add
    enum matmul_start start = MATMUL_ZERO;
    for (size_t begin = (head->T - 1) / ROWS * ROWS, end = head->T;; end = begin, begin -= ROWS) {
        size_t count = end - begin, HS = head->HS;
        struct matrix q = matrix_of(head->q + begin * head->row, head->row);
        struct matrix dout_rows = matrix_of(dout + begin * head->out_row, head->out_row);
        scores_of(head, end, p_t.data, k, count, q, head->q_t);
        scores_of(head, end, ds_t.data, v, count, dout_rows, head->dout_t);
        for (size_t i = begin; i < end; i += LANES)
            softmax_backward(head, i, seen(i, end), end, p_t.data + (i - begin),
                             ds_t.data + (i - begin));
        matmul(count, HS, end, matrix_transposed(ds_t), k,
               matrix_of(dq + begin * head->row, head->row), MATMUL_ZERO, NULL);
        matmul(end, HS, count, ds_t, q, dk, start, NULL);
        matmul(end, HS, count, p_t, dout_rows, dv, start, NULL);
        start = MATMUL_ADD;
        if (!begin) return;
    }
}

void attention_forward(struct range heads, size_t T, size_t C, size_t NH, size_t first, real *out,
                       real *softmax, const real *qkv, struct dropout dropout, real *scratch) {
    for (size_t i = heads.begin; i < heads.end; i++) {
        struct head head = head_at(i, T, C, NH, qkv, softmax, dropout, scratch);
        head_forward(&head, first, out + out_at(i, T, C, NH));
    }
    profile_lap(PROFILE_ATTENTION);
}

void attention_backward(struct range heads, size_t T, size_t C, size_t NH, real *dqkv,
                        const real *dout, const real *softmax, const real *qkv,
                        struct dropout dropout, real *scratch) {
    for (size_t i = heads.begin; i < heads.end; i++) {
        struct head head = head_at(i, T, C, NH, qkv, softmax, dropout, scratch);
        head_backward(&head, dqkv + (head.q - qkv), dout + out_at(i, T, C, NH), C);
    }
    profile_lap(PROFILE_ATTENTION);
}

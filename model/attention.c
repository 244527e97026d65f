/* Causal multi-head attention. For each sequence and head, with q, k, v (T,HS) and s = 1 /
   sqrt(HS):

     S = s q k^T,  P = softmax over j <= i of S,  out = drop(P) v

   Backward. With dP = mask * (dout v^T) the gradient of the probabilities before dropout, and
   D_i = sum_j P_ij dP_ij = dout_i . out_i,
     dS = P * (dP - D),  dq = s dS k,  dk = s dS^T q,  dv = drop(P)^T dout

   The T x T matrices are never stored: ROWS rows of queries are handled at a time, against the keys
   that they may see, and backward computes P again from the kept logarithms of its denominators
   (Rabe and Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135).

   Vaswani et al. 2017, equation 1 (arXiv:1706.03762). Heads and sequences are shared out over the
   threads, so no sum is split. */
#include "attention.h"
#include "matmul.h"
#include "vecmath.h"
#include <omp.h>
#include <string.h>

enum { ROWS = 32 };

/* Where one (sequence, head) lies, and one thread's scratch. */
struct head {
    size_t T, HS;
    size_t row, out_row;   // steps between tokens in qkv and out: 3C, C
    const real *q, *k, *v; // (T,HS), rows `row` apart
    struct dropout dropout;
    uint64_t first;           // dropout's index of P[0][0]
    real *scores, *dscores;   // (ROWS,T)
    real *left, *right, *top; // packed: (HS,T), (HS,T), (T,HS)
    real *rows_q, *rows_dout; // packed: (ROWS,HS)
};

static size_t scores_size(size_t T) {
    return ROWS * T;
}

static size_t round_up(size_t reals) { // to a multiple of 64 bytes
    return (reals + 15) / 16 * 16;
}

size_t attention_scratch(size_t T, size_t C, size_t NH) {
    size_t HS = C / NH;
    return 2 * round_up(scores_size(T)) + 2 * round_up(matmul_packed_size(HS, T)) +
           round_up(matmul_packed_size(T, HS)) + 2 * round_up(matmul_packed_size(ROWS, HS));
}

static struct head head_at(size_t i, size_t T, size_t C, size_t NH, const real *qkv,
                           struct dropout dropout, real *scratch) {
    size_t b = i / NH, h = i % NH, HS = C / NH;
    struct head head = {.T = T, .HS = HS, .row = 3 * C, .out_row = C, .dropout = dropout};
    head.q = qkv + b * T * 3 * C + h * HS;
    head.k = head.q + C;
    head.v = head.k + C;
    head.first = (uint64_t)i * T * T;
    real *next = scratch + (size_t)omp_get_thread_num() * attention_scratch(T, C, NH);
    head.scores = next, next += round_up(scores_size(T));
    head.dscores = next, next += round_up(scores_size(T));
    head.left = next, next += round_up(matmul_packed_size(HS, T));
    head.right = next, next += round_up(matmul_packed_size(HS, T));
    head.top = next, next += round_up(matmul_packed_size(T, HS));
    head.rows_q = next, next += round_up(matmul_packed_size(ROWS, HS));
    head.rows_dout = next;
    return head;
}

/* p (n) = the factors of dropout for row i times p; nothing happens without dropout. */
static void drop_row(const struct head *head, size_t i, size_t n, real *p) {
    if (!head->dropout.threshold) return;
    uint64_t first = head->first + i * head->T;
#pragma omp simd
    for (size_t j = 0; j < n; j++) p[j] *= dropout_factor(head->dropout, first + j);
}

static void head_forward(const struct head *head, real *out, real *logsum) {
    size_t T = head->T, HS = head->HS;
    real scale = 1 / sqrt_real((real)HS);
    matmul_pack(HS, T, transposed(rows(head->k, head->row)), head->left);
    matmul_pack(T, HS, rows(head->v, head->row), head->top);
    for (size_t begin = 0; begin < T; begin += ROWS) {
        size_t end = begin + ROWS < T ? begin + ROWS : T, count = end - begin;
        matmul_packed(count, end, HS, rows(head->q + begin * head->row, head->row), head->left, HS,
                      rows(head->scores, T), MATMUL_ZERO);
        for (size_t i = begin; i < end; i++) {
            real *p = head->scores + (i - begin) * T, largest = p[0], sum = 0;
#pragma omp simd reduction(max : largest)
            for (size_t j = 0; j <= i; j++) largest = p[j] > largest ? p[j] : largest;
#pragma omp simd reduction(+ : sum)
            for (size_t j = 0; j <= i; j++) sum += p[j] = exp_real(scale * (p[j] - largest));
            real share = 1 / sum;
#pragma omp simd
            for (size_t j = 0; j <= i; j++) p[j] *= share;
            memset(p + i + 1, 0, (end - i - 1) * sizeof(real));
            logsum[i] = scale * largest + log_real(sum);
            drop_row(head, i, i + 1, p);
        }
        matmul_packed(count, HS, end, rows(head->scores, T), head->top, T,
                      rows(out + begin * head->out_row, head->out_row), MATMUL_ZERO);
    }
}

static void head_backward(const struct head *head, real *dq, const real *dout, const real *out,
                          const real *logsum, size_t C) {
    size_t T = head->T, HS = head->HS;
    real scale = 1 / sqrt_real((real)HS);
    real *dk = dq + C, *dv = dk + C; // (T,HS), as q, k and v
    matmul_pack(HS, T, transposed(rows(head->k, head->row)), head->left);
    matmul_pack(HS, T, transposed(rows(head->v, head->row)), head->right);
    matmul_pack(T, HS, rows(head->k, head->row), head->top);
    for (size_t t = 0; t < T; t++) {
        memset(dk + t * head->row, 0, HS * sizeof(real));
        memset(dv + t * head->row, 0, HS * sizeof(real));
    }
    for (size_t begin = 0; begin < T; begin += ROWS) {
        size_t end = begin + ROWS < T ? begin + ROWS : T, count = end - begin;
        const real *q = head->q + begin * head->row, *dout_rows = dout + begin * head->out_row;
        matmul_packed(count, end, HS, rows(q, head->row), head->left, HS, rows(head->scores, T),
                      MATMUL_ZERO);
        matmul_packed(count, end, HS, rows(dout_rows, head->out_row), head->right, HS,
                      rows(head->dscores, T), MATMUL_ZERO);
        for (size_t i = begin; i < end; i++) {
            real *p = head->scores + (i - begin) * T, *ds = head->dscores + (i - begin) * T;
            const real *dout_i = dout + i * head->out_row, *out_i = out + i * head->out_row;
            real along = 0, denominator = logsum[i]; // D_i
#pragma omp simd reduction(+ : along)
            for (size_t c = 0; c < HS; c++) along += dout_i[c] * out_i[c];
            drop_row(head, i, i + 1, ds);
#pragma omp simd
            for (size_t j = 0; j <= i; j++) {
                p[j] = exp_real(scale * p[j] - denominator);
                ds[j] = scale * p[j] * (ds[j] - along);
            }
            memset(p + i + 1, 0, (end - i - 1) * sizeof(real));
            memset(ds + i + 1, 0, (end - i - 1) * sizeof(real));
            drop_row(head, i, i + 1, p);
        }
        matmul_packed(count, HS, end, rows(head->dscores, T), head->top, T,
                      rows(dq + begin * head->row, head->row), MATMUL_ZERO);
        matmul_pack(count, HS, rows(q, head->row), head->rows_q);
        matmul_pack(count, HS, rows(dout_rows, head->out_row), head->rows_dout);
        matmul_packed(end, HS, count, transposed(rows(head->dscores, T)), head->rows_q, count,
                      rows(dk, head->row), MATMUL_ADD);
        matmul_packed(end, HS, count, transposed(rows(head->scores, T)), head->rows_dout, count,
                      rows(dv, head->row), MATMUL_ADD);
    }
}

void attention_forward(size_t B, size_t T, size_t C, size_t NH, real *out, real *logsum,
                       const real *qkv, struct dropout dropout, real *scratch) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < B * NH; i++) {
        struct head head = head_at(i, T, C, NH, qkv, dropout, scratch);
        head_forward(&head, out + i / NH * T * C + i % NH * head.HS, logsum + i * T);
    }
}

void attention_backward(size_t B, size_t T, size_t C, size_t NH, real *dqkv, const real *dout,
                        const real *out, const real *logsum, const real *qkv,
                        struct dropout dropout, real *scratch) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < B * NH; i++) {
        struct head head = head_at(i, T, C, NH, qkv, dropout, scratch);
        size_t at = i / NH * T * C + i % NH * head.HS;
        head_backward(&head, dqkv + (head.q - qkv), dout + at, out + at, logsum + i * T, C);
    }
}

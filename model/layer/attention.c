/* Causal multi-head attention. For each head of each sequence, with q, k, v (T,HS) and
   s = 1 / sqrt(HS):

     S   = q k^T                                        (T,T), scores
     P   = softmax of s S, for query i over keys j <= i
     out = drop(P) v

   With a soft cap c, P is the softmax of Z = c tanh(s S / c) instead of s S (Bello et al. 2016,
   arXiv:1611.09940; Gemma 2, arXiv:2408.00118). Heads of a group have the same k and v (Ainslie et
   al. 2023, arXiv:2305.13245), so dk and dv are sums over the group's heads.

   Backward, with m the dropout factors, dP = m * (dout v^T) and D_i = sum_j P_ij dP_ij:

     dS = s P * (dP - D)                                with a cap, also * (1 - tanh^2(s S / c))
     dq = dS k
     dk = dS^T q
     dv = drop(P)^T dout

   The T x T matrices are never stored as a whole. Both directions take ROWS queries at a time,
   against the keys that these may see. Forward keeps each query's largest score and the inverse of
   its sum of exponentials, from which backward computes P again (Rabe and Staats 2021,
   arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135).

   What is stored of S, P, dP and dS is transposed: a row per key, in which the block's queries are
   side by side. So a softmax runs down the rows for a vector of queries at once, one query per
   lane, and no sum is taken across lanes.

   A head of a sequence is computed by one thread, so no sum is split between threads.
   Vaswani et al. 2017, equation 1 (arXiv:1706.03762). */
#include "model/layer/attention.h"
#include "model/math/matmul.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include "model/math/simd.h"
#include "model/math/vecmath.h"

/* The data of one head of one sequence, and the calling thread's scratch. */
struct head {
    size_t T, HS;
    size_t out_offset;                 // of the head in out (B,T,C)
    size_t row, out_row;               // strides from token to token in qkv, and C in out
    bool leads;                        // its group, in which other heads add to dk and dv
    real softcap;                      // or 0
    const real *q, *k, *v;             // (T,HS), row stride `row`
    real *largest_score, *inverse_sum; // (T), of each query's softmax
    struct dropout dropout;
    uint64_t dropout_first; // index of P[0][0] for dropout_factor()
    real *p_t, *ds_t;       // (T,ROWS): S^T, then P^T; dP^T, then dS^T
    real *q_t, *dout_t;     // (HS,ROWS): the block's q and dout, transposed
    real *slope_t;          // (T,ROWS): dZ / d(s S)^T, with a soft cap
};

_Static_assert(ROWS % LANES == 0, "a block of queries is full vectors");

size_t attention_scratch(const struct attention *a) {
    return ROWS * (2 * (a->T + a->C / a->NH) + (a->softcap > 0 ? a->T : 0));
}

static struct head head_at(const struct attention *a, size_t i, real *scratch) {
    size_t T = a->T, C = a->C, HS = C / a->NH, b = i / a->NH, h = i % a->NH, group = a->NH / a->KV;
    struct head head = {.T = T, .HS = HS, .row = attention_row(a), .out_row = C};
    head.dropout = a->dropout;
    head.softcap = a->softcap;
    head.leads = h % group == 0;
    head.out_offset = b * T * C + h * HS;
    head.q = a->qkv + b * T * head.row + h * HS;
    head.k = a->qkv + b * T * head.row + C + h / group * HS;
    head.v = head.k + a->KV * HS;
    head.largest_score = a->softmax + 2 * i * T;
    head.inverse_sum = head.largest_score + T;
    head.dropout_first = (uint64_t)i * T * T;
    head.p_t = scratch;
    head.ds_t = head.p_t + T * ROWS;
    head.q_t = head.ds_t + T * ROWS;
    head.dout_t = head.q_t + HS * ROWS;
    head.slope_t = head.dout_t + HS * ROWS;
    return head;
}

/* The functions below work on LANES queries from `query` on: a vector of columns in the transposed
   matrices. p and dp point to that vector in the row of key 0. At least one of these queries sees
   each key before n, and none sees a key from n on. */

/* Sets the elements of key j to `value` for the queries that do not see it. */
static inline void mask_key(size_t query, size_t j, real *p, real value) {
    const int first = (int)(j - query); // the first lane that sees the key
#pragma omp simd
    for (int l = 0; l < LANES; l++) p[l] = first <= l ? p[l] : value;
}

/* Multiplies by the dropout factors, if there is dropout. */
static void drop(const struct head *head, size_t query, size_t n, real *p) {
    if (!head->dropout.threshold) return;
    for (size_t j = 0; j < n; j++)
#pragma omp simd
        for (size_t l = 0; l < (size_t)LANES; l++)
            p[j * ROWS + l] *=
                dropout_factor(head->dropout, head->dropout_first + (query + l) * head->T + j);
}

/* Zeros for the keys n .. end: the products read them together with the others. */
static inline void clear(size_t n, size_t end, real *p) {
    for (size_t j = n; j < end; j++) vec_store(p + j * ROWS, (vec){0});
}

/* In p: S becomes Z, and slope = dZ / d(s S), unless it is NULL. */
static void cap(const struct head *head, size_t n, real *p, real *slope) {
    const real factor = 1 / (sqrt_real((real)head->HS) * head->softcap); // s / c
    for (size_t j = 0; j < n; j++)
#pragma omp simd
        for (size_t l = 0; l < (size_t)LANES; l++) {
            real t = tanh_real(factor * p[j * ROWS + l]);
            p[j * ROWS + l] = head->softcap * t;
            if (slope) slope[j * ROWS + l] = 1 - t * t;
        }
}

/* s in the softmax of s p: with a cap p is Z, which has it already. */
static real scale_of(const struct head *head) {
    return head->softcap > 0 ? 1 : 1 / sqrt_real((real)head->HS);
}

/* In p: S becomes drop(P). */
static void softmax_forward(const struct head *head, size_t query, size_t n, size_t end, real *p) {
    real scale = scale_of(head), largest[LANES];
    if (head->softcap > 0) cap(head, n, p, NULL);
    for (size_t j = query + 1; j < n; j++) mask_key(query, j, p + j * ROWS, -INFINITY);
    vec maximum = vec_load(p), sum = {0};
    for (size_t j = 1; j < n; j++) maximum = vec_max(vec_load(p + j * ROWS), maximum);
    vec_store(largest, maximum);
    for (size_t j = 0; j < n; j++) {
#pragma omp simd
        for (size_t l = 0; l < (size_t)LANES; l++)
            p[j * ROWS + l] = exp_nonpositive(scale * (p[j * ROWS + l] - largest[l]));
        sum += vec_load(p + j * ROWS);
    }
    vec inverse = 1 / sum;
    for (size_t j = 0; j < n; j++) vec_store(p + j * ROWS, vec_load(p + j * ROWS) * inverse);
    clear(n, end, p);
    drop(head, query, n, p);
    size_t count = size_min(head->T - query, LANES);
    vec_store_first(head->largest_score + query, maximum, count);
    vec_store_first(head->inverse_sum + query, inverse, count);
}

/* In p: S becomes drop(P). In dp: v dout^T becomes dS. */
static void softmax_backward(const struct head *head, size_t query, size_t n, size_t end, real *p,
                             real *dp) {
    real scale = scale_of(head), largest[LANES], inverse[LANES];
    real *slope = head->softcap > 0 ? head->slope_t : NULL;
    size_t count = size_min(head->T - query, LANES);
    if (slope) cap(head, n, p, slope);
    vec_store(largest, vec_load_first(head->largest_score + query, count));
    vec_store(inverse, vec_load_first(head->inverse_sum + query, count));
    for (size_t j = query + 1; j < n; j++) {
        mask_key(query, j, p + j * ROWS, -INFINITY);
        mask_key(query, j, dp + j * ROWS, 0);
    }
    drop(head, query, n, dp);
    vec D = {0};
    for (size_t j = 0; j < n; j++) {
#pragma omp simd
        for (size_t l = 0; l < (size_t)LANES; l++)
            p[j * ROWS + l] = exp_nonpositive(scale * (p[j * ROWS + l] - largest[l])) * inverse[l];
        D = vec_mul_add(vec_load(p + j * ROWS), vec_load(dp + j * ROWS), D);
    }
    for (size_t j = 0; j < n; j++)
        vec_store(dp + j * ROWS, scale * vec_load(p + j * ROWS) * (vec_load(dp + j * ROWS) - D));
    const real s = 1 / sqrt_real((real)head->HS);
    for (size_t j = 0; slope && j < n; j++)
        vec_store(dp + j * ROWS, s * vec_load(slope + j * ROWS) * vec_load(dp + j * ROWS));
    clear(n, end, p);
    clear(n, end, dp);
    drop(head, query, n, p);
}

/* The `n` of the functions above, for a block whose queries end before `end`. */
static inline size_t keys_seen(size_t query, size_t end) {
    return size_min(query + LANES, end);
}

/* to (end,count) = x (end,HS) y^T, for y (count,HS), the block's q or dout: a panel of queries at a
   time, against the keys before its end, since none of them sees a later one. y_t (HS,ROWS) is
   scratch for y's transpose. Columns from count to the next full vector are computed from what y_t
   held; nobody uses them. */
static void products(const struct head *head, size_t end, real *to, struct matrix x, size_t count,
                     struct matrix y, real *y_t) {
    const size_t begin = end - count, columns = vec_padded(count);
    matmul_transpose(count, head->HS, y_t, ROWS, y.data, y.row_stride);
    for (size_t j = 0; j < columns; j += PANEL)
        matmul(size_min(begin + j + PANEL, end), size_min(columns - j, PANEL), head->HS, x,
               matrix_of(y_t + j, ROWS), matrix_of(to + j, ROWS), matrix_zeros());
}

static real *own_scratch(const struct attention *a, real *scratch) {
    return scratch + (size_t)omp_get_thread_num() * a->scratch_row;
}

void attention_forward(const struct attention *a, struct range heads, real *out, real *scratch) {
    for (size_t i = heads.begin; i < heads.end; i++) {
        const struct head head = head_at(a, i, own_scratch(a, scratch));
        const struct matrix k = matrix_of(head.k, head.row), v = matrix_of(head.v, head.row);
        const struct matrix p_t = matrix_of(head.p_t, ROWS);
        for (size_t begin = a->first, end; begin < a->T; begin = end) {
            real *to = out + head.out_offset + begin * head.out_row;
            const struct matrix q = matrix_of(head.q + begin * head.row, head.row);
            end = size_min(begin + ROWS, a->T);
            products(&head, end, p_t.data, k, end - begin, q, head.q_t);
            for (size_t j = begin; j < end; j += LANES)
                softmax_forward(&head, j, keys_seen(j, end), end, p_t.data + (j - begin));
            matmul(end - begin, head.HS, end, matrix_transposed(p_t), v,
                   matrix_of(to, head.out_row), matrix_zeros());
        }
    }
    profile_lap(PROFILE_ATTENTION);
}

void attention_backward(const struct attention *a, struct range heads, real *dqkv, const real *dout,
                        real *scratch) {
    const size_t T = a->T, row = attention_row(a);
    for (size_t i = heads.begin; i < heads.end; i++) {
        const struct head head = head_at(a, i, own_scratch(a, scratch));
        const struct matrix k = matrix_of(head.k, row), v = matrix_of(head.v, row);
        const struct matrix dk = matrix_of(dqkv + (head.k - a->qkv), row);
        const struct matrix dv = matrix_of(dqkv + (head.v - a->qkv), row);
        const struct matrix p_t = matrix_of(head.p_t, ROWS), ds_t = matrix_of(head.ds_t, ROWS);
        // The last block comes first. Its queries see every key, so in the group's first head it
        // writes all of dk and dv, and the other blocks and heads add to them.
        for (size_t end = T, begin, count; end > 0; end = begin) {
            const bool first = head.leads && end == T;
            begin = (end - 1) / ROWS * ROWS;
            count = end - begin;
            const struct matrix q = matrix_of(head.q + begin * row, row);
            const struct matrix dq = matrix_of(dqkv + (q.data - a->qkv), row);
            const struct matrix dout_rows =
                matrix_of(dout + head.out_offset + begin * head.out_row, head.out_row);
            products(&head, end, p_t.data, k, count, q, head.q_t);
            products(&head, end, ds_t.data, v, count, dout_rows, head.dout_t);
            for (size_t j = begin; j < end; j += LANES)
                softmax_backward(&head, j, keys_seen(j, end), end, p_t.data + (j - begin),
                                 ds_t.data + (j - begin));
            matmul(count, head.HS, end, matrix_transposed(ds_t), k, dq, matrix_zeros());
            matmul(end, head.HS, count, ds_t, q, dk, first ? matrix_zeros() : dk);
            matmul(end, head.HS, count, p_t, dout_rows, dv, first ? matrix_zeros() : dv);
        }
    }
    profile_lap(PROFILE_ATTENTION);
}

/* A gate after attention, before its projection: out_c = s(z_g) a_c for attention's output a, where
   channel c belongs to gate g, and s(z) = 1 / (1 + exp(-z)).

   Backward, from dout: da_c = s(z_g) dout_c
     dz_g = (1 - s(z_g)) sum_{c of g} dout_c out_c,  since s' = s (1 - s): it needs no a

   With one gate for each head or for each channel. z is a linear function of what the sub-layer
   reads: further columns of c_attn. Qiu et al. 2025 (arXiv:2505.06708), the gate G1, headwise and
   elementwise, and the authors' code, where the gates are columns of the weight of q too. */

void gate_apply(const struct attention *a, size_t M, real *x, const real *qkv, real *dqkv,
                const real *out) {
    const size_t G = a->gates;
    if (!G) return;
    const size_t row = attention_row(a), size = a->C / G;
    for (size_t m = 0, offset = row - G; m < M; m++, offset += row)
        for (size_t g = 0; g < G; g++, x += size) {
            const real s = sigmoid_real(qkv[offset + g]);
            if (dqkv) dqkv[offset + g] = (1 - s) * row_dot(size, x, out + m * a->C + g * size);
#pragma omp simd
            for (size_t c = 0; c < size; c++) x[c] *= s;
        }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* Rotary positions. Element i and element i + HS/2 of a head are a point in the plane. At position
   t of the sequence this point is rotated by the angle t w_i:

     y_i        = x_i cos(t w_i) - x_{i+HS/2} sin(t w_i)         w_i = theta^(-2i / HS)
     y_{i+HS/2} = x_{i+HS/2} cos(t w_i) + x_i sin(t w_i)

   The dot product of a rotated query and a rotated key depends on the difference of their positions
   only. A rotation's transpose is its inverse, so backward rotates by -t w_i.

   Su et al. 2021 (arXiv:2104.09864), who rotate neighbours; with the two halves of a head, as here,
   in Llama. The two differ in the order of a head's columns only. */

void rope_attach(struct rope *rope, size_t T, size_t HS, double theta, struct arena *arena) {
    size_t half = HS / 2;
    real *cosine = arena_reals(arena, T * half), *sine = arena_reals(arena, T * half);
    *rope = (struct rope){HS, cosine, sine};
    if (!cosine) return; // this pass only counts, see arena.h
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)t * pow(theta, -2 * (double)i / (double)HS);
            cosine[t * half + i] = (real)cos(angle);
            sine[t * half + i] = (real)sin(angle);
        }
}

void rope_rotate(const struct rope *rope, size_t T, struct range rows, size_t heads, real direction,
                 real *x, size_t x_row) {
    size_t half = rope->HS / 2;
    if (!rope->HS) return;
    for (size_t n = rows.begin; n < rows.end; n++, x += x_row) {
        const real *cosine = rope->cosine + n % T * half, *sine = rope->sine + n % T * half;
        for (size_t h = 0; h < heads; h++) {
            real *a = x + h * rope->HS, *b = a + half;
#pragma omp simd
            for (size_t i = 0; i < half; i++) {
                real ai = a[i], bi = b[i], s = direction * sine[i];
                a[i] = mul_add(ai, cosine[i], -bi * s);
                b[i] = mul_add(bi, cosine[i], ai * s);
            }
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

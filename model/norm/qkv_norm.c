/* q, k and v are columns of one row per token. Their norms see them as rows of their own, those
   of a token's heads one after another, so they are copied into such rows and back. */
#include "model/norm/qkv_norm.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include <stdio.h>
#include <string.h>

void qkv_norm_attach(struct qkv_norm *qkv, const struct norm_kind *const kind[QKV_COUNT],
                     const size_t heads[QKV_COUNT], double scale, const struct norm_options *norms,
                     const char *name, const struct layout *layout) {
    const size_t N = layout->B * layout->T;
    size_t first = 0;
    for (enum qkv i = QKV_Q; i < QKV_COUNT; first += qkv->columns[i++].width) {
        const size_t rows = qkv->over_width ? 1 : heads[i], width = heads[i] * qkv->HS;
        const struct norm_options of_rows = norm_options_of_heads(norms, heads[i] / rows);
        struct layout layout_of_rows = *layout;
        char site[64] = "";
        qkv->columns[i] = (struct qkv_columns){first, width, heads[i], rows, NULL};
        layout_of_rows.T *= rows;
        layout_of_rows.rows = rows;
        if (kind[i]->forward) snprintf(site, sizeof site, "%s.%c_norm", name, "qkv"[i]);
        norm_attach(&qkv->norm[i], kind[i], &of_rows, site, width / rows, &layout_of_rows);
        if (norm_present(&qkv->norm[i]) || (scale != 0 && i == QKV_Q))
            qkv->raw[i] = arena_reals(layout->arena, N * width);
    }
    if (scale == 0) return;
    qkv->scale = tensor_take(&layout->lists->param, name, "qk_scale", heads[QKV_Q], 0, scale, 0);
    tensor_sums(&qkv->scale, layout);
    qkv->columns[QKV_Q].scale = qkv->scale.value;
}

bool qkv_norm_present(const struct qkv_norm *qkv) {
    bool present = qkv->scale.size > 0;
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) present |= norm_present(&qkv->norm[i]);
    return present;
}

bool qkv_norm_pools(const struct qkv_norm *qkv) {
    bool pools = false;
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) pools |= norm_pools(&qkv->norm[i]);
    return pools;
}

/* The gradient of q^, k^ or v^ in `dnormed`, from token n on. */
static real *dnormed_at(const struct qkv_norm *qkv, enum qkv which, const struct tokens *tokens,
                        real *dnormed, size_t n) {
    const struct qkv_columns *span = &qkv->columns[which];
    return dnormed + span->first * tokens->B * tokens->T + n * span->width;
}

struct tokens qkv_norm_tokens(const struct qkv_norm *qkv, enum qkv which,
                              const struct tokens *tokens) {
    const size_t count = qkv->columns[which].rows;
    struct tokens rows = *tokens;
    rows.T *= count;
    rows.first *= count;
    rows.rows_per_token = qkv->over_width ? 0 : count;
    rows.parts = parts_times(tokens->parts, count);
    return rows;
}

/* Copies M rows (width) of q, k or v, which are so far apart in `to` and in `from`; with a scale
   (heads) each head times t_h sqrt(HS). */
static void copy_rows(const struct qkv_columns *span, const real *scale, size_t M, real *to,
                      size_t to_row, const real *from, size_t from_row) {
    const size_t HS = span->width / span->heads;
    for (size_t m = 0; m < M; m++, to += to_row, from += from_row) {
        if (!scale) memcpy(to, from, span->width * sizeof(real));
        for (size_t h = 0; scale && h < span->heads; h++) {
            const real factor = scale[h] * sqrt_real((real)HS);
#pragma omp simd
            for (size_t c = h * HS; c < (h + 1) * HS; c++) to[c] = factor * from[c];
        }
    }
}

void qkv_norm_gather(const struct qkv_norm *qkv, enum qkv which, struct range rows, real *y,
                     const real *block) {
    const struct qkv_columns *span = &qkv->columns[which];
    copy_rows(span, span->scale, rows.end - rows.begin, y, span->width, block + span->first,
              qkv->E);
}

/* The norm of q, k or v of the tokens `rows`, computed from raw[which]: u, without the learned scale.
   In y (rows,width), which it returns; or in raw[which] itself, if the norm is the identity. */
static const real *one_forward(const struct qkv_norm *qkv, enum qkv which,
                               const struct tokens *tokens, struct range rows, real *y) {
    const struct qkv_columns *span = &qkv->columns[which];
    const struct tokens as = qkv_norm_tokens(qkv, which, tokens);
    const struct range head_rows = {rows.begin * span->rows, rows.end * span->rows};
    return norm_forward(&qkv->norm[which], &as, head_rows, y,
                        qkv->raw[which] + rows.begin * span->width);
}

void qkv_norm_keep(const struct qkv_norm *qkv, struct range rows, const real *block) {
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) {
        const struct qkv_columns *span = &qkv->columns[i];
        if (!qkv->raw[i]) continue;
        copy_rows(span, NULL, rows.end - rows.begin, qkv->raw[i] + rows.begin * span->width,
                  span->width, block + span->first, qkv->E);
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_statistics(const struct qkv_norm *qkv, const struct tokens *tokens) {
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) {
        const struct tokens as = qkv_norm_tokens(qkv, i, tokens);
        norm_statistics(&qkv->norm[i], &as, qkv->raw[i]);
    }
}

void qkv_norm_forward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                      real *block, real *scratch) {
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) {
        const struct qkv_columns *span = &qkv->columns[i];
        if (!qkv->raw[i]) continue;
        const real *y = one_forward(qkv, i, tokens, rows, scratch);
        copy_rows(span, span->scale, rows.end - rows.begin, block + span->first, qkv->E, y,
                  span->width);
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_gradient_statistics(const struct qkv_norm *qkv, const struct tokens *tokens,
                                  real *dnormed, const real *dqkv) {
    const struct range share = team_part(tokens->B * tokens->T, ROWS);
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) {
        if (norm_pools(&qkv->norm[i]))
            qkv_norm_gather(qkv, i, share, dnormed_at(qkv, i, tokens, dnormed, share.begin),
                            dqkv + share.begin * qkv->E);
    }
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) {
        const struct tokens as = qkv_norm_tokens(qkv, i, tokens);
        norm_gradient_statistics(&qkv->norm[i], &as, dnormed_at(qkv, i, tokens, dnormed, 0),
                                 qkv->raw[i]);
    }
}

/* The sums of dt over each row block, from u (rows,C) and dq^ in the columns of `block`
   (rows,E). */
static void add_scale_gradient(const struct qkv_norm *qkv, struct range rows, const real *u,
                               const real *block) {
    const size_t C = qkv->columns[QKV_Q].width, heads = qkv->columns[QKV_Q].heads, HS = qkv->HS;
    for (size_t n = rows.begin; n < rows.end; n++, u += C, block += qkv->E) {
        real *sum = param_sums(&qkv->scale, n); // (NH)
        if (n % ROWS == 0) memset(sum, 0, heads * sizeof(real));
        for (size_t h = 0; h < heads; h++)
            sum[h] += sqrt_real((real)HS) * row_dot(HS, u + h * HS, block + h * HS);
    }
}

void qkv_norm_backward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                       real *block, real *dnormed, real *scratch) {
    const size_t M = rows.end - rows.begin;
    real *gathered = scratch + M * qkv->columns[QKV_Q].width;
    for (enum qkv i = QKV_Q; i < QKV_COUNT; i++) {
        const struct qkv_columns *span = &qkv->columns[i];
        const struct tokens as = qkv_norm_tokens(qkv, i, tokens);
        const struct range head_rows = {rows.begin * span->rows, rows.end * span->rows};
        if (!qkv->raw[i]) continue;
        if (span->scale)
            add_scale_gradient(qkv, rows, one_forward(qkv, i, tokens, rows, scratch), block);
        const bool pools = norm_pools(&qkv->norm[i]);
        const real *dy = pools ? dnormed_at(qkv, i, tokens, dnormed, rows.begin) : gathered;
        if (!pools) qkv_norm_gather(qkv, i, rows, gathered, block);
        const real *x = qkv->raw[i] + rows.begin * span->width;
        const real *dx = norm_backward(&qkv->norm[i], &as, head_rows, scratch, dy, x);
        copy_rows(span, NULL, M, block + span->first, qkv->E, dx, span->width);
        profile_lap(PROFILE_NORM);
    }
}

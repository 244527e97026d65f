#include "model/norm/qkv_norm.h"
#include "model/math/profile.h"
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include <stdio.h>
#include <string.h>

/* Whether the part is multiplied by the learned scale. */
static bool is_scaled(const struct qkv_norm *qkv, enum qkv_part part) {
    return qkv->scaled && part == QKV_Q;
}

void qkv_norm_attach(struct qkv_norm *qkv, const struct qkv_norm_options *options,
                     const struct norm_options *norms, const char *name, size_t C, size_t heads,
                     const struct layout *layout) {
    const struct norm_options of_head = norm_options_of_head(norms);
    const size_t N = layout->B * layout->T;
    struct layout of_rows = *layout;
    *qkv = (struct qkv_norm){.C = C,
                             .heads = heads,
                             .over_width = options->over_width,
                             .rows = options->over_width ? 1 : heads,
                             .scaled = options->scale != 0};
    of_rows.T *= qkv->rows;
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++) {
        char site[64] = "";
        if (options->kind[i]->forward) snprintf(site, sizeof site, "%s.%c_norm", name, "qkv"[i]);
        norm_attach(&qkv->norm[i], options->kind[i], options->over_width ? norms : &of_head, site,
                    C / qkv->rows, &of_rows);
        if (norm_present(&qkv->norm[i]) || is_scaled(qkv, i))
            qkv->raw[i] = arena_reals(layout->arena, N * C);
    }
    if (!qkv->scaled) return;
    char site[64];
    snprintf(site, sizeof site, "%s.qk_scale", name);
    qkv->scale = tensor_take(&layout->lists->param, site, heads, 0, options->scale, 0);
    qkv->scale_sum = arena_reals(layout->arena, team_row_blocks(N) * heads);
}

bool qkv_norm_part_pools(const struct qkv_norm *qkv, enum qkv_part part) {
    return norm_pools(&qkv->norm[part]);
}

bool qkv_norm_pools(const struct qkv_norm *qkv) {
    bool pools = false;
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++) pools |= qkv_norm_part_pools(qkv, i);
    return pools;
}

/* The tokens with a norm's rows in the place of its tokens. */
static struct tokens as_rows(const struct qkv_norm *qkv, const struct tokens *tokens) {
    struct tokens rows = *tokens;
    rows.T *= qkv->rows;
    rows.first *= qkv->rows;
    rows.rows_per_token = qkv->rows;
    return rows;
}

/* to (C) = from (C), or with `scaled` each head times t_h sqrt(HS). */
static void copy_row(const struct qkv_norm *qkv, bool scaled, real *to, const real *from) {
    const size_t HS = qkv->C / qkv->heads;
    if (!scaled) {
        memcpy(to, from, qkv->C * sizeof(real));
        return;
    }
    for (size_t h = 0; h < qkv->heads; h++, to += HS, from += HS) {
        const real factor = qkv->scale.value[h] * sqrt_real((real)HS);
#pragma omp simd
        for (size_t c = 0; c < HS; c++) to[c] = factor * from[c];
    }
}

/* Copies rows (M,C) from and to columns of rows (M,3C). */
static void gather(const struct qkv_norm *qkv, bool scaled, size_t M, real *rows,
                   const real *columns) {
    const size_t C = qkv->C;
    for (size_t m = 0; m < M; m++) copy_row(qkv, scaled, rows + m * C, columns + m * 3 * C);
}

static void scatter(const struct qkv_norm *qkv, bool scaled, size_t M, real *columns,
                    const real *rows) {
    const size_t C = qkv->C;
    for (size_t m = 0; m < M; m++) copy_row(qkv, scaled, columns + m * 3 * C, rows + m * C);
}

const real *qkv_norm_part_forward(const struct qkv_norm *qkv, enum qkv_part part,
                                  const struct tokens *tokens, struct range rows, real *y) {
    const struct tokens as = as_rows(qkv, tokens);
    const struct range all = {rows.begin * qkv->rows, rows.end * qkv->rows};
    const size_t width = qkv->C / qkv->rows;
    const real *x = qkv->raw[part] + rows.begin * qkv->C;
    if (!norm_present(&qkv->norm[part])) return x;
    for (size_t n = all.begin; n < all.end; n += ROWS) {
        const size_t at = (n - all.begin) * width;
        norm_forward(&qkv->norm[part], &as, team_row_block(n, all), y + at, x + at);
    }
    return y;
}

/* Its backward: from dy (ROWS,C). */
static const real *differentiated(const struct qkv_norm *qkv, enum qkv_part part,
                                  const struct tokens *tokens, struct range rows, real *dx,
                                  const real *dy) {
    const struct tokens as = as_rows(qkv, tokens);
    const struct range all = {rows.begin * qkv->rows, rows.end * qkv->rows};
    const size_t width = qkv->C / qkv->rows;
    const real *x = qkv->raw[part] + rows.begin * qkv->C;
    if (!norm_present(&qkv->norm[part])) return dy;
    for (size_t n = all.begin; n < all.end; n += ROWS) {
        const size_t at = (n - all.begin) * width;
        norm_backward(&qkv->norm[part], &as, team_row_block(n, all), dx + at, dy + at, x + at);
    }
    return dx;
}

void qkv_norm_keep(const struct qkv_norm *qkv, struct range rows, const real *block) {
    const size_t C = qkv->C;
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++) {
        if (!qkv->raw[i]) continue;
        gather(qkv, false, rows.end - rows.begin, qkv->raw[i] + rows.begin * C, block + i * C);
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_statistics(const struct qkv_norm *qkv, const struct tokens *tokens) {
    const struct tokens as = as_rows(qkv, tokens);
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++)
        norm_statistics(&qkv->norm[i], &as, qkv->raw[i]);
}

void qkv_norm_forward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                      real *block, real *scratch) {
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++) {
        if (!qkv->raw[i]) continue;
        const real *y = qkv_norm_part_forward(qkv, i, tokens, rows, scratch);
        scatter(qkv, is_scaled(qkv, i), rows.end - rows.begin, block + i * qkv->C, y);
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_gradient_statistics(const struct qkv_norm *qkv, const struct tokens *tokens,
                                  real *const dnormed[QKV_PARTS], const real *dqkv) {
    if (!qkv_norm_pools(qkv)) return;
    const struct tokens as = as_rows(qkv, tokens);
    const struct range own = team_part(tokens->B * tokens->T, ROWS);
    const size_t C = qkv->C;
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++)
        if (qkv_norm_part_pools(qkv, i))
            gather(qkv, is_scaled(qkv, i), own.end - own.begin, dnormed[i] + own.begin * C,
                   dqkv + own.begin * 3 * C + i * C);
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++)
        norm_gradient_statistics(&qkv->norm[i], &as, dnormed[i], qkv->raw[i]);
}

/* The sums of dt over a block, from u (rows,C) and dq^ in the columns of `block` (rows,3C). */
static void add_scale_gradient(const struct qkv_norm *qkv, struct range rows, const real *u,
                               const real *block) {
    const size_t HS = qkv->C / qkv->heads;
    real *sum = qkv->scale_sum + rows.begin / ROWS * qkv->heads; // (NH)
    memset(sum, 0, qkv->heads * sizeof(real));
    for (size_t n = rows.begin; n < rows.end; n++, u += qkv->C, block += 3 * qkv->C)
        for (size_t h = 0; h < qkv->heads; h++)
            sum[h] += sqrt_real((real)HS) * row_dot(HS, u + h * HS, block + h * HS);
}

void qkv_norm_backward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                       real *block, real *const dnormed[QKV_PARTS], real *scratch) {
    const size_t C = qkv->C, M = rows.end - rows.begin;
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++) {
        if (!qkv->raw[i]) continue;
        real *columns = block + i * C, *gathered = scratch + ROWS * C;
        if (is_scaled(qkv, i))
            add_scale_gradient(qkv, rows, qkv_norm_part_forward(qkv, i, tokens, rows, scratch),
                               columns);
        const bool pools = qkv_norm_part_pools(qkv, i);
        const real *dy = pools ? dnormed[i] + rows.begin * C : gathered;
        if (!pools) gather(qkv, is_scaled(qkv, i), M, gathered, columns);
        scatter(qkv, false, M, columns, differentiated(qkv, i, tokens, rows, scratch, dy));
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_gradient(const struct qkv_norm *qkv, size_t N) {
    for (enum qkv_part i = QKV_Q; i < QKV_PARTS; i++) norm_gradient(&qkv->norm[i], N * qkv->rows);
    if (qkv->scaled) team_add_blocks(N, qkv->heads, qkv->scale.grad, qkv->scale_sum);
}

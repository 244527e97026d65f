#include "model/norm/qkv_norm.h"
#include "model/math/profile.h"
#include <stdio.h>
#include <string.h>

void qkv_norm_attach(struct qkv_norm *qkv, const struct qkv_norm_options *options,
                     const struct norm_options *norms, const char *name, size_t C, size_t heads,
                     const struct layout *layout) {
    const struct norm_options of_head = norm_options_of_head(norms);
    struct layout of_rows = *layout;
    *qkv = (struct qkv_norm){.C = C, .rows = options->over_width ? 1 : heads};
    of_rows.T *= qkv->rows;
    for (int i = 0; i < QKV_PARTS; i++) {
        char site[64];
        snprintf(site, sizeof site, "%s.%c_norm", name, "qkv"[i]);
        norm_attach(&qkv->norm[i], options->kind[i], options->over_width ? norms : &of_head, site,
                    C / qkv->rows, &of_rows);
        if (norm_present(&qkv->norm[i]))
            qkv->raw[i] = arena_reals(layout->arena, layout->B * layout->T * C);
    }
}

bool qkv_norm_part_pools(const struct qkv_norm *qkv, enum qkv_part part) {
    return norm_pools(&qkv->norm[part]);
}

bool qkv_norm_pools(const struct qkv_norm *qkv) {
    bool pools = false;
    for (int i = 0; i < QKV_PARTS; i++) pools |= qkv_norm_part_pools(qkv, i);
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

/* Copies rows (M,C) from and to columns of rows (M,3C). */
static void gather(size_t M, size_t C, real *rows, const real *columns) {
    for (size_t m = 0; m < M; m++) memcpy(rows + m * C, columns + m * 3 * C, C * sizeof(real));
}

static void scatter(size_t M, size_t C, real *columns, const real *rows) {
    for (size_t m = 0; m < M; m++) memcpy(columns + m * 3 * C, rows + m * C, C * sizeof(real));
}

void qkv_norm_keep(const struct qkv_norm *qkv, struct range rows, const real *block) {
    const size_t C = qkv->C;
    for (size_t i = 0; i < QKV_PARTS; i++) {
        if (!qkv->raw[i]) continue;
        gather(rows.end - rows.begin, C, qkv->raw[i] + rows.begin * C, block + i * C);
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_statistics(const struct qkv_norm *qkv, const struct tokens *tokens) {
    const struct tokens as = as_rows(qkv, tokens);
    for (int i = 0; i < QKV_PARTS; i++) norm_statistics(&qkv->norm[i], &as, qkv->raw[i]);
}

void qkv_norm_forward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                      real *block, real *scratch) {
    const struct tokens as = as_rows(qkv, tokens);
    const struct range all = {rows.begin * qkv->rows, rows.end * qkv->rows};
    const size_t C = qkv->C, width = C / qkv->rows;
    for (size_t i = 0; i < QKV_PARTS; i++) {
        if (!qkv->raw[i]) continue;
        for (size_t n = all.begin; n < all.end; n += ROWS)
            norm_forward(&qkv->norm[i], &as, team_row_block(n, all),
                         scratch + (n - all.begin) * width, qkv->raw[i] + n * width);
        scatter(rows.end - rows.begin, C, block + i * C, scratch);
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_gradient_statistics(const struct qkv_norm *qkv, const struct tokens *tokens,
                                  real *const dnormed[QKV_PARTS], const real *dqkv) {
    if (!qkv_norm_pools(qkv)) return;
    const struct tokens as = as_rows(qkv, tokens);
    const struct range own = team_part(tokens->B * tokens->T, ROWS);
    const size_t C = qkv->C;
    for (size_t i = 0; i < QKV_PARTS; i++)
        if (qkv_norm_part_pools(qkv, i))
            gather(own.end - own.begin, C, dnormed[i] + own.begin * C,
                   dqkv + own.begin * 3 * C + i * C);
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (int i = 0; i < QKV_PARTS; i++)
        norm_gradient_statistics(&qkv->norm[i], &as, dnormed[i], qkv->raw[i]);
}

void qkv_norm_backward(const struct qkv_norm *qkv, const struct tokens *tokens, struct range rows,
                       real *block, real *const dnormed[QKV_PARTS], real *scratch) {
    const struct tokens as = as_rows(qkv, tokens);
    const struct range all = {rows.begin * qkv->rows, rows.end * qkv->rows};
    const size_t C = qkv->C, width = C / qkv->rows, M = rows.end - rows.begin;
    real *dx = scratch, *gathered = scratch + ROWS * C;
    for (size_t i = 0; i < QKV_PARTS; i++) {
        if (!qkv->raw[i]) continue;
        const bool pools = qkv_norm_part_pools(qkv, i);
        const real *dy = pools ? dnormed[i] + rows.begin * C : gathered;
        if (!pools) gather(M, C, gathered, block + i * C);
        for (size_t n = all.begin; n < all.end; n += ROWS) {
            const size_t at = (n - all.begin) * width;
            norm_backward(&qkv->norm[i], &as, team_row_block(n, all), dx + at, dy + at,
                          qkv->raw[i] + n * width);
        }
        scatter(M, C, block + i * C, dx);
        profile_lap(PROFILE_NORM);
    }
}

void qkv_norm_gradient(const struct qkv_norm *qkv, size_t N) {
    for (int i = 0; i < QKV_PARTS; i++)
        if (qkv->raw[i]) norm_gradient(&qkv->norm[i], N * qkv->rows);
}

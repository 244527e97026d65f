#include "model/norm/qk_norm.h"
#include "model/math/profile.h"
#include <stdio.h>
#include <string.h>

/* The tokens' heads: a row for each token and head. */
static struct tokens of_heads(const struct qk_norm *qk, const struct tokens *tokens) {
    struct tokens heads = *tokens;
    heads.T *= qk->heads;
    heads.first *= qk->heads;
    heads.rows_per_token = qk->heads;
    return heads;
}

void qk_norm_attach(struct qk_norm *qk, const struct norm_kind *kind,
                    const struct norm_options *options, const char *name, size_t C, size_t heads,
                    const struct layout *layout) {
    *qk = (struct qk_norm){.C = C, .heads = kind->forward ? heads : 0};
    if (!qk->heads) return;
    const struct norm_options of_head = norm_options_of_head(options);
    struct layout of_rows = *layout; // a row for each token and head
    of_rows.T *= heads;
    for (int i = 0; i < 2; i++) {
        char site[64];
        snprintf(site, sizeof site, "%s.%c_norm", name, "qk"[i]);
        norm_attach(&qk->norm[i], kind, &of_head, site, C / heads, &of_rows);
        qk->raw[i] = arena_reals(layout->arena, layout->B * layout->T * C);
    }
}

/* Copies rows (M,C) from and to columns of rows (M,3C). */
static void gather(size_t M, size_t C, real *rows, const real *columns) {
    for (size_t m = 0; m < M; m++) memcpy(rows + m * C, columns + m * 3 * C, C * sizeof(real));
}

static void scatter(size_t M, size_t C, real *columns, const real *rows) {
    for (size_t m = 0; m < M; m++) memcpy(columns + m * 3 * C, rows + m * C, C * sizeof(real));
}

void qk_norm_keep(const struct qk_norm *qk, struct range rows, const real *qkv) {
    size_t C = qk->C;
    for (size_t i = 0; qk->heads && i < 2; i++)
        gather(rows.end - rows.begin, C, qk->raw[i] + rows.begin * C, qkv + i * C);
    if (qk->heads) profile_lap(PROFILE_NORM);
}

void qk_norm_statistics(const struct qk_norm *qk, const struct tokens *tokens) {
    struct tokens heads = of_heads(qk, tokens);
    for (int i = 0; qk->heads && i < 2; i++) norm_statistics(&qk->norm[i], &heads, qk->raw[i]);
}

/* A block's columns of q and k in `columns` (rows,3C): their norms, or with dnormed[] the gradients
   of q and k. */
static void replace(const struct qk_norm *qk, const struct tokens *tokens, struct range rows,
                    real *columns, real *const *dnormed, real *scratch) {
    if (!qk->heads) return;
    const struct tokens heads = of_heads(qk, tokens);
    const size_t C = qk->C, HS = qk->norm[0].C;
    const struct range all = {rows.begin * qk->heads, rows.end * qk->heads};
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = all.begin; n < all.end; n += ROWS) {
            const struct range block = team_row_block(n, all);
            const real *x = qk->raw[i] + n * HS;
            real *result = scratch + (n - all.begin) * HS;
            if (dnormed)
                norm_backward(&qk->norm[i], &heads, block, result, dnormed[i] + n * HS, x);
            else
                norm_forward(&qk->norm[i], &heads, block, result, x);
        }
        scatter(rows.end - rows.begin, C, columns + i * C, scratch);
    }
    profile_lap(PROFILE_NORM);
}

void qk_norm_forward(const struct qk_norm *qk, const struct tokens *tokens, struct range rows,
                     real *qkv, real *scratch) {
    replace(qk, tokens, rows, qkv, NULL, scratch);
}

void qk_norm_gradient_statistics(const struct qk_norm *qk, const struct tokens *tokens,
                                 real *const dnormed[2], const real *dqkv) {
    if (!qk->heads) return;
    struct tokens heads = of_heads(qk, tokens);
    struct range own = team_part(tokens->B * tokens->T, ROWS);
    size_t C = qk->C;
    for (size_t i = 0; i < 2; i++)
        gather(own.end - own.begin, C, dnormed[i] + own.begin * C,
               dqkv + own.begin * 3 * C + i * C);
    profile_lap(PROFILE_NORM);
    team_barrier();
    for (int i = 0; i < 2; i++)
        norm_gradient_statistics(&qk->norm[i], &heads, dnormed[i], qk->raw[i]);
}

void qk_norm_backward(const struct qk_norm *qk, const struct tokens *tokens, struct range rows,
                      real *dqkv, real *const dnormed[2], real *scratch) {
    replace(qk, tokens, rows, dqkv, dnormed, scratch);
}

void qk_norm_gradient(const struct qk_norm *qk, size_t N) {
    for (int i = 0; qk->heads && i < 2; i++) norm_gradient(&qk->norm[i], N * qk->heads);
}

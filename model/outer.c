/* What is between the embedding and the first layer, and between the last layer and the head: the
   lines of the embeddings' scale, EMBEDDING, READ and FINAL in the table of model_pass.c, forward
   and backward. */
#include "model/outer.h"
#include "model/layer/residual.h"
#include "model/math/reduce.h"

/* y (B,T,C) = norm(x), for a norm outside the layers; nothing if it is the identity. */
static void outer_norm_forward(const struct norm *norm, const struct pass *pass, real *y,
                               const real *x) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * norm->C;
    norm_statistics(norm, &pass->tokens, x);
    if (norm_present(norm)) norm_forward(norm, &pass->tokens, own, y + at, x + at);
}

/* dx (B,T,C) from dy (B,T,C). Returns dx, or dy if the norm is the identity. */
static real *outer_norm_backward(const struct norm *norm, const struct pass *pass, real *dx,
                                 real *dy, const real *x) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * norm->C;
    norm_gradient_statistics(norm, &pass->tokens, dy, x);
    if (!norm_present(norm)) return dy;
    norm_backward(norm, &pass->tokens, own, dx + at, dy + at, x + at);
    return dx;
}

/* embedded = scale unscaled, with a learned scale. */
static void scale_forward(const struct model *m, const struct pass *pass) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * m->C;
    if (gain_present(&m->embd_scale))
        gain_forward(&m->embd_scale, own.end - own.begin, m->embedded + at, m->C, m->unscaled + at,
                     m->C);
}

/* The gradient d (B,T,C) of `embedded` becomes that of `unscaled`. */
static void scale_backward(const struct model *m, const struct pass *pass, real *d) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * m->C;
    if (gain_present(&m->embd_scale))
        gain_backward(&m->embd_scale, own.begin / ROWS, own.end - own.begin, d + at, m->C,
                      m->unscaled + at, m->C);
}

void outer_start_forward(const struct model *m, const struct pass *pass) {
    scale_forward(m, pass);
    outer_norm_forward(&m->embedding_norm, pass, m->stream_in, m->embedded);
}

void outer_end_forward(const struct model *m, const struct pass *pass) {
    const struct connection *end = &m->end;
    norm_statistics(&end->norm, &pass->tokens, end->norm_in);
    if (end->kind) end->kind->functions->read(end, &pass->tokens, team_part_rows(pass->rows));
    outer_norm_forward(&m->final, pass, m->final_out, model_final_in(m));
}

size_t outer_end_backward(const struct model *m, const struct pass *pass) {
    const struct connection *end = &m->end;
    struct range own = team_part_rows(pass->rows);
    size_t now = norm_present(&m->final) ? 1 : 0;
    real *d = outer_norm_backward(&m->final, pass, m->dstream[1], m->dstream[0], model_final_in(m));
    norm_gradient_statistics(&end->norm, &pass->tokens, d, end->norm_in);
    d += own.begin * m->C;
    if (end->kind) end->kind->functions->read_backward(end, &pass->tokens, own, d, NULL, d, NULL);
    return now;
}

/* d (B,T,C) += the gradient that the embeddings get beside that of stream_in. */
static void add_dembedded(const struct model *m, const struct pass *pass, real *d) {
    struct range own = team_part_rows(pass->rows);
    size_t at = own.begin * m->C, count = (own.end - own.begin) * m->C;
    const real *beside = m->layer[0].attention.connection.dembedded;
    if (beside) residual_add(count, d + at, 1, d + at, beside + at);
}

/* The sums of squares that probe.h reads. */
static void probe_stream_in(const struct model *m, const struct pass *pass, const real *dx) {
    struct range own = team_part_rows(pass->rows);
    for (size_t n = own.begin; n < own.end; n += ROWS) {
        size_t M = team_row_block(n, own).end - n;
        m->dstream_in_squares[n / ROWS] = row_dot(M * m->C, dx + n * m->C, dx + n * m->C);
    }
}

const real *outer_start_backward(const struct model *m, const struct pass *pass, real *dx,
                                 real *dstream_in) {
    const bool same = !norm_present(&m->embedding_norm);
    if (same) add_dembedded(m, pass, dstream_in);
    if (pass->tokens.probe) probe_stream_in(m, pass, dstream_in);
    real *d = outer_norm_backward(&m->embedding_norm, pass, dx, dstream_in, m->embedded);
    if (!same) add_dembedded(m, pass, d);
    scale_backward(m, pass, d);
    return d;
}

void outer_gradient(const struct model *m, const struct parts *parts) {
    gain_gradient(&m->embd_scale, parts);
    norm_gradient(&m->embedding_norm, parts);
    norm_gradient(&m->final, parts);
    if (m->end.kind) connection_gradient(&m->end, parts);
}

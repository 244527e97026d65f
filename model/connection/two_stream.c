/* A second stream r beside x. Both start as the embeddings, x after the norm there.

     u = x, or where READ has the norm N: x + N(r)
     sum = a x + b drop(f)
     r' = r + drop(f)

   The head reads x + N(r).

   Backward, where dr' is the gradient of r':
     df = drop(b dsum + dr')
     dx = a dsum + du,  dr = dr' + N'(du)

   Xie et al. 2023, ResiDual (arXiv:2304.14802), whose READ has no norm; Li et al. 2026, SiameseNorm
   (arXiv:2602.08064). */
#include "model/connection/connection.h"

/* r' (B,T,C), in place if no norm reads r; and dr (B,T,C), of all sub-layers and in place. */
enum { R, DR };

static void attach(struct connection *c, const struct layout *layout) {
    const size_t size = layout->B * layout->T * c->C;
    const struct connection *previous = c->previous;
    c->norm_in = previous ? previous->buffer[R] : c->embedded;
    c->buffer[DR] = previous ? previous->buffer[DR] : arena_reals(layout->arena, size);
    c->dembedded = c->buffer[DR]; // r starts as the embeddings, before a norm
    if (c->end || c->kind->norm) c->u = arena_reals(layout->arena, size);
    if (c->end) return;
    c->buffer[R] =
        previous && !c->kind->norm ? previous->buffer[R] : arena_reals(layout->arena, size);
}

/* u = x + N(r) */
static void two_stream_read(const struct connection *c, const struct tokens *tokens,
                            struct range rows) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    if (!c->u) return;
    real *u = c->u + elements.begin;
    const real *normed = norm_forward(&c->norm, tokens, rows, u, c->norm_in + elements.begin);
    dropout_axpby(elements, u, 1, c->x + elements.begin, 1, normed, (struct dropout){0});
}

static void two_stream_write(const struct connection *c, struct range rows, const real *f,
                             struct dropout drop) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    dropout_axpby(elements, c->buffer[R] + elements.begin, 1, c->norm_in + elements.begin, 1, f,
                  drop);
    dropout_axpby(elements, c->sum + elements.begin, c->a, c->x + elements.begin, c->b, f, drop);
}

/* df = drop(b dsum + dr') */
static void two_stream_write_backward(const struct connection *c, struct range rows, real *df,
                                      const real *dsum, struct dropout drop) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    dropout_axpby(elements, df, c->b, dsum, 1, c->buffer[DR] + elements.begin, (struct dropout){0});
    if (drop.threshold) dropout_axpby(elements, df, 0, NULL, 1, df, drop);
}

/* dx = a dsum + du, dr = dr' + N'(du); at the end, where nothing comes after r, dr = N'(du). */
static void two_stream_read_backward(const struct connection *c, const struct tokens *tokens,
                                     struct range rows, real *dx, const real *dsum, const real *du,
                                     real *scratch) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    const struct dropout none = {0};
    real *dr = c->buffer[DR] + elements.begin;
    if (!c->end) dropout_axpby(elements, dx, c->a, dsum, 1, du, none);
    if (!c->u) return;
    const real *of_norm =
        norm_backward(&c->norm, tokens, rows, scratch, du, c->norm_in + elements.begin);
    dropout_axpby(elements, dr, 1, c->end ? NULL : dr, 1, of_norm, none);
}

static const struct connection_functions two_stream = {.attach = attach,
                                                       .read = two_stream_read,
                                                       .read_backward = two_stream_read_backward,
                                                       .write = two_stream_write,
                                                       .write_backward = two_stream_write_backward,
                                                       .writes_df = true};

const struct connection_kind connection_residual = {
    .name = "residual",
    .formula = "a x + b f, and a second stream r, initially the embedding, becomes r + f; the "
               "head reads x + N(r)",
    .source = "Xie et al. 2023, ResiDual (arXiv:2304.14802)",
    .final = true,
    .streams = true,
    .functions = &two_stream,
};

const struct connection_kind connection_siamese = {
    .name = "siamese",
    .formula = "u = x + N(r); x becomes a x + b f, and a second stream r, initially the "
               "embedding, becomes r + f; the head reads x + N(r)",
    .source = "Li et al. 2026, SiameseNorm (arXiv:2602.08064), the authors' code",
    .norm = "second",
    .streams = true,
    .functions = &two_stream,
};

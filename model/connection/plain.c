/* The residual connection with constant factors:

     sum = a x + b drop(f)

   Backward: df = drop(b dsum),  dx = a dsum + du

   He et al. 2016, equation 1 (arXiv:1512.03385); a and b are the placement's. */
#include "model/connection/connection.h"

static void plain_write(const struct connection *c, struct range rows, const real *f,
                        struct dropout drop) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    dropout_axpby(elements, c->sum + elements.begin, c->a, c->x + elements.begin, c->b, f, drop);
}

static void plain_read_backward(const struct connection *c, const struct tokens *tokens,
                                struct range rows, real *dx, const real *dsum, const real *du,
                                real *scratch) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    dropout_axpby(elements, dx, c->a, dsum, 1, du, (struct dropout){0});
}

static const struct connection_functions plain = {.read_backward = plain_read_backward,
                                                  .write = plain_write,
                                                  .write_backward = connection_branch_backward};

const struct connection_kind connection_plain = {
    .name = "plain",
    .formula = "a x + b f",
    .source = "He et al. 2016, equation 1, ResNet (arXiv:1512.03385)",
    .functions = &plain,
};

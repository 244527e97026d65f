#include "model/connection/connection.h"
#include <stdio.h>

// clang-format off
#define CONNECTION(kind) extern const struct connection_kind connection_##kind;
#include "model/connection/list.h"
#undef CONNECTION

const struct connection_kind *const connection_kinds[] = {
#define CONNECTION(kind) &connection_##kind,
#include "model/connection/list.h"
#undef CONNECTION
    NULL};
// clang-format on

const struct connection_kind *connection_find(const char *name) {
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        if (!strcmp((*kind)->name, name)) return *kind;
    return NULL;
}

void connection_attach(struct connection *c, const struct connection_options *o, const real *x,
                       const struct layout *layout) {
    const struct norm norm = c->norm;
    *c = (struct connection){.kind = o->kind,
                             .previous = o->previous,
                             .end = o->end,
                             .C = o->C,
                             .site = 2 * o->layer + !o->attention,
                             .a = (real)o->a,
                             .b = (real)o->b,
                             .x = x,
                             .norm = norm,
                             .starts = true,
                             .ends = true};
    o->kind->functions->attach(c, o, layout);
}

void connection_param(struct connection *c, size_t i, const char *name, size_t rows, size_t columns,
                      double start, const struct layout *layout) {
    char full[TENSOR_NAME];
    if (c->end)
        snprintf(full, sizeof full, "transformer.%s", name);
    else
        snprintf(full, sizeof full, "transformer.h.%zu.%s", c->site / 2, name);
    c->size[i] = rows * (columns ? columns : 1);
    c->param[i] = tensor_take(&layout->lists->param, full, rows, columns, start, 0);
    c->partial[i] = arena_reals(layout->arena, team_row_blocks(layout->B * layout->T) * c->size[i]);
}

void connection_gradient(const struct connection *c, const struct parts *parts) {
    norm_gradient(&c->norm, parts);
    for (size_t i = 0; i < CONNECTION_PARAMS && c->size[i] && c->ends; i++)
        parts_add_blocks(parts, c->size[i], &c->param[i], c->partial[i]);
}

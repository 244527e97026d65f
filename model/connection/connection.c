/* The list of connections, made from list.h, and how a connection declares its parameters: each
   has the name of its layer, and its gradient is first summed over row blocks. */
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

const struct option *const *connection_option_list(void) {
    static const struct option *list[KIND_OPTIONS_MAX + 1];
    if (!list[0])
        for (size_t k = 0; connection_kinds[k]; k++)
            options_add(list, connection_kinds[k]->options);
    return list;
}

union option_data connection_option(const struct connection *c, const struct option *option) {
    return c->options.value[options_place(connection_option_list(), option)];
}

const struct connection_kind *connection_find(const char *name) {
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        if (!strcmp((*kind)->name, name)) return *kind;
    return NULL;
}

void connection_attach(struct connection *c, const struct layout *layout) {
    c->starts = c->ends = true;
    if (c->kind->functions->attach) c->kind->functions->attach(c, layout);
}

void connection_param(struct connection *c, size_t i, const char *name, size_t rows, size_t columns,
                      double start, const struct layout *layout) {
    char module[TENSOR_NAME] = "transformer";
    if (!c->end) snprintf(module, sizeof module, "transformer.h.%zu", c->site / 2);
    c->param[i] = tensor_take(&layout->lists->param, module, name, rows, columns, start, 0);
    tensor_sums(&c->param[i], layout);
}

void connection_branch_backward(const struct connection *c, struct range rows, real *df,
                                const real *dsum, struct dropout drop) {
    const struct range elements = {rows.begin * c->C, rows.end * c->C};
    if (df) dropout_axpby(elements, df, 0, NULL, c->b, dsum, drop);
}

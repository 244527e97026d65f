#include "model/norm/kinds.h"
#include "data/die.h"
#include <string.h>

// clang-format off
#define NORM(kind) extern const struct norm_kind norm_##kind;
#include "model/norm/list.h"
#undef NORM

const struct norm_kind *const norm_kinds[] = {
#define NORM(kind) &norm_##kind,
#include "model/norm/list.h"
#undef NORM
    NULL};
// clang-format on

const struct norm_kind *norm_find(const char *name) {
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if (!strcmp((*kind)->name, name)) return *kind;
    return NULL;
}

/* Inserts the option after those of the same or a lower rank, unless it is there already. */
static void insert(const struct norm_option **list, const struct norm_option *option) {
    size_t count = 0, at = 0;
    for (; list[count]; count++) {
        if (list[count] == option) return;
        if (list[count]->rank <= option->rank) at = count + 1;
    }
    if (count == NORM_OPTIONS_MAX)
        die(STATUS_USAGE, "--%s: norms have too many options (raise NORM_OPTIONS_MAX)",
            option->name);
    memmove(list + at + 1, list + at, (count - at) * sizeof *list);
    list[at] = option;
}

const struct norm_option *const *norm_option_list(void) {
    static const struct norm_option *list[NORM_OPTIONS_MAX + 1];
    if (!list[0])
        for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
            for (int i = 0; (*kind)->options[i]; i++) insert(list, (*kind)->options[i]);
    return list;
}

bool norm_kind_has(const struct norm_kind *kind, const struct norm_option *option) {
    for (int i = 0; kind->options[i]; i++)
        if (kind->options[i] == option) return true;
    return false;
}

union norm_value norm_option_value(const struct norm_options *options,
                                   const struct norm_option *option) {
    const struct norm_option *const *list = norm_option_list();
    for (size_t i = 0; list[i]; i++)
        if (list[i] == option) return options->value[i];
    die(STATUS_USAGE, "--%s: no norm of model/norm/list.h has this option", option->name);
}

struct norm_options norm_options_of_heads(const struct norm_options *options, size_t heads) {
    struct norm_options of_heads = *options;
    const struct norm_option *const *list = norm_option_list();
    of_heads.heads = (int64_t)heads;
    for (size_t i = 0; list[i]; i++) {
        int64_t *value = &of_heads.value[i].integer;
        if (list[i]->auto_rule != NORM_AUTO_HEADS) continue;
        *value = heads == 1 ? 1 : *value * (int64_t)heads / options->heads;
        if (!*value) *value = 1;
    }
    return of_heads;
}

#include "model/optimizer/kinds.h"
#include "data/die.h"
#include <string.h>

// clang-format off
#define OPTIMIZER(kind) extern const struct optimizer_kind optimizer_##kind;
#include "model/optimizer/list.h"
#undef OPTIMIZER

const struct optimizer_kind *const optimizer_kinds[] = {
#define OPTIMIZER(kind) &optimizer_##kind,
#include "model/optimizer/list.h"
#undef OPTIMIZER
    NULL};
// clang-format on

/* The index of an option, or of the list's end. */
static size_t find(const struct optimizer_option *const *list, const char *name) {
    size_t i = 0;
    while (list[i] && strcmp(list[i]->name, name) != 0) i++;
    return i;
}

const struct optimizer_option *const *optimizer_option_list(void) {
    static const struct optimizer_option *list[OPTIMIZER_OPTIONS_MAX + 1];
    if (list[0]) return list;
    for (size_t k = 0; optimizer_kinds[k]; k++)
        for (const struct optimizer_option *const *o = optimizer_kinds[k]->options; *o; o++) {
            size_t at = find(list, (*o)->name);
            if (at == OPTIMIZER_OPTIONS_MAX)
                die(STATUS_USAGE,
                    "--%s: optimizers have too many options (raise OPTIMIZER_OPTIONS_MAX)",
                    (*o)->name);
            list[at] = *o;
        }
    return list;
}

const char *optimizer_option_name(const struct optimizer_kind *kind, size_t i) {
    size_t own = 0;
    while (kind->options[own]) own++;
    if (i < own) return kind->options[i]->name;
    const struct optimizer_option *const *others = optimizer_kinds[0]->options;
    for (; kind->takes && *others; others++)
        if (i-- == own) return (*others)->name;
    return NULL;
}

union optimizer_value *optimizer_value(struct optimizer_options *options, const char *name) {
    const struct optimizer_option *const *list = optimizer_option_list();
    size_t i = find(list, name);
    if (!list[i])
        die(STATUS_USAGE, "--%s: no optimizer of model/optimizer/list.h has this option", name);
    return &options->value[i];
}

struct optimizer_part optimizer_part(const struct optimizer_kind *kind,
                                     const struct optimizer_options *options) {
    struct optimizer_part part = {
        .kind = kind, .weight_decay = options->weight_decay, .peak = options->peak};
    const struct optimizer_option *const *list = optimizer_option_list();
    for (int i = 0; kind->options[i]; i++)
        part.option[i] = options->value[find(list, kind->options[i]->name)];
    return part;
}

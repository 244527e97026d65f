#include "model/optimizer/kinds.h"

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

const struct kind_option *const *optimizer_option_list(void) {
    static const struct kind_option *list[KIND_OPTIONS_MAX + 1];
    if (!list[0])
        for (size_t k = 0; optimizer_kinds[k]; k++)
            kind_options_add(list, optimizer_kinds[k]->options);
    return list;
}

const char *optimizer_option_name(const struct optimizer_kind *kind, size_t i) {
    size_t own = 0;
    while (kind->options[own]) own++;
    if (i < own) return kind->options[i]->name;
    const struct kind_option *const *others = optimizer_kinds[0]->options;
    for (; kind->takes && *others; others++)
        if (i-- == own) return (*others)->name;
    return NULL;
}

struct optimizer_rule optimizer_rule(const struct optimizer_kind *kind,
                                     const struct optimizer_options *options) {
    struct optimizer_rule rule = {
        .kind = kind, .weight_decay = options->weight_decay, .peak = options->peak};
    const struct kind_option *const *list = optimizer_option_list();
    for (int i = 0; kind->options[i]; i++)
        rule.option[i] = options->value[kind_options_find(list, kind->options[i]->name)];
    return rule;
}

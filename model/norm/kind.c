/* The list of norms, made from list.h, and what several kinds of norms share: options, and
   their values for norms inside heads. */
#include "model/norm/kind.h"
#include "data/die.h"
#include <string.h>

// clang-format off
#define NORM(kind) extern const struct norm_kind norm_##kind;
#include "model/norm/list.h"
#undef NORM

const struct norm_kind *norm_kinds[NORM_KINDS_MAX + 1] = {
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

const struct option *const *norm_option_list(void) {
    static const struct option *list[KIND_OPTIONS_MAX + 1];
    if (!list[0])
        for (size_t k = 0; norm_kinds[k]; k++) options_add(list, norm_kinds[k]->options);
    return list;
}

union option_data norm_setting(const struct norm_options *options, const struct option *option) {
    return options->value[options_place(norm_option_list(), option)];
}

union option_data norm_option(const struct norm *norm, const struct option *option) {
    return norm->option[options_place(norm->kind->options, option)];
}

struct norm_options norm_options_of_heads(const struct norm_options *options, size_t heads) {
    struct norm_options of_heads = *options;
    int64_t *groups = &of_heads.value[options_place(norm_option_list(), &norm_groups)].integer;
    of_heads.heads = (int64_t)heads;
    *groups = heads == 1 ? 1 : *groups * (int64_t)heads / options->heads;
    if (!*groups) *groups = 1;
    return of_heads;
}

/* ---- options of several kinds ---- */

void norm_check_groups(const struct norm *norm) {
    const int64_t groups = norm_option(norm, &norm_groups).integer;
    if (norm->C % (size_t)groups)
        die(STATUS_USAGE,
            "%s: its %zu channels cannot be split into %lld equal groups (give another "
            "--norm-groups; the default is --n-head)",
            norm->name, norm->C, (long long)groups);
}

const struct option norm_eps = {
    "norm-eps", NUMBER(OPTION_REAL, "1e-5", 1e-12, 1),
    .help = "epsilon under the square root in norms; in scale and l2, the smallest ||x|| by which "
            "they divide",
    .scope = OPTION_OF_MODEL};

const struct option norm_momentum = {"bn-momentum", NUMBER(OPTION_REAL, "0.1", 0, 1),
                                     .help =
                                         "weight of the current batch in the running statistics"};

const struct option norm_detach_mean = {
    "norm-detach-mean", OPTION_SWITCH, .start = "off",
    .help = "take the mean of ln and bn as a constant in the backward pass, so that no gradient "
            "flows through it; with --norm-detach-std this is the DetachNorm of Xu et al. 2019 "
            "(arXiv:1911.07013)"};

const struct option norm_detach_std = {
    "norm-detach-std", OPTION_SWITCH, .start = "off",
    .help = "take what ln, rms and bn divide by as a constant in the backward pass, so that no "
            "gradient flows through it"};

const struct option norm_groups = {
    "norm-groups", NUMBER(OPTION_INT, "auto", 1, 1000000),
    .help =
        "number of groups of channels that gn and ts normalize separately (auto: --n-head). A norm "
        "inside a head (--qk-norm, --v-norm) has one group; with --qk-norm-over=width, queries "
        "have N groups, and keys and values fewer in proportion if --n-kv-head is below --n-head",
    .scope = OPTION_OF_MODEL, .automatic = {"n-head"}};

/* What the rows of norms and placements declare: names, options, shapes. */
#include "data/files/options.h"
#include "model/lab/config.h"
#include "model/math/arena.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <string.h>

/* Every word of a list is the name of an option. */
static void expect_options(const char *list, const char *of) {
    char words[256], *rest;
    if (!list) return;
    cr_assert(strlen(list) < sizeof words);
    strcpy(words, list);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        cr_expect(options_find(config_options, word), "%s: there is no --%s", of, word);
}

Test(norm_kinds, the_options_that_they_name_exist) {
    const char *option;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        for (size_t i = 0; (option = config_norm_option(*kind, i)); i++)
            expect_options(option, (*kind)->name);
    cr_expect(!config_unknown_condition("schedule=wsd, !gamma, training"));
    cr_expect_str_eq(config_unknown_condition("training, !schedul=wsd"), "schedul");
    for (const struct placement *p = placements; p->name; p++) expect_options(p->options, p->name);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        const char *unknown = config_unknown_condition(o->needs);
        cr_expect(!unknown, "--%s needs %s, which is no option and no fact", o->name, unknown);
    }
}

Test(norm_kinds, every_name_means_one_kind) {
    static const char *const options[] = {
        "norm",   "norm-attn", "norm-ffn",  "norm-final",     "qk-norm",
        "v-norm", "ffn-norm",  "placement", "placement-attn", "placement-ffn"};
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        const struct option *o = options_find(config_options, options[k]);
        int synonyms = 0;
        for (int64_t i = 0; option_choice_name(o, i); i++) {
            cr_expect(option_choice(o, option_choice_name(o, i)) == i, "--%s=%s", o->name,
                      option_choice_name(o, i));
            if (!o->synonym(i)) continue;
            cr_expect(option_choice(o, o->synonym(i)) == i, "--%s=%s", o->name, o->synonym(i));
            synonyms++;
        }
        cr_expect(synonyms >= 2, "--%s has no full names", o->name);
    }
}

/* The dimensions of a scalar are a shape, not a number of elements, for parameters and states. */
Test(norm_kinds, scalars_hold_one_number) {
    static const struct norm_kind kind = {.name = "shapes",
                                          .param = {{"none", .scalar = true},
                                                    {"one", .scalar = true, .dimensions = 1},
                                                    {.name = "each"}},
                                          .state = {{"none", .scalar = true},
                                                    {"one", .scalar = true, .dimensions = 1},
                                                    {.name = "each"},
                                                    {"all", .positions = true}}};
    static const int param[] = {0, 1, 1}, state[] = {0, 1, 1, 2};
    static const size_t param_size[] = {1, 1, 6}, state_size[] = {1, 1, 6, 30};
    const struct norm_options options = {.affine = 1, .bias = 1};
    struct tensor_lists lists = {0};
    struct tensor params[8], states[8];
    struct norm norm;
    struct arena arena = {0};
    static real values[2][256], grads[256];
    lists.param = (struct tensor_list){.tensor = params, .value = values[0], .grad = grads};
    lists.state = (struct tensor_list){.tensor = states, .value = values[1]};
    norm_attach(&norm, &kind, &options, "n", 6, &(struct layout){2, 5, &lists, &arena});
    for (int i = 0; i < 3; i++)
        cr_expect(params[i].dimensions == param[i] && params[i].size == param_size[i],
                  "%s: %d, %zu", params[i].name, params[i].dimensions, params[i].size);
    for (int i = 0; i < 4; i++)
        cr_expect(states[i].dimensions == state[i] && states[i].size == state_size[i],
                  "%s: %d, %zu", states[i].name, states[i].dimensions, states[i].size);
}

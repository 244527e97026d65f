/* The full model: its initial weights and its sizes. */
#include "data/text/corpus.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <string.h>

Test(model, runs_of_different_norms_are_paired) {
    struct model_config ln = small_config(1, 0), other = small_config(2, 1);
    struct model a, b;
    a = held_model(&ln, SMALL_V, SMALL_B, 1);
    b = held_model(&other, SMALL_V, SMALL_B, 1);
    int same = 0;
    for (size_t i = 0; i < a.lists.param.count; i++)
        for (size_t j = 0; j < b.lists.param.count; j++) {
            const struct tensor *s = &a.lists.param.tensor[i], *t = &b.lists.param.tensor[j];
            if (strcmp(s->name, t->name) != 0) continue;
            same++;
            cr_expect(difference(s->size, a.lists.param.value + s->offset,
                                 b.lists.param.value + t->offset) == 0,
                      "%s", s->name);
        }
    cr_expect(same > 20);
}

Test(model, counts_nanogpt_s_parameters) {
    struct model_config config = small_config(1, 0);
    config.n_layer = 6, config.n_head = 6, config.n_embd = 384, config.block_size = 256;
    config.bias = 0;
    struct model model = held_model(&config, 65, 1, 1);
    cr_expect_eq(model_parameters(&model), 10745088); // nanoGPT's "10.65M" plus the 98304 of wpe
}

Test(model, any_number_that_is_none_is_found) {
    struct model_config config = small_config(norm_index("bn"), 0);
    struct model model = held_model(&config, SMALL_V, SMALL_B, 1);
    struct tensor_list *param = &model.lists.param;
    for (size_t i = 0; i < param->count; i++)
        for (size_t j = 0; j < param->tensor[i].size; j++) {
            real *value = &param->value[param->tensor[i].offset + j], was = *value;
            cr_assert(!tensor_nonfinite(param, param->value));
            *value = j % 2 ? NAN : INFINITY;
            cr_assert(tensor_nonfinite(param, param->value) == &param->tensor[i], "%zu of %s", j,
                      param->tensor[i].name);
            *value = was;
        }
}

/* Llama's 8 C / 3, rounded up to a multiple of 32. */
Test(model, hidden_units_of_gated_activations) {
    struct model_config config = small_config(1, 0);
    config.n_embd = 64;
    while (!activations[config.activation].gated) config.activation++;
    cr_expect_eq(model_ffn_width(&config), 192);
    config.n_embd = 96;
    cr_expect_eq(model_ffn_width(&config), 256);
}

/* By itself a small model takes one thread, one of nanoGPT's size many; --threads=2 gives two. */
Test(model, a_second_thread_has_to_pay) {
    struct model_config config = small_config(norm_index("ln"), 0);
    config.n_head = 4, config.block_size = 32;
    for (int big = 0; big < 2; big++) {
        config.n_embd = big ? 128 : 32;
        struct model model = held_model(&config, 65, 12, 1);
        model.threads_max = 8;
        cr_expect(model_team(&model) == (big ? 8 : 1), "%d threads", model_team(&model));
        model.threads = 2;
        cr_expect(model_team(&model) == 2);
    }
}

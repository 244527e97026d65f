/* The model against tests/plain.c, in double: two programs that share no line of mathematics. */
#include "data/die.h"
#include "data/text/corpus.h"
#include "model/options/config.h"
#include "tests/support.h"

/* Its names are its own here, too, and its memory is held until a case ends. */
#define dot                              plain_dot
#define linear                           plain_linear
#define norm                             plain_norm
#define main                             plain_main
#define memory_take(size, of_each, what) hold((size) * (of_each))
#include "tests/plain.c"
#undef dot
#undef linear
#undef norm
#undef main
#undef memory_take

enum { UPDATES = 20 };

static void read_options(struct config *config, const char *line) {
    char words[128], *arguments[8] = {"train"};
    snprintf(words, sizeof words, "%s", line);
    config_parse(config, 1 + split(words, arguments + 1, 7), arguments);
    *config = plan_of(config).config;
}

Test(plain, has_the_default_sizes) {
    struct config config;
    read_options(&config, "");
    const struct model_config *model = &config.model;
    cr_expect(L == model->n_layer && NH == model->n_head && C == (size_t)model->n_embd);
    cr_expect(B == (size_t)config.batch_size && T == (size_t)model->block_size && N == B * T);
    cr_expect_eq(norm_kind, LN);
    cr_expect_eq(placement, PRE);
    for (long t = 0; t < config.max_iters; t++)
        cr_assert_float_eq(learning_rate(t, (long)config.max_iters),
                           schedule_rate(&config.schedule, t), 1e-15, "update %ld", t);
}

static void expect_digits(const char *what, const char *of, size_t size, const real *got,
                          const real *want) {
    const double error = difference(size, got, want);
    if (case_failed() || error < 1e-10) return;
    fail_case("%s%s: off by %g", what, of, error);
    cr_expect(false, "%s", case_failure());
}

static const struct weights *weights_of(const struct tensor *t) {
    const struct weights *found = tensors;
    while (found < tensors + count && strcmp(found->name, t->name) != 0) found++;
    cr_assert(found < tensors + count && found->size == t->size, "%s is missing", t->name);
    return found;
}

/* Each tensor of the list is in plain.c, with the same values and, if it is learned, gradient.
   Returns how many. */
static size_t expect_same(const struct tensor_list *list) {
    size_t compared = 0;
    for (const struct tensor *t = list->tensor; t < list->tensor + list->count; t++) {
        if (t->counts) continue; // batches, which plain.c does not count
        const struct weights *a = weights_of(t);
        if (list->grad) expect_digits("gradient of ", t->name, t->size, a->dw, t->param.grad);
        expect_digits("", t->name, t->size, a->w, t->param.value);
        compared++;
    }
    return compared;
}

/* Moves the weights of both far from the small initial values, at which some derivatives are nearly
   0 and gradients are clipped. */
static void shake_both(struct tensor_list *param) {
    shake(param);
    for (const struct tensor *t = param->tensor; t < param->tensor + param->count; t++)
        memcpy(weights_of(t)->w, t->param.value, t->size * sizeof(real));
}

static void compare(int norm_choice, int placement_choice) {
    char line[128];
    struct config config;
    struct batch batch;
    norm_kind = norm_choice, placement = placement_choice;
    snprintf(line, sizeof line, "--norm=%s --placement=%s --n-embd=%zu --block-size=%zu",
             (const char *[]){"none", "ln", "rms", "bn"}[norm_choice],
             (const char *[]){"pre", "post"}[placement_choice], C, T);
    read_options(&config, line);
    gradient_case("%s", line);
    struct model model = held_model(&config.model, V, B, (uint64_t)config.seed);
    struct tensor_list *param = &model.lists.param;
    struct optimizer optimizer = held_optimizer(&config.optimizer, param, 1);
    make_model();
    model_zero_grad(&model);
    cr_expect_eq(expect_same(param) + expect_same(&model.lists.state), count);
    for (int t = 0; t < UPDATES; t++) {
        if (t == UPDATES / 2) shake_both(param);
        const double rate = schedule_rate(&config.schedule, t);
        batch = make_batch(B, T, V, (uint64_t)t);
        model_zero_grad(&model);
        const real loss = model_gradient(&model, &batch, (uint64_t)t, 1);
        const real plain_loss = forward(&batch) / (double)N;
        expect_digits("loss", "", 1, &plain_loss, &loss);
        backward(&batch);
        optimizer_step(&optimizer, param, rate, optimizer_grad_norm(&optimizer, param));
        update(t + 1, rate);
    }
    expect_same(param);
    expect_same(&model.lists.state);
    let_go();
}

Test(plain, agrees_in_losses_gradients_and_weights) {
    B = 3, T = 5, N = 15, C = 8, V = 7;
    for (int norm_choice = NONE; norm_choice <= BN; norm_choice++)
        for (int placement_choice = PRE; placement_choice <= POST; placement_choice++)
            compare(norm_choice, placement_choice);
}

/* --decay-gamma: what weight decay does to the parameters of every norm. */
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

static const double rate = 0.1, weight_decay = 0.5, keep = 1 - 0.1 * 0.5;

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text);
    return length >= strlen(end) && !strcmp(text + length - strlen(end), end);
}

/* One update without gradients: matrices decay towards 0, gamma towards the target, what else is
   learned stays to the bit. */
static void expect_decay(const struct model_config *config, double zero, double one) {
    const int64_t choice = config->norms.decay_gamma;
    struct model model;
    struct optimizer adam;
    size_t gammas = 0;
    model_init(&model, config, SMALL_V, SMALL_B, 1);
    struct tensor_list *param = &model.lists.param;
    adamw_init(&adam, (struct adamw_numbers){0.9, 0.99, 1e-8, weight_decay, 0}, param, 1);
    real *before = random_reals(param->size, 1);
    memcpy(param->value, before, param->size * sizeof(real));
    model_zero_grad(&model);
    optimizer_step(&adam, param, rate, 0);
    for (size_t k = 0; k < param->count; k++) {
        const struct tensor *t = &param->tensor[k];
        bool gamma =
            t->dimensions < 2 && (ends_with(t->name, "weight") || ends_with(t->name, "scale"));
        bool decays = t->dimensions == 2 || (gamma && choice != NORM_DECAY_OFF);
        double target = gamma ? (choice == NORM_DECAY_ONE ? one : zero) : 0;
        gammas += gamma;
        for (size_t i = t->offset; i < t->offset + t->size; i++) {
            double was = (double)before[i], is = (double)param->value[i];
            double want = decays ? target + keep * (was - target) : was;
            cr_assert(fabs(is - want) <= (!decays       ? 0
                                          : in_double() ? 1e-15
                                                        : 1e-6) *
                                             4,
                      "%s: %g became %g, not %g", t->name, was, is, want);
        }
    }
    cr_expect(gammas > 0 || !model_norm(config, SITE_FINAL)->param[0].name, "no gamma");
    free(before);
    optimizer_free(&adam);
    model_free(&model);
}

static void check_gamma_decays_as_it_is_told(const struct pair *pair) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    struct model_config config = pair_config(pair);
    if (!kind->forward) return;
    bool less_one = !strcmp(kind->name, "ts");  // learns gamma - 1
    bool scaled = !strcmp(kind->name, "scale"); // gamma times sqrt(C)
    double one = less_one ? 0 : scaled ? sqrt((double)config.n_embd) : 1;
    for (int64_t choice = NORM_DECAY_OFF; choice <= NORM_DECAY_ONE; choice++) {
        config.norms.decay_gamma = choice;
        expect_decay(&config, less_one ? -1 : 0, one);
    }
}

Test(norm_decay, gamma_decays_as_it_is_told) {
    every_norm(check_gamma_decays_as_it_is_told);
}

/* The loss after some updates. */
static double trained_loss(const char *norm, int64_t choice) {
    struct model_config config = small_config(norm_index(norm), 0);
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 3);
    struct model model;
    struct optimizer adam;
    double loss = 0;
    config.norms.decay_gamma = choice;
    norms_set(&config.norms, "norm-groups", 1);
    norms_set(&config.norms, "ts-prior-count", 0);
    model_init(&model, &config, SMALL_V, SMALL_B, 1);
    adamw_init(&adam, (struct adamw_numbers){0.9, 0.99, 1e-3, 2, 0}, &model.lists.param, 1);
    for (int step = 0; step < 12; step++) {
        model_zero_grad(&model);
        model_forward(&model, &batch, true, step);
        loss = model_backward(&model, &batch, step, 1);
        optimizer_step(&adam, &model.lists.param, 0.05, 0);
    }
    batch_free(&batch);
    optimizer_free(&adam);
    model_free(&model);
    return loss;
}

/* ts with one group and without a prior is cln, but it learns gamma - 1, as Gemma's RMSNorm does.
   That it decays towards 0 is the decay of cln's gamma towards 1. Otherwise the two train alike. */
Test(norm_decay, of_gamma_less_1_towards_0_is_of_gamma_towards_1) {
    double loss[3];
    for (int64_t choice = NORM_DECAY_OFF; choice <= NORM_DECAY_ONE; choice++) {
        loss[choice] = trained_loss("ts", choice);
        double want = trained_loss("cln", choice);
        cr_expect(fabs(loss[choice] - want) < (in_double() ? 1e-11 : 1e-4), "%d: %.9g, not %.9g",
                  (int)choice, loss[choice], want);
    }
    cr_expect(fabs(loss[0] - loss[1]) > 1e-3 && fabs(loss[0] - loss[2]) > 1e-3);
    cr_expect(fabs(loss[1] - loss[2]) > 1e-3);
}

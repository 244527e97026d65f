/* Sub-layers whose placement has rows of their own: by an option for attention or the MLP, or by a
   row that is a mixture of others. */
#include "data/text/corpus.h"
#include "tests/support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int placement_index(const char *name) {
    return (int)(placement_find(name) - placements);
}

/* Attention and the MLP may have rows of their own, with the row's norms, factors and initial
   weights; what is outside the sub-layers follows the placement of the whole. */
Test(placement_rows, rows_by_sub_layer) {
    struct model_config config = small_config(norm_index("ln"), placement_index("peri"));
    config.site_placement[SITE_ATTENTION] = 1 + placement_index("keel");
    config.site_placement[SITE_FFN] = 1 + placement_index("mix"); // half of the layers post
    config.n_layer = 4;
    struct model model;
    model_init(&model, &config, SMALL_V, SMALL_B, 1);
    for (size_t l = 0; l < 4; l++) {
        const struct sublayer *attention = &model.layer[l].attention, *mlp = &model.layer[l].mlp;
        cr_expect(norm_present(&attention->pre) && norm_present(&attention->post));
        cr_expect(!norm_present(&attention->out) && !norm_present(&mlp->out));
        cr_expect(norm_present(&mlp->post) == (l < 2) && norm_present(&mlp->pre) == (l >= 2));
        cr_expect_float_eq(attention->connection.a, 8, 1e-12);
        cr_expect_float_eq(mlp->connection.a, 1, 1e-12);
    }
    cr_expect(norm_present(&model.embedding_norm) && norm_present(&model.final));
    model_free(&model);
    config.site_placement[SITE_FFN] = 1 + placement_index("deepnorm");
    model_init(&model, &config, SMALL_V, SMALL_B, 1);
    cr_expect_float_eq(model.layer[0].attention.initial, 1, 1e-12);
    cr_expect_float_eq(model.layer[0].mlp.initial, pow(32, -0.25), 1e-12);
    model_free(&model);
}

/* One row's lambda may be that of both sub-layers; another row's is another number. */
Test(placement_rows, lambdas_are_shared_within_a_row_only) {
    static const char *const attention[] = {"rezero", "skipinit", "layerscale", "pre"};
    for (int i = 0; i < 4; i++) {
        struct model_config config = small_config(norm_index("ln"), placement_index(attention[i]));
        config.site_placement[SITE_FFN] = 1 + placement_index("rezero");
        struct model model;
        model_init(&model, &config, SMALL_V, SMALL_B, 1);
        const struct layer *layer = &model.layer[0];
        bool same =
            layer->attention.connection.param[0].value == layer->mlp.connection.param[0].value;
        cr_expect(same == (i == 0), "%s", attention[i]);
        int found = 0;
        for (size_t k = 0; k < model.lists.param.count; k++)
            found += !strcmp(model.lists.param.tensor[k].name, "transformer.h.0.resweight");
        cr_expect(found == 1, "%s: resweight %d times", attention[i], found);
        model_free(&model);
    }
}

/* A mixture's gradients are those of its parts: the same loss and gradients as the placement that has
   these rows in all layers. */
Test(placement_rows, a_row_for_both_sub_layers_is_the_placement) {
    struct model model[2];
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 3);
    for (int i = 0; i < 2; i++) {
        struct model_config config =
            small_config(norm_index("bn"), placement_index(i ? "pre" : "reordered"));
        if (i)
            for (int site = SITE_ATTENTION; site <= SITE_FFN; site++)
                config.site_placement[site] = 1 + placement_index("reordered");
        model_init(&model[i], &config, SMALL_V, SMALL_B, 1);
        model_zero_grad(&model[i]);
        model_forward(&model[i], &batch, true, 0);
        model_backward(&model[i], &batch, 0, 1);
    }
    const struct tensor_list *one = &model[0].lists.param, *other = &model[1].lists.param;
    cr_assert_eq(one->size, other->size);
    cr_expect(!memcmp(one->grad, other->grad, one->size * sizeof(real)));
    cr_expect(largest(one->size, one->grad) > 0);
    batch_free(&batch);
    for (int i = 0; i < 2; i++) model_free(&model[i]);
}

/* The logits of a small model before training. */
static real *first_logits(const struct model_config *config) {
    struct model model;
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 3);
    model_init(&model, config, SMALL_V, SMALL_B, 1);
    model_forward(&model, &batch, true, 0);
    real *logits = copy_logits(&model, SMALL_B * SMALL_T);
    batch_free(&batch);
    model_free(&model);
    return logits;
}

static void expect_same_model(const struct model_config *one, const struct model_config *other,
                              bool same) {
    real *a = first_logits(one), *b = first_logits(other);
    bool equal = !memcmp(a, b, SMALL_B * SMALL_T * SMALL_V * sizeof(real));
    cr_expect_eq(equal, same, "%s", placements[one->placement].name);
    free(a);
    free(b);
}

/* HybridNorm is a mixture of other rows with norms of q, k and v, and its first layer may be pre
   (Zhuo et al. 2025). */
Test(placement_rows, hybrid_is_a_mixture) {
    struct model_config hybrid = small_config(norm_index("ln"), placement_index("hybrid"));
    struct model_config parts = small_config(norm_index("ln"), placement_index("pre"));
    parts.site_placement[SITE_ATTENTION] = 1 + placement_index("post");
    parts.site_placement[SITE_FFN] = 1 + placement_index("bare");
    parts.qk_norm = parts.v_norm = INNER_NORM_ON;
    hybrid.init = parts.init = INIT_XAVIER;
    expect_same_model(&hybrid, &parts, true);
    hybrid.qk_norm = hybrid.v_norm = INNER_NORM_KINDS + norm_index("none");
    expect_same_model(&hybrid, &parts, false);
    parts.qk_norm = parts.v_norm = INNER_NORM_OFF;
    expect_same_model(&hybrid, &parts, true);
    struct model_config star = small_config(norm_index("ln"), placement_index("hybrid-star"));
    struct model_config pre = small_config(norm_index("ln"), placement_index("pre"));
    pre.qk_norm = pre.v_norm = INNER_NORM_ON;
    star.n_layer = pre.n_layer = 1;
    star.init = pre.init = INIT_XAVIER;
    expect_same_model(&star, &pre, true);
    star.n_layer = pre.n_layer = 2;
    expect_same_model(&star, &pre, false);
}

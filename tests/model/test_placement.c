/* Placements: what each row of the table declares, on one sub-layer. Sub-layers whose placement has
   rows of their own: by an option for attention or the MLP, or by a row that is a mixture of
   others. */
#include "data/text/corpus.h"
#include "tests/support.h"
#include <string.h>

enum { V = 16 };

Test(placement, factors_of_the_depth) {
    const struct placement *deepnorm = placement_find("deepnorm");
    cr_expect_float_eq(deepnorm->a(0, 8), 2, 1e-12);
    cr_expect_float_eq(deepnorm->initial(0, 2), 0.5, 1e-12);
    cr_expect_float_eq(placement_find("keel")->a(0, 6), 12, 1e-12);
    cr_expect_float_eq(placement_find("lns")->s(3, 4), 0.5, 1e-12);
    cr_expect_float_eq(placement_find("siamese")->b(1, 7), 0.5, 1e-12);
    const struct placement *mix = placement_find("mix");
    static const char *const want[] = {"post", "pre", "pre", "pre", "pre"};
    for (size_t l = 0; l < 5; l++)
        cr_expect_str_eq(mix->of_layer(l, 5, 0.25)->name, want[l], "layer %zu", l);
    cr_expect_str_eq(mix->of_layer(0, 5, 0)->name, "pre");
    cr_expect_str_eq(mix->of_layer(4, 5, 1)->name, "post");
    cr_expect(!placement_find("nowhere"));
}

static bool is_norm(const struct norm *norm) {
    return strcmp(norm->kind->name, "none") != 0;
}

Test(placement, rows_say_whether_their_sublayers_have_norms) {
    for (int row = 0; placements[row].name; row++) {
        struct model_config config = small_config(norm_index("ln"), row);
        struct model model = held_model(&config, SMALL_V, SMALL_B, 1);
        bool found[2] = {false, false};
        for (size_t l = 0; l < model.L; l++)
            for (int mlp = 0; mlp < 2; mlp++) {
                const struct sublayer *s = mlp ? &model.layer[l].mlp : &model.layer[l].attention;
                found[mlp] |= is_norm(&s->pre) || is_norm(&s->out) || is_norm(&s->post);
            }
        for (int mlp = 0; mlp < 2; mlp++)
            cr_expect_eq(placement_has_norms(&placements[row], !mlp), found[mlp], "%s",
                         placements[row].name);
    }
}

/* Each site may have its own kind of norm, and the norms inside the sub-layers another. A norm of
   queries or keys sees the channels of one head. */
Test(placement, kinds_of_norms_by_site) {
    struct model_config config = small_config(norm_index("bn"), 0);
    config.site_norm[SITE_ATTENTION] = 1 + norm_index("gn");
    config.site_norm[SITE_FINAL] = 1 + norm_index("scale");
    config.qk_norm = INNER_NORM_KINDS + norm_index("rms");
    config.attn_norm = config.ffn_norm = INNER_NORM_ON;
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 3);
    struct model model = held_model(&config, SMALL_V, SMALL_B, 1);
    const struct sublayer *attention = &model.layer[1].attention, *mlp = &model.layer[1].mlp;
    cr_expect_str_eq(attention->pre.kind->name, "gn");
    cr_expect_str_eq(attention->qkv_norm.norm[QKV_Q].kind->name, "rms");
    cr_expect_str_eq(attention->qkv_norm.norm[QKV_K].kind->name, "rms");
    cr_expect_str_eq(attention->attn_norm.kind->name, "gn");
    cr_expect_str_eq(attention->ffn_norm.kind->name, "none");
    cr_expect_str_eq(mlp->pre.kind->name, "bn");
    cr_expect_str_eq(mlp->attn_norm.kind->name, "none");
    cr_expect_str_eq(mlp->ffn_norm.kind->name, "bn");
    cr_expect_eq(mlp->ffn_norm.C, 24);
    cr_expect_str_eq(model.final.kind->name, "scale");
    cr_expect_eq(attention->qkv_norm.norm[QKV_K].C, 3);
    model_forward(&model, &batch, true, 0);
    for (size_t n = 0; n < SMALL_B * SMALL_T; n++)
        for (size_t row = 0; row < 4; row++) { // q and k of two heads
            const real *x = chain_stored(&attention->chain, "expanded") + n * 18 + row * 3;
            double square = 0;
            for (int c = 0; c < 3; c++) square += (double)x[c] * (double)x[c] / 3;
            cr_expect(square < 1.001 && square > 0.5, "token %zu: %g", n,
                      square); // so that eps matters
        }
}

/* Attention and the MLP may have rows of their own, with the row's norms, factors and initial
   weights; what is outside the sub-layers follows the placement of the whole. */
Test(placement_rows, rows_by_sub_layer) {
    struct model_config config = small_config(norm_index("ln"), placement_index("peri"));
    config.site_placement[SITE_ATTENTION] = 1 + placement_index("keel");
    config.site_placement[SITE_FFN] = 1 + placement_index("mix"); // half of the layers post
    config.n_layer = 4;
    struct model model = held_model(&config, SMALL_V, SMALL_B, 1);
    for (size_t l = 0; l < 4; l++) {
        const struct sublayer *attention = &model.layer[l].attention, *mlp = &model.layer[l].mlp;
        cr_expect(norm_present(&attention->pre) && norm_present(&attention->post));
        cr_expect(!norm_present(&attention->out) && !norm_present(&mlp->out));
        cr_expect(norm_present(&mlp->post) == (l < 2) && norm_present(&mlp->pre) == (l >= 2));
        cr_expect_float_eq(attention->connection.a, 8, 1e-12);
        cr_expect_float_eq(mlp->connection.a, 1, 1e-12);
    }
    cr_expect(norm_present(&model.embedding_norm) && norm_present(&model.final));
    config.site_placement[SITE_FFN] = 1 + placement_index("deepnorm");
    model = held_model(&config, SMALL_V, SMALL_B, 1);
    cr_expect_float_eq(model.layer[0].attention.initial, 1, 1e-12);
    cr_expect_float_eq(model.layer[0].mlp.initial, pow(32, -0.25), 1e-12);
}

/* One row's lambda may be that of both sub-layers; another row's is another number. */
Test(placement_rows, lambdas_are_shared_within_a_row_only) {
    static const char *const attention[] = {"rezero", "skipinit", "layerscale", "pre"};
    for (int i = 0; i < 4; i++) {
        struct model_config config = small_config(norm_index("ln"), placement_index(attention[i]));
        config.site_placement[SITE_FFN] = 1 + placement_index("rezero");
        struct model model = held_model(&config, SMALL_V, SMALL_B, 1);
        const struct layer *layer = &model.layer[0];
        bool same =
            layer->attention.connection.param[0].value == layer->mlp.connection.param[0].value;
        cr_expect(same == (i == 0), "%s", attention[i]);
        int found = 0;
        for (size_t k = 0; k < model.lists.param.count; k++)
            found += !strcmp(model.lists.param.tensor[k].name, "transformer.h.0.resweight");
        cr_expect(found == 1, "%s: resweight %d times", attention[i], found);
    }
}

/* A mixture's loss and gradients are those of its parts. */
Test(placement_rows, a_row_for_both_sub_layers_is_the_placement) {
    struct model_config uniform = small_config(norm_index("bn"), placement_index("reordered"));
    struct model_config parts = small_config(norm_index("bn"), placement_index("pre"));
    parts.site_placement[SITE_ATTENTION] = 1 + uniform.placement;
    parts.site_placement[SITE_FFN] = 1 + uniform.placement;
    struct batch batch = make_batch(SMALL_B, SMALL_T, SMALL_V, 3);
    struct model a = held_model(&uniform, SMALL_V, SMALL_B, 1);
    struct model b = held_model(&parts, SMALL_V, SMALL_B, 1);
    cr_expect_eq(gradient_of(&a, &batch, 0, 1), gradient_of(&b, &batch, 0, 1));
    const struct tensor_list *of_a = &a.lists.param, *of_b = &b.lists.param;
    cr_assert(of_a->size == of_b->size && largest(of_a->size, of_a->grad) > 0);
    cr_expect(!memcmp(of_a->grad, of_b->grad, of_a->size * sizeof(real)));
}

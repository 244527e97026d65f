/* What the Transformer is made of: its tensors and its memory. */
#include "model/model.h"
#include "model/math/simd.h"
#include <math.h>

const struct norm_kind *model_norm(const struct model_config *config, int site) {
    int64_t own = config->site_norm[site];
    return norm_kinds[own ? own - 1 : config->norm];
}

const struct norm_kind *model_inner_norm(const struct model_config *config, int site) {
    int64_t choice = site == SITE_ATTENTION ? config->qk_norm : config->ffn_norm;
    if (choice == INNER_NORM_OFF) return norm_find("none");
    return choice == INNER_NORM_ON ? model_norm(config, site)
                                   : norm_kinds[choice - INNER_NORM_KINDS];
}

bool model_has_final(const struct model_config *config) {
    if (config->final_norm != FINAL_NORM_AUTO) return config->final_norm == FINAL_NORM_ON;
    return placements[config->placement].final;
}

bool model_has_norm(const struct model_config *config, const struct norm_kind *kind) {
    bool last = model_has_final(config) || placements[config->placement].embedding;
    for (int site = SITE_ATTENTION; site <= SITE_FFN; site++)
        if (model_norm(config, site) == kind || model_inner_norm(config, site) == kind) return true;
    return last && model_norm(config, SITE_FINAL) == kind;
}

/* Declares every tensor and takes every buffer, in the data's order. Runs twice: see arena.h. */
static void lay_out(struct model *m) {
    const struct model_config *config = &m->config;
    const struct placement *placement = &placements[config->placement];
    size_t B = m->B, T = m->T, C = m->C, N = B * T, logits_row = vec_padded(m->V);
    struct arena *arena = &m->arena;
    struct tensor_lists *lists = &m->lists;
    const struct layout layout = {B, T, lists, arena};
    struct norm_options norms = config->norms;
    norms.bias = config->bias;
    norms.heads = config->n_head;
    double gain = placement->gain ? placement->gain(m->L) : 1;
    struct sublayer_options options = {
        .norm_options = norms,
        .activation = &activations[config->activation],
        .C = C,
        .depth = m->L,
        .gain = gain,
        .xavier = config->init == INIT_XAVIER,
        .dropout = config->dropout,
        .bias = config->bias,
        .seed = m->seed,
    };
    const struct norm_kind *none = norm_find("none"), *last_kind = model_norm(config, SITE_FINAL);
    // with Xavier's weights the stream begins, and the logits end, at about unit variance
    const double of_wte = options.xavier ? 1 / sqrt((double)C) : 0.02;
    m->wte = tensor_take(&lists->param, "transformer.wte.weight", m->V, C, 0, of_wte);
    m->wpe =
        tensor_take(&lists->param, "transformer.wpe.weight", T, C, 0, options.xavier ? 1 : 0.02);
    m->embedded = m->entrance = arena_reals(arena, N * C);
    norm_attach(&m->embedding_norm, placement->embedding ? last_kind : none, &norms,
                "transformer.ln_e", C, &layout);
    if (norm_is(&m->embedding_norm)) m->entrance = arena_reals(arena, N * C);
    m->last = m->entrance;
    if (placement->dual) {
        options.stream = m->stream = arena_reals(arena, N * C);
        options.dstream = m->dstream = arena_reals(arena, N * C);
    }
    m->layer = arena_take(arena, m->L, sizeof *m->layer);
    struct layer uncounted, *layer = &uncounted; // while counting there are no layers yet
    for (size_t l = 0; l < m->L; l++) {
        if (m->layer) layer = &m->layer[l];
        options.layer = l;
        options.placement =
            placement->of_layer ? placement->of_layer(l, m->L, config->mix_fraction) : placement;
        options.norm = model_norm(config, SITE_ATTENTION);
        options.inner_norm = model_inner_norm(config, SITE_ATTENTION);
        options.heads = config->n_head;
        sublayer_attach(&layer->attention, &options, m->last, &layout);
        options.norm = model_norm(config, SITE_FFN);
        options.inner_norm = model_inner_norm(config, SITE_FFN);
        options.heads = 0;
        sublayer_attach(&layer->mlp, &options, layer->attention.y, &layout);
        m->last = layer->mlp.y;
        sublayer_scratch_need(&m->scratch[0], &layer->attention, T);
        sublayer_scratch_need(&m->scratch[1], &layer->mlp, T);
    }
    for (int i = 0; i < 2; i++) sublayer_scratch_attach(&m->scratch[i], N, m->most_threads, arena);
    norm_attach(&m->final, model_has_final(config) ? last_kind : none, &norms, "transformer.ln_f",
                C, &layout);
    m->final_out = norm_is(&m->final) || placement->dual ? arena_reals(arena, N * C) : NULL;
    m->top = m->final_out ? m->final_out : m->last;
    linear_tie(&m->head, m->wte, C, m->V, arena);
    m->logits = arena_reals(arena, m->most_threads * ROWS * logits_row);
    m->dlogits = arena_reals(arena, (N < HEAD_ROWS ? N : HEAD_ROWS) * logits_row);
    m->losses = arena_reals(arena, N);
    m->correct = arena_take(arena, N, 1);
    for (int i = 0; i < 3; i++) m->flow[i] = arena_reals(arena, N * C);
    if (norms.watch) m->entrance_squares = arena_reals(arena, team_row_blocks(N));
}

/* Takes what the lists themselves need; `count` and `size` are known from the first pass. */
static void lay_out_lists(struct model *m, struct tensor_lists counted) {
    const struct {
        struct tensor_list *list;
        const struct tensor_list *counted;
        bool has_gradient;
    } lists[] = {{&m->lists.param, &counted.param, true},
                 {&m->lists.state, &counted.state, false},
                 {&m->lists.fixed, &counted.fixed, true},
                 {&m->lists.tracked, &counted.tracked, false}};
    for (int i = 0; i < 4; i++)
        *lists[i].list = (struct tensor_list){
            .tensor = arena_take(&m->arena, lists[i].counted->count, sizeof(struct tensor)),
            .value = arena_reals(&m->arena, lists[i].counted->size),
            .grad = lists[i].has_gradient ? arena_reals(&m->arena, lists[i].counted->size) : NULL,
        };
}

void model_init(struct model *model, const struct model_config *config, size_t V, size_t B,
                uint64_t seed) {
    *model = (struct model){.config = *config,
                            .B = B,
                            .T = config->block_size,
                            .C = config->n_embd,
                            .V = V,
                            .L = config->n_layer,
                            .seed = seed,
                            .most_threads = (size_t)omp_get_max_threads()};
    lay_out(model);
    struct tensor_lists counted = model->lists;
    lay_out_lists(model, counted);
    arena_allocate(&model->arena, "the model");
    lay_out_lists(model, counted);
    lay_out(model);
    tensor_initialize(&model->lists.param, seed);
    tensor_initialize(&model->lists.state, seed);
    tensor_initialize(&model->lists.fixed, seed);
    tensor_initialize(&model->lists.tracked, seed);
    for (size_t l = 0; l < model->L; l++) sublayer_initialize(&model->layer[l].attention);
}

void model_free(struct model *model) {
    arena_free(&model->arena);
}

size_t model_parameters(const struct model *m) {
    size_t sum = 0;
    for (size_t i = 0; i < m->lists.param.count; i++) sum += m->lists.param.tensor[i].size;
    return sum;
}

/* The Transformer's tensors and memory. */
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

/* What the sub-layers have in common. */
static struct sublayer_options common_options(const struct model *m) {
    const struct model_config *config = &m->config;
    const struct placement *placement = &placements[config->placement];
    struct sublayer_options options = {
        .norm_options = config->norms,
        .activation = &activations[config->activation],
        .C = m->C,
        .depth = m->L,
        .gain = placement->gain ? placement->gain(m->L) : 1,
        .xavier = config->init == INIT_XAVIER,
        .dropout = config->dropout,
        .bias = config->bias,
        .seed = m->seed,
        .second = m->second,
        .dsecond = m->dsecond,
    };
    options.norm_options.bias = config->bias;
    options.norm_options.heads = config->n_head;
    return options;
}

/* A norm outside the layers. */
static void lay_out_norm(const struct model *m, struct norm *norm, bool wanted, const char *name,
                         const struct layout *layout) {
    const struct norm_options options = common_options(m).norm_options;
    const struct norm_kind *kind = wanted ? model_norm(&m->config, SITE_FINAL) : norm_find("none");
    norm_attach(norm, kind, &options, wanted ? name : "", m->C, layout);
}

static void lay_out_embedding(struct model *m, const struct layout *layout) {
    const struct placement *placement = &placements[m->config.placement];
    struct tensor_list *params = &layout->lists->param;
    size_t size = layout->B * layout->T * m->C;
    // Xavier's weights: the stream starts with, and the logits have, a variance of about 1.
    bool xavier = m->config.init == INIT_XAVIER;
    double wte = xavier ? 1 / sqrt((double)m->C) : 0.02, wpe = xavier ? 1 : 0.02;
    m->wte = tensor_take(params, "transformer.wte.weight", m->V, m->C, 0, wte);
    m->wpe = tensor_take(params, "transformer.wpe.weight", m->T, m->C, 0, wpe);
    m->embedded = m->stream_in = arena_reals(layout->arena, size);
    lay_out_norm(m, &m->embedding_norm, placement->embedding, "transformer.ln_e", layout);
    if (norm_present(&m->embedding_norm)) m->stream_in = arena_reals(layout->arena, size);
    if (placement->dual) {
        m->second = arena_reals(layout->arena, size);
        m->dsecond = arena_reals(layout->arena, size);
    }
}

static void lay_out_layers(struct model *m, const struct layout *layout) {
    const struct model_config *config = &m->config;
    const struct placement *placement = &placements[config->placement];
    struct sublayer_options options = common_options(m);
    m->stream_out = m->stream_in;
    m->layer = arena_take(layout->arena, m->L, sizeof *m->layer);
    struct layer uncounted, *layer = &uncounted; // in the first pass there is no memory for layers
    for (size_t l = 0; l < m->L; l++) {
        if (m->layer) layer = &m->layer[l];
        options.layer = l;
        options.placement =
            placement->of_layer ? placement->of_layer(l, m->L, config->mix_fraction) : placement;
        options.norm = model_norm(config, SITE_ATTENTION);
        options.inner_norm = model_inner_norm(config, SITE_ATTENTION);
        options.heads = config->n_head;
        sublayer_attach(&layer->attention, &options, m->stream_out, layout);
        options.norm = model_norm(config, SITE_FFN);
        options.inner_norm = model_inner_norm(config, SITE_FFN);
        options.heads = 0;
        sublayer_attach(&layer->mlp, &options, layer->attention.y, layout);
        m->stream_out = layer->mlp.y;
        sublayer_scratch_need(&m->scratch[0], &layer->attention, m->T);
        sublayer_scratch_need(&m->scratch[1], &layer->mlp, m->T);
    }
    for (int i = 0; i < 2; i++)
        sublayer_scratch_attach(&m->scratch[i], layout->B * layout->T, m->threads_max,
                                layout->arena);
}

static void lay_out_head(struct model *m, const struct layout *layout) {
    struct arena *arena = layout->arena;
    size_t N = layout->B * layout->T, row = vec_padded(m->V);
    lay_out_norm(m, &m->final, model_has_final(&m->config), "transformer.ln_f", layout);
    bool own_output = norm_present(&m->final) || placements[m->config.placement].dual;
    m->final_out = own_output ? arena_reals(arena, N * m->C) : NULL;
    m->head_in = m->final_out ? m->final_out : m->stream_out;
    linear_tie(&m->head, m->wte, m->C, m->V, arena);
    m->logits = arena_reals(arena, m->threads_max * ROWS * row);
    m->dlogits = arena_reals(arena, size_min(N, HEAD_ROWS) * row);
    m->losses = arena_reals(arena, N);
    m->correct = arena_take(arena, N, 1);
    for (int i = 0; i < 3; i++) m->dstream[i] = arena_reals(arena, N * m->C);
    if (m->config.norms.watch) m->dstream_in_squares = arena_reals(arena, team_row_blocks(N));
}

/* Declares every tensor and takes every buffer, in the order of forward; twice, see arena.h. */
static void lay_out(struct model *m) {
    const struct layout layout = {m->B, m->T, &m->lists, &m->arena};
    lay_out_embedding(m, &layout);
    lay_out_layers(m, &layout);
    lay_out_head(m, &layout);
}

/* Takes the memory of the lists themselves, as long as the first pass counted. */
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
                            .threads_max = (size_t)omp_get_max_threads()};
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

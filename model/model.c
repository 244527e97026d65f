/* The Transformer's tensors and memory. */
#include "model/model.h"
#include "model/layer/embedding.h"
#include "model/math/simd.h"
#include "model/partition.h"
#include <math.h>

/* A norm outside the layers. */
static void lay_out_norm(const struct model *m, struct norm *norm, bool wanted, const char *name,
                         const struct layout *layout) {
    const struct norm_options options = model_norm_options(&m->config, SITE_FINAL);
    const struct norm_kind *kind = wanted ? model_norm(&m->config, SITE_FINAL) : norm_find("none");
    norm_attach(norm, kind, &options, wanted ? name : "", m->C, layout);
}

/* The standard deviation of initial embeddings, or of an untied head: the rule's, times the
   placement's factor. */
static double outer_deviation(const struct model *m, initial_std *rule) {
    const struct placement *placement = &placements[m->config.placement];
    double factor = placement_factor(placement->initial_embedding, 0, m->L);
    return factor * rule(&m->config, m->C, m->V);
}

/* Fixed positions have the size that learned ones have initially. */
static void lay_out_positions(struct model *m, const struct layout *layout) {
    const bool unit = placements[m->config.placement].unit;
    const double deviation = outer_deviation(m, initial_rules[m->config.init].position);
    struct tensor_list *params = &layout->lists->param;
    switch (m->config.position) {
    case POSITION_LEARNED:
        m->wpe = tensor_take(params, "transformer.wpe", "weight", m->T, m->C, 0, deviation);
        if (unit) tensor_keep_unit(params, m->wpe, UNIT_ROWS);
        break;
    case POSITION_SINUSOIDAL:
        m->wpe.value = arena_reals(layout->arena, m->T * m->C);
        if (m->wpe.value)
            embedding_sinusoids(m->T, m->C, unit ? 1 / sqrt((double)m->C) : deviation,
                                m->wpe.value);
        break;
    case POSITION_ROPE:
        rope_attach(&m->rope, m->T, m->C / (size_t)m->config.n_head, m->config.rope_theta,
                    layout->arena);
        break;
    case POSITION_NONE: break;
    }
}

static void lay_out_embedding(struct model *m, const struct layout *layout) {
    const struct placement *placement = &placements[m->config.placement];
    struct tensor_list *params = &layout->lists->param;
    size_t size = layout->B * layout->T * m->C;
    m->wte = tensor_take(params, "transformer.wte", "weight", m->V, m->C, 0,
                         outer_deviation(m, initial_rules[m->config.init].token));
    if (placement->unit) tensor_keep_unit(params, m->wte, UNIT_ROWS);
    lay_out_positions(m, layout);
    m->wte_embedding = m->wte;
    if (m->config.head == HEAD_TIED && partition_parts_max(&m->config, m->B * m->T) > 1) {
        m->wte_embedding.stride = vec_padded(m->V * m->C);
        m->wte_embedding.grad = arena_reals(layout->arena, m->slots * m->wte_embedding.stride);
    }
    m->embedded = m->stream_in = arena_reals(layout->arena, size);
    lay_out_norm(m, &m->embedding_norm, placement->embedding, "transformer.ln_e", layout);
    if (norm_present(&m->embedding_norm)) m->stream_in = arena_reals(layout->arena, size);
    if (m->config.embd_scale == EMBD_SCALE_LEARNED) {
        gain_attach(&m->embd_scale, "shared_scale", 1, m->C, m->config.embd_scale_start, 1, layout);
        m->embd_scale.x = arena_reals(layout->arena, size);
    }
}

/* The matrices in a sub-layer's weights: queries, keys, values and gates, or a gated MLP's two
   halves; and the projection. */
static void declare_hidden(const struct sublayer *s) {
    const size_t of_kv = s->heads ? (s->E - s->C - s->attention.gates) / 2 : 0;
    const size_t qkv[TENSOR_MATRICES] = {s->C, of_kv, of_kv, s->attention.gates},
                 halves[TENSOR_MATRICES] = {s->H, s->E - s->H}, one[TENSOR_MATRICES] = {s->C};
    tensor_hidden(s->in.weight, s->heads ? qkv : halves);
    tensor_hidden(s->proj.weight, one);
}

/* The end of further streams, and the norm before the head. */
static void lay_out_end(struct model *m, struct connection *last, const struct layout *layout) {
    const struct model_config *config = &m->config;
    const struct connection_kind *kind = model_connection(config, &placements[config->placement]);
    const bool final = model_has_final(config);
    m->end = (struct connection){.previous = last,
                                 .end = true,
                                 .C = m->C,
                                 .site = 2 * m->L,
                                 .depth = m->L,
                                 .a = 1,
                                 .b = 1,
                                 .x = m->stream_out,
                                 .embedded = m->embedded};
    lay_out_norm(m, &m->end.norm, kind->norm || (kind->final && final),
                 kind->norm ? "transformer.ln_f_second" : "transformer.ln_f", layout);
    if (kind->streams) m->end.kind = kind, connection_attach(&m->end, layout);
    lay_out_norm(m, &m->final, final && !kind->final, "transformer.ln_f", layout);
}

static void lay_out_layers(struct model *m, const struct layout *layout) {
    struct connection *previous = NULL;
    m->stream_out = m->stream_in;
    m->layer = arena_take(layout->arena, m->L, sizeof *m->layer);
    struct layer uncounted, *layer = &uncounted; // in the first pass there is no memory for layers
    for (size_t l = 0; l < m->L; l++) {
        if (m->layer) layer = &m->layer[l];
        layer->tensors.begin = layout->lists->param.count;
        for (int site = SITE_ATTENTION; site <= SITE_FFN; site++) {
            struct sublayer *s = site == SITE_ATTENTION ? &layer->attention : &layer->mlp;
            *s = (struct sublayer){
                .site = 2 * l + site,
                .seed = m->seed,
                .rope = m->rope,
                .connection = {.previous = previous, .x = m->stream_out, .embedded = m->embedded}};
            sublayer_attach(s, &m->config, layout);
            declare_hidden(s);
            chain_need(&m->memory[site], &s->chain, layout->B * layout->T, m->threads_max);
            m->stream_out = s->y;
            previous = &s->connection;
        }
        layer->tensors.end = layout->lists->param.count;
    }
    lay_out_end(m, previous, layout);
    chain_memory_attach(&m->memory[SITE_ATTENTION], &layer->attention.chain, m->threads_max,
                        layout->arena);
    chain_memory_attach(&m->memory[SITE_FFN], &layer->mlp.chain, m->threads_max, layout->arena);
}

static void lay_out_head(struct model *m, const struct layout *layout) {
    struct arena *arena = layout->arena;
    size_t N = layout->B * layout->T, tokens = m->B * m->T, row = vec_padded(m->V);
    const struct placement *placement = &placements[m->config.placement];
    m->final_out = norm_present(&m->final) ? arena_reals(arena, N * m->C) : NULL;
    m->head_in = m->final_out ? m->final_out : model_final_in(m);
    if (m->config.head == HEAD_TIED)
        linear_tie(&m->head, m->wte, m->C, m->V, arena);
    else
        linear_attach(&m->head, "lm_head", m->C, m->V, false,
                      outer_deviation(m, initial_rules[m->config.init].head), layout);
    if (placement->unit && m->config.head == HEAD_UNTIED)
        tensor_keep_unit(&layout->lists->param, m->head.weight, UNIT_ROWS);
    // The stream has the length sqrt(C), where nGPT has 1: its s_z is this gain times sqrt(C).
    if (placement->gains)
        gain_attach(&m->logit_gain, "sz", m->V, 1, 1 / sqrt((double)m->C), 1, layout);
    m->logits =
        arena_reals(arena, m->threads_max * (gain_present(&m->logit_gain) ? 2 : 1) * ROWS * row);
    m->dlogits = arena_reals(arena, size_min(N, HEAD_ROWS) * row);
    m->losses = arena_reals(arena, tokens);
    m->correct = arena_reals(arena, tokens);
    for (int i = 0; i < 3; i++) m->dstream[i] = arena_reals(arena, N * m->C);
}

/* Declares every tensor and takes every buffer, in the order of forward; twice, see arena.h. */
static void lay_out(struct model *m) {
    const struct layout layout = {m->rows / m->T, m->T, &m->lists, &m->arena, 1};
    lay_out_embedding(m, &layout);
    lay_out_layers(m, &layout);
    lay_out_head(m, &layout);
}

/* Takes the memory of a list itself, with the lengths that the first pass counted. */
static struct tensor_list list_of(struct model *m, struct tensor_list counted, size_t slots) {
    return (struct tensor_list){.tensor =
                                    arena_take(&m->arena, counted.count, sizeof(struct tensor)),
                                .value = arena_reals(&m->arena, counted.size),
                                .grad = slots ? arena_reals(&m->arena, slots * counted.size) : NULL,
                                .stride = counted.size};
}

static void lay_out_lists(struct model *m, struct tensor_lists counted) {
    m->lists.param = list_of(m, counted.param, m->slots);
    m->lists.state = list_of(m, counted.state, 0);
    m->lists.fixed = list_of(m, counted.fixed, m->slots);
}

/* Interventions on the initial position embedding (T,C): one channel of all positions, and all
   channels of the position in the middle of the context, become larger. */
static void scale_positions(const struct model *m) {
    if (m->config.position != POSITION_LEARNED) return;
    real *channel = m->wpe.value, *position = m->wpe.value + m->T / 2 * m->C;
    for (size_t t = 0; t < m->T; t++) channel[t * m->C] *= (real)m->config.outlier_channel;
    for (size_t c = 0; c < m->C; c++) position[c] *= (real)m->config.outlier_position;
}

void model_init(struct model *model, const struct model_config *config, size_t V, size_t B,
                uint64_t seed) {
    const size_t threads = (size_t)omp_get_max_threads();
    *model = (struct model){.config = *config,
                            .B = B,
                            .T = config->block_size,
                            .rows = partition_rows(config, B, threads),
                            .slots = partition_slots(config, B, threads),
                            .C = config->n_embd,
                            .V = V,
                            .L = config->n_layer,
                            .seed = seed,
                            .threads_max = threads};
    lay_out(model);
    struct tensor_lists counted = model->lists;
    lay_out_lists(model, counted);
    arena_allocate(&model->arena, "the model");
    lay_out_lists(model, counted);
    lay_out(model);
    tensor_initialize(&model->lists.param, seed);
    tensor_initialize(&model->lists.state, seed);
    tensor_initialize(&model->lists.fixed, seed);
    scale_positions(model);
    for (size_t l = 0; l < model->L; l++) sublayer_initialize(&model->layer[l].attention);
    tensor_normalize_units(&model->lists.param);
}

void model_free(struct model *model) {
    arena_free(&model->arena);
}

size_t model_parameters(const struct model *m) {
    size_t sum = 0;
    for (size_t i = 0; i < m->lists.param.count; i++) sum += m->lists.param.tensor[i].size;
    return sum;
}

/* ---- the threads of a pass ---- */

/* Weights that a token is multiplied by. */
static size_t matrix_weights(const struct model *m) {
    const struct sublayer *attention = &m->layer[0].attention, *mlp = &m->layer[0].mlp;
    return m->C * (m->L * (attention->E + attention->H + mlp->E + mlp->H) + m->V);
}

/* A thread with less work than this costs more in waiting than it saves. Measured on two idle cores
   (Zen 5): with 47e6 operations per update a second thread gains or loses a tenth, with 71e6 it
   takes 0.55 to 0.74 of the time. Where other programs want the cores too, waiting for a thread
   that does not run costs a multiple, so it begins a little later. */
int model_team_size(const struct model *m, size_t N) {
    const double operations_min = 40e6;
    double operations =
        (double)N * (6 * (double)matrix_weights(m) + 12 * (double)(m->L * m->C * m->T));
    double worth = operations / operations_min;
    size_t threads = worth < 1 ? 1 : worth < 1e6 ? (size_t)worth : (size_t)1e6;
    if (m->threads) threads = m->threads;
    return (int)size_min(size_min(threads, m->threads_max), N ? team_row_blocks(N) : 1);
}

int model_team(const struct model *m) {
    return model_team_size(m, m->B * m->T);
}

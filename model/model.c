/* The Transformer's tensors and memory. */
#include "model/model.h"
#include "model/layer/embedding.h"
#include "model/math/simd.h"
#include <math.h>

const struct norm_kind *model_norm(const struct model_config *config, int site) {
    int64_t own = config->site_norm[site];
    return norm_kinds[own ? own - 1 : config->norm];
}

const struct placement *model_placement(const struct model_config *config, int site) {
    int64_t own = config->site_placement[site];
    return &placements[own ? own - 1 : config->placement];
}

const struct norm_kind *model_inner_norm(const struct model_config *config, int inner) {
    const int64_t choices[] = {
        [INNER_QK] = config->qk_norm, [INNER_V] = config->v_norm, [INNER_FFN] = config->ffn_norm};
    int64_t choice = choices[inner];
    const struct placement *row = model_placement(config, SITE_ATTENTION);
    bool placed = inner != INNER_FFN && (row->qkv || (row->qk && inner == INNER_QK));
    if (choice == INNER_NORM_OFF && placed) choice = INNER_NORM_ON;
    if (choice == INNER_NORM_OFF) return norm_find("none");
    return choice == INNER_NORM_ON
               ? model_norm(config, inner == INNER_FFN ? SITE_FFN : SITE_ATTENTION)
               : norm_kinds[choice - INNER_NORM_KINDS];
}

/* For queries and keys of length 1, whose dot products are cosines: log2(T^2 - T), as Henry et al.
   2020 have it, with the block size for their sequences' length, of which they take the 97.5th
   percentile. At this scale a query can give nearly all of its weight to one key among T. At
   1 / sqrt(HS) all weights would be nearly equal. For others: attention's usual 1 / sqrt(HS), so
   that a model starts as it would with that scale. A single token has nothing to choose from. */
double model_qk_scale_start(const struct model_config *config) {
    const double T = fmax(2, (double)config->block_size);
    const bool unit = model_inner_norm(config, INNER_QK)->unit;
    return unit ? log2(T * T - T) : sqrt((double)config->n_head / (double)config->n_embd);
}

size_t model_kv_heads(const struct model_config *config) {
    return (size_t)(config->n_kv_head > 0 ? config->n_kv_head : config->n_head);
}

size_t model_ffn_width(const struct model_config *config) {
    const size_t C = (size_t)config->n_embd;
    if (config->ffn_width > 0) return (size_t)config->ffn_width;
    return activations[config->activation].gated ? (8 * C / 3 + 31) / 32 * 32 : 4 * C;
}

bool model_has_final(const struct model_config *config) {
    if (config->final_norm != FINAL_NORM_AUTO) return config->final_norm == FINAL_NORM_ON;
    return placements[config->placement].final;
}

bool model_has_site(const struct model_config *config, int site) {
    const struct placement *row = &placements[config->placement];
    const bool reads = model_connection(config, row)->norm;
    if (site == SITE_FINAL) return model_has_final(config) || row->embedding || reads;
    bool attention = site == SITE_ATTENTION;
    bool inner = attention ? config->qk_norm == INNER_NORM_ON || config->v_norm == INNER_NORM_ON
                           : config->ffn_norm == INNER_NORM_ON;
    row = model_placement(config, site);
    return inner || (attention && row->qkv) || reads || placement_has_norms(row, attention);
}

bool model_learns(const struct model_config *config, enum norm_role role) {
    if (placements[config->placement].plain) return false;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        for (int i = 0; (*kind)->param[i].name; i++)
            if ((*kind)->param[i].role == role && model_has_norm(config, *kind)) return true;
    return false;
}

bool model_has_norm(const struct model_config *config, const struct norm_kind *kind) {
    for (int site = SITE_ATTENTION; site <= SITE_FINAL; site++)
        if (model_has_site(config, site) && model_norm(config, site) == kind) return true;
    for (int inner = 0; inner < INNER_NORMS; inner++)
        if (model_inner_norm(config, inner) == kind) return true;
    return false;
}

const struct placement *model_row(const struct model_config *config, int site, size_t l) {
    return placement_of(model_placement(config, site), site == SITE_ATTENTION, l,
                        (size_t)config->n_layer, config->mix_fraction);
}

const struct connection_kind *model_connection(const struct model_config *config,
                                               const struct placement *row) {
    return config->connection ? connection_kinds[config->connection - 1]
                              : placement_connection(row);
}

bool model_has_connection(const struct model_config *config, const struct connection_kind *kind) {
    for (size_t l = 0; l < (size_t)config->n_layer; l++)
        for (int site = SITE_ATTENTION; site <= SITE_FFN; site++)
            if (model_connection(config, model_row(config, site, l)) == kind) return true;
    return false;
}

bool model_needs_first_batch(const struct model_config *config) {
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        if ((*kind)->set_initial && model_has_connection(config, *kind)) return true;
    return false;
}

bool model_needs_batch(const struct model_config *config) {
    if (config->norms.watch || model_needs_first_batch(config)) return true;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if ((*kind)->statistics && !(*kind)->causal && model_has_norm(config, *kind)) return true;
    return false;
}

static struct initial initial_of(const struct model_config *config) {
    return (struct initial){&initial_rules[config->init], config->init_std, config->init_embd_std};
}

/* Options of all norms. */
static struct norm_options norm_options_of(const struct model_config *config) {
    struct norm_options options = config->norms;
    options.bias = config->bias;
    options.heads = config->n_head;
    if (placements[config->placement].plain) options.affine = 0;
    return options;
}

/* Options of one sub-layer: attention or the MLP of layer l. */
static struct sublayer_options sublayer_options_of(const struct model *m, int site, size_t l) {
    const struct model_config *config = &m->config;
    const struct placement *row = model_row(config, site, l);
    const struct norm_kind *qk = model_inner_norm(config, INNER_QK);
    const int64_t gates[] = {[ATTN_GATE_NONE] = 0,
                             [ATTN_GATE_HEAD] = config->n_head,
                             [ATTN_GATE_ELEMENT] = config->n_embd};
    struct sublayer_options options = {
        .placement = row,
        .norm = model_norm(config, site),
        .norm_options = norm_options_of(config),
        .qkv_norm = {.kind = {qk, qk, model_inner_norm(config, INNER_V)},
                     .over_width = config->qk_norm_over == EXTENT_WIDTH,
                     .scale = config->qk_scale ? config->qk_scale_start : 0},
        .ffn_norm = model_inner_norm(config, INNER_FFN),
        .activation = &activations[config->activation],
        .C = m->C,
        .heads = site == SITE_ATTENTION ? config->n_head : 0,
        .kv_heads = model_kv_heads(config),
        .gates = gates[config->attn_gate],
        .hidden = model_ffn_width(config),
        .layer = l,
        .depth = m->L,
        .rope = m->rope,
        .softcap = config->attn_softcap,
        .initial = initial_of(config),
        .dropout = config->dropout,
        .bias = config->bias,
        .seed = m->seed,
        .connection = {.kind = model_connection(config, row),
                       .lambda_start = config->lambda_start,
                       .embedded = m->embedded},
    };
    options.norm_options.attention = site == SITE_ATTENTION;
    return options;
}

/* A norm outside the layers. */
static void lay_out_norm(const struct model *m, struct norm *norm, bool wanted, const char *name,
                         const struct layout *layout) {
    const struct norm_options options = norm_options_of(&m->config);
    const struct norm_kind *kind = wanted ? model_norm(&m->config, SITE_FINAL) : norm_find("none");
    norm_attach(norm, kind, &options, wanted ? name : "", m->C, layout);
}

/* The standard deviation of initial embeddings, or of an untied head: the rule's, times the
   placement's factor. */
static double outer_deviation(const struct model *m, initial_std *rule) {
    const struct placement *placement = &placements[m->config.placement];
    const struct initial initial = initial_of(&m->config);
    double factor = placement->initial_embedding ? placement->initial_embedding(m->L) : 1;
    return factor * rule(&initial, m->C, m->V);
}

/* Fixed positions have the size that learned ones have initially. */
static void lay_out_positions(struct model *m, const struct layout *layout) {
    const bool unit = placements[m->config.placement].unit;
    const double deviation = outer_deviation(m, initial_rules[m->config.init].position);
    struct tensor_list *params = &layout->lists->param;
    switch (m->config.position) {
    case POSITION_LEARNED:
        m->wpe = tensor_take(params, "transformer.wpe.weight", m->T, m->C, 0, deviation);
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
    m->wte = tensor_take(params, "transformer.wte.weight", m->V, m->C, 0,
                         outer_deviation(m, initial_rules[m->config.init].token));
    if (placement->unit) tensor_keep_unit(params, m->wte, UNIT_ROWS);
    lay_out_positions(m, layout);
    m->wte_embedding = m->wte;
    if (m->config.head == HEAD_TIED && model_cut_parts(&m->config, m->B) > 1) {
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
static void declare_hidden(const struct sublayer *s, struct tensor_list *params) {
    const size_t of_kv = s->heads ? (s->E - s->C - s->gate.G) / 2 : 0;
    const size_t qkv[TENSOR_MATRICES] = {s->C, of_kv, of_kv, s->gate.G},
                 halves[TENSOR_MATRICES] = {s->H, s->E - s->H}, one[TENSOR_MATRICES] = {s->C};
    tensor_hidden(params, s->in.weight, s->heads ? qkv : halves);
    tensor_hidden(params, s->proj.weight, one);
}

/* The end of further streams, and the norm before the head. */
static void lay_out_end(struct model *m, struct connection *last, const struct layout *layout) {
    const struct model_config *config = &m->config;
    const struct connection_kind *kind = model_connection(config, &placements[config->placement]);
    struct connection_options options = {.kind = kind,
                                         .previous = last,
                                         .end = true,
                                         .C = m->C,
                                         .depth = m->L,
                                         .layer = m->L,
                                         .attention = true,
                                         .a = 1,
                                         .b = 1,
                                         .embedded = m->embedded};
    const bool final = model_has_final(config);
    m->end = (struct connection){0};
    lay_out_norm(m, &m->end.norm, kind->norm || (kind->final && final),
                 kind->norm ? "transformer.ln_f_second" : "transformer.ln_f", layout);
    if (kind->streams) connection_attach(&m->end, &options, m->stream_out, layout);
    lay_out_norm(m, &m->final, final && !kind->final, "transformer.ln_f", layout);
}

static void lay_out_layers(struct model *m, const struct layout *layout) {
    struct connection *previous = NULL;
    m->stream_out = m->stream_in;
    m->layer = arena_take(layout->arena, m->L, sizeof *m->layer);
    struct layer uncounted, *layer = &uncounted; // in the first pass there is no memory for layers
    for (size_t l = 0; l < m->L; l++) {
        if (m->layer) layer = &m->layer[l];
        layer->tensors.begin = layout->lists->param.size;
        for (int site = SITE_ATTENTION; site <= SITE_FFN; site++) {
            struct sublayer_options options = sublayer_options_of(m, site, l);
            struct sublayer *s = site == SITE_ATTENTION ? &layer->attention : &layer->mlp;
            options.connection.previous = previous;
            sublayer_attach(s, &options, m->stream_out, layout);
            declare_hidden(s, &layout->lists->param);
            sublayer_scratch_need(&m->scratch[site], s, m->T);
            m->stream_out = s->y;
            previous = &s->connection;
        }
        layer->tensors.end = layout->lists->param.size;
    }
    lay_out_end(m, previous, layout);
    for (int i = 0; i < 2; i++)
        sublayer_scratch_attach(&m->scratch[i], layout->B * layout->T, m->threads_max,
                                layout->arena);
}

static void lay_out_head(struct model *m, const struct layout *layout) {
    struct arena *arena = layout->arena;
    size_t N = layout->B * layout->T, all = m->B * m->T, row = vec_padded(m->V);
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
    m->losses = arena_reals(arena, all);
    m->correct = arena_take(arena, all, 1);
    for (int i = 0; i < 3; i++) m->dstream[i] = arena_reals(arena, N * m->C);
    if (m->config.norms.watch) m->dstream_in_squares = arena_reals(arena, team_row_blocks(N));
}

/* Declares every tensor and takes every buffer, in the order of forward; twice, see arena.h. */
static void lay_out(struct model *m) {
    const struct layout layout = {m->rows / m->T, m->T, &m->lists, &m->arena};
    lay_out_embedding(m, &layout);
    lay_out_layers(m, &layout);
    lay_out_head(m, &layout);
}

/* Takes the memory of the lists themselves, with the lengths that the first pass counted. */
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
            .grad = lists[i].has_gradient
                        ? arena_reals(&m->arena, m->slots * lists[i].counted->size)
                        : NULL,
            .stride = lists[i].counted->size,
        };
}

void model_init(struct model *model, const struct model_config *config, size_t V, size_t B,
                uint64_t seed) {
    const size_t threads = (size_t)omp_get_max_threads();
    *model = (struct model){.config = *config,
                            .B = B,
                            .T = config->block_size,
                            .rows = model_cut_rows(config, B, threads),
                            .slots = model_cut_slots(config, B, threads),
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
    tensor_initialize(&model->lists.tracked, seed);
    for (size_t l = 0; l < model->L; l++) sublayer_initialize(&model->layer[l].attention);
    unit_normalize(&model->lists.param);
}

void model_free(struct model *model) {
    arena_free(&model->arena);
}

size_t model_parameters(const struct model *m) {
    size_t sum = 0;
    for (size_t i = 0; i < m->lists.param.count; i++) sum += m->lists.param.tensor[i].size;
    return sum;
}

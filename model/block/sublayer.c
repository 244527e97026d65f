/* A sub-layer's tensors and its list of operations. */
#include "model/block/sublayer.h"
#include <math.h>
#include <stdio.h>

/* The names of the two kinds of sub-layer in a state dict, after "transformer.h.0.". */
static const struct {
    const char *norm, *in, *proj;
} names[] = {[SITE_ATTENTION] = {"ln_1", "attn.c_attn", "attn.c_proj"},
             [SITE_FFN] = {"ln_2", "mlp.c_fc", "mlp.c_proj"}};

static int site_of(const struct sublayer *s) {
    return s->site % 2 ? SITE_FFN : SITE_ATTENTION;
}

static size_t layer_of(const struct sublayer *s) {
    return s->site / 2;
}

/* In `name`, the full name of a tensor or module. */
static const char *in_layer(char name[TENSOR_NAME], const struct sublayer *s, const char *rest) {
    snprintf(name, TENSOR_NAME, "transformer.h.%zu.%s", layer_of(s), rest);
    return name;
}

/* Tokens of a sweep (chain_run.c). A product reads its whole weight for each sweep, and a large
   weight has left the cache when the next one comes. More tokens read it less often, but their own
   values need more of the cache. Measured: scripts/guides/performance.md. */
static size_t sweep_rows(size_t C) {
    return C >= 1024 ? 4 * ROWS : C >= 256 ? 2 * ROWS : ROWS;
}

/* Widths, and factors that depend on the layer. */
static void set_sizes(struct sublayer *s, const struct model_config *config,
                      const struct placement *placement) {
    const bool attention = site_of(s) == SITE_ATTENTION;
    const size_t C = (size_t)config->n_embd, heads = (size_t)config->n_head, L = config->n_layer;
    const size_t gates[] = {
        [ATTN_GATE_NONE] = 0, [ATTN_GATE_HEAD] = heads, [ATTN_GATE_ELEMENT] = C};
    s->C = C;
    s->activation = &activations[config->activation];
    s->s_factor = placement_factor(placement->s, layer_of(s), L);
    s->initial = placement_factor(placement->initial, layer_of(s), L);
    s->initial_v = attention && !placement->initial_qk ? s->initial : 1;
    s->dropout = config->dropout;
    if (attention) {
        s->heads = heads;
        s->attention = (struct attention){.C = C,
                                          .T = (size_t)config->block_size,
                                          .NH = heads,
                                          .KV = model_kv_heads(config),
                                          .gates = gates[config->attn_gate],
                                          .softcap = (real)config->attn_softcap};
    }
    s->H = attention ? C : model_ffn_width(config);
    s->E = attention ? attention_row(&s->attention) : activation_inputs(s->activation, s->H);
}

/* The norms of the placement and of the connection. The first norm of a sub-layer has nanoGPT's
   name, the others say where they are. */
static void attach_norms(struct sublayer *s, const struct model_config *config,
                         const struct placement *placement, const struct layout *layout) {
    char name[64];
    const char *read = s->connection.kind->norm;
    struct norm *norms[] = {&s->pre, &s->out, &s->post, &s->connection.norm};
    const bool wanted[] = {placement->pre, placement->out, placement->post, read};
    const char *const suffix[] = {"", "out", "post", read};
    const struct norm_options options = model_norm_options(config, site_of(s));
    bool first = true;
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "transformer.h.%zu.%s%s%s", layer_of(s), names[site_of(s)].norm,
                 first ? "" : "_", first ? "" : suffix[i]);
        norm_attach(norms[i], wanted[i] ? model_norm(config, site_of(s)) : norm_find("none"),
                    &options, wanted[i] ? name : "", s->C, layout);
        if (wanted[i]) first = false;
    }
}

/* The norms inside attention or the MLP, named as in timm. */
static void attach_inner_norms(struct sublayer *s, const struct model_config *config,
                               const struct layout *layout) {
    const struct norm_options norms = model_norm_options(config, site_of(s));
    const struct norm_kind *qk = model_inner_norm(config, INNER_QK), *none = norm_find("none");
    const struct norm_kind *attn = s->heads ? model_inner_norm(config, INNER_ATTN) : none;
    const struct norm_kind *ffn = s->heads ? none : model_inner_norm(config, INNER_FFN);
    char name[TENSOR_NAME];
    if (s->heads) {
        const struct norm_kind *kind[] = {qk, qk, model_inner_norm(config, INNER_V)};
        const size_t kv = s->attention.KV, heads[] = {s->heads, kv, kv};
        s->qkv_norm = (struct qkv_norm){
            .HS = s->C / s->heads, .E = s->E, .over_width = config->qk_norm_over == EXTENT_WIDTH};
        qkv_norm_attach(&s->qkv_norm, kind, heads, config->qk_scale ? config->qk_scale_start : 0,
                        &norms, in_layer(name, s, "attn"), layout);
    }
    norm_attach(&s->attn_norm, attn, &norms, attn->forward ? in_layer(name, s, "attn.norm") : "",
                s->H, layout);
    norm_attach(&s->ffn_norm, ffn, &norms, ffn->forward ? in_layer(name, s, "mlp.norm") : "", s->H,
                layout);
}

/* The learned factors of q and k, or of the MLP's hidden units. Adam moves the first sqrt(C) times
   as fast as a weight. */
static void attach_gain(struct sublayer *s, const struct layout *layout) {
    char name[TENSOR_NAME];
    size_t size = s->heads ? s->C : s->E, groups = s->heads ? 2 : 1;
    gain_attach(&s->in_gain, in_layer(name, s, s->heads ? "sqk" : "su"), size, groups, 1,
                s->heads ? sqrt((double)s->C) : 1, layout);
    s->in_gain.x = arena_reals(layout->arena, layout->B * layout->T * groups * size);
}

/* The factors of the connection. */
static void set_connection(struct sublayer *s, const struct model_config *config,
                           const struct placement *placement) {
    struct connection *c = &s->connection;
    c->kind = model_connection(config, placement);
    c->C = s->C;
    c->site = s->site;
    c->depth = (size_t)config->n_layer;
    c->a = (real)placement_factor(placement->a, layer_of(s), c->depth);
    c->b = (real)placement_factor(placement->b, layer_of(s), c->depth);
    c->options = config->connections;
}

/* A row of the list below: a norm, which with --norm=none is the identity. */
static struct op norm_row(const struct norm *norm, const char *writes) {
    return (struct op){.wanted = norm->name[0],
                       .kind = norm_present(norm) ? &op_norm : &op_identity,
                       .self = norm,
                       .writes = writes,
                       .width = norm->C,
                       .waits = norm_pools(norm)};
}

/* The sub-layer from its input to its output. Attention has some of the operations, the MLP
   others. The first reads `sum` in backward only: its gradient, dsum. */
static void list_operations(struct sublayer *s) {
    const struct connection *c = &s->connection;
    const struct qkv_norm *qkv = &s->qkv_norm;
    const size_t C = s->C, E = s->E, H = s->H, group = s->heads ? s->heads / s->attention.KV : 0;
    const size_t of_heads = s->heads ? attention_scratch(&s->attention) : 0;
    const bool normalizes = s->heads && qkv_norm_present(qkv);
    const bool pools = normalizes && qkv_norm_pools(qkv);
    const struct op rows[] = {
        {true, &op_read, c, "u", C, .reads = "sum", .waits = norm_pools(&c->norm), .scratch = C},
        norm_row(&s->pre, "normed"),
        {s->s_factor != 1, &op_scale, s, "scaled", .width = C},
        {true, &op_linear, &s->in, "expanded", .width = E},
        {normalizes, &op_qkv_keep, .self = qkv},
        {normalizes, &op_qkv_norm, qkv, .waits = pools, .scratch = 2 * C,
         .held = pools ? E - s->attention.gates : 0},
        {s->heads && s->rope.HS, &op_rope, .self = s},
        {gain_present(&s->in_gain), &op_gain, .self = s},
        {s->heads, &op_attention, s, "inner", H, .heads = s->heads, .group = group,
         .scratch = of_heads},
        {s->attention.gates, &op_gate, &s->attention, .reads = "expanded"},
        {!s->heads, &op_activation, s, "inner", .width = H},
        norm_row(&s->attn_norm, "inner_normed"),
        norm_row(&s->ffn_norm, "inner_normed"),
        {true, &op_linear, &s->proj, "projected", .width = C},
        norm_row(&s->out, "f"),
        {true, &op_write, s, "sum", C, .stores_in = c->keeps_f, .stores_out = true,
         .passes = !connection_has_df(c, s->dropout > 0)},
        norm_row(&s->post, "y"),
    };
    chain_attach(&s->chain, C, sweep_rows(C), sizeof rows / sizeof *rows, rows);
}

/* What forward stores, and where the connection finds it. */
static void take_memory(struct sublayer *s, const struct layout *layout) {
    struct connection *c = &s->connection;
    struct chain *chain = &s->chain;
    const struct op *write = chain->op;
    while (write->kind != &op_write) write++;
    chain_take(chain, layout->B * layout->T, layout->arena);
    chain_place(&chain->value[0], c->x);
    chain_place(&chain->value[1], connection_u(c));
    if (c->keeps_f) c->f = write->in->place[FORWARD].first;
    c->sum = write->out->place[FORWARD].first;
    s->y = chain->value[chain->values - 1].place[FORWARD].first;
}

void sublayer_attach(struct sublayer *s, const struct model_config *config,
                     const struct layout *layout) {
    const struct placement *placement = model_row(config, site_of(s), layer_of(s));
    const struct initial_rule *rule = &initial_rules[config->init];
    const size_t N = layout->B * layout->T;
    char name[TENSOR_NAME];
    set_sizes(s, config, placement);
    set_connection(s, config, placement);
    // standard deviations: the rule's (model_config.c), times the placement's factor
    const double of_in = s->initial / s->initial_v;
    const double in_std = of_in * rule->matrix(config, s->C, s->heads ? s->C : s->H);
    double proj_std = s->initial * rule->matrix(config, s->H, s->C);
    if (!placement->initial && rule->by_depth) proj_std /= sqrt(2 * (double)config->n_layer);
    proj_std *= config->init_branch_scale;
    attach_norms(s, config, placement, layout);
    linear_attach(&s->in, in_layer(name, s, names[site_of(s)].in), s->C, s->E, config->bias, in_std,
                  layout);
    attach_inner_norms(s, config, layout);
    linear_attach(&s->proj, in_layer(name, s, names[site_of(s)].proj), s->H, s->C, config->bias,
                  proj_std, layout);
    connection_attach(&s->connection, layout);
    if (placement->gains) attach_gain(s, layout);
    if (placement->unit) { // the vectors that have a number for each channel of the stream
        tensor_keep_unit(&layout->lists->param, s->in.weight, UNIT_ROWS);
        tensor_keep_unit(&layout->lists->param, s->proj.weight, UNIT_COLUMNS);
    }
    s->attention.softmax = arena_reals(layout->arena, 2 * N * s->heads);
    list_operations(s);
    take_memory(s, layout);
}

void sublayer_initialize(const struct sublayer *s) {
    if (s->initial_v == 1) return;
    const struct qkv_columns *rows = &s->qkv_norm.columns[QKV_V]; // of the weight
    real *v = s->in.weight.value + rows->first * s->C;
    for (size_t i = 0; i < rows->width * s->C; i++) v[i] *= (real)s->initial_v;
}

void sublayer_prepare(const struct sublayer *s) {
    linear_prepare(&s->in);
    linear_prepare(&s->proj);
    connection_prepare(&s->connection);
}

void sublayer_set_initial(struct sublayer *s, const struct tokens *tokens) {
    struct connection *connection = &s->connection;
    if (!connection->kind->set_initial) return;
    team_barrier();
    if (omp_get_thread_num() == 0) connection->kind->set_initial(connection, tokens);
    team_barrier();
    connection_prepare(connection);
    team_barrier();
}

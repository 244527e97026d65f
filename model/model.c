/* ids (B,T) -> wte + wpe -> L x (attention, MLP) -> final norm -> wte^T -> logits (B,T,V) -> loss.
   The head is the token embedding transposed, so dwte gets a share from either end. */
#include "model.h"
#include "embedding.h"
#include "loss.h"
#include "matmul.h"
#include <math.h>
#include <omp.h>
#include <string.h>

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

static struct linear head(const struct model *model) {
    return (struct linear){.in = model->C, .out = model->V, .weight = model->wte};
}

/* Declares every tensor and takes every buffer, in the data's order. Runs twice: see arena.h. */
static void lay_out(struct model *m) {
    const struct model_config *config = &m->config;
    const struct placement *placement = &placements[config->placement];
    size_t B = m->B, T = m->T, C = m->C, N = B * T;
    struct arena *arena = &m->arena;
    struct tensor_lists *lists = &m->lists;
    struct sublayer_options options = {
        .placement = placement,
        .norm = norm_kinds[config->norm],
        .norm_options = {config->norm_eps, config->bn_momentum, config->affine, config->bias},
        .activation = &activations[config->activation],
        .C = C,
        .proj_deviation = 0.02 / sqrt(2.0 * (double)m->L),
        .dropout = config->dropout,
        .bias = config->bias,
        .seed = m->seed,
    };
    m->wte = tensor_take(&lists->param, "transformer.wte.weight", m->V, C, 0, 0.02);
    m->wpe = tensor_take(&lists->param, "transformer.wpe.weight", T, C, 0, 0.02);
    m->embedded = arena_reals(arena, N * C);
    m->layer = arena_take(arena, m->L, sizeof *m->layer);
    size_t scratch = linear_scratch(C, m->V);
    struct layer uncounted; // while counting there are no layers yet
    for (size_t l = 0; l < m->L; l++) {
        struct layer *layer = m->layer ? &m->layer[l] : &uncounted;
        options.layer = l;
        options.heads = config->n_head;
        sublayer_attach(&layer->attention, &options, B, T, lists, arena);
        options.heads = 0;
        sublayer_attach(&layer->mlp, &options, B, T, lists, arena);
        size_t threads = omp_get_max_threads();
        scratch = most(scratch, sublayer_scratch_size(&layer->attention, B, T, threads));
        scratch = most(scratch, sublayer_scratch_size(&layer->mlp, B, T, threads));
    }
    bool final = config->final_norm == FINAL_NORM_AUTO ? placement->final
                                                       : config->final_norm == FINAL_NORM_ON;
    norm_attach(&m->final, final ? options.norm : norm_find("none"), &options.norm_options,
                "transformer.ln_f", N, C, lists, arena);
    if (m->final.kind->scratch) scratch = most(scratch, m->final.kind->scratch(N, C));
    if (m->final.kind->forward) m->final_out = arena_reals(arena, N * C);
    m->logits = arena_reals(arena, N * m->V);
    m->dlogits = arena_reals(arena, N * m->V);
    m->losses = arena_reals(arena, N);
    for (int i = 0; i < 2; i++) m->flow[i] = arena_reals(arena, N * C);
    for (int i = 0; i < 3; i++) m->scratch.stream[i] = arena_reals(arena, N * C);
    for (int i = 0; i < 2; i++) m->scratch.wide[i] = arena_reals(arena, N * 4 * C);
    m->scratch.scratch = arena_reals(arena, scratch);
}

/* Takes what the lists themselves need; `count` and `size` are known from the first pass. */
static void lay_out_lists(struct model *m, struct tensor_lists counted) {
    struct tensor_list *list[] = {&m->lists.param, &m->lists.state, &m->lists.fixed};
    const struct tensor_list *size[] = {&counted.param, &counted.state, &counted.fixed};
    for (int i = 0; i < 3; i++)
        *list[i] = (struct tensor_list){
            .tensor = arena_take(&m->arena, size[i]->count, sizeof *list[i]->tensor),
            .value = arena_reals(&m->arena, size[i]->size),
            .grad = list[i] == &m->lists.state ? NULL : arena_reals(&m->arena, size[i]->size),
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
                            .seed = seed};
    lay_out(model);
    struct tensor_lists counted = model->lists;
    lay_out_lists(model, counted);
    arena_allocate(&model->arena, "the model");
    lay_out_lists(model, counted);
    lay_out(model);
    tensor_initialize(&model->lists.param, seed);
    tensor_initialize(&model->lists.state, seed);
    tensor_initialize(&model->lists.fixed, seed);
}

void model_free(struct model *model) {
    arena_free(&model->arena);
}

static struct pass pass_of(const struct batch *batch, bool training, uint64_t step) {
    return (struct pass){{batch->B, batch->T, batch->valid, training}, step};
}

static struct dropout embedding_dropout(const struct model *m, const struct pass *pass) {
    double p = pass->tokens.training ? m->config.dropout : 0;
    return dropout_make(p, random_key(m->seed, "embedding", pass->step));
}

void model_forward(struct model *m, const struct batch *batch, bool training, uint64_t step) {
    struct pass pass = pass_of(batch, training, step);
    size_t B = batch->B, T = batch->T, N = B * T;
    real *x = m->embedded;
    embedding_forward(B, T, m->C, x, batch->ids, m->wte.value, m->wpe.value,
                      embedding_dropout(m, &pass));
    for (size_t l = 0; l < m->L; l++) {
        x = sublayer_forward(&m->layer[l].attention, &pass, x, &m->scratch);
        x = sublayer_forward(&m->layer[l].mlp, &pass, x, &m->scratch);
    }
    m->last = x;
    m->top = norm_forward(&m->final, &pass.tokens, m->final_out, x, m->scratch.scratch);
    struct linear lm_head = head(m);
    linear_forward(&lm_head, N, m->logits, m->top, m->scratch.scratch);
}

size_t model_loss(struct model *m, const struct batch *batch, double *sum) {
    size_t N = batch->B * batch->T;
    loss_cross_entropy(N, m->V, m->losses, NULL, m->logits, batch->targets, 0);
    return loss_sum(N, m->losses, batch->targets, sum);
}

double model_backward(struct model *m, const struct batch *batch, uint64_t step, double scale) {
    struct pass pass = pass_of(batch, true, step);
    size_t B = batch->B, T = batch->T, N = B * T, valid = 0;
    for (size_t n = 0; n < N; n++) valid += batch->targets[n] >= 0;
    if (!valid) return 0;
    double sum;
    loss_cross_entropy(N, m->V, m->losses, m->dlogits, m->logits, batch->targets,
                       (real)(scale / (double)valid));
    loss_sum(N, m->losses, batch->targets, &sum);

    struct linear lm_head = head(m);
    real *dx = m->flow[0], *other = m->flow[1];
    linear_backward(&lm_head, N, dx, m->dlogits, m->top, m->scratch.scratch);
    real *dlast = norm_backward(&m->final, &pass.tokens, other, dx, m->last, m->scratch.scratch);
    if (dlast == other) other = dx, dx = dlast;
    for (size_t l = m->L; l-- > 0;) {
        sublayer_backward(&m->layer[l].mlp, &pass, other, dx, &m->scratch);
        sublayer_backward(&m->layer[l].attention, &pass, dx, other, &m->scratch);
    }
    embedding_backward(B, T, m->C, m->wte.grad, m->wpe.grad, dx, batch->ids,
                       embedding_dropout(m, &pass));
    return sum / (double)valid;
}

void model_zero_grad(struct model *m) {
    memset(m->lists.param.grad, 0, m->lists.param.size * sizeof(real));
}

size_t model_parameters(const struct model *m) {
    size_t sum = 0;
    for (size_t i = 0; i < m->lists.param.count; i++) sum += m->lists.param.tensor[i].size;
    return sum;
}

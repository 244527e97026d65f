/* A pass over the whole Transformer, from ids (B,T) to the loss and back:

     forward                                     | backward
     --------------------------------------------+--------------------------------------------------
     embedded = drop(wte[id] + wpe[t])           | dwte, dwpe += of dembedded
       times a learned number, if there is one   |   times that number
     stream_in = EMBEDDING(embedded)             | dembedded = EMBEDDING'(dstream_in)
     L times: attention, MLP (chain_run.c)       | L times: MLP, attention
     head_in = FINAL(READ(streams))              | dstreams = READ'(FINAL'(dhead_in))
     logits = cap(g (head_in whead^T)), losses   | dz = g cap'(dlogits): dhead_in = dz whead,
                                                 |   dwhead += dz^T head_in

   In training, head_backward() computes the logits and losses too, HEAD_ROWS tokens at a time, so
   that forward ends with head_in.

   EMBEDDING and FINAL are norms, or the identity. READ joins the streams of a residual connection
   that has several (connection.h). A stream that starts before EMBEDDING adds its gradient to
   dembedded. z is the logits before the learned factors g of gain.h; without these g is 1. cap is
   that of head.c or the identity. whead is wte itself unless the head is untied, so dwte has
   two parts. Threads wait for one another

     - where a norm pools over tokens, and as chain_run.c says;
     - before sums over all rows: after each layer those for its biases, norms and learned factors;
       at the end those for the other norms, the logits' factors, wte and wpe;
     - before and after the HEAD_ROWS tokens that the head's backward takes at a time, since dwhead
       is a sum over rows;
     - between the head's backward and the layers', since these give other rows to a thread.

   A batch goes through both columns in micro-batches (partition.c). If wte is the head's weight too, dwte
   is two sums, over the logits and over dembedded, which are added after the last micro-batch. */
#include "model/model_pass.h"
#include "model/head.h"
#include "model/layer/embedding.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"
#include "model/partition.h"
#include <string.h>

struct tokens model_tokens(const struct model *m, const struct batch *batch, bool training) {
    const unsigned char *valid = m->config.pad_stats == PAD_STATS_INCLUDE ? NULL : batch->valid;
    return (struct tokens){
        .B = batch->B, .T = batch->T, .valid = valid, .training = training, .source = m->source};
}

/* A pass over a micro-batch of `full`. */
static struct pass pass_of(const struct model *m, const struct batch *batch,
                           const struct batch *full, bool training, uint64_t number) {
    struct pass pass = {.tokens = model_tokens(m, batch, training),
                        .rows = {0, batch->B * batch->T},
                        .number = number,
                        .first = batch->first * batch->T,
                        .observe = m->observe,
                        .observer = m->observer};
    pass.tokens.parts = partition_parts(&m->config, batch, full);
    pass.tokens.parts.slots = m->slots;
    return pass;
}

bool model_shares(const struct model *m) {
    return ranks.count > 1 && !m->lists.undivided && !m->probing;
}

/* The parts of a pass in model_gradient(), where ranks may share the batch. */
static struct pass gradient_pass(const struct model *m, const struct batch *batch,
                                 const struct batch *full, uint64_t number) {
    struct pass pass = pass_of(m, batch, full, true, number);
    struct parts *parts = &pass.tokens.parts;
    parts->shared = model_shares(m);
    if (parts->shared) parts->run = ranks_parts(parts_count(parts), ranks.number);
    pass.tokens.local = parts->shared && m->config.local_stats;
    return pass;
}

static struct embedding embedding_of(const struct model *m, const struct pass *pass,
                                     const int32_t *ids) {
    double p = pass_drops(pass) ? m->config.dropout : 0;
    const uint64_t key = random_key(m->seed, "embedding", pass->number);
    return (struct embedding){
        .T = pass->tokens.T,
        .C = m->C,
        .V = m->V,
        .ids = ids,
        .wte = m->wte_embedding,
        .wpe = m->wpe,
        .dropout = dropout_make(p, key, (uint64_t)pass->first * m->C),
    };
}

/* What follows is called by every thread of the team. */

/* Makes the linear layers ready for changed weights. */
static void prepare(struct model *m) {
    for (size_t l = 0; l < m->L; l++) {
        sublayer_prepare(&m->layer[l].attention);
        sublayer_prepare(&m->layer[l].mlp);
    }
    if (m->end.kind) connection_prepare(&m->end);
    linear_prepare(&m->head);
    profile_lap(PROFILE_TRANSPOSE);
    team_barrier(); // every thread has read m->prepared
    if (omp_get_thread_num() == 0) m->prepared = m->lists.param.version;
}

/* ---- between the embedding and the layers, and between them and the head ---- */

/* Shows the thread's rows of what is outside the layers: a norm or READ, between x and y or dy, as
   an operation of a sub-layer. */
static void observe(const struct pass *pass, const struct op_kind *kind, const void *self,
                    struct step step) {
    const struct op op = {.kind = kind, .self = self};
    step.pass = pass;
    step.rows = team_part_rows(pass->rows);
    if (pass->observe) pass->observe(pass->observer, &op, &step);
}

/* y (B,T,C) = norm(x), for a norm outside the layers; nothing if it is the identity. */
static void outer_norm_forward(const struct norm *norm, const struct pass *pass, real *y,
                               const real *x) {
    struct range rows = team_part_rows(pass->rows);
    size_t offset = rows.begin * norm->C;
    norm_statistics(norm, &pass->tokens, x);
    const bool present = norm_present(norm);
    if (present) norm_forward(norm, &pass->tokens, rows, y + offset, x + offset);
    observe(pass, &op_norm, norm,
            (struct step){.x = (real *)x + offset, .y = present ? y + offset : (real *)x + offset});
}

/* dx (B,T,C) from dy (B,T,C). Returns dx, or dy if the norm is the identity. */
static real *outer_norm_backward(const struct norm *norm, const struct pass *pass, real *dx,
                                 real *dy, const real *x) {
    struct range rows = team_part_rows(pass->rows);
    size_t offset = rows.begin * norm->C;
    norm_gradient_statistics(norm, &pass->tokens, dy, x);
    observe(pass, &op_norm, norm,
            (struct step){.backward = true, .x = (real *)x + offset, .dy = dy + offset});
    if (!norm_present(norm)) return dy;
    norm_backward(norm, &pass->tokens, rows, dx + offset, dy + offset, x + offset);
    return dx;
}

/* The input of the head from the streams. */
static void end_forward(const struct model *m, const struct pass *pass) {
    const struct connection *end = &m->end;
    norm_statistics(&end->norm, &pass->tokens, end->norm_in);
    if (end->kind) end->kind->functions->read(end, &pass->tokens, team_part_rows(pass->rows));
    observe(pass, &op_read, end, (struct step){0});
    outer_norm_forward(&m->final, pass, m->final_out, model_final_in(m));
}

/* dstream_out from dhead_in, which is in dstream[0]. Returns the index of the dstream that holds
   it. */
static size_t end_backward(const struct model *m, const struct pass *pass) {
    const struct connection *end = &m->end;
    struct range rows = team_part_rows(pass->rows);
    size_t current = norm_present(&m->final) ? 1 : 0;
    real *d = outer_norm_backward(&m->final, pass, m->dstream[1], m->dstream[0], model_final_in(m));
    norm_gradient_statistics(&end->norm, &pass->tokens, d, end->norm_in);
    d += rows.begin * m->C;
    real *scratch = m->dstream[2] + rows.begin * m->C;
    observe(pass, &op_read, end, (struct step){.backward = true, .dy = d});
    if (end->kind)
        end->kind->functions->read_backward(end, &pass->tokens, rows, d, NULL, d, scratch);
    return current;
}

/* Adds to d (B,T,C) the gradient that reaches the embeddings by other ways than stream_in. */
static void add_dembedded(const struct model *m, const struct pass *pass, real *d) {
    const struct range rows = team_part_rows(pass->rows),
                       elements = {rows.begin * m->C, rows.end * m->C};
    const real *beside = m->layer[0].attention.connection.dembedded;
    d += elements.begin;
    if (beside) dropout_axpby(elements, d, 1, d, 1, beside + elements.begin, (struct dropout){0});
}

/* dembedded from dstream_in, in dx or in dstream_in itself. Without EMBEDDING these are the
   same, and the probed gradient is that of all streams' start. */
static const real *start_backward(const struct model *m, const struct pass *pass, real *dx,
                                  real *dstream_in) {
    const bool same = !norm_present(&m->embedding_norm);
    const struct range rows = team_part_rows(pass->rows);
    if (same) add_dembedded(m, pass, dstream_in);
    real *d = outer_norm_backward(&m->embedding_norm, pass, dx, dstream_in, m->embedded);
    if (!same) add_dembedded(m, pass, d);
    gain_backward_kept(&m->embd_scale, rows, d + rows.begin * m->C, m->C);
    return d;
}

/* ---- passes ---- */

/* The work of a team. */
struct work {
    struct model *m;
    const struct batch *batch;
    const int32_t *ids; // (B,T)
    const struct pass *pass;
    // backward
    real scale; // the weight of each valid target of the full batch in the gradient
    bool last;  // the last of the process's micro-batches
};

static void forward_work(void *argument) {
    const struct work *work = argument;
    struct model *m = work->m;
    const struct pass *pass = work->pass;
    if (m->prepared != m->lists.param.version) prepare(m);
    const struct embedding embedding = embedding_of(m, pass, work->ids);
    const struct range rows = team_part_rows(pass->rows);
    embedding_forward(&embedding, rows, m->embedded);
    gain_forward_kept(&m->embd_scale, rows, m->embedded + rows.begin * m->C, m->C);
    outer_norm_forward(&m->embedding_norm, pass, m->stream_in, m->embedded);
    for (size_t i = 0; i < 2 * m->L; i++) {
        struct layer *layer = &m->layer[i / 2];
        struct sublayer *s = i % 2 ? &layer->mlp : &layer->attention;
        if (pass->initial) sublayer_set_initial(s, &pass->tokens);
        chain_compute(&s->chain, pass, &m->memory[i % 2], NULL, NULL);
    }
    end_forward(m, pass);
    team_barrier();
}

void model_forward(struct model *m, const struct batch *batch, bool training, uint64_t number) {
    const struct pass pass = pass_of(m, batch, batch, training, number);
    struct work work = {.m = m, .ids = batch->ids, .pass = &pass};
    team_run(model_team_size(m, batch->B * batch->T), forward_work, &work);
}

void model_set_initial(struct model *m, const struct batch *batch) {
    struct pass pass = pass_of(m, batch, batch, true, 0);
    struct work work = {.m = m, .ids = batch->ids, .pass = &pass};
    pass.initial = true;
    pass.observe = NULL;
    team_run(model_team_size(m, batch->B * batch->T), forward_work, &work);
    m->lists.param.version++;
    tensor_initialize(&m->lists.state, m->seed);
}

void model_extend(struct model *m, const int32_t *ids, size_t first, size_t end) {
    struct pass pass = {.tokens = {.B = 1, .T = end, .first = first}, .rows = {first, end}};
    struct work work = {.m = m, .ids = ids, .pass = &pass};
    team_run(1, forward_work, &work);
}

/* Completes the gradients of these tensors. Those of vectors are sums over row blocks, which are
   added here. Those of matrices were added slab by slab (chain_run.c), where each thread had its own
   parts to its own sums, which are added here; else, and for the head and the embedding, to shared
   ones. After the last of the process's micro-batches,
   ranks then add up the gradients while backward continues. */
static void complete(const struct model *m, const struct parts *parts, struct range tensors,
                     bool last) {
    const size_t threads = (size_t)omp_get_num_threads();
    const bool separate = parts_separate(parts, threads);
    const struct tensor_list *list = &m->lists.param;
    const struct tensor *t = list->tensor + tensors.begin, *end = list->tensor + tensors.end;
    if (t == end) return;
    const size_t first = t->offset, after = tensors.end < list->count ? end->offset : list->stride;
    for (; t < end; t++) {
        const struct parts rows = parts_times(*parts, t->rows);
        if (t->param.sums)
            parts_add_sums(&rows, &t->param);
        else if (separate && t->matrix_rows[0])
            parts_join(parts, threads, &t->param, team_part(t->size, CHUNK));
    }
    if (separate) profile_lap(PROFILE_WEIGHT);
    if (last && parts->shared)
        ranks_sum_start(parts_count(parts), list->grad, (struct range){first, after});
}

/* The tensors before and after the layers, and the embedding's contribution to a tied weight. */
static void complete_rest(const struct model *m, const struct parts *parts, bool last) {
    const struct param *tied = &m->wte_embedding;
    complete(m, parts, (struct range){0, m->layer[0].tensors.begin}, last);
    complete(m, parts, (struct range){m->layer[m->L - 1].tensors.end, m->lists.param.count}, last);
    if (last && parts->shared && tied->grad != m->wte.grad)
        ranks_sum_start(parts_count(parts), tied->grad, (struct range){0, m->V * m->C});
}

static void backward_work(void *argument) {
    const struct work *work = argument;
    struct model *m = work->m;
    const struct batch *batch = work->batch;
    const struct pass *pass = work->pass;
    const struct parts *parts = &pass->tokens.parts;
    head_backward(m, batch, parts, m->dstream[0], work->scale);
    size_t current = end_backward(m, pass); // dstream[current] is the gradient of the stream
    team_barrier();
    // Three arrays in turn: until the next barrier other threads read dy, and none is written twice.
    for (size_t l = m->L; l-- > 0; current = (current + 2) % 3) {
        real *dy = m->dstream[current], *between = m->dstream[(current + 1) % 3];
        real *dx = m->dstream[(current + 2) % 3];
        chain_compute(&m->layer[l].mlp.chain, pass, &m->memory[1], between, dy);
        chain_compute(&m->layer[l].attention.chain, pass, &m->memory[0], dx, between);
        team_barrier();
        complete(m, parts, m->layer[l].tensors, work->last);
    }
    team_barrier();
    const real *dembedded =
        start_backward(m, pass, m->dstream[(current + 1) % 3], m->dstream[current]);
    team_barrier();
    const struct embedding embedding = embedding_of(m, pass, batch->ids);
    embedding_backward(&embedding, parts, dembedded);
    complete_rest(m, parts, work->last);
    profile_lap(PROFILE_OTHER);
    team_barrier();
}

/* Adds the gradient of a tied embedding to that of the head, after all parts of a batch. */
static void tied_work(void *argument) {
    const struct model *m = argument;
    struct range share = team_part(m->V * m->C, CHUNK);
    real *from = m->wte_embedding.grad;
#pragma omp simd
    for (size_t i = share.begin; i < share.end; i++) m->wte.grad[i] += from[i];
    memset(from + share.begin, 0, (share.end - share.begin) * sizeof(real));
    profile_lap(PROFILE_EMBEDDING);
    team_barrier();
}

/* Completes the gradients after backward of all of this rank's parts. */
static void end_batch(struct model *m) {
    m->zero = false;
    ranks_sum_finish();
    // as PyTorch's DistributedDataParallel: running statistics are those of the first rank
    if (m->config.local_stats) ranks_copy_first(m->lists.state.value, m->lists.state.size);
    if (m->wte_embedding.grad != m->wte.grad) team_run(model_team(m), tied_work, m);
}

/* After backward of a batch with targets: returns the sum of the losses divided by the number of
   targets. */
static double mean_loss(const struct model *m, const struct batch *batch, const struct parts *parts,
                        size_t valid) {
    double sum[PARTS_MAX] = {0}; // of each part, then of each subtree at its first part
    size_t first = parts->first / parts->size, count = parts_count(parts);
    for (size_t row = 0; row < parts->rows; row += parts->size)
        loss_sum(size_min(parts->size, parts->rows - row), m->losses + parts->first + row,
                 batch->targets + row, &sum[first + row / parts->size]);
    if (parts->shared) ranks_share(sum, count, ranks_each(count));
    for (size_t size = 1; size < count; size *= 2)
        for (size_t part = 0; part + size < count; part += 2 * size) sum[part] += sum[part + size];
    return sum[0] / (double)valid;
}

double model_backward(struct model *m, const struct batch *batch, uint64_t number, double scale) {
    size_t valid = batch_targets(batch);
    struct pass pass = pass_of(m, batch, batch, true, number);
    if (!valid) return 0;
    pass.tokens.scale = scale;
    struct work work = {m, batch, batch->ids, &pass, (real)(scale / (double)valid), .last = true};
    team_run(model_team_size(m, batch->B * batch->T), backward_work, &work);
    end_batch(m);
    return mean_loss(m, batch, &pass.tokens.parts, valid);
}

double model_gradient(struct model *m, const struct batch *batch, uint64_t number, double scale) {
    size_t valid = batch_targets(batch);
    struct batch share = model_shares(m) ? partition_share(&m->config, batch) : *batch, micro;
    struct pass pass = gradient_pass(m, &share, batch, number);
    const struct parts parts = pass.tokens.parts;
    // the sum of part 0 alone continues from the gradient so far
    if (parts.shared && parts.run.begin > 0 && !m->zero) model_zero_grad(m);
    size_t first = 0;
    do { // without sequences too: ranks wait for one another
        micro = partition_micro_batch(&m->config, m->rows, &share, batch, first);
        first += micro.B;
        pass = gradient_pass(m, &micro, batch, number);
        pass.tokens.scale = scale; // of a norm's penalty; the head takes work.scale
        struct work work = {
            m, &micro, micro.ids, &pass, (real)(scale / (double)valid), .last = first == share.B};
        team_run(model_team_size(m, micro.B * micro.T), forward_work, &work);
        if (valid) team_run(model_team_size(m, micro.B * micro.T), backward_work, &work);
    } while (first < share.B);
    if (!valid) return 0;
    end_batch(m);
    return mean_loss(m, &share, &parts, valid);
}

/* Each thread zeroes the part of each gradient that it will write. */
static void zero_work(void *argument) {
    const struct tensor_list *list = argument;
    for (size_t k = 0; k < list->count; k++) {
        struct range share = team_part(list->tensor[k].size, CHUNK);
        memset(list->grad + list->tensor[k].offset + share.begin, 0,
               (share.end - share.begin) * sizeof(real));
    }
    profile_lap(PROFILE_OTHER);
    team_barrier();
}

void model_zero_grad(struct model *m) {
    m->zero = true;
    team_run(model_team(m), zero_work, &m->lists.param);
}

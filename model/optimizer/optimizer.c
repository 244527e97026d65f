/* The kinds of optimizers, and what they share: memory, the gradient's norm, clipping, and the pass
   over the tensors.

     g = grad min(1, clip / (|grad| + 1e-6))

   as PyTorch's clip_grad_norm_. Weight decay applies to matrices, embeddings included, with w0 = 0,
   and not to biases and norms, as in nanoGPT. --decay-gamma adds the norms' gammas, with their own
   w0 (tensor.h). After the update, rows and columns that keep unit length are divided by their
   length (tensor.h).

   A tensor that is updated by elements is split among the threads; matrices are updated by one
   thread each, in an order that balances the threads' work. Both give the same bits for any number
   of threads. */
#include "model/optimizer/optimizer.h"
#include "model/math/simd.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

// clang-format off
#define OPTIMIZER(kind) extern const struct optimizer_kind optimizer_##kind;
#include "model/optimizer/list.h"
#undef OPTIMIZER

const struct optimizer_kind *const optimizer_kinds[] = {
#define OPTIMIZER(kind) &optimizer_##kind,
#include "model/optimizer/list.h"
#undef OPTIMIZER
    NULL};
// clang-format on

const struct option *const *optimizer_option_list(void) {
    static const struct option *list[KIND_OPTIONS_MAX + 1];
    if (!list[0])
        for (size_t k = 0; optimizer_kinds[k]; k++) options_add(list, optimizer_kinds[k]->options);
    return list;
}

static struct optimizer_rule rule_with(const struct optimizer_kind *kind,
                                       const struct optimizer_options *options) {
    struct optimizer_rule rule = {
        .kind = kind, .weight_decay = options->weight_decay, .peak = options->peak};
    for (int i = 0; kind->options[i]; i++)
        rule.option[i] = options->value[options_place(optimizer_option_list(), kind->options[i])];
    return rule;
}

/* A matrix that one thread updates: rows of a tensor. */
struct optimizer_matrix {
    const struct tensor *tensor;
    size_t begin, rows; // the first row in the tensor
};

static size_t chunks(size_t count) {
    return (count + CHUNK - 1) / CHUNK;
}

static const struct optimizer_rule *rule_of(const struct optimizer *o, const struct tensor *t) {
    const struct optimizer_kind *chosen = o->rule[0].kind;
    return &o->rule[chosen->takes && !chosen->takes(t)];
}

const struct optimizer_kind *optimizer_of(const struct optimizer *o, const struct tensor *t) {
    return rule_of(o, t)->kind;
}

/* Lists the matrices of the tensors that are updated by matrices, if there is memory; counts
   them. */
static void list_matrices(struct optimizer *o, const struct tensor_list *list) {
    o->matrices = o->scratch_size = 0;
    for (size_t k = 0; k < list->count; k++) {
        const struct tensor *t = &list->tensor[k];
        const struct optimizer_kind *kind = optimizer_of(o, t);
        size_t begin = 0;
        if (!kind->matrix) continue;
        for (int i = 0; i < TENSOR_MATRICES && t->matrix_rows[i]; i++) {
            size_t rows = t->matrix_rows[i];
            size_t size = vec_padded(kind->scratch_size(rows, t->shape[1]));
            if (o->matrix) o->matrix[o->matrices] = (struct optimizer_matrix){t, begin, rows};
            if (size > o->scratch_size) o->scratch_size = size;
            begin += rows;
            o->matrices++;
        }
    }
}

/* Takes the optimizer's memory; runs twice: see arena.h. */
static void take_memory(struct optimizer *o, const struct tensor_list *list) {
    size_t count = 0;
    for (size_t k = 0; k < list->count; k++) count += chunks(list->tensor[k].size);
    for (int i = 0; i < OPTIMIZER_STATES; i++)
        if (o->rule[0].kind->state[i] || (o->rule[0].kind->takes && o->rule[1].kind->state[i]))
            o->state[i] = arena_reals(&o->arena, list->size);
    o->squares = arena_take(&o->arena, count, sizeof *o->squares);
    list_matrices(o, list);
    o->matrix = arena_take(&o->arena, o->matrices, sizeof *o->matrix);
    o->scratch = arena_reals(&o->arena, (size_t)o->threads * o->scratch_size);
}

static int largest_first(const void *a, const void *b) {
    const struct optimizer_matrix *x = a, *y = b;
    size_t of_x = x->rows * x->tensor->shape[1], of_y = y->rows * y->tensor->shape[1];
    return (of_x < of_y) - (of_x > of_y);
}

void optimizer_init(struct optimizer *o, const struct optimizer_options *options,
                    const struct tensor_list *list, int threads) {
    const struct optimizer_kind *kind = optimizer_kinds[options->kind];
    *o = (struct optimizer){
        .rule = {rule_with(kind, options), rule_with(optimizer_kinds[0], options)},
        .grad_clip = options->grad_clip,
        .threads = threads};
    if (kind->check) kind->check(&o->rule[0]);
    take_memory(o, list);
    arena_allocate(&o->arena, "the optimizer");
    take_memory(o, list);
    list_matrices(o, list);
    if (o->matrices) qsort(o->matrix, o->matrices, sizeof *o->matrix, largest_first);
}

void optimizer_free(struct optimizer *o) {
    arena_free(&o->arena);
}

/* One pass over the tensors, as team_run() hands it to the threads. */
struct optimizer_pass {
    struct optimizer *optimizer;
    const struct tensor_list *list;
    atomic_size_t next; // matrix of step_work()
};

/* Passes go tensor by tensor. A thread has the same share of a tensor in all of them; it is near
   the share of the gradient that the thread wrote in the backward pass. */

static void norm_work(void *argument) {
    const struct optimizer_pass *pass = argument;
    const struct tensor_list *list = pass->list;
    double *squares = pass->optimizer->squares;
    for (size_t k = 0; k < list->count; squares += chunks(list->tensor[k++].size)) {
        const real *grad = list->grad + list->tensor[k].offset;
        struct range share = team_part(list->tensor[k].size, CHUNK);
        for (size_t begin = share.begin; begin < share.end; begin += CHUNK) {
            size_t end = size_min(begin + CHUNK, share.end);
            double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (size_t i = begin; i < end; i++) sum += (double)grad[i] * (double)grad[i];
            squares[begin / CHUNK] = sum;
        }
    }
    profile_lap(PROFILE_OPTIMIZER);
    team_barrier();
}

double optimizer_grad_norm(struct optimizer *o, const struct tensor_list *list) {
    struct optimizer_pass pass = {.optimizer = o, .list = list};
    team_run(o->threads, norm_work, &pass);
    double total = 0;
    const double *squares = o->squares;
    for (size_t k = 0; k < list->count; k++)
        for (size_t chunk = 0; chunk < chunks(list->tensor[k].size); chunk++) total += *squares++;
    profile_lap(PROFILE_OPTIMIZER);
    return sqrt(total);
}

/* The elements of a tensor from `begin` on. */
static struct optimizer_span span_at(const struct optimizer_pass *pass, const struct tensor *t,
                                     size_t begin) {
    size_t offset = t->offset + begin;
    struct optimizer_span span = {
        .tensor = t, .w = pass->list->value + offset, .grad = pass->list->grad + offset};
    for (int i = 0; i < OPTIMIZER_STATES; i++)
        if (pass->optimizer->state[i]) span.state[i] = pass->optimizer->state[i] + offset;
    return span;
}

static void update_elements(const struct optimizer_pass *pass) {
    for (size_t k = 0; k < pass->list->count; k++) {
        const struct tensor *t = &pass->list->tensor[k];
        const struct optimizer_rule *rule = rule_of(pass->optimizer, t);
        if (!rule->kind->elements) continue;
        struct range share = team_part(t->size, CHUNK);
        struct optimizer_span span = span_at(pass, t, share.begin);
        span.size = share.end - share.begin;
        rule->kind->elements(rule, &span);
        const real pull = (real)(rule->rate * rule->weight_decay * t->decay_target);
        for (size_t i = 0; pull != 0 && i < span.size; i++) span.w[i] += pull;
    }
}

static void update_matrices(struct optimizer_pass *pass) {
    const struct optimizer *o = pass->optimizer;
    real *scratch = o->scratch + (size_t)omp_get_thread_num() * o->scratch_size;
    for (size_t i; (i = atomic_fetch_add(&pass->next, 1)) < o->matrices;) {
        const struct optimizer_matrix *matrix = &o->matrix[i];
        const struct optimizer_rule *rule = rule_of(o, matrix->tensor);
        size_t columns = matrix->tensor->shape[1];
        struct optimizer_span span = span_at(pass, matrix->tensor, matrix->begin * columns);
        span.rows = matrix->rows, span.columns = columns, span.size = matrix->rows * columns;
        rule->kind->matrix(rule, &span, scratch);
    }
}

static void step_work(void *argument) {
    struct optimizer_pass *pass = argument;
    update_elements(pass);
    if (pass->optimizer->matrices) update_matrices(pass);
    profile_lap(PROFILE_OPTIMIZER);
    team_barrier();
    if (!pass->list->units) return;
    tensor_normalize_units(pass->list);
    profile_lap(PROFILE_OPTIMIZER);
    team_barrier();
}

void optimizer_step(struct optimizer *o, struct tensor_list *list, double lr, double grad_norm) {
    double clip = o->grad_clip > 0 ? fmin(1, o->grad_clip / (grad_norm + 1e-6)) : 1;
    o->step++;
    for (int i = 0; i < 2; i++) {
        struct optimizer_rule *rule = &o->rule[i];
        rule->step = o->step, rule->rate = lr, rule->clip = (real)clip;
    }
    struct optimizer_pass pass = {.optimizer = o, .list = list};
    team_run(o->threads, step_work, &pass);
    list->version++; // the next forward pass copies the weights into panels again: model_pass.c
    profile_lap(PROFILE_OPTIMIZER);
}

/* AdamW. With t the number of this update, counted from 1, and g the clipped gradient:

     g = grad min(1, clip / (|grad| + 1e-6))
     m = beta1 m + (1 - beta1) g
     v = beta2 v + (1 - beta2) g^2
     w = w - lr decay (w - w0) - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

   Weight decay applies to matrices, embeddings included, with w0 = 0, and not to biases and norms,
   as in nanoGPT. --decay-gamma adds the norms' gammas, with their own w0 (tensor.h). Then rows and
   columns that keep unit length are divided by their length (unit.h).
   Kingma and Ba 2015, algorithm 1 (arXiv:1412.6980); Loshchilov and Hutter 2019, algorithm 2
   (arXiv:1711.05101); clipping as PyTorch's clip_grad_norm_. */
#include "model/lab/adam.h"
#include "model/math/profile.h"
#include "model/math/team.h"
#include "model/math/unit.h"
#include "model/math/vecmath.h"

static size_t chunks(size_t count) {
    return (count + CHUNK - 1) / CHUNK;
}

/* Takes the moments' memory; runs twice: see arena.h. */
static void take_memory(struct adam *adam, const struct tensor_list *list) {
    size_t count = 0;
    for (size_t k = 0; k < list->count; k++) count += chunks(list->tensor[k].size);
    adam->m = arena_reals(&adam->arena, list->size);
    adam->v = arena_reals(&adam->arena, list->size);
    adam->squares = arena_take(&adam->arena, count, sizeof *adam->squares);
}

void adam_init(struct adam *adam, const struct adam_options *options,
               const struct tensor_list *list) {
    *adam = (struct adam){.options = *options, .threads = 1};
    take_memory(adam, list);
    arena_allocate(&adam->arena, "the optimizer");
    take_memory(adam, list);
}

void adam_free(struct adam *adam) {
    arena_free(&adam->arena);
}

/* The numbers of one update. */
struct update {
    real beta1, beta2, rest1, rest2, eps; // rest = 1 - beta
    real scale;                           // of the gradient: clipping
    real rate, unbias;                    // lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
    double decay;                         // lr weight_decay
};

/* One pass over the tensors, as team_run() hands it to the threads. */
struct adam_pass {
    struct adam *adam;
    const struct tensor_list *list;
    struct update update; // of step_work()
};

/* Both passes go tensor by tensor. A thread has the same part of a tensor in both; it is near the
   part of the gradient that the thread wrote in the backward pass. */

static void norm_work(void *argument) {
    const struct adam_pass *pass = argument;
    const struct tensor_list *list = pass->list;
    double *squares = pass->adam->squares;
    for (size_t k = 0; k < list->count; squares += chunks(list->tensor[k++].size)) {
        const real *grad = list->grad + list->tensor[k].offset;
        struct range own = team_part(list->tensor[k].size, CHUNK);
        for (size_t begin = own.begin; begin < own.end; begin += CHUNK) {
            size_t end = size_min(begin + CHUNK, own.end);
            double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (size_t i = begin; i < end; i++) sum += (double)grad[i] * (double)grad[i];
            squares[begin / CHUNK] = sum;
        }
    }
    profile_lap(PROFILE_ADAM);
    team_barrier();
}

double adam_grad_norm(struct adam *adam, const struct tensor_list *list) {
    struct adam_pass pass = {.adam = adam, .list = list};
    team_run(adam->threads, norm_work, &pass);
    double total = 0;
    const double *squares = adam->squares;
    for (size_t k = 0; k < list->count; k++)
        for (size_t chunk = 0; chunk < chunks(list->tensor[k].size); chunk++) total += *squares++;
    profile_lap(PROFILE_ADAM);
    return sqrt(total);
}

static void step_work(void *argument) {
    const struct adam_pass *pass = argument;
    const struct tensor_list *list = pass->list;
    const struct update u = pass->update;
    for (size_t k = 0; k < list->count; k++) {
        const struct tensor *tensor = &list->tensor[k];
        const real keep = (real)(tensor->decays ? 1 - u.decay : 1);
        const real pull = (real)(tensor->decays ? u.decay * tensor->decay_target : 0);
        real *w = list->value + tensor->offset;
        real *m = pass->adam->m + tensor->offset, *v = pass->adam->v + tensor->offset;
        const real *grad = list->grad + tensor->offset;
        struct range own = team_part(tensor->size, CHUNK);
        for (size_t begin = own.begin; begin < own.end; begin += CHUNK) {
            size_t end = size_min(begin + CHUNK, own.end);
#pragma omp simd
            for (size_t i = begin; i < end; i++) {
                real g = grad[i] * u.scale;
                m[i] = mul_add(u.beta1, m[i], u.rest1 * g);
                v[i] = mul_add(u.beta2, v[i], u.rest2 * g * g);
                w[i] = keep * w[i] - u.rate * m[i] / mul_add(sqrt_real(v[i]), u.unbias, u.eps);
            }
            for (size_t i = begin; pull != 0 && i < end; i++) w[i] += pull;
        }
    }
    profile_lap(PROFILE_ADAM);
    team_barrier();
    if (!list->units) return;
    unit_normalize(list);
    profile_lap(PROFILE_ADAM);
    team_barrier();
}

void adam_step(struct adam *adam, struct tensor_list *list, double lr, double grad_norm) {
    const struct adam_options *o = &adam->options;
    double t = (double)++adam->step;
    double clip = o->grad_clip > 0 ? fmin(1, o->grad_clip / (grad_norm + 1e-6)) : 1;
    struct adam_pass pass = {.adam = adam, .list = list};
    pass.update = (struct update){.beta1 = (real)o->beta1,
                                  .beta2 = (real)o->beta2,
                                  .rest1 = (real)(1 - o->beta1),
                                  .rest2 = (real)(1 - o->beta2),
                                  .eps = (real)o->eps,
                                  .scale = (real)clip,
                                  .rate = (real)(lr / (1 - pow(o->beta1, t))),
                                  .unbias = (real)(1 / sqrt(1 - pow(o->beta2, t))),
                                  .decay = lr * o->weight_decay};
    team_run(adam->threads, step_work, &pass);
    list->version++;
    profile_lap(PROFILE_ADAM);
}

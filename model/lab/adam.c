/* AdamW, with g the clipped gradient and t the number of this update:

     g = grad min(1, clip / (|grad| + 1e-6))
     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
     w = w - lr decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

   Decay is for matrices (embeddings included), not for biases and norms, as in nanoGPT.
   Kingma and Ba 2015, algorithm 1 (arXiv:1412.6980); Loshchilov and Hutter 2019, algorithm 2
   (arXiv:1711.05101); clipping as PyTorch's clip_grad_norm_. */
#include "model/lab/adam.h"
#include "model/math/profile.h"
#include "model/math/team.h"
#include "model/math/vecmath.h"

static size_t blocks(size_t count) {
    return (count + CHUNK - 1) / CHUNK;
}

/* Takes the moments' memory; runs twice: see arena.h. */
static void lay_out(struct adam *adam, const struct tensor_list *list) {
    size_t count = 0;
    for (size_t k = 0; k < list->count; k++) count += blocks(list->tensor[k].size);
    adam->m = arena_reals(&adam->arena, list->size);
    adam->v = arena_reals(&adam->arena, list->size);
    adam->squares = arena_take(&adam->arena, count, sizeof *adam->squares);
}

void adam_init(struct adam *adam, const struct adam_options *options,
               const struct tensor_list *list) {
    *adam = (struct adam){.options = *options, .threads = 1};
    lay_out(adam, list);
    arena_allocate(&adam->arena, "the optimizer");
    lay_out(adam, list);
}

void adam_free(struct adam *adam) {
    arena_free(&adam->arena);
}

/* Both passes go through the tensors one by one, each thread with its share of each: near to what
   it wrote of the gradient. */

static void norm_work(struct adam *adam, const struct tensor_list *list) {
    double *squares = adam->squares;
    for (size_t k = 0; k < list->count; squares += blocks(list->tensor[k++].size)) {
        const real *grad = list->grad + list->tensor[k].offset;
        struct range own = team_part(list->tensor[k].size, CHUNK);
        for (size_t begin = own.begin; begin < own.end; begin += CHUNK) {
            size_t end = begin + CHUNK < own.end ? begin + CHUNK : own.end;
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
    int threads = adam->threads;
    if (threads == 1)
        norm_work(adam, list);
    else {
#pragma omp parallel num_threads(threads)
        norm_work(adam, list);
    }
    double total = 0;
    const double *squares = adam->squares;
    for (size_t k = 0; k < list->count; k++)
        for (size_t block = 0; block < blocks(list->tensor[k].size); block++) total += *squares++;
    profile_lap(PROFILE_ADAM);
    return sqrt(total);
}

/* The numbers of one update. */
struct update {
    real beta1, beta2, rest1, rest2, eps; // rest = 1 - beta
    real scale;                           // of the gradient: clipping
    real rate, unbias;                    // lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
    double decay;                         // lr weight_decay
};

static void step_work(struct adam *adam, struct tensor_list *list, struct update u) {
    for (size_t k = 0; k < list->count; k++) {
        const struct tensor *tensor = &list->tensor[k];
        const real keep = (real)(tensor->dimensions >= 2 ? 1 - u.decay : 1);
        real *w = list->value + tensor->offset, *m = adam->m + tensor->offset;
        real *v = adam->v + tensor->offset;
        const real *grad = list->grad + tensor->offset;
        struct range own = team_part(tensor->size, CHUNK);
        for (size_t begin = own.begin; begin < own.end; begin += CHUNK) {
            size_t end = begin + CHUNK < own.end ? begin + CHUNK : own.end;
#pragma omp simd
            for (size_t i = begin; i < end; i++) {
                real g = grad[i] * u.scale;
                m[i] = mul_add(u.beta1, m[i], u.rest1 * g);
                v[i] = mul_add(u.beta2, v[i], u.rest2 * g * g);
                w[i] = keep * w[i] - u.rate * m[i] / mul_add(sqrt_real(v[i]), u.unbias, u.eps);
            }
        }
    }
    profile_lap(PROFILE_ADAM);
    team_barrier();
}

void adam_step(struct adam *adam, struct tensor_list *list, double lr, double grad_norm) {
    const struct adam_options *o = &adam->options;
    double t = (double)++adam->step;
    double clip = o->grad_clip > 0 ? fmin(1, o->grad_clip / (grad_norm + 1e-6)) : 1;
    struct update u = {.beta1 = (real)o->beta1,
                       .beta2 = (real)o->beta2,
                       .rest1 = (real)(1 - o->beta1),
                       .rest2 = (real)(1 - o->beta2),
                       .eps = (real)o->eps,
                       .scale = (real)clip,
                       .rate = (real)(lr / (1 - pow(o->beta1, t))),
                       .unbias = (real)(1 / sqrt(1 - pow(o->beta2, t))),
                       .decay = lr * o->weight_decay};
    int threads = adam->threads;
    if (threads == 1)
        step_work(adam, list, u);
    else {
#pragma omp parallel num_threads(threads)
        step_work(adam, list, u);
    }
    list->version++;
    profile_lap(PROFILE_ADAM);
}

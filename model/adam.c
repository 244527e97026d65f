/* AdamW, with g the clipped gradient and t the number of this update:

     g = grad min(1, clip / (|grad| + 1e-6))
     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
     w = w - lr decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

   Decay is for matrices (embeddings included), not for biases and norms, as in nanoGPT.
   Kingma and Ba 2015, algorithm 1 (arXiv:1412.6980); Loshchilov and Hutter 2019, algorithm 2
   (arXiv:1711.05101); clipping as PyTorch's clip_grad_norm_. */
#include "adam.h"
#include "blocks.h"
#include "vecmath.h"

/* Takes the moments' memory; runs twice: see arena.h. */
static void lay_out(struct adam *adam, const struct tensor_list *list) {
    adam->m = arena_reals(&adam->arena, list->size);
    adam->v = arena_reals(&adam->arena, list->size);
}

void adam_init(struct adam *adam, const struct adam_options *options,
               const struct tensor_list *list) {
    *adam = (struct adam){.options = *options};
    lay_out(adam, list);
    arena_allocate(&adam->arena, "the optimizer");
    lay_out(adam, list);
}

void adam_free(struct adam *adam) {
    arena_free(&adam->arena);
}

double adam_grad_norm(const struct tensor_list *list) {
    enum { CHUNKS = 64 }; // summed by one thread each, then in order
    double sum[CHUNKS] = {0}, total = 0;
#pragma omp parallel for schedule(static)
    for (size_t chunk = 0; chunk < CHUNKS; chunk++) {
        size_t begin = chunk * list->size / CHUNKS, end = (chunk + 1) * list->size / CHUNKS;
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (size_t i = begin; i < end; i++)
            squares += (double)list->grad[i] * (double)list->grad[i];
        sum[chunk] = squares;
    }
    for (size_t chunk = 0; chunk < CHUNKS; chunk++) total += sum[chunk];
    return sqrt(total);
}

void adam_step(struct adam *adam, const struct tensor_list *list, double lr, double grad_norm) {
    const struct adam_options *o = &adam->options;
    double t = (double)++adam->step;
    double clip = o->grad_clip > 0 ? fmin(1, o->grad_clip / (grad_norm + 1e-6)) : 1;
    const real beta1 = (real)o->beta1, beta2 = (real)o->beta2, eps = (real)o->eps;
    const real scale = (real)clip, rate = (real)(lr / (1 - pow(o->beta1, t)));
    const real unbias = (real)(1 / sqrt(1 - pow(o->beta2, t)));
#pragma omp parallel
    for (size_t k = 0; k < list->count; k++) {
        const struct tensor *tensor = &list->tensor[k];
        const real keep = (real)(tensor->dimensions >= 2 ? 1 - lr * o->weight_decay : 1);
        real *w = list->value + tensor->offset, *m = adam->m + tensor->offset;
        real *v = adam->v + tensor->offset;
        const real *grad = list->grad + tensor->offset;
#pragma omp for nowait schedule(static)
        for (size_t begin = 0; begin < tensor->size; begin += BLOCK) {
            size_t end = block_end(begin, tensor->size);
#pragma omp simd
            for (size_t i = begin; i < end; i++) {
                real g = grad[i] * scale;
                m[i] = beta1 * m[i] + (1 - beta1) * g;
                v[i] = beta2 * v[i] + (1 - beta2) * g * g;
                w[i] = keep * w[i] - rate * m[i] / (sqrt_real(v[i]) * unbias + eps);
            }
        }
    }
}

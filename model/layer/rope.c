/* Rotary positions. Element i and element i + HS/2 of a head are a point in the plane. At position
   t of the sequence this point is rotated by the angle t w_i:

     y_i        = x_i cos(t w_i) - x_{i+HS/2} sin(t w_i)         w_i = theta^(-2i / HS)
     y_{i+HS/2} = x_{i+HS/2} cos(t w_i) + x_i sin(t w_i)

   The dot product of a rotated query and a rotated key depends on the difference of their positions
   only. A rotation's transpose is its inverse, so backward rotates by -t w_i.

   Su et al. 2021 (arXiv:2104.09864), who rotate neighbours; with the two halves of a head, as here,
   in Llama. The two differ in the order of a head's columns only. */
#include "model/layer/rope.h"
#include "model/math/profile.h"
#include <math.h>

void rope_attach(struct rope *rope, size_t T, size_t HS, double theta, struct arena *arena) {
    size_t half = HS / 2;
    real *cosine = arena_reals(arena, T * half), *sine = arena_reals(arena, T * half);
    *rope = (struct rope){HS, cosine, sine};
    if (!cosine) return; // this pass only counts, see arena.h
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)t * pow(theta, -2 * (double)i / (double)HS);
            cosine[t * half + i] = (real)cos(angle);
            sine[t * half + i] = (real)sin(angle);
        }
}

void rope_rotate(const struct rope *rope, size_t T, struct range rows, size_t heads, real direction,
                 real *x, size_t x_row) {
    size_t half = rope->HS / 2;
    if (!rope->HS) return;
    for (size_t n = rows.begin; n < rows.end; n++, x += x_row) {
        const real *cosine = rope->cosine + n % T * half, *sine = rope->sine + n % T * half;
        for (size_t h = 0; h < heads; h++) {
            real *a = x + h * rope->HS, *b = a + half;
#pragma omp simd
            for (size_t i = 0; i < half; i++) {
                real ai = a[i], bi = b[i], s = direction * sine[i];
                a[i] = mul_add(ai, cosine[i], -bi * s);
                b[i] = mul_add(bi, cosine[i], ai * s);
            }
        }
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

/* sum = a x + drop(f), f = F(x)

   Backward: df = drop(dsum), computed by dropout_apply()
             dx = a dsum + dinner, where dinner is the gradient of df through F */
#include "model/layer/residual.h"
#include "model/math/profile.h"

void residual_forward(size_t first, size_t count, real *sum, real a, const real *x, const real *f,
                      struct dropout drop) {
    if (drop.threshold) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            sum[i] = mul_add(a, x[i], f[i] * dropout_factor(drop, first + i));
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++) sum[i] = mul_add(a, x[i], f[i]);
    }
    profile_lap(PROFILE_ELEMENTWISE);
}

void residual_add(size_t count, real *sum, real a, const real *x, const real *f) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) sum[i] = mul_add(a, x[i], f[i]);
    profile_lap(PROFILE_ELEMENTWISE);
}

void residual_scale(size_t count, real *to, real s, const real *from) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) to[i] = s * from[i];
    profile_lap(PROFILE_ELEMENTWISE);
}

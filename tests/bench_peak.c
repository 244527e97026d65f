/* The processor's peak rate of multiply-adds. */
#include "model/math/simd.h"
#include "tests/bench.h"
#include <omp.h>

/* Independent chains of x = factor x + term, in all registers except for a few; each converges
   to 1. The sum is returned so that the compiler cannot leave any out. */
enum { CHAINS = SIMD_REGISTERS * 3 / 4 };

static real multiply_adds(size_t count, real factor, real term) {
    vec x[CHAINS], f = vec_splat(factor), t = vec_splat(term);
    real sum = 0;
    for (int i = 0; i < CHAINS; i++) x[i] = vec_splat((real)i);
    for (size_t n = 0; n < count; n++) {
        SIMD_UNROLL
        for (int i = 0; i < CHAINS; i++) x[i] = vec_mul_add(x[i], f, t);
    }
    for (int i = 0; i < CHAINS; i++)
        for (int lane = 0; lane < LANES; lane++) sum += x[i][lane];
    return sum;
}

double bench_peak(void) {
    enum { REPETITIONS = 60, STEPS = 1 << 20 };
    static volatile real value[2] = {
        (real)0.5}; // the compiler may not know the input or drop the result
    double best = 0;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        int threads = 0;
        real sum = 0;
        double start = omp_get_wtime();
#pragma omp parallel reduction(+ : threads, sum)
        {
            threads++;
            sum += multiply_adds(STEPS, value[0], value[0]);
        }
        double rate = 2.0 * STEPS * CHAINS * LANES * threads / (omp_get_wtime() - start);
        value[1] = sum;
        if (rate > best) best = rate;
    }
    return best;
}

/* Initial values of lambda that depend on the first batch, Admin's. Of the sub-layers i = 1, 2, ...

     sum_i = omega_i x + F_i,  omega_1 = 1,  omega_{i+1}^2 = Var[omega_i x] + Var[F_i]

   in the order of one forward pass. After a norm x has a variance of 1, so omega_i^2 is the
   variance of the first input plus those of all F before: each F then has the part in the stream
   that it would have without norms. The variances are over all elements of the valid tokens.

   Liu et al. 2020 (arXiv:2004.08249), as in the authors' code. */
#include "model/sublayer.h"
#include <math.h>

/* The variance of the sum's part with x, or of what was added to it. */
static double variance_of(const struct sublayer *s, const struct tokens *tokens, bool added) {
    size_t C = s->C, N = tokens->B * tokens->T, count = 0;
    double sum = 0, squares = 0;
    for (size_t n = 0; n < N; n++) {
        if (!token_counts(tokens, n)) continue;
        count += C;
        for (size_t c = 0; c < C; c++) {
            double kept = sublayer_stream_factor(s, c) * (double)s->x[n * C + c];
            double value = added ? (double)s->sum[n * C + c] - kept : kept;
            sum += value;
            squares += value * value;
        }
    }
    if (!count) return 0;
    double mean = sum / (double)count;
    return squares / (double)count - mean * mean;
}

void sublayer_profile(struct sublayer *s, const struct pass *pass,
                      const struct sublayer_scratch *scratch, double *variance) {
    bool first = omp_get_thread_num() == 0;
    if (s->profiled) {
        size_t count = s->lambda.vector ? s->C : 1;
        for (size_t c = 0; first && c < count; c++)
            s->lambda.param.value[c] = (real)sqrt(*variance);
        team_barrier();
        lambda_prepare(&s->lambda);
        team_barrier();
    }
    sublayer_forward(s, pass, scratch);
    if (!s->profiled) return;
    team_barrier();
    if (first)
        *variance = variance_of(s, &pass->tokens, false) + variance_of(s, &pass->tokens, true);
    team_barrier();
}

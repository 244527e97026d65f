/* PowerNorm over several batches against a naive transcription of its formulas. After warm-up its
   backward is not the gradient of its forward, so differences cannot tell whether it is right. */
#include "tests/support.h"
#include <math.h>
#include <stdlib.h>

enum { B = 6, T = 9, N = B * T, C = 12, COUNT = N * C, HEADS = 3, SIZE = C / HEADS };

/* One norm as the head of model/norm/power.c defines it, in double, a channel and a token at a
   time. */
struct naive {
    double phi[C], nu[C], gamma[C], beta[C], dgamma[C], dbeta[C];
    int batches;
};

struct naive_options {
    double eps, pn_alpha_fwd, pn_alpha_bkw;
    int pn_warmup, pn_group_scaling, pn_divisor;
};

static void naive_batch(struct naive *p, const struct naive_options *o, const unsigned char *valid,
                        const real *x, const real *dy, double *y, double *dx) {
    static double u[COUNT], du[COUNT], r[N * HEADS];
    for (int n = 0; n < N; n++)
        for (int h = 0; h < HEADS; h++) {
            double square = 0;
            for (int i = 0; i < SIZE; i++) {
                double v = (double)x[n * C + h * SIZE + i];
                square += v * v / SIZE;
            }
            r[n * HEADS + h] = o->pn_group_scaling ? 1 / sqrt(square + o->eps) : 1;
            for (int i = 0; i < SIZE; i++) {
                int at = n * C + h * SIZE + i;
                u[at] = (double)x[at] * r[n * HEADS + h];
            }
        }
    int counted = 0;
    for (int n = 0; n < N; n++) counted += valid[n];
    bool warm = p->batches++ < o->pn_warmup;
    for (int c = 0; c < C; c++) {
        double m = 0, lambda = 0, gamma_square = 0;
        for (int n = 0; n < N; n++) m += valid[n] ? u[n * C + c] * u[n * C + c] / counted : 0;
        double root = sqrt((warm ? m : p->phi[c]) + o->eps);
        double divisor = o->pn_divisor == PN_DIVISOR_BATCH ? sqrt(m + o->eps) : root;
        for (int n = 0; n < N; n++) {
            double xhat = u[n * C + c] / root, d = (double)dy[n * C + c];
            y[n * C + c] = valid[n] ? p->gamma[c] * xhat + p->beta[c] : 0;
            if (!valid[n]) continue;
            p->dgamma[c] += d * xhat;
            p->dbeta[c] += d;
            lambda += p->gamma[c] * d * xhat / counted;
            gamma_square += xhat * xhat / counted;
        }
        for (int n = 0; n < N; n++) {
            double xhat = u[n * C + c] / root, g = p->gamma[c] * (double)dy[n * C + c];
            double along = warm ? lambda : p->nu[c];
            du[n * C + c] = valid[n] ? (g - along * xhat) / divisor : 0;
        }
        double a = o->pn_alpha_bkw;
        p->nu[c] = p->nu[c] * (1 - (1 - a) * gamma_square) + (1 - a) * lambda;
        p->phi[c] = o->pn_alpha_fwd * p->phi[c] + (1 - o->pn_alpha_fwd) * m;
    }
    for (int i = 0; i < N * HEADS; i++) {
        double along = 0;
        for (int k = 0; k < SIZE; k++) along += du[i * SIZE + k] * u[i * SIZE + k] / SIZE;
        for (int k = 0; k < SIZE; k++)
            dx[i * SIZE + k] = o->pn_group_scaling
                                   ? r[i] * (du[i * SIZE + k] - u[i * SIZE + k] * along)
                                   : du[i * SIZE + k];
    }
}

static void expect_near(const char *what, int batch, size_t count, const real *got,
                        const double *want) {
    double scale = 0, error = 0, tolerance = in_double() ? 1e-13 : 2e-5;
    for (size_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs(want[i]));
        error = worse(error, fabs((double)got[i] - want[i]));
    }
    cr_expect(scale > 0 && error <= tolerance * scale, "%s of batch %d: off by %g of %g", what,
              batch, error, scale);
}

static void compare(int scaling, int divisor, int threads) {
    struct lone_norm lone = lone_norm(norm_find("pn"), B, T, C);
    struct norm *norm = &lone.norm;
    const struct naive_options *o = &(struct naive_options){1e-5, 0.8, 0.7, 2, scaling, divisor};
    unsigned char valid[N];
    norm->heads = HEADS;
    norm_set(norm, "norm-eps", o->eps);
    norm_set(norm, "pn-alpha-fwd", o->pn_alpha_fwd);
    norm_set(norm, "pn-alpha-bkw", o->pn_alpha_bkw);
    norm_set(norm, "pn-warmup", o->pn_warmup);
    norm_set(norm, "pn-group-scaling", scaling); // less memory than taken: it was for on
    norm_set(norm, "pn-divisor", divisor);
    lone.tokens.valid = valid;
    lone.threads = threads;
    for (size_t n = 0; n < N; n++) valid[n] = n % 5 != 3;
    struct naive naive = {0};
    for (int c = 0; c < C; c++) {
        norm->param[0].value[c] = (real)(1 + 0.0625 * c);
        norm->param[1].value[c] = (real)(0.125 * c);
        naive.gamma[c] = 1 + 0.0625 * c;
        naive.beta[c] = 0.125 * c;
        naive.phi[c] = 1;
    }
    static real y[COUNT], dx[COUNT];
    static double want_y[COUNT], want_dx[COUNT];
    for (int k = 0; k < 6; k++) {
        real *x = random_reals(COUNT, 10 + k), *dy = random_reals(COUNT, 20 + k);
        for (size_t i = 0; i < COUNT; i++) x[i] = x[i] * (real)(1 + i % C) + (real)k;
        lone_norm_forward(&lone, y, x);
        lone_norm_backward(&lone, dx, dy, x);
        naive_batch(&naive, o, valid, x, dy, want_y, want_dx);
        double ema_gz[C];
        for (int c = 0; c < C; c++) ema_gz[c] = naive.nu[c] / (1 - o->pn_alpha_bkw);
        expect_near("y", k, COUNT, y, want_y);
        expect_near("dx", k, COUNT, dx, want_dx);
        expect_near("dgamma", k, C, norm->param[0].grad, naive.dgamma);
        expect_near("dbeta", k, C, norm->param[1].grad, naive.dbeta);
        expect_near("running_phi", k, C, norm->state[0], naive.phi);
        expect_near("ema_gz", k, C, norm->state[1], ema_gz);
        cr_expect_eq(*norm->batches, k + 1);
    }
}

Test(norm_power, follows_its_formulas_over_the_end_of_warmup) {
    for (int scaling = 0; scaling < 2; scaling++)
        for (int divisor = PN_DIVISOR_PSI; divisor <= PN_DIVISOR_BATCH; divisor++) {
            compare(scaling, divisor, 1);
            compare(scaling, divisor, 2);
        }
}

/* The purpose of the norm: after warm-up, a token's y does not depend on the other tokens of its
   batch. */
Test(norm_power, treats_tokens_alone_after_warmup) {
    struct lone_norm lone = lone_norm(norm_find("pn"), B, T, C);
    norm_set(&lone.norm, "pn-warmup", 1);
    real *x = random_reals(COUNT, 1), y[COUNT], z[COUNT];
    lone_norm_forward(&lone, y, x);
    real *state = copy_values(&lone.lists.state);
    lone_norm_forward(&lone, y, x);
    restore_values(&lone.lists.state, state);
    for (size_t c = 0; c < C; c++) x[c] = 100 - (real)c;
    lone_norm_forward(&lone, z, x);
    cr_expect(difference(C, y, z) > 0.1);
    cr_expect(difference(COUNT - C, y + C, z + C) == 0);
}

/* Detached statistics and penalties of bn, where it has several sets of statistics, and where both
   meet. With one set, outputs and gradients are compared with PyTorch (test_golden_norms.c). */
#include "tests/support.h"
#include <string.h>

enum { B = 10, T = 7, N = B * T, C = 19, COUNT = N * C }; // three blocks of ROWS tokens
enum { DETACH_MEAN = 1, DETACH_STD = 2, DETACHED = 4 };   // of a sum of the first two

static double tolerance(void) {
    return in_double() ? 1e-12 : 2e-4;
}

/* bn over these tokens; which statistics are detached. */
static struct lone_norm bn_with(const char *option, double value, int detached, size_t sequences,
                                size_t length) {
    struct norm_options options = small_norms();
    if (option) norms_set(&options, option, value);
    norms_set(&options, "norm-detach-mean", detached & DETACH_MEAN ? 1 : 0);
    norms_set(&options, "norm-detach-std", detached & DETACH_STD ? 1 : 0);
    struct lone_norm lone = lone_norm_with(norm_find("bn"), &options, sequences, length, C);
    for (size_t c = 0; c < C; c++) lone.norm.param[0].value[c] = (real)(1 + 0.1 * (double)c);
    return lone;
}

/* The set of token n by position, or in one of two shards. */
static size_t set_of(bool positions, size_t n) {
    return positions ? n % T : n / T * 2 / B;
}

/* Fails unless each set's dx is that of bn over the tokens of this set alone. */
static void check_sets(bool positions, int detached, const unsigned char *valid) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2), y[COUNT], dx[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] += (real)set_of(positions, i / C);
    struct lone_norm full = positions ? bn_with("bn-axis", BN_AXIS_BATCH, detached, B, T)
                                      : bn_with("bn-shards", 2, detached, B, T);
    full.tokens.valid = valid;
    lone_norm_forward(&full, y, x);
    lone_norm_backward(&full, dx, dy, x);
    for (size_t set = 0; set < (positions ? T : 2); set++) {
        static real part_x[COUNT], part_dy[COUNT], part_y[COUNT], want[COUNT], got[COUNT];
        unsigned char part_valid[N];
        size_t count = 0;
        for (size_t n = 0; n < N; n++) {
            if (set_of(positions, n) != set) continue;
            memcpy(part_x + count * C, x + n * C, C * sizeof *x);
            memcpy(part_dy + count * C, dy + n * C, C * sizeof *x);
            memcpy(got + count * C, dx + n * C, C * sizeof *x);
            part_valid[count++] = !valid || valid[n];
        }
        struct lone_norm part = bn_with(NULL, 0, detached, count, 1);
        part.tokens.valid = part_valid;
        lone_norm_forward(&part, part_y, part_x);
        lone_norm_backward(&part, want, part_dy, part_x);
        gradient_case("%s %zu, detached %d", positions ? "position" : "shard", set, detached);
        expect_close("dx", count * C, got, want, tolerance());
    }
}

static const unsigned char *pads(void) {
    static unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = n % T < 3 + n / T % 5;
    return valid;
}

Test(norm_detached, every_set_is_detached) {
    for (int positions = 0; positions < 2; positions++)
        for (int detached = 0; detached < DETACHED; detached++) {
            check_sets(positions, detached, NULL);
            check_sets(positions, detached, pads());
        }
}

/* dx of bn with these penalties. */
static real *dx_with(int detached, double of_mean, double of_var, const unsigned char *valid) {
    const real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real *y = hold(COUNT * sizeof *y), *dx = hold(COUNT * sizeof *dx);
    struct lone_norm lone = bn_with("rbn-mean", of_mean, detached, B, T);
    norm_set(&lone.norm, "rbn-var", of_var);
    lone.tokens.scale = 3;
    lone.tokens.valid = valid;
    lone_norm_forward(&lone, y, x);
    lone_norm_backward(&lone, dx, dy, x);
    return dx;
}

/* The gradient of a penalty flows through the statistics, whether that of the loss does or not. */
Test(norm_detached, penalties_stay) {
    for (int padded = 0; padded < 2; padded++) {
        const unsigned char *valid = padded ? pads() : NULL;
        for (int detached = 1; detached < DETACHED; detached++)
            for (int which = 0; which < 2; which++) {
                const double of_mean = which ? 0 : 70, of_var = which ? 40 : 0;
                real *with = dx_with(detached, of_mean, of_var, valid);
                real *want = dx_with(0, of_mean, of_var, valid);
                const real *plain = dx_with(0, 0, 0, valid), *cut = dx_with(detached, 0, 0, valid);
                for (size_t i = 0; i < COUNT; i++) with[i] -= cut[i], want[i] -= plain[i];
                gradient_case("penalty of the %s, detached %d", which ? "deviation" : "mean",
                              detached);
                cr_expect(largest(COUNT, want) > 0.1, "the penalty is too small to see");
                expect_close("dx", COUNT, with, want, tolerance());
            }
    }
}

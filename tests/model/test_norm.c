/* What a norm alone promises. Tests that hold for every kind iterate the list. Outputs and
   gradients of all norms are compared with PyTorch for six channels (test_golden_norms.c),
   gradients of larger shapes with differences (test_gradient_norm.c), pads in models (test_pads.c).
   Here shapes have several row blocks and vectors. What a token sees of others is tested in
   test_measure.c. */
#include "tests/support.h"
#include <string.h>

enum { B = 10, T = 7, N = B * T, C = 19, COUNT = N * C }; // three blocks of ROWS tokens

static double tolerance(void) {
    return in_double() ? 1e-12 : 2e-5;
}

/* y = norm(x) and dx, both (B,T,C), from the same random dy in each call. */
static void pass(const struct lone_norm *lone, const real *x, real *y, real *dx) {
    lone_norm_forward(lone, y, x);
    lone_norm_backward(lone, dx, random_reals(COUNT, 2), x);
}

/* The norm with one option that is not the usual one. */
static struct lone_norm norm_with(const char *name, const char *option, double value,
                                  size_t width) {
    struct norm_options options = small_norms();
    norms_set(&options, option, value);
    return lone_norm_with(norm_find(name), &options, B, T, width);
}

/* Gives parameter i the values of normal(0, 1). */
static void randomize(const struct norm *norm, int i) {
    real *values = random_reals(norm->param[i].size, 100 + (uint64_t)i);
    memcpy(norm->param[i].value, values, norm->param[i].size * sizeof(real));
}

/* A norm of (B,length,width) whose gamma and beta are random; the same ones for each call. */
static struct lone_norm random_norm(const char *name, size_t length, size_t width) {
    struct lone_norm lone = lone_norm(norm_find(name), B, length, width);
    for (int i = 0; lone.norm.kind->param[i].name; i++) randomize(&lone.norm, i);
    return lone;
}

/* Mean and mean square of `count` elements of y that are `step` apart: 1 for a token's channels, C
   for a channel's tokens. */
static void moments(const real *y, size_t count, size_t step, double *mean, double *square) {
    *mean = *square = 0;
    for (size_t i = 0; i < count; i++) {
        *mean += (double)y[i * step] / (double)count;
        *square += (double)y[i * step] * (double)y[i * step] / (double)count;
    }
}

Test(norm, outputs_have_the_promised_moments) {
    static const struct {
        const char *name;
        bool over_tokens, centred;
    } norms[] = {
        {"ln", false, true}, {"rms", false, false}, {"bn", true, true}, {"pn-v", true, false}};
    real *x = random_reals(COUNT, 1), y[COUNT];
    for (size_t i = 0; i < COUNT; i++) x[i] = 5 + 3 * x[i];
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
        const bool over_tokens = norms[k].over_tokens;
        struct lone_norm lone = norm_with(norms[k].name, "norm-eps", 1e-20, C);
        lone_norm_forward(&lone, y, x);
        for (size_t i = 0; i < (over_tokens ? C : N); i++) {
            double mean, square;
            moments(over_tokens ? y + i : y + i * C, over_tokens ? N : C, over_tokens ? C : 1,
                    &mean, &square);
            cr_expect(norms[k].centred ? fabs(mean) < 1e-5 : mean > 0.5, "%s: mean %g",
                      norms[k].name, mean);
            cr_expect(fabs(square - 1) < 1e-4, "%s: square %g", norms[k].name, square);
            if (strcmp(norms[k].name, "pn-v") != 0) continue;
            moments(x + i, N, C, &mean, &square); // its running statistics
            cr_expect_float_eq((double)lone.norm.state[0][i], 0.9 + 0.1 * square, 1e-5);
        }
    }
}

/* xhat (N,C) as instruments/watch.c takes it for the terms of the gradient: of each row of C channels, or of each
   channel over the N tokens. */
static void watched_xhat(const struct norm *norm, real *xhat, const real *x) {
    const bool rows = norm->terms == NORM_TERMS_OF_TOKENS;
    const size_t count = rows ? C : N, step = rows ? 1 : C;
    for (size_t i = 0; i < (rows ? N : C); i++) {
        const size_t first = rows ? i * C : i;
        double mean, square;
        moments(x + first, count, step, &mean, &square);
        if (norm->kind->centred)
            square -= mean * mean;
        else
            mean = 0;
        for (size_t k = 0, offset = first; k < count; k++, offset += step)
            xhat[offset] = (real)(((double)x[offset] - mean) / sqrt(square + 1e-5));
    }
}

/* Fails unless a kind with terms computes gamma xhat + beta from the xhat that is watched; returns
   whether it has terms. */
static bool check_terms(const struct norm_kind *kind) {
    real *x = random_reals(COUNT, 1), y[COUNT], want[COUNT];
    struct norm_options options = small_norms();
    norms_set(&options, "pn-group-scaling", 0); // the terms of pn are those of x
    struct lone_norm lone = lone_norm_with(kind, &options, B, T, C);
    const real *gamma = lone.norm.gamma, *beta = lone.norm.beta;
    if (lone.norm.terms == NORM_TERMS_NONE) return false;
    for (int i = 0; kind->param[i].name; i++) randomize(&lone.norm, i);
    for (size_t i = 0; i < COUNT; i++) x[i] = 1 + 3 * x[i];
    lone_norm_forward(&lone, y, x);
    watched_xhat(&lone.norm, want, x);
    for (size_t i = 0; i < COUNT; i++) {
        if (gamma) want[i] *= gamma[lone.norm.param[0].size == 1 ? 0 : i % C];
        if (beta) want[i] += beta[i % C];
    }
    expect_close(kind->name, COUNT, y, want, tolerance());
    return true;
}

Test(norm, terms_are_watched_only_where_their_xhat_is_the_norms) {
    size_t watched = 0;
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        watched += (*kind)->forward && check_terms(*kind);
    cr_expect(watched >= 5, "%zu kinds have terms", watched);
    cr_expect_eq(norm_with("rms", "rms-fraction", 0.4, C).norm.terms, NORM_TERMS_NONE);
    cr_expect_eq(norm_with("bn", "bn-shards", 2, C).norm.terms, NORM_TERMS_NONE);
}

Test(norm, extreme_tokens_stay_finite) {
    real x[COUNT] = {0}, y[COUNT];
    for (size_t c = 0; c < C; c++) x[C + c] = 5; // a constant token among zeros
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        if (!(*kind)->forward) continue;
        struct lone_norm lone = lone_norm(*kind, B, T, C);
        lone_norm_forward(&lone, y, x);
        for (size_t i = 0; i < COUNT; i++) cr_expect(isfinite(y[i]), "%s", (*kind)->name);
    }
}

Test(norm, none_passes_its_input_by) {
    real x[COUNT] = {0}, y[COUNT];
    struct lone_norm lone = lone_norm(norm_find("none"), B, T, C);
    struct range rows = {0, N};
    cr_expect_eq(norm_forward(&lone.norm, &lone.tokens, rows, y, x), x);
    cr_expect_eq(norm_backward(&lone.norm, &lone.tokens, rows, y, x, x), x);
}

/* Far from 0, sum(x^2) - N mean^2 has lost all digits. */
Test(norm, variance_survives_a_large_offset) {
    static const char *const names[] = {"bn", "cln"};
    const real offset = (real)(in_double() ? 1e10 : 1e4);
    real *x = random_reals(COUNT, 1), moved[COUNT], y[COUNT], dx[COUNT], z[COUNT], dz[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        moved[i] = x[i] + offset; // rounded here
        x[i] = moved[i] - offset; // so that both are the same numbers
    }
    for (int k = 0; k < 2; k++) {
        struct lone_norm a = random_norm(names[k], T, C), b = random_norm(names[k], T, C);
        const double error = in_double() ? 1e-5 : 2e-3; // the means are rounded to those of offset
        pass(&a, x, y, dx);
        pass(&b, moved, z, dz);
        expect_close(names[k], COUNT, z, y, error);
        expect_close(names[k], COUNT, dz, dx, error);
    }
}

/* ---- Statistics over tokens ---- */

/* Groups of tokens with statistics of their own: the sequences for in, the positions for bn by
   position. Running statistics move by a group's, or by the mean over the groups; a single token
   has no variance. Pads do not count and get no gradient, nor does a token that is the only valid
   one. */
static void expect_statistics_of_groups(bool positions) {
    static const size_t of_sequence[B] = {7, 3, 1, 0, 2, 7, 5, 7, 1, 4};
    static const size_t at_position[T] = {B, 4, 1, 0, 2, 5, 1};
    const size_t groups = positions ? T : B, size = N / groups, step = positions ? T : 1;
    real *x = random_reals(COUNT, 1), y[COUNT], dx[COUNT];
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++)
        valid[n] = positions ? (n / T + n % T) % B < at_position[n % T]
                             : (n % T + n / T) % T < of_sequence[n / T];
    struct lone_norm lone = norm_with(positions ? "bn" : "in", "bn-axis", BN_AXIS_BATCH, C);
    lone.tokens.valid = valid;
    for (size_t c = 0; c < C; c++) lone.norm.param[1].value[c] = (real)c;
    pass(&lone, x, y, dx);
    for (size_t c = 0; c < C; c++) {
        double means = 0, vars = 0, with_mean = 0, with_var = 0;
        for (size_t g = 0; g < groups; g++) {
            const size_t first = positions ? g : g * T;
            double sum = 0, squares = 0, count = 0;
            for (size_t n = first, i = 0; i < size; n += step, i++)
                if (valid[n]) sum += (double)x[n * C + c], count++;
            for (size_t n = first, i = 0; i < size; n += step, i++) {
                if (valid[n]) squares += pow((double)x[n * C + c] - sum / count, 2);
                if (count < 2 || !valid[n])
                    cr_expect(y[n * C + c] == (valid[n] ? (real)c : 0) && dx[n * C + c] == 0);
            }
            if (positions) means = vars = with_mean = with_var = 0;
            if (count > 0) means += sum / count, with_mean++;
            if (count > 1) vars += squares / (count - 1), with_var++;
            if (!positions && g < groups - 1) continue;
            const size_t offset = positions ? g * C + c : c;
            cr_expect_float_eq((double)lone.norm.state[0][offset],
                               with_mean > 0 ? 0.1 * means / with_mean : 0, 1e-6);
            cr_expect_float_eq((double)lone.norm.state[1][offset],
                               with_var > 0 ? 0.9 + 0.1 * vars / with_var : 1, 1e-6);
        }
    }
    cr_expect(*lone.norm.batches == 1);
}

Test(norm, sequences_and_positions_have_statistics_of_their_valid_tokens) {
    expect_statistics_of_groups(false);
    expect_statistics_of_groups(true);
}

/* ---- bn with --bn-shards ---- */

static struct lone_norm bn_with(int shards, size_t sequences) {
    struct norm_options options = small_norms();
    norms_set(&options, "bn-shards", shards);
    struct lone_norm lone = lone_norm_with(norm_find("bn"), &options, sequences, T, C);
    for (size_t c = 0; c < C; c++) {
        lone.norm.param[0].value[c] = (real)(1 + 0.1 * (double)c);
        lone.norm.param[1].value[c] = (real)(0.3 * (double)c - 1);
    }
    return lone;
}

/* y, dx and the gradients are those of bn over each part, whose sizes differ by one at most; the
   running statistics move by the mean over the parts. In evaluation there are no parts. */
static void expect_parts(int shards, int parts, const size_t *first) {
    real *x = random_reals(COUNT, 1), *dy = random_reals(COUNT, 2);
    real y[COUNT], dx[COUNT], z[COUNT], dz[COUNT], running[2 * C] = {0}, grads[2 * C] = {0};
    for (size_t i = 0; i < COUNT; i++) x[i] += (real)(i / (T * C)); // sequences differ
    struct lone_norm full = bn_with(shards, B), plain = bn_with(1, B);
    full.threads = 3;
    pass(&full, x, y, dx);
    for (int i = 0; i < parts; i++) {
        size_t offset = first[i] * T * C;
        struct lone_norm part = bn_with(1, first[i + 1] - first[i]);
        lone_norm_forward(&part, z + offset, x + offset);
        lone_norm_backward(&part, dz + offset, dy + offset, x + offset);
        for (size_t k = 0; k < 2 * C; k++) {
            running[k] += part.norm.state[k / C][k % C] / (real)parts;
            grads[k] += part.norm.param[k / C].grad[k % C];
        }
    }
    expect_close("y", COUNT, y, z, tolerance());
    expect_close("dx", COUNT, dx, dz, 10 * tolerance());
    for (size_t i = 0; i < 2; i++) {
        expect_close("running", C, full.norm.state[i], running + i * C, tolerance());
        expect_close("gradient", C, full.norm.param[i].grad, grads + i * C, 10 * tolerance());
        memcpy(plain.norm.state[i], full.norm.state[i], C * sizeof(real));
    }
    cr_expect(*full.norm.batches == 1);
    full.tokens.training = plain.tokens.training = false;
    lone_norm_forward(&full, y, x);
    lone_norm_forward(&plain, z, x);
    expect_close("y in evaluation", COUNT, y, z, tolerance());
}

Test(norm, shards_are_batches_of_their_own) {
    static const size_t starts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    expect_parts(2, 2, (size_t[]){0, 5, 10});
    expect_parts(4, 4, (size_t[]){0, 3, 5, 8, 10}); // sequence b is in part floor(b 4 / 10)
    expect_parts(B + 3, B, starts);                 // no more than sequences
}

/* ---- Kinds with a definition or a precision of their own ---- */

/* 0.07 * 100 is above 7 by rounding alone. The eighth of 100 channels is then not pooled. */
Test(norm, partial_rms_pools_over_the_first_channels_and_at_least_one) {
    enum { WIDE = 100 };
    static const struct {
        double fraction;
        size_t pooled;
    } cases[] = {{0, 1}, {1e-6, 1}, {0.07, 7}, {0.5, 50}, {0.501, 51}, {1 - 1e-6, WIDE}};
    static real y[N * WIDE];
    real *x = random_reals(N * WIDE, 1);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lone_norm lone = norm_with("rms", "rms-fraction", cases[k].fraction, WIDE);
        lone_norm_forward(&lone, y, x);
        for (size_t n = 0; n < N; n++) {
            double mean, square;
            moments(x + n * WIDE, cases[k].pooled, 1, &mean, &square);
            double want = (double)x[n * WIDE + 9] / sqrt(square + 1e-5);
            cr_expect(fabs((double)y[n * WIDE + 9] - want) <= tolerance() * fabs(want),
                      "fraction %g is not %zu channels", cases[k].fraction, cases[k].pooled);
        }
    }
}

/* dyt in attention: 0 is a start, and auto is that of other norms. */
Test(norm, alpha_starts_as_it_is_told) {
    static const double told[][2] = {{-1, 0.5}, {0, 0}, {0.8, 0.8}}; // -1: auto
    struct norm_options options = small_norms();
    options.attention = 1;
    for (int i = 0; i < 3; i++) {
        norms_set(&options, "dyt-alpha-attn", told[i][0]);
        const struct lone_norm lone = lone_norm_with(norm_find("dyt"), &options, B, T, C);
        cr_expect(*lone.norm.param[0].value == (real)told[i][1]);
    }
}

/* Heads are rows of a token: they share its statistics, and one gamma and beta. */
Test(norm, all_heads_of_a_token_are_one_step_of_cln) {
    enum { HEADS = 3, WIDTH = HEADS * C, SIZE = B * T * WIDTH };
    real *x = random_reals(SIZE, 1), *dy = random_reals(SIZE, 2);
    static real y[SIZE], dx[SIZE], z[SIZE], dz[SIZE];
    unsigned char valid[N];
    for (size_t n = 0; n < N; n++) valid[n] = n % T < 3 + n / T;
    struct lone_norm heads = random_norm("cln", T * HEADS, C), wide = random_norm("cln", T, WIDTH);
    heads.tokens.rows_per_token = HEADS;
    heads.tokens.valid = wide.tokens.valid = valid;
    for (int i = 0; i < 2; i++)
        for (size_t c = 0; c < WIDTH; c++)
            wide.norm.param[i].value[c] = heads.norm.param[i].value[c % C];
    lone_norm_forward(&heads, y, x);
    lone_norm_backward(&heads, dx, dy, x);
    lone_norm_forward(&wide, z, x);
    lone_norm_backward(&wide, dz, dy, x);
    expect_close("y", SIZE, y, z, in_double() ? 1e-13 : 1e-5);
    expect_close("dx", SIZE, dx, dz, in_double() ? 1e-13 : 1e-5);
}

static bool learns(const struct model *model, const char *name) {
    for (size_t i = 0; i < model->lists.param.count; i++)
        if (!strcmp(model->lists.param.tensor[i].name, name)) return true;
    return false;
}

/* beta and the biases of linear layers are separate choices; auto: beta is learned with them. */
Test(norm, beta_without_biases_and_biases_without_beta) {
    for (int64_t bias = 0; bias <= 1; bias++)
        for (int64_t beta = NORM_BIAS_AUTO; beta <= NORM_BIAS_OFF; beta++) {
            struct model_config config = small_config(norm_index("bn"), placement_index("pre"));
            config.bias = bias, config.norm_bias = beta;
            struct model model = held_model(&config, 11, 1, 1);
            const bool want = beta == NORM_BIAS_AUTO ? bias : beta == NORM_BIAS_ON;
            cr_expect_eq(learns(&model, "transformer.h.0.attn.c_attn.bias"), bias != 0);
            cr_expect_eq(learns(&model, "transformer.h.0.ln_1.bias"), want);
            cr_expect_eq(learns(&model, "transformer.ln_f.bias"), want);
            cr_expect(learns(&model, "transformer.h.0.ln_1.weight"));
        }
}

/* Norms over the past: a token's statistics are over itself and the earlier tokens of its sequence.
   So no token sees a later one, in training either, and evaluation computes what training does.
   There are no running statistics.

   The C channels are G groups. For a group, let mu_s and sigma_s^2 be the mean and the biased
   variance of token s over the group's K = C / G channels. Let n be the number of valid tokens
   s <= t of the sequence, plus n_0 tokens that are assumed to come before it:

     mean_t = mean_{t-1} + d / n,  d = mu_t - mean_{t-1}
     var_t = (1 - 1/n) (var_{t-1} + d^2 / n) + sigma_t^2 / n,  rstd_t = 1 / sqrt(var_t + eps)
     xhat = (x - mean_t) rstd_t,  y = gamma xhat + beta

   mean_t and var_t are those of all n K numbers. At the start they are 0, or where n_0 > 0 what the
   norm has learned of the group, mean_0 = m and var_0 = exp(v). They are computed token by token,
   so they have the same bits however a text was split while it grew: `saved` keeps them.

   Backward. mean_t and var_t depend on each x of the tokens s <= t: dmean_t/dx = 1 / (n_t K),
   dvar_t/dx = 2 (x - mean_t) / (n_t K). With g = gamma dy, sums over the channels of a group, and
     p_t = rstd_t sum_c g / (n_t K),  q_t = rstd_t^2 sum_c (g xhat) / (n_t K),
   the gradient of token s is
     dx = rstd_s g - sum_{t>=s} (p_t + q_t (x - mean_t)) = rstd_s g - P_s - Q_s (x - mean_s)
     Q_s = Q_{s+1} + q_s
     P_s = P_{s+1} + p_s + (mean_s - mean_{s+1}) Q_{s+1}
   one scan from a sequence's end to its start. Only differences of means occur, so an offset of x
   costs no digits.
     dgamma += sum over tokens of dy xhat,  dbeta += sum over tokens of dy
   The n_0 assumed tokens have the gradients of tokens before the first one, so of each sequence
     dm += -n_0 K (P_1 + Q_1 (mean_0 - mean_1)),  dv += -n_0 K Q_1 var_0 / 2

   A pad has y = beta and dx = 0. It changes no statistics.

   In norms of queries and keys, all heads of a token share statistics over their n NH K numbers.
   Statistics over rows would let the first head see less than the last one.

   Threads split the tokens for mu, sigma and the sums over channels, and the sequences for the
   scans.

   Cumulative LayerNorm (cln) has one group: it is LayerNorm (layer.c) over a token and all earlier
   ones. TimestepNorm (ts) has several, and 1 + w for gamma. With --ts-prior-count=n_0 its sequences
   start as if n_0 tokens came before. As in the authors' code the count is 0 unless it is given:
   then m and v have no effect and no gradient. A group of one channel without a prior has the
   variance 0 at a sequence's first token, where y is beta. The authors' code refuses that; it
   writes 0 at pads, where here y is beta too.

   cln: Luo and Mesgarani 2019, Conv-TasNet (arXiv:1809.07454); the authors' code has the eps 1e-8.
   ts: Ma et al. 2024, Megalodon (arXiv:2404.08801), and the authors' code. */
#include "model/math/reduce.h"
#include "model/math/vecmath.h"
#include "model/norm/kind.h"
#include <string.h>

/* A kind without the options of groups and of the prior has one group, and no prior: they are 0.
   gamma is the first parameter, or 1 + it if it starts at 0. */
enum { GAMMA, BETA, PRIOR_MEAN, PRIOR_LOGV };

/* The saved values of each token, each (G). SHIFT and SLOPE hold mu and sigma^2 in forward; in
   backward first sum_c g and sum_c g xhat, then P and Q. */
enum { MEAN, VAR, RSTD, SHIFT, SLOPE, VECTORS };

/* A batch, token by token. A token has `rows` rows of C reals: its heads, or one. */
struct past {
    const struct norm *norm;
    const struct tokens *tokens;
    size_t C, G, K, T, rows;
    size_t prior;       // n_0
    real one;           // gamma is one + weight
    const real *weight; // (C)
};

static size_t groups(const struct norm *norm) {
    return size_max(1, (size_t)norm_option(norm, &norm_groups).integer);
}

static const struct option ts_prior_count = {
    "ts-prior-count", NUMBER(OPTION_INT, "0", 0, 1000000),
    .help = "number of virtual tokens that ts counts before each sequence; it learns their mean "
            "and variance",
    .scope = OPTION_OF_MODEL};

static struct past past_of(const struct norm *norm, const struct tokens *tokens) {
    size_t rows = tokens->rows_per_token ? tokens->rows_per_token : 1, G = groups(norm);
    return (struct past){.norm = norm,
                         .tokens = tokens,
                         .C = norm->C,
                         .G = G,
                         .K = norm->C / G,
                         .T = tokens->T / rows,
                         .rows = rows,
                         .prior = (size_t)norm_option(norm, &ts_prior_count).integer,
                         .one = norm->kind->param[GAMMA].start == 0,
                         .weight = norm->param[GAMMA].value};
}

/* T counts rows, so norms of heads have more room than they need. */
static size_t saved_size(const struct norm *norm, size_t B, size_t T) {
    return VECTORS * B * T * groups(norm);
}

static real *saved_at(const struct past *past, size_t token, size_t vector) { // (G)
    return past->norm->saved + (token * VECTORS + vector) * past->G;
}

static bool counts(const struct past *past, size_t token) {
    return token_counts(past->tokens, token * past->rows);
}

/* The number of valid tokens from `begin` to before `end`. */
static size_t count(const struct past *past, size_t begin, size_t end) {
    size_t valid = 0;
    for (size_t n = begin; n < end; n++) valid += counts(past, n);
    return valid;
}

/* The first token of the batch whose x is new. */
static size_t first_new(const struct past *past) {
    return past->tokens->first / past->rows;
}

/* The thread's part of the new tokens. */
static struct range own_tokens(const struct past *past) {
    return team_part_rows((struct range){first_new(past), past->tokens->B * past->T});
}

/* mu in SHIFT and sigma^2 in SLOPE. */
static void token_moments(const struct past *past, size_t token, const real *x) {
    const size_t C = past->C, K = past->K;
    const real per_number = 1 / (real)(past->rows * K);
    for (size_t g = 0; g < past->G; g++) {
        const real *group = x + token * past->rows * C + g * K;
        real mean = 0, squares = 0;
        for (size_t r = 0; r < past->rows; r++) mean += row_sum(K, group + r * C);
        mean *= per_number;
        for (size_t r = 0; r < past->rows; r++)
            squares += row_squares_about(K, group + r * C, mean);
        saved_at(past, token, SHIFT)[g] = mean;
        saved_at(past, token, SLOPE)[g] = squares * per_number;
    }
}

/* The statistics of a sequence's new tokens, in order: from those before the token to those that
   include it, of n tokens. A pad keeps those before it. */
static void scan(const struct past *past, size_t sequence, real eps) {
    const size_t G = past->G, begin = sequence * past->T, end = begin + past->T;
    const size_t first = size_max(begin, first_new(past));
    const real *m = past->norm->param[PRIOR_MEAN].value, *v = past->norm->param[PRIOR_LOGV].value;
    size_t n = past->prior + count(past, begin, first);
    for (size_t token = first; token < end; token++) {
        const real *before = token > begin ? saved_at(past, token - 1, 0) : NULL;
        const real *mu = saved_at(past, token, SHIFT), *sigma2 = saved_at(past, token, SLOPE);
        real *mean = saved_at(past, token, MEAN), *var = saved_at(past, token, VAR);
        real *rstd = saved_at(past, token, RSTD);
        const bool valid = counts(past, token);
        const real weight = 1 / (real)(n += valid);
        for (size_t g = 0; g < G; g++) {
            mean[g] = before ? before[MEAN * G + g] : past->prior ? m[g] : 0;
            var[g] = before ? before[VAR * G + g] : past->prior ? (real)exp((double)v[g]) : 0;
            rstd[g] = 0;
            if (!valid) continue;
            const real d = mu[g] - mean[g];
            mean[g] += weight * d;
            var[g] = (1 - weight) * (var[g] + weight * d * d) + weight * sigma2[g];
            rstd[g] = 1 / sqrt_real(var[g] + eps);
        }
    }
}

static void statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct past past = past_of(norm, tokens);
    struct range share = own_tokens(&past), sequences = team_part(tokens->B, 1);
    for (size_t token = share.begin; token < share.end; token++)
        if (counts(&past, token)) token_moments(&past, token, x);
    team_barrier();
    for (size_t b = sequences.begin; b < sequences.end; b++)
        scan(&past, b, (real)norm_option(norm, &norm_eps).real);
}

/* sum_c g in SHIFT and sum_c g xhat in SLOPE. */
static void token_sums(const struct past *past, size_t token, const real *dy, const real *x) {
    const size_t C = past->C, K = past->K;
    for (size_t g = 0; g < past->G; g++) {
        real mean = saved_at(past, token, MEAN)[g], ones = 0, along = 0;
        for (size_t r = 0; r < past->rows; r++) {
            size_t offset = (token * past->rows + r) * C + g * K;
            ones += row_dot(K, past->weight + g * K, dy + offset);
            along += row_dot_product_about(K, past->weight + g * K, dy + offset, x + offset, mean);
            if (past->one == 0) continue;
            ones += row_sum(K, dy + offset);
            along += row_dot_about(K, dy + offset, x + offset, mean);
        }
        saved_at(past, token, SHIFT)[g] = ones;
        saved_at(past, token, SLOPE)[g] = along * saved_at(past, token, RSTD)[g];
    }
}

/* P and Q of a sequence's tokens, in SHIFT and SLOPE, from its end to its start. */
static void scan_back(const struct past *past, size_t sequence) {
    size_t begin = sequence * past->T, end = begin + past->T,
           n = past->prior + count(past, begin, end);
    for (size_t token = end; token-- > begin;) {
        real *shift = saved_at(past, token, SHIFT), *slope = saved_at(past, token, SLOPE);
        const real *mean = saved_at(past, token, MEAN), *rstd = saved_at(past, token, RSTD);
        const real *later = saved_at(past, token + 1, 0);
        bool valid = counts(past, token), last = token + 1 == end;
        real weight = valid ? 1 / (real)(n * past->rows * past->K) : 0;
        for (size_t g = 0; g < past->G; g++) {
            real p = valid ? rstd[g] * shift[g] * weight : 0;
            real q = valid ? rstd[g] * rstd[g] * slope[g] * weight : 0;
            real Q = last ? 0 : later[SLOPE * past->G + g];
            real P =
                last ? 0 : later[SHIFT * past->G + g] + (mean[g] - later[MEAN * past->G + g]) * Q;
            shift[g] = P + p;
            slope[g] = Q + q;
        }
        n -= valid;
    }
}

static void gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x) {
    const struct past past = past_of(norm, tokens);
    struct range share = own_tokens(&past), sequences = team_part(tokens->B, 1);
    for (size_t token = share.begin; token < share.end; token++)
        if (counts(&past, token)) token_sums(&past, token, dy, x);
    team_barrier();
    for (size_t b = sequences.begin; b < sequences.end; b++) scan_back(&past, b);
}

static void past_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                         real *y, const real *x) {
    const struct past past = past_of(norm, tokens);
    const size_t C = past.C, K = past.K;
    const real *weight = past.weight, *beta = norm->param[BETA].value; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, y += C) {
        size_t token = n / past.rows;
        for (size_t g = 0, first = 0; g < past.G; g++, first += K) {
            real mean = saved_at(&past, token, MEAN)[g], rstd = saved_at(&past, token, RSTD)[g];
#pragma omp simd
            for (size_t c = first; c < first + K; c++)
                y[c] = mul_add((x[c] - mean) * rstd, past.one + weight[c], beta[c]);
        }
    }
}

/* From P and Q of a sequence's first token. */
static void prior_gradient(const struct past *past, size_t token, real *const *sum) {
    const real *shift = saved_at(past, token, SHIFT), *slope = saved_at(past, token, SLOPE);
    const real *mean = saved_at(past, token, MEAN), *m = past->norm->param[PRIOR_MEAN].value;
    const real numbers = (real)(past->prior * past->rows * past->K);
    for (size_t g = 0; g < past->G; g++) {
        real var = (real)exp((double)past->norm->param[PRIOR_LOGV].value[g]);
        sum[PRIOR_MEAN][g] -= numbers * (shift[g] + slope[g] * (m[g] - mean[g]));
        sum[PRIOR_LOGV][g] -= numbers * slope[g] * var / 2;
    }
}

static void past_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                          real *dx, const real *dy, const real *x, real *const *sum) {
    const struct past past = past_of(norm, tokens);
    const size_t C = past.C, K = past.K;
    real *dgamma = sum[GAMMA], *dbeta = sum[BETA]; // (C)
    for (size_t n = rows.begin; n < rows.end; n++, x += C, dy += C, dx += C) {
        size_t token = n / past.rows;
        if (past.prior && n % (past.T * past.rows) == 0) prior_gradient(&past, token, sum);
        if (!counts(&past, token)) {
            for (size_t c = 0; c < C; c++) dbeta[c] += dy[c];
            memset(dx, 0, C * sizeof(real));
            continue;
        }
        for (size_t g = 0, first = 0; g < past.G; g++, first += K) {
            real mean = saved_at(&past, token, MEAN)[g], rstd = saved_at(&past, token, RSTD)[g];
            real shift = saved_at(&past, token, SHIFT)[g], slope = saved_at(&past, token, SLOPE)[g];
#pragma omp simd
            for (size_t c = first; c < first + K; c++) {
                dgamma[c] = mul_add(dy[c], (x[c] - mean) * rstd, dgamma[c]);
                dbeta[c] += dy[c];
                dx[c] = rstd * (past.one + past.weight[c]) * dy[c] - shift - slope * (x[c] - mean);
            }
        }
    }
}

const struct norm_kind norm_cumulative = {
    .name = "cln",
    .full_name = "cumulativelayernorm",
    .words = "y = gamma (x - mean) / sqrt(var + eps) + beta, mean and var over all channels of a "
             "token and of the earlier tokens of its sequence",
    .source = "Luo and Mesgarani 2019, Conv-TasNet (arXiv:1809.07454)",
    .options = {&norm_eps},
    .causal = true,
    .param = {[GAMMA] = {"weight", .start = 1}, [BETA] = {"bias", .role = NORM_BETA}},
    .saved_size = saved_size,
    .forward = past_forward,
    .backward = past_backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};

const struct norm_kind norm_timestep = {
    .name = "ts",
    .full_name = "timestepnorm",
    .words = "y = (1 + w) (x - mean) / sqrt(var + eps) + beta, w learned, mean and var over a "
             "group of channels of a token and of the earlier tokens of its sequence",
    .source = "Ma et al. 2024, Megalodon (arXiv:2404.08801)",
    .options = {&norm_eps, &norm_groups, &ts_prior_count},
    .causal = true,
    .param = {[GAMMA] = {"weight", .start = 0},
              [BETA] = {"bias", .role = NORM_BETA},
              [PRIOR_MEAN] = {"prior_mean", .role = NORM_OTHER, .rows_of = groups},
              [PRIOR_LOGV] = {"prior_logv", .role = NORM_OTHER, .rows_of = groups}},
    .check = norm_check_groups,
    .saved_size = saved_size,
    .forward = past_forward,
    .backward = past_backward,
    .statistics = statistics,
    .gradient_statistics = gradient_statistics,
};

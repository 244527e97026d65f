/* The models that parameterized tests iterate: norms with placements and with connections.
   Gradients against central differences, in double (support.h). */
#include "model/options/config.h"
#include "tests/support.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sweep(void) {
    return getenv("SWEEP") != NULL;
}

static char case_name[1100];    // that is being tested, with ": "
static bool failed;             // the case
static char case_message[1024]; // of the last one that failed

void gradient_case(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(case_name, sizeof case_name - 2, format, arguments);
    va_end(arguments);
    strcat(case_name, ": ");
    failed = false;
}

bool case_failed(void) {
    return failed;
}

bool fail_case(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(case_message, sizeof case_message, format, arguments);
    va_end(arguments);
    failed = true;
    return false;
}

const char *case_failure(void) {
    return case_message;
}

void send_named(struct criterion_assert_stats *stat) {
    char message[4096];
    struct criterion_assert_stats named = *stat;
    snprintf(message, sizeof message, "%s%s", case_name, stat->message);
    named.message = message;
    (criterion_send_assert)(&named); // Criterion's function, not the macro of support.h
}

const char *pair_options(const struct pair *pair) {
    static const char *const inner[] = {
        [INNER_NONE] = "",
        [INNER_HEADS] = " --qk-norm=on --ffn-norm=on",
        [INNER_WIDTH] = (" --qk-norm=on --v-norm=on --qk-norm-over=width --qk-scale=learned "
                         "--embd-scale=learned"),
        [INNER_SUB] = " --attn-norm=on --ffn-norm=on",
    };
    static const char *const block[] = {
        [BLOCK_GPT2] = "",
        [BLOCK_LLAMA] = " --position=rope --rope-theta=20 --act=swiglu --head=untied "
                        "--attn-gate=head",
        [BLOCK_GEMMA] = " --position=rope --rope-theta=20 --act=geglu-tanh --n-kv-head=1 "
                        "--attn-softcap=0.5 --logit-softcap=4",
        [BLOCK_OTHER] = " --position=sinusoidal --act=relu2 --n-kv-head=1 --head=untied "
                        "--ffn-width=10 --attn-gate=element",
    };
    static char options[256];
    int used = snprintf(options, sizeof options, "--norm=%s --placement=%s%s%s",
                        norm_kinds[pair->norm]->name, placements[pair->placement].name,
                        inner[pair->inner], block[pair->block]);
    if (pair->connection)
        snprintf(options + used, sizeof options - (size_t)used, " --connection=%s",
                 connection_kinds[pair->connection - 1]->name);
    return options;
}

/* A small model with these options. Caps and wavelengths are small, so that it feels them. */
struct model_config pair_config(const struct pair *pair) {
    struct config config = {.model = small_config(pair->norm, pair->placement)};
    char words[256], *arguments[24] = {"train"};
    snprintf(words, sizeof words, "%s", pair_options(pair));
    options_arguments(config_options, &config, 1 + split(words, arguments + 1, 23), arguments);
    if (pair->block) config.model.n_embd = 8; // of a head: even
    if (pair->inner == INNER_WIDTH) {
        config.model.qk_scale_start = model_qk_scale_start(&config.model);
        config.model.embd_scale_start = 1.5;
    }
    return config.model;
}

/* Whether a table's row is in a list of names, which NULL ends. */
static bool is_listed(const char *const *names, const char *name) {
    for (; *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

/* What a list has gathered. Without a sweep, alternatives take turns. */
struct pairs {
    struct pair *pair;
    int count;
};

static void add(struct pairs *pairs, struct pair pair) {
    pairs->pair = realloc(pairs->pair, (size_t)(pairs->count + 1) * sizeof pair);
    pairs->pair[pairs->count++] = pair;
}

static bool all_alternatives;

static bool takes_turn(int turn, int alternative) {
    return sweep() || all_alternatives || turn % 2 == alternative;
}

/* Adds the blocks other than GPT-2's; ngpt cannot group queries. Before them, embeddings with a
   learned scale and a norm or a second stream. */
static void add_blocks(struct pairs *pairs) {
    const int ln = norm_index("ln"), bn = norm_index("bn"), ngpt = placement_index("ngpt");
    add(pairs, (struct pair){ln, placement_index("peri"), INNER_WIDTH, BLOCK_GPT2, 0});
    add(pairs, (struct pair){ln, placement_index("siamese"), INNER_WIDTH, BLOCK_GPT2, 0});
    add(pairs, (struct pair){ln, placement_index("residual"), INNER_WIDTH, BLOCK_GPT2, 0});
    for (int block = BLOCK_GPT2 + 1; block < BLOCKS; block++) {
        for (int inner = INNER_NONE; inner < INNERS; inner++) {
            if (takes_turn(block + inner, 0)) add(pairs, (struct pair){bn, 0, inner, block, 0});
            if (takes_turn(block + inner, 1)) add(pairs, (struct pair){ln, 0, inner, block, 0});
        }
        if (block == BLOCK_LLAMA) add(pairs, (struct pair){ln, ngpt, INNER_NONE, block, 0});
    }
}

/* Adds the connections in pre and post that have a formula there, with ln and bn. */
static void add_connections(struct pairs *pairs) {
    const struct placement *const rows[] = {placement_find("pre"), placement_find("post")};
    const int norms[] = {norm_index("ln"), norm_index("bn")};
    for (int i = 0; i < 2; i++)
        for (int k = 0; connection_kinds[k]; k++) {
            if (placement_refuses(rows[i], connection_kinds[k])) continue;
            for (int n = 0; n < 2; n++)
                if (takes_turn(i, n))
                    add(pairs, (struct pair){norms[n], (int)(rows[i] - placements), INNER_NONE,
                                             BLOCK_GPT2, 1 + k});
        }
}

/* Tests the pairs of a norm and a placement where one of the two is in its list; NULL lists all
   norms. And if `inner`, every norm in the first placement with norms inside its sub-layers, every
   connection, and the other blocks. */
static void each_pair(pair_test *test, const char *const *norms, const char *const *places,
                      bool inner) {
    static const char *const sampled[] = {"ln", "bn", "cln", NULL}; // to have norms inside
    const bool all_norms = all_alternatives || (sweep() && !SANITIZED);
    struct pairs pairs = {NULL, 0};
    for (int n = 0; norm_kinds[n]; n++) {
        const char *name = norm_kinds[n]->name;
        for (int p = 0; placements[p].name; p++)
            if (!norms || is_listed(norms, name) || is_listed(places, placements[p].name))
                add(&pairs, (struct pair){n, p, INNER_NONE, BLOCK_GPT2, 0});
        if (!inner || (!all_norms && !is_listed(sampled, name))) continue;
        if (takes_turn(n, 0)) add(&pairs, (struct pair){n, 0, INNER_HEADS, BLOCK_GPT2, 0});
        if (takes_turn(n, 1)) add(&pairs, (struct pair){n, 0, INNER_WIDTH, BLOCK_GPT2, 0});
        add(&pairs, (struct pair){n, 0, INNER_SUB, BLOCK_GPT2, 0});
    }
    if (inner) add_connections(&pairs), add_blocks(&pairs);
    for (int i = 0; i < pairs.count; i++) {
        gradient_case("%s", pair_options(&pairs.pair[i]));
        test(&pairs.pair[i]);
        let_go();
    }
    *case_name = 0;
    failed = false;
    free(pairs.pair);
}

static const char *const ln_only[] = {"ln", NULL}, *const pre_only[] = {"pre", NULL};

void every_pair(pair_test *test) {
    each_pair(test, sweep() ? NULL : ln_only, pre_only, true);
}

void every_pair_at_all(pair_test *test) {
    all_alternatives = true;
    each_pair(test, NULL, pre_only, true);
    all_alternatives = false;
}

void every_norm_and_placement(pair_test *test) {
    static const char *const norms[] = {"ln", "bn", "cln", NULL};
    static const char *const places[] = {"pre", "post", "siamese", "ngpt", NULL};
    each_pair(test, sweep() ? norms : ln_only, sweep() ? places : pre_only, true);
}

void every_row(pair_test *test) {
    each_pair(test, ln_only, pre_only, true);
}

void every_norm(pair_test *test) {
    static const char *const none[] = {NULL};
    each_pair(test, none, pre_only, false);
}

/* df/dx by central differences of fourth order with step h. *x is restored. */
static double slope_of(double (*f)(void *context), void *context, real *x, double h) {
    const real keep = *x;
    const double steps[] = {-2, -1, 1, 2};
    double values[4];
    for (int k = 0; k < 4; k++) {
        *x = (real)((double)keep + steps[k] * h);
        values[k] = f(context);
    }
    *x = keep;
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h);
}

bool gradient_agrees(const char *what, double (*f)(void *context), void *context, size_t count,
                     real *x, const real *dx, double typical) {
    const double limit = 1e-6;
    double worst = 0, wanted = 0;
    size_t where = 0;
    if (case_failed()) return true;
    if (!(count > 0 && typical > 0)) return fail_case("%s: nothing to compare", what);
    for (size_t i = 0; i < count; i += SANITIZED ? 5 : sweep() ? 1 : 3) {
        double error = INFINITY, slope = 0;
        for (double h = 3e-4; h > 2e-6 && !(error < limit); h /= 10) {
            slope = slope_of(f, context, &x[i], h);
            double scale = fmax(fmax(fabs(slope), fabs((double)dx[i])), 1e-2 * typical);
            error = fabs(slope - (double)dx[i]) / scale;
        }
        if (!(error <= worst)) worst = error, where = i, wanted = slope;
        if (isnan(worst)) break; // which a later error would replace
    }
    if (worst < limit) return true;
    return fail_case("%s: element %zu of %zu is %g, by differences %g: relative error %g (twice or "
                     "half gives 0.5, a missing or zero gradient 1, the opposite sign 2)",
                     what, where, count, (double)dx[where], wanted, worst);
}

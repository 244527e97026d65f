/* What tests of the mathematics share. */
#pragma once

#include "model/head.h"
#include "model/instruments/measure.h"
#include "model/model_pass.h"
#include "model/optimizer/optimizer.h"
#include <criterion/criterion.h>
#include <math.h>

/* SANITIZED: whether the tests run under the address sanitizer. Tests that repeat the same code on
   many numbers then take a sample of these: every line still runs, and the other programs check
   every number. */
#if defined(__SANITIZE_ADDRESS__)
#    define SANITIZED true
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define SANITIZED true
#    endif
#endif
#ifndef SANITIZED
#    define SANITIZED false
#endif

/* True if the model computes in double: tests then ask for more digits. */
static inline bool in_double(void) {
    return sizeof(real) == sizeof(double);
}

/* Memory of zeros that lives until the test ends, or until let_go() frees all of it. */
void *hold(size_t bytes);
void let_go(void);

/* An arena of this size in such memory, in its second pass. */
struct arena held_arena(size_t bytes);

/* `count` reals from normal(0, 1), a stream for each `key`, held. */
real *random_reals(size_t count, uint64_t key);

/* A held copy. */
real *copy_reals(size_t count, const real *x);

/* Splits the line at its blanks into at most max - 1 words, followed by a NULL. Changes the line.
   Returns the number of words. */
int split(char *line, char **words, int max);

/* The larger of two errors; NaN if one of them is. */
static inline double worse(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

/* The largest |a - b|, or NaN if there is one. */
double difference(size_t count, const real *a, const real *b);

/* ---- Comparisons. One that fails names the line that calls it. The rest of its case is then not
   compared, since it mostly has the same cause. ---- */

/* Names the case that the next comparisons and assertions belong to, for their messages. Until a
   test does so, all of it is one case. */
void gradient_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For functions that compare: whether the case has failed; makes it fail with this message, and
   returns false; the last message. */
bool case_failed(void);
bool fail_case(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *case_failure(void);

/* Fails unless got and want agree to within `tolerance` of the largest |want|. Fails on NaN. */
#define expect_close(...) cr_expect(reals_agree(__VA_ARGS__), "%s", case_failure())
bool reals_agree(const char *what, size_t count, const real *got, const real *want,
                 double tolerance);

/* A small model of odd sizes: V 7, T 5, C 6, 2 heads, 2 layers. Other options have their defaults,
   but those of norms are small_norms(). */
struct model_config small_config(int norm, int placement);
enum { SMALL_V = 7, SMALL_B = 3, SMALL_T = 5 };

/* model_init() of a model that is freed where held memory is; so with optimizer_init(), of AdamW. */
struct model held_model(const struct model_config *config, size_t V, size_t B, uint64_t seed);
struct optimizer held_optimizer(const struct optimizer_options *options,
                                const struct tensor_list *list, int threads);
struct adamw_numbers {
    double beta1, beta2, eps, weight_decay, grad_clip;
};
struct optimizer held_adamw(struct adamw_numbers numbers, const struct tensor_list *list,
                            int threads);

/* Options of norms as a small model has them: their defaults, except where tests need a smaller
   number or one at which a formula shows. A new option has its default here at once. */
struct norm_options small_norms(void);

/* Sets an option by its name: of norms, of an attached norm, of optimizers. An integer, a switch
   and a choice are numbers too. */
void norms_set(struct norm_options *options, const char *name, double value);
void norm_set(struct norm *norm, const char *name, double value);
void optimizer_set(struct optimizer_options *options, const char *name, double value);

/* The choices of --bn-axis and --pn-divisor. */
enum { BN_AXIS_BATCH_TIME, BN_AXIS_BATCH };
enum { PN_DIVISOR_PSI, PN_DIVISOR_BATCH };

/* A batch of SMALL_B x SMALL_T (or B x T) ids and targets below V, held. */
struct batch make_batch(size_t B, size_t T, size_t V, uint64_t key);

/* The index of a norm in norm_kinds, and of a row in placements. */
int norm_index(const char *name);
int placement_index(const char *name);

/* Whether in training a sequence's tokens change the statistics of earlier tokens or of other
   sequences. */
static inline bool kind_mixes_tokens(const struct norm_kind *kind) {
    return kind->statistics && !kind->causal;
}

/* A norm with a placement, as the configuration of a small model, and as options, which are valid
   until the next call. INNER_HEADS: norms of queries and keys by head, and of the MLP; INNER_WIDTH:
   of queries, keys and values over the full width, and a learned scale; INNER_SUB: of what each
   sub-layer's last linear layer reads. The blocks: GPT-2's; one like Llama's; one like Gemma 2's,
   with grouped queries; one of what these have not. */
struct pair {
    int norm, placement;
    // norms inside the sub-layers
    enum { INNER_NONE, INNER_HEADS, INNER_WIDTH, INNER_SUB, INNERS } inner;
    enum { BLOCK_GPT2, BLOCK_LLAMA, BLOCK_GEMMA, BLOCK_OTHER, BLOCKS } block;
    int connection; // 0: the placement's, else 1 + a row of connection_kinds
};
struct model_config pair_config(const struct pair *pair);
const char *pair_options(const struct pair *pair);

/* Whether this is `make check-all`. Otherwise tests that repeat the same code on many cases take a
   sample of these: at least one of every kind. */
bool sweep(void);

/* Runs a test on each pair of a list, in one process, and lets go of what it held. Assertions call
   send_named(), by which one that fails names its pair. */
typedef void pair_test(const struct pair *pair);
void send_named(struct criterion_assert_stats *stat);
#define criterion_send_assert(stat) send_named(stat)

/* Every norm in pre, and with `make check-all` in every placement; and in pre also with norms
   inside its sub-layers. Like the lists below except for every_norm(), it ends with every residual
   connection in pre and in post, with ln and bn, and with the other blocks: with ln and bn in pre,
   with and without norms inside the sub-layers, and ln in ngpt. Without a sweep, these three lists
   are one: every norm in pre, ln in every placement, and half of the rest, of which norms inside
   sub-layers with ln, bn and cln only. */
void every_pair(pair_test *test);

/* The same, always as in a sweep: for tests that take little time. */
void every_pair_at_all(pair_test *test);

/* Fewer of them: every norm in pre, post, siamese and ngpt, and every placement with ln, bn and
   cln. A pass knows nothing of its norms but whether they pool over tokens, as bn does, or over the
   past, as cln does. So other pairs would run the same code. */
void every_norm_and_placement(pair_test *test);

/* Every norm in pre, with and without norms inside the sub-layers, and ln in every placement: for
   tests that take long. */
void every_row(pair_test *test);

/* Every norm in pre. */
void every_norm(pair_test *test);

/* sum a b */
double dot(size_t count, const real *a, const real *b);

/* The largest |x|. */
double largest(size_t count, const real *x);

/* Frees the arena when the test ends. */
void hold_arena(struct arena arena);

/* Copies the values of a list, held, and restores them. Where a forward depends on
   state that an earlier one changed, as in pn, the same function of x needs the same state. */
real *copy_values(const struct tensor_list *list);
void restore_values(struct tensor_list *list, const real *values);

/* After a forward: the logits (N,V) of the batch's first N tokens, held. */
real *copy_logits(struct model *model, size_t N);

/* One norm over B x T tokens of C channels, in two groups if C is even, in held memory. */
struct lone_norm {
    struct norm norm;
    struct norm_options options;
    struct tensor_lists lists;
    struct tokens tokens;
    int threads; // 1 unless the test sets it
};
struct lone_norm lone_norm(const struct norm_kind *kind, size_t B, size_t T, size_t C);
struct lone_norm lone_norm_with(const struct norm_kind *kind, const struct norm_options *options,
                                size_t B, size_t T, size_t C);

/* Runs the norm over all of its tokens, as the model does: y = norm(x); dx is written, and the
   gradients of its parameters are added to. A norm that passes its input on writes nothing. */
void lone_norm_forward(const struct lone_norm *lone, real *y, const real *x);
void lone_norm_backward(const struct lone_norm *lone, real *dx, const real *dy, const real *x);

/* ---- Models that have learned something ---- */

extern const struct adamw_numbers fit_options;

/* Moves every value by 0.3 normal(0, 1), far from small initial values. */
void shake(struct tensor_list *param);

/* The loss of a batch in training; its gradient replaces the earlier one. train_step() also makes
   an update. */
double gradient_of(struct model *model, const struct batch *batch, uint64_t step, double scale);
double train_step(struct model *model, struct optimizer *optimizer, const struct batch *batch,
                  uint64_t step, double lr);

/* Updates on the same batch. */
void fit_batch(struct model *model, const struct batch *batch, int threads, int updates);

/* Initializes a small model and trains it, so that its running statistics are not the initial
   ones. */
struct model fit_small(const struct model_config *config, size_t B);

/* ---- Gradients against central differences ---- */

/* Compares a gradient computed by backward with differences: fails where the relative error of dx
   (count) is 1e-6 or more. f(context) reads x. Where the function is steep, as norms of few numbers
   are, differences are too coarse and are repeated with steps ten and a hundred times smaller. An
   element far below `typical`, the size of the gradients around it, is measured against that: a
   bias before bn has a gradient of rounding errors only. Meaningful in double only. */
#define expect_gradient(...) cr_expect(gradient_agrees(__VA_ARGS__), "%s", case_failure())
bool gradient_agrees(const char *what, double (*f)(void *context), void *context, size_t count,
                     real *x, const real *dx, double typical);

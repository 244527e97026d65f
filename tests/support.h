/* What the tests share. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include "model/model.h"
#include <criterion/criterion.h>

/* True where the model computes in double: the same test then asks for more digits. */
static inline bool in_double(void) {
    return sizeof(real) == sizeof(double);
}

/* `count` reals from normal(0, 1), a stream for each `key`; the test frees them. */
real *random_reals(size_t count, uint64_t key);

/* The largest |a - b|, NaN if there is one anywhere. */
double difference(size_t count, const real *a, const real *b);

/* Fails unless got and want agree to `tolerance` relative to the largest |want|, NaN failing too.
 */
void expect_close(const char *what, size_t count, const real *got, const real *want,
                  double tolerance);

/* A small model of odd sizes: V 7, T 5, C 6, 2 heads, 2 layers. */
struct model_config small_config(int norm, int placement);
enum { SMALL_V = 7, SMALL_B = 3, SMALL_T = 5 };

/* Options of norms as a small model has them. */
extern struct norm_options small_norms;

/* Sets an option of norms by its name, in the settings or of an attached norm; and its value. An
   integer, a switch and a choice are numbers too. */
void norms_set(struct norm_options *options, const char *name, double value);
void norm_set(struct norm *norm, const char *name, double value);
double norm_get(const struct norm *norm, const char *name);

/* The choices of --bn-axis and --pn-divisor. */
enum { BN_AXIS_BATCH_TIME, BN_AXIS_BATCH };
enum { PN_DIVISOR_PSI, PN_DIVISOR_BATCH };

/* A batch of SMALL_B x SMALL_T (or B x T) ids and targets below V; freed by batch_free(). */
struct batch make_batch(size_t B, size_t T, size_t V, uint64_t key);

/* The row of a norm. */
int norm_index(const char *name);

/* A norm with a placement, for Criterion's parameterized tests: as a small model's configuration,
   and as options, which hold until the next call. */
struct pair {
    int norm, placement;
    bool inner; // QK-norm and FFN-norm as well
};
struct model_config pair_config(const struct pair *pair);
const char *pair_options(const struct pair *pair);

/* Every norm kind with every placement, and with norms inside its sub-layers in the first. */
struct criterion_test_params every_pair(void);
struct criterion_test_params every_norm(void);

/* Every norm in the first placement, also with the inner ones, and every placement with ln: for
   what takes long. */
struct criterion_test_params every_row(void);

/* The gradient of a function by differences against the one that backward gave: fails where the
   relative error of dx (count) is 1e-6 or more. f(context) reads x. Where a norm of few numbers is
   steep, differences are too coarse and are taken again over steps ten and a hundred times shorter.
   An element far below `typical`, the size of gradients around it, is measured against that: a bias
   before bn has none but rounding. Meaningful in double only. */
void expect_gradient(const char *what, double (*f)(void *context), void *context, size_t count,
                     real *x, const real *dx, double typical);

/* sum a b */
double dot(size_t count, const real *a, const real *b);

/* The largest |x|. */
double largest(size_t count, const real *x);

/* What a list holds, in a copy that the test frees, and back. Where a forward reads what another
   moved, as pn does, the same function of x needs the same state before. */
real *copy_values(const struct tensor_list *list);
void restore_values(struct tensor_list *list, const real *values);

/* After a forward: the logits (N,V) of the batch's first N tokens; the test frees them. */
real *copy_logits(struct model *model, size_t N);

/* One norm over B x T tokens of C channels, in two groups if C is even, with memory of its own. */
struct lone_norm {
    struct norm norm;
    struct norm_options options;
    struct tensor_lists lists;
    struct tokens tokens;
    struct arena arena;
    int threads; // 1 at first
};
void lone_norm_init(struct lone_norm *lone, const struct norm_kind *kind, size_t B, size_t T,
                    size_t C);
void lone_norm_init_with(struct lone_norm *lone, const struct norm_kind *kind,
                         const struct norm_options *options, size_t B, size_t T, size_t C);
void lone_norm_free(struct lone_norm *lone);

/* All of its tokens at once, as the model goes through them: y = norm(x); dx, and the gradients of
   what it learns added to. A norm that passes its input by writes nothing. */
void lone_norm_forward(const struct lone_norm *lone, real *y, const real *x);
void lone_norm_backward(const struct lone_norm *lone, real *dx, const real *dy, const real *x);

#endif

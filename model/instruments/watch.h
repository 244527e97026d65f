/* Measures the input and the gradient of each norm during training, and the gradient of the stream,
   for probes. It looks on (op_observer, block/op.h): training does not use these measurements.

   For every training batch, whatever the norm's kind, so that kinds can be compared: the mean and
   the variance of each channel of its input x over the valid tokens, and their running averages, as
   bn has them

     mean_B, var_B,  running += momentum (batch - running)

   For a batch that is probed, also the terms of the gradient that flow through the norm's
   statistics: with g = gamma dy,

     g_mean = mean g,  g_var = mean g xhat

   where the mean is over what the norm itself averages: tokens, for each channel (bn, pn), or
   channels, for each token (ln, rms). With --norm-detach-mean and --norm-detach-std they are those
   that would flow. A typed formula has these terms if it computes gamma xhat + beta; other formulas
   and kinds have none (kind.h, enum norm_terms). In pn with
   --pn-group-scaling, xhat is still made from x, as in pn-v.

   Shen et al. 2020, figures 1 and 2 (arXiv:2003.07845); Wang et al. 2022 (arXiv:2210.05153). */
#pragma once

#include "model/model.h"

/* The metrics of a norm in probes.csv.
     dist_mean, dist_var   |batch - tracked| / C
     tid_mean, tid_var     training-inference discrepancy of means and of standard deviations,
                           relative to the tracked standard deviation
     penalty               what the kind adds to the loss, if anything
     saturation            fraction of channels that a curve such as tanh saturates (kind.h)
     g_mean, g_var         L2 norms */
enum { WATCH_METRICS = 8 };
extern const char *const watch_metrics[WATCH_METRICS];

/* A norm that is not the identity. */
struct watched {
    const struct norm *norm;
    size_t rows;                  // that it has of a token
    int sublayer;                 // 2 layer, + 1 of the MLP; -1 before and 2L after the layers
    real *mean, *var;             // (C) tracked
    double *sums;                 // (row_blocks,4 C + 1) over rows: see watch.c
    double metric[WATCH_METRICS]; // of the last probed batch; negative: the norm has none
};

struct watch {
    struct model *model;
    struct watched *norm; // (norms) as forward computes them, but READ's at a sub-layer's end
    size_t norms;
    struct tensor_list tracked; // part of every checkpoint
    double *squares;            // (1 + 2L,row_blocks) see watch_stream()
    struct arena arena;
};

/* Calls look() for each norm of an operation that an op_observer sees: with the pass's tokens as the
   norm has them, and from the step's first row on its x and in backward dy. */
typedef void norm_observer(void *context, const struct norm *norm, const struct step *step,
                           const struct tokens *tokens, const real *x, const real *dy);
void watch_norms(const struct op *op, const struct step *step, norm_observer *look, void *context);

/* The rows of a norm that are those of the step's tokens. */
static inline struct range watch_rows(const struct step *step, const struct tokens *tokens) {
    const size_t rows = size_max(1, tokens->rows_per_token);
    return (struct range){step->rows.begin * rows, step->rows.end * rows};
}

/* Looks on all passes of the model from now on. */
void watch_init(struct watch *watch, struct model *model);
void watch_free(struct watch *watch);

/* After backward of each batch in training: tracks its statistics; of a batch that is probed
   (model->probing), first computes the metrics. */
void watch_batch(struct watch *watch, const struct batch *batch);

/* Of a probed batch: the sum of dy^2 over each row block, where dy is the gradient of the output of
   sub-layer i, or for -1 of the first one's input. */
double *watch_stream(const struct watch *watch, int i);

/* Measures the input and the gradient of a norm during training, for probes. Training does not use
   these measurements.

   For every training batch, whatever the norm's kind, so that kinds can be compared: the mean and
   the variance of each channel of its input x over the valid tokens, and their running averages, as
   bn has them

     mean_B, var_B,  running += momentum (batch - running)

   For a batch that is probed, also the terms of the gradient that flow through the norm's
   statistics: with g = gamma dy,

     g_mean = mean g,  g_var = mean g xhat

   where the mean is over what the norm itself averages: tokens, for each channel (bn, pn), or
   channels, for each token (ln, rms). With --norm-detach-mean and --norm-detach-std they are those that would flow. Other kinds have no such terms (kind.h, enum norm_terms). In
   pn with --pn-group-scaling, xhat is still made from x, as in pn-v.

   Shen et al. 2020, figures 1 and 2 (arXiv:2003.07845); Wang et al. 2022 (arXiv:2210.05153). */
#ifndef NORM_WATCH_H
#define NORM_WATCH_H

#include "model/norm/kind.h"

/* Declares what is tracked in layout->lists->tracked, under the name of the norm's site, and takes
   the memory of norm->watch. */
void norm_watch_attach(struct norm *norm, const struct norm_options *options,
                       const struct layout *layout);

/* Every thread of the team calls these before forward and backward, when x and dy (B,T,C) are
   complete. */
void norm_watch_forward(const struct norm *norm, const struct tokens *tokens, const real *x);
void norm_watch_backward(const struct norm *norm, const struct tokens *tokens, const real *dy,
                         const real *x);

/* A metric of probes.csv. */
struct norm_metric {
    const char *name;
    double value;
};
enum { NORM_METRICS = 8 };

/* After the backward of a probed batch of N rows: writes the metrics and returns how many.
     dist_mean, dist_var   |batch - tracked| / C
     tid_mean, tid_var     training-inference discrepancy of means and of standard deviations,
                           relative to the tracked standard deviation
     penalty               what the kind adds to the loss, if anything
     saturation            fraction of channels that a curve such as tanh saturates (kind.h)
     g_mean, g_var         L2 norms */
size_t norm_watch_metrics(const struct norm *norm, size_t N,
                          struct norm_metric metrics[NORM_METRICS]);

#endif

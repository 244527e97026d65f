/* What a norm meets while it trains: measured for probes, used by nothing.

   Of every training batch, over its valid tokens and for each channel of the norm's input x,

     mean_B, var_B    and, tracked as bn's running statistics are,  run += momentum (batch - run)

   for any kind of norm, so that kinds can be compared. Of a batch that is probed also the
   gradient's terms that flow through the norm's statistics, with g = gamma dy:

     g_mean = mean g,  g_var = mean g xhat

   for each channel over tokens (bn, pn), or for each token over channels (ln, rms), as the norm's
   own statistics are over; other kinds have none.

   Shen et al. 2020, figures 1 and 2 (arXiv:2003.07845); Wang et al. 2022 (arXiv:2210.05153). */
#ifndef NORM_WATCH_H
#define NORM_WATCH_H

#include "model/norm/pool.h"

struct norm_watch {
    char name[64];                      // of the site
    real *moments;                      // the batch's, as a pool
    real *tracked_mean, *tracked_var;   // (C)
    real *expected_mean, *expected_var; // (C) the tracked ones before the probed batch
    real *centre;                       // (C) what xhat is centred at: mean_B or 0
    real *g_mean, *g_var;               // (C) or (B,T)
};

/* Declares what is tracked in lists->tracked, under the name of the norm's site, and takes the
   memory; NULL while counting. */
struct norm_watch *norm_watch_attach(const char *name, size_t C, const struct layout *layout);

/* Before forward and backward, x and dy (B,T,C) being complete; by every thread of the team. */
void norm_watch_forward(const struct norm *norm, const struct tokens *tokens, const real *x);
void norm_watch_backward(const struct norm *norm, const struct tokens *tokens, const real *dy,
                         const real *x);

/* After the backward of a probed batch of so many rows: the measures by name; returns how many.
   dist_mean, dist_var: |batch - tracked| / C. tid_mean, tid_var (training-inference discrepancy):
   of means and of deviations, relative to the tracked deviation. penalty: what the kind adds to the
   loss, if anything. g_mean, g_var: L2 norms. */
struct measure {
    const char *name;
    double value;
};
enum { NORM_MEASURES = 7 };
size_t norm_watch_measures(const struct norm *norm, size_t rows,
                           struct measure measures[NORM_MEASURES]);

#endif

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
   scans. */
#ifndef NORM_PAST_H
#define NORM_PAST_H

#include "model/norm/kind.h"

/* The parameters and options of such a kind have this order, and its row has the functions below.
   A kind without the option of groups has one; without the prior's count it has no prior. gamma is
   the first parameter, or 1 + it if it starts at 0. */
enum { PAST_GAMMA, PAST_BETA, PAST_PRIOR_MEAN, PAST_PRIOR_LOGV };
enum { PAST_EPS, PAST_GROUPS, PAST_PRIOR_COUNT };

size_t past_saved_size(const struct norm *norm, size_t B, size_t T);
void past_forward(const struct norm *norm, const struct tokens *tokens, struct range rows, real *y,
                  const real *x);
void past_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                   real *dx, const real *dy, const real *x, real *const *sum);
void past_statistics(const struct norm *norm, const struct tokens *tokens, const real *x);
void past_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x);

#endif

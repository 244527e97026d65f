/* Normalizations behind one interface. A kind of norm is one file (norm_*.c) and one row of the
   table in norm.c; everything else, from --norm to the tests and the model file, follows from the
   row.

   A norm maps x (B,T,C) to y (B,T,C). What it learns (gamma, beta), what it tracks (running
   statistics) and what forward keeps for backward are declared by the row and handed out by
   norm_attach(). */
#ifndef NORM_H
#define NORM_H

#include "model/math/team.h"
#include "model/math/tensor.h"
#include <stdbool.h>

enum { BN_AXIS_BATCH_TIME, BN_AXIS_BATCH };
enum { PN_DIVISOR_PSI, PN_DIVISOR_BATCH };
enum { NORM_TENSORS = 5 }; // at most so many parameters, and so many states, of a norm

/* Settings from the command line, the same at every site; those of one kind begin with its name. */
struct norm_options {
    double eps;               // inside the square root; of scale, the least length
    int64_t affine;           // gamma and beta are learned
    int64_t bias;             // beta is learned
    double bn_momentum;       // share of the batch in the running statistics
    int64_t bn_axis;          // over which bn pools
    double rbn_mean, rbn_var; // weights of bn's penalty
    int64_t groups;           // of channels, in gn
    double dyt_alpha;         // where dyt's and derf's alpha starts
    double pn_alpha_fwd;      // what a batch leaves of pn's and pn-v's running mean square
    double pn_alpha_bkw;      // the same of pn's nu
    int64_t pn_warmup;        // batches in which pn is pn-v
    int64_t pn_group_scaling, pn_divisor;
    int64_t prepbn_steps; // batches in which prepbn turns from ln to bn
    double prepbn_eta;    // what eta is at first
    int64_t heads;        // of attention; pn's groups
    int64_t watch;        // the norms are watched (norm_watch.h)
};

/* Which tokens there are. A norm that pools over tokens leaves invalid ones (pads) out of its
   statistics, and in evaluation (`training` false) uses running statistics. */
struct tokens {
    size_t B, T;
    const unsigned char *valid; // (B,T), 0 marks a pad; NULL: all are valid
    bool training;
    bool probe;       // watched norms measure this batch
    double scale;     // in backward: the share that the batch's mean loss has in the gradient
    size_t rows_each; // of a token; 0: one
};

static inline bool token_counts(const struct tokens *tokens, size_t row) {
    if (!tokens->valid) return true;
    return tokens->valid[tokens->rows_each ? row / tokens->rows_each : row];
}

/* What a parameter is to --affine and --bias: gamma is learned with --affine=on, beta if both are
   on, others always. One that is not learned keeps its start. */
enum norm_role { NORM_GAMMA, NORM_BETA, NORM_OTHER };

/* A tensor of a norm, named as in PyTorch: C reals, one, or T x C, all `start` at first. */
struct norm_tensor {
    const char *name; // "weight", "bias", "running_mean", ...; NULL ends the list
    bool scalar;      // of a parameter: one number, not one for each channel
    bool counts;      // of a state: the number of batches in training, an integer
    bool positions;   // of a state: C numbers for each position
    int dimensions;   // of a scalar's shape: 0 of (), 1 of (1), as the authors' code has it
    double start;
    enum norm_role role;                                              // of a parameter
    double (*start_of)(const struct norm_options *options, size_t C); // instead of start, or NULL
};

struct norm; // one norm at one site of the model

/* What a kind's statistics are over, for probes (norm_watch.h). */
enum norm_axis { NORM_OVER_NOTHING, NORM_OVER_CHANNELS, NORM_OVER_TOKENS };

/* What a kind is. Its functions are called by every thread of the team (team.h): forward and
   backward for one block of rows at a time, y, x and the like pointing to the block's first row. */
struct norm_kind {
    const char *name;      // as in --norm=NAME, config files and folders
    const char *full_name; // another one that --norm takes, or NULL
    const char *formula;   // in a line
    const char *source;    // the paper, in a line
    const char *options;   // names of the options that it uses and some norms do not, or NULL
    enum norm_axis over;
    bool centred; // by the mean of what it is over
    struct norm_tensor param[NORM_TENSORS + 1];
    struct norm_tensor state[NORM_TENSORS + 1];
    const struct norm_kind *by_position; // stands for it with --bn-axis=batch, or NULL: itself
    /* Reals that forward or statistics keep, for B sequences of T tokens; options and C are known.
     */
    size_t (*saved)(const struct norm *norm, size_t B, size_t T);
    /* Dies with status 2 if the options make no norm of C channels, or NULL. */
    void (*check)(const struct norm_options *options, size_t C);
    /* y (rows,C) = norm(x). NULL in the identity, which norm_forward() passes by. */
    void (*forward)(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x);
    /* dx (rows,C) = gradient of the input; sum[i] += the block's part of parameter i's gradient.
       After forward of the same x. */
    void (*backward)(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum);
    /* Of kinds that pool over tokens, else NULL: what must be known of all of x (B,T,C), or of dy,
       before forward or backward of the first block. Called between barriers. */
    void (*statistics)(const struct norm *norm, const struct tokens *tokens, const real *x);
    void (*gradient_statistics)(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x);
    /* Of kinds that add to the loss, else NULL: how much, of the last batch in training. */
    double (*penalty)(const struct norm *norm);
};

struct norm {
    const struct norm_kind *kind;
    struct norm_options options;
    size_t C;
    struct param param[NORM_TENSORS]; // in the order of the row
    real *sum[NORM_TENSORS];          // (row_blocks,size) of each parameter's gradient
    real *state[NORM_TENSORS];        // likewise; NULL for the one that counts
    int64_t *batches;                 // that one, or NULL
    real *saved;
    struct norm_watch *watch; // NULL: not watched
};

/* The table, ended by NULL. */
extern const struct norm_kind *const norm_kinds[];

const struct norm_kind *norm_find(const char *name); // by its short name; NULL if there is none

/* Declares the tensors of a norm of `kind` at the site `name` ("transformer.h.0.ln_1") and takes
   its memory. */
void norm_attach(struct norm *norm, const struct norm_kind *kind,
                 const struct norm_options *options, const char *name, size_t C,
                 const struct layout *layout);

/* Whether it is another than the identity. */
static inline bool norm_is(const struct norm *norm) {
    return norm->kind->forward != NULL;
}

/* Before forward and backward, by every thread of the team, of x or dy (B,T,C) that need not be
   complete yet. Nothing happens where the norm, or who watches it, does not pool over tokens. */
bool norm_pools(const struct norm *norm);
void norm_statistics(const struct norm *norm, const struct tokens *tokens, const real *x);
void norm_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x);

/* norm(x) of a block of rows in y, or x itself where the norm is the identity; likewise dx or dy. x
   and y may not overlap. */
const real *norm_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                         real *y, const real *x);
const real *norm_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                          real *dx, const real *dy, const real *x);

/* Adds the blocks' sums to the parameters' gradients, by every thread of the team; after a barrier.
 */
void norm_gradient(const struct norm *norm, size_t tokens);

#endif

/* What a kind of norm is, and what a norm of that kind holds. Files of kinds include this header;
   code that uses norms includes norm.h.

   A norm maps x (B,T,C) to y (B,T,C). Its kind is a row that declares what the norm learns (gamma,
   beta), what it tracks (running statistics), what forward saves for backward, and its options.
   norm_attach() hands all of it out. */
#pragma once

#include "model/math/parts.h"
#include "model/options/options.h"
#include <stdbool.h>

enum { NORM_TENSORS = 5 }; // maximum number of parameters, and of states

/* What weight decay does to gamma. */
enum norm_decay { NORM_DECAY_OFF, NORM_DECAY_ZERO, NORM_DECAY_ONE };

/* The settings of all norms of a model. */
struct norm_options {
    int64_t affine;                                // gamma and beta are learned
    int64_t bias;                                  // beta is learned
    int64_t decay_gamma;                           // enum norm_decay
    int64_t heads;                                 // of attention
    int64_t attention;                             // norms of an attention sub-layer
    int64_t measures_positions;                    // there is memory for STATISTICS_POSITION
    union option_data value[KIND_OPTIONS_MAX + 1]; // in the order of norm_option_list()
};

/* Where norms that pool over tokens take their statistics from when a trained model is measured. */
enum statistics_source {
    STATISTICS_RUNNING,  // running statistics, as in evaluation
    STATISTICS_OWN,      // the batch that is measured, as in training
    STATISTICS_OTHER,    // another batch
    STATISTICS_SINGLE,   // the one sequence that is measured
    STATISTICS_POSITION, // the batch's tokens at the same position
    STATISTICS_SOURCES
};

/* The tokens of a batch. A norm that pools over tokens leaves invalid ones (pads) out of its
   statistics. In evaluation (`training` false) it uses running statistics. With a `source` other
   than STATISTICS_RUNNING a trained model is measured: if `training`, statistics are the batch's,
   however far a schedule of training is, and those of STATISTICS_OTHER become the running ones. */
struct tokens {
    size_t B, T;
    const unsigned char *valid; // (B,T), 0 marks a pad; NULL: all are valid
    bool training;
    enum statistics_source source;
    double scale;          // in backward: weight of the batch's mean loss in the gradient
    size_t rows_per_token; // 0 means 1; heads are rows of their own in qkv_norm.h
    size_t first;          // first row of x that is new, when a text grows (model_extend())
    struct parts parts;    // in training: those that the tokens belong to
    bool local;            // norms pool over the tokens of this rank only
};

static inline bool token_counts(const struct tokens *tokens, size_t row) {
    if (!tokens->valid) return true;
    return tokens->valid[tokens->rows_per_token ? row / tokens->rows_per_token : row];
}

/* Whether a parameter is learned: gamma with --affine=on, beta with --affine=on and --bias=on,
   others always. A parameter that is not learned keeps its initial value. */
enum norm_role { NORM_GAMMA, NORM_BETA, NORM_OTHER };

struct norm; // one norm at one site of the model

#define NORM_SATURATED ((real)0.99) // tanh' is then below 0.02

/* A tensor of a norm, named as in PyTorch: C reals, one, T x C, or a matrix, all initially
   `start`. */
struct norm_tensor {
    const char *name;   // "weight", "bias", "running_mean", ...; NULL ends the list
    const char *symbol; // in the kind's formula; NULL: gamma and beta, for others `name`
    bool scalar;        // of a parameter: one number, not one for each channel
    bool counts;        // of a state: the number of batches in training, an integer
    int dimensions;     // of a scalar's shape: 0 is (), 1 is (1), as in the authors' code
    double start;
    enum norm_role role;                        // of a parameter
    const struct option *start_option;          // instead of start; NULL: start
    size_t (*rows_of)(const struct norm *norm); // of a parameter: instead of C; NULL: C
    double deviation; // not 0: it is a matrix (rows,C) and starts normal(start, this)
};

/* Which terms of the gradient probes measure (instruments/watch.h): none, or those of

     y = gamma xhat + beta,  xhat = (x - m) / sqrt(mean (x - m)^2 + eps)

   where m is mean x if the kind is `centred`, otherwise 0. Means are over all channels of a token,
   or over all valid tokens of the batch, for each channel. watch.c computes xhat by this formula and
   not by the kind's forward, so every other norm has no terms. */
enum norm_terms { NORM_TERMS_NONE, NORM_TERMS_OF_TOKENS, NORM_TERMS_OF_CHANNELS };

/* A kind of norm. Every thread of the team (team.h) calls its functions. forward and backward work
   on one row block at a time: y, x, dx and dy point to the block's first row. */
struct norm_kind {
    const char *name;      // as in --norm=NAME, config files and folders
    const char *full_name; // a synonym for --norm, or NULL
    const char *formula;   // what forward computes, in the language of formula.h; NULL if that
    const char *words;     // cannot say it: then this does, in a line
    const char *source;    // the paper, in a line
    const struct option *options[KIND_OPTIONS + 1]; // NULL ends the list
    enum norm_terms terms;
    bool unit;     // every row of y has length 1
    bool centred;  // with terms: m is the mean
    bool causal;   // its statistics are over a token and earlier ones of its sequence; every other
                   // kind with statistics() pools over tokens, and needs the full batch at once
    bool by_parts; // it pools by sums over parts of the batch (pool.h), which ranks can share
    bool by_formula;             // it has no functions of its own (formula.h)
    const struct formula *typed; // its formula, if that was typed
    struct norm_tensor param[NORM_TENSORS + 1];
    struct norm_tensor state[NORM_TENSORS + 1];

    /* Called by norm_attach(), each may be NULL. C, heads and the values of the options are known.
       check: dies with status 2 if no norm can be made of these options and C.
       partial: whether these options limit the statistics to some of the channels, split the
       tokens, or else make y differ from gamma xhat + beta. Then `terms` and `by_parts` do not hold.
       by_position: whether it pools at each position of these tokens alone, as STATISTICS_POSITION
       demands. If it does in training, the reals of `state` are T x C.
       sets: in training, the number of sets of tokens that have statistics of their own (pool.h);
       NULL: 1.
       saved_size: number of reals that forward or statistics save, for B sequences of T tokens.
       saved: instead, how many numbers forward saves of each token (norm_saved()). */
    void (*check)(const struct norm *norm);
    bool (*partial)(const struct norm *norm);
    bool (*by_position)(const struct norm *norm, const struct tokens *tokens);
    size_t (*sets)(const struct norm *norm, const struct tokens *tokens);
    size_t (*saved_size)(const struct norm *norm, size_t B, size_t T);
    size_t saved;

    /* Computes y (rows,C) = norm(x). NULL in the identity, which norm_forward() skips. */
    void (*forward)(const struct norm *norm, const struct tokens *tokens, struct range rows,
                    real *y, const real *x);
    /* dx (rows,C) = gradient of the input; sum[i] += the block's part of parameter i's gradient.
       After forward of the same x. */
    void (*backward)(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *dx, const real *dy, const real *x, real *const *sum);

    /* NULL unless statistics are over several tokens: computes those of all of x (B,T,C), or the
       sums over dy, that forward or backward of the first block needs. Called between barriers. */
    void (*statistics)(const struct norm *norm, const struct tokens *tokens, const real *x);
    void (*gradient_statistics)(const struct norm *norm, const struct tokens *tokens,
                                const real *dy, const real *x);

    /* NULL unless the kind is a curve f of each number with |f| < 1, before gamma and beta: how many
       channels of a token, x (C), it saturates: |f| > NORM_SATURATED. */
    size_t (*saturated)(const struct norm *norm, const real *x);

    /* NULL unless the kind adds a penalty to the loss: returns the penalty of the last batch in
       training. */
    double (*penalty)(const struct norm *norm);
};

/* Values of a norm that pools over tokens (pool.h), (sets,C) each. */
struct pool {
    size_t C, sets;
    bool positions;  // set i is position i; else the sets are equal runs of full sequences
    bool about_zero; // moments are about 0, and mean stays 0
    real *mean, *rstd, *factor, *along_ones, *along_xhat;
    real *moment; // sum (x - mean)^2 / N of the set
    real *stack;  // (PARTS_HEIGHT,3,C) of sums over parts (parts.h)
    real *blocks; // (sets,row_blocks,2,C)
};

struct norm {
    const struct norm_kind *kind;
    const struct formula *formula; // if it is computed by one
    char name[TENSOR_NAME];        // of its site; "": there is no norm
    size_t C;
    size_t heads;                               // of attention; 1 inside a head
    bool attention;                             // its site is in an attention sub-layer
    enum norm_terms terms;                      // kind->terms, unless kind->partial()
    union option_data option[KIND_OPTIONS + 1]; // in the order of kind->options, then 0
    struct param param[NORM_TENSORS];           // in the order of kind->param
    real *state[NORM_TENSORS];                  // in the order of kind->state; NULL: the count
    int64_t *batches;                           // the count, or NULL
    real *saved;                                // what kind->saved_size counts
    const real *gamma, *beta;                   // (C), the last ones in kind->param; NULL: none
    real *dgamma, *dbeta;                       // (C) their gradients
    struct pool pool;
};

/* The i-th of the numbers that are saved of each of the M tokens of a block, (M). */
static inline real *norm_saved(const struct norm *norm, struct range rows, size_t i) {
    return norm->saved + norm->kind->saved * rows.begin + i * (rows.end - rows.begin);
}

/* ---- the kinds, and the options that they list ---- */

/* In the order of list.h, then formulas in the order in which they were added; ended by NULL. */
enum { NORM_KINDS_MAX = 96 };
extern const struct norm_kind *norm_kinds[NORM_KINDS_MAX + 1];

const struct norm_kind *norm_find(const char *name); // by its short name; NULL if there is none

/* Every option that some kind lists, once, in the order of the kinds; ended by NULL. The first call
   makes the list, before there are threads. */
const struct option *const *norm_option_list(void);

/* The value of an option in these settings. */
union option_data norm_setting(const struct norm_options *options, const struct option *option);

/* The value of an option, by the address of its row; 0 if the norm's kind does not list it. */
union option_data norm_option(const struct norm *norm, const struct option *option);

/* The settings of a norm of rows that have this many of the model's heads. The number of groups
   becomes smaller in the same ratio, rounded down, and is 1 in a single head; so a group of keys has
   as many channels as one of queries. */
struct norm_options norm_options_of_heads(const struct norm_options *options, size_t heads);

/* A check() of kinds with --norm-groups: dies unless the C channels can be split into this many equal
   groups. */
void norm_check_groups(const struct norm *norm);

/* Options of several kinds. */
extern const struct option norm_eps;         // inside the square root
extern const struct option norm_momentum;    // weight of the batch in the running statistics
extern const struct option norm_groups;      // groups of channels
extern const struct option norm_detach_mean; // the mean is a constant in backward
extern const struct option norm_detach_std;  // so is what divides

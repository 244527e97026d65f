/* Lists of a model's tensors. Each tensor is declared exactly once, by tensor_take(). Its list then
   serves initialization, the optimizer, files, tests and messages.

   As with an arena, the declarations run twice: the first pass counts, the second returns pointers.
   Parameters, gradients and the optimizer's state are arrays of the same layout, so a parameter is
   a pair of pointers with the same offset into two of them. */
#pragma once

#include "model/math/arena.h"
#include "model/math/team.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tensor;

struct param {
    real *value;           // the weights
    real *grad;            // their gradient, same shape
    size_t stride;         // from a slot of the gradient to the next
    size_t size;           // elements
    real *sums;            // (row_blocks,size) of the gradient, see tensor_sums(); else NULL
    struct tensor *tensor; // its declaration, NULL while counting
};

/* Slot `slot` of a gradient: sums over parts of a batch, see parts.h. Slot 0 is the gradient. */
static inline real *param_slot(const struct param *param, size_t slot) {
    return param->grad + slot * param->stride;
}

/* The sums of the row block that has this row. */
static inline real *param_sums(const struct param *param, size_t row) {
    return param->sums + row / ROWS * param->size;
}

enum { TENSOR_NAME = 64 }; // bytes of a name

enum { TENSOR_MATRICES = 4 }; // maximum number of matrices that a weight consists of

/* Which vectors of a matrix keep unit length while they are learned. */
enum tensor_unit { UNIT_NONE, UNIT_ROWS, UNIT_COLUMNS };

/* The largest number that a tensor of counts holds: counting stops there, and a file with a larger one is
   refused. */
#define TENSOR_COUNT_MAX ((int64_t)1 << 53)

struct tensor {
    char name[TENSOR_NAME]; // as in PyTorch's state dict
    size_t shape[2];        // the first `dimensions` of them are used
    int dimensions;         // 0, 1 or 2
    size_t offset, size;    // in reals
    double mean, deviation; // initial values: normal(mean, deviation), or mean if deviation = 0
    bool counts;            // holds one int64_t, initially 0: see tensor_take_count()
    bool decays;            // weight decay pulls it towards decay_target; initially if a matrix
    double decay_target;    // initially 0
    enum tensor_unit unit;
    struct param param;                  // what tensor_take() returned
    size_t rows;                         // of a token, in its sums
    size_t matrix_rows[TENSOR_MATRICES]; // of a hidden layer's weight: see tensor_hidden()
};

struct tensor_list {
    struct tensor *tensor; // NULL while counting
    size_t count;          // tensors taken
    size_t size;           // reals taken; each tensor starts at a multiple of 64 bytes
    size_t units;          // tensors that keep unit length
    real *value;           // (size), NULL while counting
    real *grad;            // (slots,stride), NULL while counting; only `param` and `fixed` have it
    size_t stride;         // reals of a slot: the size that the first pass counted
    uint64_t version;      // counts changes of the values
};

/* What a model is made of. */
struct tensor_lists {
    struct tensor_list param; // learned
    struct tensor_list state; // tracked while training: running statistics (no gradient)
    struct tensor_list fixed; // parameters that are switched off: constants, gradients unused
    bool undivided;           // set by a module that must see the full batch in one process
};

/* Where a module declares its tensors and takes its memory, for batches or micro-batches of up to B
   sequences of T tokens. A function NAME_attach(..., layout) runs twice: see arena.h. */
struct layout {
    size_t B, T;
    struct tensor_lists *lists;
    struct arena *arena;
    size_t rows; // of a token, that T counts: 1, or heads in qkv_norm.h
};

/* Declares the tensor MODULE.NAME of the list, or NAME if `module` is "", and returns its memory
   (NULL while counting). Its shape is (rows,columns), (rows) if columns = 0, or () if both are 0.
   Its initial values are normal(mean, deviation). */
struct param tensor_take(struct tensor_list *list, const char *module, const char *name,
                         size_t rows, size_t columns, double mean, double deviation);

/* Takes memory for the sums of the parameter's gradient over each row block. Backward computes
   them. The model adds them to the gradient (parts_add_sums()). */
void tensor_sums(struct param *param, const struct layout *layout);

/* Declares that the rows or columns of this matrix of the list keep unit length. Whoever changes
   the list's values then calls tensor_normalize_units(). */
void tensor_keep_unit(struct tensor_list *list, struct param matrix, enum tensor_unit unit);

/* Declares that this matrix is the weight of a hidden layer, and the matrices that it consists of,
   one below the other: their numbers of rows, 0 after the last. Attention's queries, keys, values
   and gates are four matrices in one weight. Embeddings and the head are not hidden. */
void tensor_hidden(struct param weight, const size_t rows[TENSOR_MATRICES]);

/* Declares an integer, such as a number of batches, and returns its memory (NULL while counting).
   It occupies the bytes of sizeof(int64_t) / sizeof(real) reals of the list, so whoever copies the
   list's values copies it too. */
int64_t *tensor_take_count(struct tensor_list *list, const char *module, const char *name);

/* The first tensor with a NaN or an infinity in `values`, an array of the list's layout;
   or NULL. */
const struct tensor *tensor_nonfinite(const struct tensor_list *list, const real *values);

/* Sets the initial values, with a random stream for each tensor, keyed by seed and name. */
void tensor_initialize(struct tensor_list *list, uint64_t seed);

/* Divides each row or column that keeps unit length by its length; zeros stay zeros. Every
   thread of the team calls it, between barriers, and takes its own rows or columns. The caller
   increments the list's version. */
void tensor_normalize_units(const struct tensor_list *list);

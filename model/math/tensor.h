/* The list of a model's tensors: each is declared exactly once, by tensor_take(), and
   this list then serves initialization, the optimizer, files, tests and messages.

   Like an arena, a list is made in two passes over the same declarations: the first counts, the
   second hands out. Parameters, gradients and both Adam moments share one layout, so a parameter is
   a pair of pointers with the same offset in two arrays. */
#ifndef TENSOR_H
#define TENSOR_H

#include "model/math/arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct param {
    real *value; // the weights
    real *grad;  // their gradient, same shape
};

struct tensor {
    char name[64];          // as in PyTorch's state dict
    size_t shape[2];        // shape[1] unused with one dimension, both with none
    int dimensions;         // 0, 1 or 2
    size_t offset, size;    // in reals
    double mean, deviation; // initial values: normal(mean, deviation), constant if deviation = 0
    bool counts;            // instead of reals an int64_t, 0 at first: see tensor_take_count()
};

struct tensor_list {
    struct tensor *tensor; // NULL while counting
    size_t count;          // tensors taken
    size_t size;           // reals taken, each tensor from a multiple of 64 bytes on
    real *value, *grad;    // bases, NULL while counting; state has no grad
    uint64_t version;      // counts changes of the values
};

/* What a model is made of. */
struct tensor_lists {
    struct tensor_list param;   // learned
    struct tensor_list state;   // tracked while training: running statistics (no gradient)
    struct tensor_list fixed;   // parameters switched off: constants, their gradients unused
    struct tensor_list tracked; // what probes track while training (no gradient)
};

/* Where a module declares its tensors and takes its memory, for batches of up to B sequences of T
   tokens. What attaches to a layout runs twice: see arena.h. */
struct layout {
    size_t B, T;
    struct tensor_lists *lists;
    struct arena *arena;
};

/* Declares the next tensor of the list with shape (rows, columns), (rows) if columns = 0, () if
   both are, and initial values normal(mean, deviation); returns where it lies. */
struct param tensor_take(struct tensor_list *list, const char *name, size_t rows, size_t columns,
                         double mean, double deviation);

/* Declares an integer without dimensions, such as a number of batches, and returns where it lies
   (NULL while counting). It takes as many reals of the list as an int64_t is long, so that copies
   of a list's values hold it too. */
int64_t *tensor_take_count(struct tensor_list *list, const char *name);

/* The first tensor of the list that holds NaN or infinity in `values` (laid out as the list), or
 * NULL. */
const struct tensor *tensor_nonfinite(const struct tensor_list *list, const real *values);

/* Initial values: one random stream for each tensor, keyed by seed and name. */
void tensor_initialize(struct tensor_list *list, uint64_t seed);

#endif

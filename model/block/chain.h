/* The list of a sub-layer's operations (op.h). From what these declare, chain_plan.c derives which
   values are stored where, and chain_run.c which thread computes what when. chain.c has the memory
   of the values. */
#pragma once

#include "model/block/op.h"

enum { CHAIN_OPS = 20, CHAIN_VALUES = 16, CHAIN_PRODUCTS = 2 };

struct chain {
    struct op op[CHAIN_OPS];
    struct value value[CHAIN_VALUES]; // the first is the input, the last the output
    size_t ops, values, products;
    size_t product[CHAIN_PRODUCTS]; // operations. When backward has done the first of them, it adds
                                    // the gradients of all weights
    size_t heads;                   // the operation that works on heads; CHAIN_OPS: none does
    size_t sweep;                   // tokens that go through the list together: full row blocks
};

/* Memory of all attention sub-layers, or of all MLPs: the places that are not of one sub-layer, by
   what is kept. SLABS and ALL are of backward. SWEEP is (threads,size). */
struct chain_memory {
    real *first[KEPT_KINDS];
    size_t size[KEPT_KINDS], rows[KEPT_KINDS];
    struct linear_operands operands[CHAIN_PRODUCTS]; // of the weights' gradients, a ring
};

/* Makes a list of those rows that are wanted, for an input of `width` numbers, and plans it. */
void chain_attach(struct chain *chain, size_t width, size_t sweep, size_t count,
                  const struct op *rows);
void chain_plan(struct chain *chain);

/* Takes the memory of what forward stores of N tokens; says where a borrowed value is. */
void chain_take(struct chain *chain, size_t N, struct arena *arena);
void chain_place(struct value *value, const real *first);

/* First, chain_need() is called for each sub-layer of the memory, with N tokens and the number of
   threads. Then chain_memory_attach() takes the memory; `chain` is one of them. */
void chain_need(struct chain_memory *memory, struct chain *chain, size_t N, size_t threads);
void chain_memory_attach(struct chain_memory *memory, const struct chain *chain, size_t threads,
                         struct arena *arena);

/* The value of this name; NULL if there is none. All its rows, if forward stores them. */
const struct value *chain_value(const struct chain *chain, const char *name);
const real *chain_stored(const struct chain *chain, const char *name);

/* Backward goes slab by slab (chain_run.c). This is the most that a slab has: enough rows for the threads
   that share it. */
static inline size_t slab_rows(size_t threads) {
    return SUM_ROWS * ((threads * ROWS + SUM_ROWS - 1) / SUM_ROWS);
}

/* Forward where dy is NULL; else backward, which computes dx (B,T,width) from dy (B,T,width), and
   adds the gradients of the weights. dy is read until the next barrier. Every thread of the team
   calls it. */
void chain_compute(const struct chain *chain, const struct pass *pass,
                   const struct chain_memory *memory, real *dx, const real *dy);

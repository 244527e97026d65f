/* A sub-layer as a list of operations, each of which computes a value from the one before it, or
   works on it in place:

     x  READ  u  PRE  normed  IN  expanded  ...  WRITE  sum  POST  y

   sublayer.c has the list, sublayer_operations.c computes the operations, chain.h goes through them.
   Backward goes through the list in the opposite order, and computes the gradient of an operation's
   input from that of its output. */
#pragma once

#include "model/layer/linear.h"
#include "model/norm/norm.h"

struct op;
struct step;

/* Sees what every operation computes (probes, --dump): each thread calls it for its own rows, after
   the operation's forward and before its backward. */
typedef void op_observer(void *context, const struct op *op, const struct step *step);

/* One forward or backward pass: the tokens, those of them that are computed (all, unless a text
   grows: see model_extend()), and the number of the batch, which keys dropout. If the tokens are a
   micro-batch, row 0 is row `first` of the batch. */
struct pass {
    struct tokens tokens;
    struct range rows;
    uint64_t number;
    size_t first;
    bool initial;         // of the first batch, from which connections get initial values
    op_observer *observe; // NULL: nobody looks
    void *observer;       // its context
};

/* Whether dropout is on: in training, not where a trained model is measured. */
static inline bool pass_drops(const struct pass *pass) {
    return pass->tokens.training && pass->tokens.source == STATISTICS_RUNNING;
}

/* Of which tokens a value is stored: those of a sweep, in the thread's scratch; a ring of slabs;
   all; or all in the array dx or dy of the caller of backward. */
enum kept { NOT_KEPT, SWEEP, SLABS, ALL, DX, DY, KEPT_KINDS };

struct place {
    enum kept kept;
    size_t width;  // of a row
    real *first;   // (B,T,width) that forward stores; else NULL:
    size_t offset; // in the memory that has all places of this kind
};

enum { FORWARD, BACKWARD, DIRECTIONS };

struct value {
    const char *name;
    bool stored, borrowed; // all tokens are stored in any case; in memory of another module
    struct place place[DIRECTIONS]; // in backward it may be computed again
    struct place gradient;
    struct value *same;      // the value whose gradient is this one's too, or NULL
    size_t writer, complete; // the operation that writes it, and the last that does so in place
    size_t made;             // the last operation before whose backward it is computed again
};

/* What an operation works on: some rows, and pointers to the first of them, NULL where they are not
   stored. y is x where the operation works in place. */
struct step {
    bool backward;
    const struct pass *pass;
    struct range rows;       // tokens; heads, if the kind is OP_HEADS
    real *x, *y, *beside;    // input, output, second input: (rows,width)
    real *dx, *dy, *dbeside; // their gradients
    real *scratch;           // (rows,scratch) of the thread; all of it if OP_HEADS
    real *held;              // (B,T,held)
};

enum op_flags {
    OP_HEADS = 1 << 0,     // works on heads of full sequences instead of on rows
    OP_IN_PLACE = 1 << 1,  // the output is the input
    OP_AGAIN = 1 << 2,     // backward rather computes y again than store it
    OP_READS_IN = 1 << 3,  // backward reads x
    OP_READS_OUT = 1 << 4, // backward reads y and the second input
    OP_MAKES_OUT = 1 << 5, // backward writes y
    OP_PRODUCT = 1 << 6,   // its self is a struct linear: the weight's gradient reads x and dy
};

/* A kind of operation; `self` is its data. Each thread calls `run` for its own rows: at most a
   sweep of them, in backward full row blocks. If op.waits, all threads first call `pool` with all
   rows: it waits until they are complete, and computes statistics, or in backward their
   gradients. */
struct op_kind {
    const char *formula;
    unsigned flags;
    void (*run)(const void *self, const struct step *step);
    void (*pool)(const void *self, const struct step *step);
};

struct op {
    // from its row in sublayer.c; what is not there is 0
    bool wanted;
    const struct op_kind *kind;
    const void *self;
    const char *writes; // the name of its output
    size_t width;       // of its output
    const char *reads;  // the name of its second input
    bool waits;
    bool stores_in, stores_out; // all tokens of x and y are stored: op_kind.run finds them
    bool passes;                // dx is dy
    size_t scratch;             // reals for each row of a sweep; in all, if OP_HEADS
    size_t held;                // reals for each token in backward
    size_t heads, group;        // of a sequence; how many a thread takes together
    // from chain_plan.c
    struct value *in, *out, *beside;
    unsigned again; // a bit for each operation whose forward backward computes again before this
    struct place scratch_at, held_at;
};

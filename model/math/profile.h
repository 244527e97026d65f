/* A profile of training by operation: a lap timer on the first thread of the team. While it is off,
   each lap costs the test of one variable. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum profile_operation {
    PROFILE_BATCH,       // sampling the batch
    PROFILE_TRANSPOSE,   // transposing weights for the forward products
    PROFILE_EMBEDDING,   // forward and backward
    PROFILE_NORM,        // forward and backward
    PROFILE_FORWARD,     // linear layers: y = x W^T
    PROFILE_INPUT,       // linear layers: dx = dy W
    PROFILE_WEIGHT,      // linear layers: dW = dy^T x
    PROFILE_ATTENTION,   // forward and backward
    PROFILE_ELEMENTWISE, // activation, residual, dropout
    PROFILE_LOSS,        // softmax and cross-entropy
    PROFILE_OPTIMIZER,   // gradient norm and update
    PROFILE_WAIT,        // waiting for the other threads
    PROFILE_RANKS,       // exchange with the other ranks, and waiting for them
    PROFILE_OTHER,
    PROFILE_OPERATIONS
};

extern const char *const profile_name[PROFILE_OPERATIONS];
extern bool profile_on;

void profile_start(void); // continues from the times so far
void profile_stop(void);

void profile_add(enum profile_operation operation); // use profile_lap()

/* Adds the time since the previous lap, or since the start, to `operation`. Only the team's first
   thread is measured. */
static inline void profile_lap(enum profile_operation operation) {
    if (__builtin_expect(profile_on, false)) profile_add(operation);
}

double profile_seconds(enum profile_operation operation);

/* Prints a table: operation, milliseconds per step, fraction of the total, after `steps` steps. */
void profile_print(FILE *file, double steps);

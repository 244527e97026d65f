/* Where the time of training goes, by operation: a lap clock on the first thread of the team. Off,
   it costs a test of one variable. */
#ifndef PROFILE_H
#define PROFILE_H

#include <stdbool.h>
#include <stdio.h>

enum profile_part {
    PROFILE_BATCH,       // drawing the batch
    PROFILE_TRANSPOSE,   // weights into the order in which products read them
    PROFILE_EMBEDDING,   // forward and backward
    PROFILE_NORM,        // forward and backward
    PROFILE_FORWARD,     // products of linear layers: y = x W^T
    PROFILE_INPUT,       // dx = dy W
    PROFILE_WEIGHT,      // dW = dy^T x
    PROFILE_ATTENTION,   // forward and backward
    PROFILE_ELEMENTWISE, // activation, residual, dropout
    PROFILE_LOSS,        // softmax and cross-entropy
    PROFILE_ADAM,        // gradient norm and update
    PROFILE_WAIT,        // for the other threads
    PROFILE_OTHER,
    PROFILE_PARTS
};

extern const char *const profile_name[PROFILE_PARTS];
extern bool profile_on;

/* Starts from zero, stops, goes on where it stopped. */
void profile_start(void);
void profile_stop(void);
void profile_resume(void);

void profile_add(enum profile_part part);

/* Books the time since the last lap, or the start, on `part`; other threads are not measured. */
static inline void profile_lap(enum profile_part part) {
    if (__builtin_expect(profile_on, false)) profile_add(part);
}

double profile_seconds(enum profile_part part);

/* A table: part, milliseconds for each of `steps` steps, share of the whole. */
void profile_print(FILE *file, double steps);

#endif

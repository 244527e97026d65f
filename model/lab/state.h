/* The state of the program. */
#ifndef STATE_H
#define STATE_H

#include "data/files/chart.h"
#include "model/lab/checkpoint.h"
#include "model/lab/step.h"

struct session {
    struct config config;
    struct checkpoint checkpoint; // what was stored: the run to resume or the model to use
    struct loader loader;
    struct vocabulary known; // of --start or of the model to use; without symbols if there is none
    const struct vocabulary *vocabulary; // of the model: this one or the corpus's
    struct model model;
    struct optimizer optimizer;
    struct probe probe;
    struct run run;
    struct clock clock;
    struct outcome outcome; // how the run goes; outcome.steps counts the updates done
    struct {
        struct model model; // only its lists of tensors
        struct arena arena;
    } best; // of --keep-best
    struct progress progress;
    struct chart chart; // see say.h
};

#endif

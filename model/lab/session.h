/* The state of the program: one run that trains, or one stored model that is used. */
#ifndef SESSION_H
#define SESSION_H

#include "data/files/chart.h"
#include "data/files/progress.h"
#include "data/files/run.h"
#include "data/text/corpus.h"
#include "model/lab/checkpoint.h"
#include "model/lab/measure.h"
#include "model/lab/probe.h"

/* How far training was at some moment. */
struct mark {
    double updating; // seconds spent in updates since this program started
    int64_t tokens;  // targets trained on since the run started
};

/* Started by log_start(). */
struct clock {
    double start;            // now minus the seconds that the run took before
    int64_t step, tokens;    // of the run when this program started
    double updating;         // seconds spent in updates since then
    struct mark row, logged; // at the start of this step's row, and of the last logged row
    double saved, saving;    // when the last save ended, and the seconds that it took
};

struct session {
    struct config config;
    struct checkpoint checkpoint; // what was stored: the run to resume or the model to use
    struct corpus corpus;
    struct vocabulary known; // of --start; without symbols if it gives none
    struct model model;
    struct optimizer optimizer;
    struct probe probe;
    struct batch batch;
    struct run run;
    struct progress progress;
    struct chart chart;     // see say.h
    struct outcome outcome; // how the run goes; outcome.steps counts the updates done
    struct {
        struct model model; // only its lists of tensors
        struct arena arena;
    } best; // see record.h
    struct clock clock;
};

/* The vocabulary of the model that is trained: that of --start, or the corpus's own. */
static inline const struct vocabulary *session_vocabulary(const struct session *t) {
    return t->known.symbols ? &t->known : &t->corpus.vocabulary;
}

#endif

/* A small model that was probed, and the rows that its probes gave. */
#ifndef PROBED_H
#define PROBED_H

#include "model/lab/probe.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"

enum { B = SMALL_B, T = SMALL_T, N = B * T, PROBED_ROWS = 1024 };

struct probed_row {
    int64_t step;
    int layer;
    char site[64], metric[32];
    double value;
};

struct probed_rows {
    int count;
    struct probed_row row[PROBED_ROWS];
};

/* Adds a row to the struct probed_rows that is the context: a probe_sink's function. */
void probed_collect(void *context, int64_t step, int layer, const char *site, const char *metric,
                    double value);

/* The value of the only row of this layer, site and metric; fails unless there is one. */
double probed_value(const struct probed_rows *rows, int layer, const char *site,
                    const char *metric);
void probed_expect(const struct probed_rows *rows, int layer, const char *site, const char *metric,
                   double want);

/* A watched model that was trained on one batch and then probed with another. */
struct probed {
    struct model model;
    struct optimizer adam;
    struct probe probe;
    struct batch batch;
    struct probed_rows rows;
    real *before;  // weights before the probed update
    real *tracked; // running statistics before it
    double grad_norm;
    double scale; // by which the loss was multiplied before backward
};

void probed_run(struct probed *p, const struct model_config *config, unsigned char *valid,
                double scale);
void probed_free(struct probed *p);

/* True if token n is valid, as all are if `valid` is NULL. */
bool probed_valid(const unsigned char *valid, size_t n);

#endif

/* The parts of `make bench`: see bench.c. */
#pragma once

#include "model/options/config.h"

/* Calls run(context) for about `seconds`, after a warm-up. Returns the median time of a call, and
   the minimum in *fastest. Short calls are timed several at a time. */
double bench_time(void (*run)(void *), void *context, double seconds, double *fastest);

/* Measures and prints the products of every linear layer of a model, each for `seconds`. V is the
   vocabulary's size, `peak` the multiply-add rate in floating-point operations per second. */
void bench_products(const char *name, const struct config *config, size_t V, double peak,
                    double seconds);

/* The peak of floating-point operations per second of all threads together, measured by
   multiply-adds in registers. */
double bench_peak(void);

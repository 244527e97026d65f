/* Writes runs' folders by hand, for scripts that read them. */
#ifndef LOGS_H
#define LOGS_H

#include <stddef.h>

#define LOG_HEADER "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second\n"

/* Writes log.csv of a run: a row for each {step, training loss, validation loss}, where -1 means an
   empty cell. */
void log_put(const char *folder, size_t rows, const double (*row)[3]);

/* Writes summary.json of a run on the built-in grammar, Pre-LN unless `options`, members of JSON,
   say otherwise. */
void summary_put(const char *folder, const char *reason, const char *norm, double rate, int seed);
void summary_put_options(const char *folder, const char *reason, int seed, const char *options);

/* Writes a finished run: validation losses 4 at step 0 and `loss` at step 10. */
void run_put(const char *folder, const char *norm, double rate, int seed, double loss);
void run_put_options(const char *folder, int seed, double loss, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

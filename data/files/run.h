/* A run's folder: config.ini, log.csv, probes.csv, log.crc32, summary.json, sample.txt, the models'
   files and the checkpoint. Everything but the log and the probes is written to a temporary name,
   synced and renamed, and then the folder is synced, so that a kill or a power failure at any
   moment leaves the old file or the new one; every failure dies with status 1 and names the file.

   Whoever writes a run holds a lock on its log, so that there is one at a time; the system drops
   the lock when the process ends, however it does. */
#ifndef RUN_H
#define RUN_H

#include "data/files/table_seal.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct run {
    char folder[3072];
    FILE *log;
    FILE *probes;                   // NULL until run_start_probes()
    bool eval_train;                // the log has a column eval_train_loss; set before it is opened
    struct table_seal seal[TABLES]; // what log.crc32 holds
};

/* Makes the folder `out`, or, if that is NULL, runs/`name`, with a number added if that is taken.
   An `out` that holds a run already dies with status 2 unless `force`. */
void run_open(struct run *run, const char *out, const char *name, bool force);

/* Locks the run in `folder`, so that nobody else goes on with it while it is read; a folder that
   holds no run stays as it is. */
void run_lock(struct run *run, const char *folder);

/* Goes on with the locked run after `step` updates: later rows, and a row that was not written to
   its end, leave the log. What the run left at its end goes, the checkpoint stays. Returns the
   seconds of the last row that stays, 0 if there is none. Before anything changes, it dies if the
   tables are not as log.crc32 says; without that file they are taken as they are, with a notice. */
double run_resume(struct run *run, int64_t step);

void run_close(struct run *run);

/* Whether a file of this name stands in the folder. */
bool run_has(const struct run *run, const char *name);

/* Removes it if it does. */
void run_remove(const struct run *run, const char *name);

/* A row of log.csv; what was not measured is negative. */
struct log_row {
    int64_t step;   // updates done before
    double seconds; // since the start
    int64_t tokens; // trained on before
    double lr, train_loss, val_loss, grad_norm, tokens_per_second, eval_train_loss;
};

enum { NOT_MEASURED = -1 };

void run_log(struct run *run, const struct log_row *row);

/* Opens probes.csv, of whose rows those of the updates before `step` stay. */
void run_start_probes(struct run *run, int64_t step);

/* A row of it: what was measured at update `step`, in a layer if that is not negative. */
void run_probe(struct run *run, int64_t step, int layer, const char *site, const char *metric,
               double value);

/* On the disk, not only on its way there: before a checkpoint that says these rows are done. */
void run_sync(struct run *run);

/* Writes log.crc32: the checksums of the rows so far. After run_sync(), before a checkpoint. */
void run_seal(struct run *run);

/* A file of the folder to write to, and its end: file_commit() syncs and renames. */
struct run_file {
    FILE *stream;
    const char *folder; // the run's, not owned
    char path[4096], temporary[4096];
};

struct run_file file_create(const struct run *run, const char *name);
void file_commit(struct run_file *file);

#endif

/* A run's folder: config.ini, the tables log.csv, probes.csv and samples.txt, log.crc32,
   summary.json, sample.txt, the models' files and the checkpoint. Files other than the tables
   exist completely or not at all (file.h). A file that cannot be read or written, or is damaged,
   dies with status 1. A name that is too long, a folder that contains a run, and a run that another
   process is writing die with status 2. The message names the file or folder.

   log.crc32 has the checksums of the tables as they were when the last checkpoint was written, a
   line "log.csv BYTES CRC32" for each. BYTES is the table's length. Rows that were added later are
   not covered; resuming from the checkpoint drops them. The file is written before the checkpoint,
   so that it always covers the rows that a checkpoint needs. The checksums are not in the
   checkpoint itself because rows contain times, and two runs with the same options shall have the
   same checkpoint.

   The process that writes a run holds a lock on its log, so that there is only one at a time. The
   system releases the lock when the process ends, even if it is killed. */
#pragma once

#include "data/files/file.h"
#include "model/app/columns.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_LOG, TABLE_PROBES, TABLE_SAMPLES, TABLES };

/* The CRC-32 of the first `bytes` bytes of a table; bytes 0: there is no checksum. */
struct table_checksum {
    uint64_t bytes;
    uint32_t crc32;
};

/* Set the first three members, and the rest to 0. */
struct run {
    bool silent;       // another process writes this run: nothing is read or written here
    uint32_t optional; // the columns of the log that have an option, see columns.h
    bool uses[TABLES]; // the run has this table; it always has a log
    char folder[3072];
    FILE *table[TABLES];                    // NULL unless the run uses it
    size_t kept[TABLES];                    // length of the rows that a resumed run keeps
    struct table_checksum checksum[TABLES]; // the content of log.crc32
};

/* Creates the folder `out`, or, if that is NULL, runs/`name`, with a number added if that is taken.
   Dies with status 2 if `out` contains a run, unless `force`: then the files of that run are removed,
   but none of them if one cannot be. */
void run_open(struct run *run, const char *out, const char *name, bool force);

/* Locks the run in `folder`, so that no other process resumes it while it is read. Does nothing to
   a folder without a log. */
void run_lock(struct run *run, const char *folder);

/* Resuming the locked run after `step` updates takes two calls, so that whoever resumes it can refuse
   in between, and a run that is refused has lost nothing.

   run_check() changes no file. It dies if a table does not match its checksum in log.crc32 or has
   something else than rows, or if a file of the run could not be replaced. If log.crc32 is missing, a
   notice says so. Returns the latest time, in seconds, in the rows of the log that stay, 0 without any.

   run_resume() then removes later rows and an incomplete last row from the tables, and the files that
   the run wrote at its end; the checkpoint stays. */
double run_check(struct run *run, int64_t step);
void run_resume(struct run *run);

void run_close(struct run *run);

/* Whether the folder has a file of this name. */
bool run_has(const struct run *run, const char *name);

/* Whether this path leads to a file of the run in this folder. */
bool run_owns(const char *folder, const char *path);

/* Removes the file of this name, if there is one. */
void run_remove(const struct run *run, const char *name);

/* Adds a row to the log. */
void run_log(struct run *run, const struct state *state);

/* Adds a row to probes.csv of the struct run: a value measured at update `step`; `layer` is negative
   outside the layers. A callback, so `run` has no type. */
void run_probe(void *run, int64_t step, int layer, const char *site, const char *metric,
               double value);

/* Adds a row to samples.txt: a text without control characters that was sampled after `step`
   updates. */
void run_sample(struct run *run, int64_t step, const char *text);

/* Syncs the tables to the disk; before a checkpoint, which relies on their rows, with `checksums`:
   then writes log.crc32, the checksums of the rows so far. */
void run_sync(struct run *run, bool checksums);

/* The CRC-32 of the log as it is now. */
uint32_t run_log_crc32(const struct run *run);

/* A file of the folder that is being written. */
struct new_file run_create_file(const struct run *run, const char *name);

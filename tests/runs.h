/* Reads and compares what runs leave in their folders. Whatever is missing or malformed fails the
   test. */
#pragma once

#include "data/files/safetensors.h"
#include <stdbool.h>
#include <stddef.h>

/* The columns of log.csv: those of every log, and from EVERY_LOG on those of a switch. */
enum { STEP, SECONDS, TOKENS, LR, TRAIN_LOSS, VAL_LOSS, GRAD_NORM, SPEED, EVAL_TRAIN, COLUMNS };
enum { EVERY_LOG = EVAL_TRAIN };

enum { LOG_ROWS = 512 };

/* The cells of FOLDER/log.csv below the header; EVAL_TRAIN is NULL without --eval-train. */
struct log {
    int rows;
    const char *cell[LOG_ROWS][COLUMNS];
};

struct log log_of(const char *folder);
double log_number(const struct log *log, int row, int column);

/* Fail unless two runs of the same computation left the same: the log except for its times, and for
   EVAL_TRAIN if only one has it; or a file. */
void expect_same_log(const char *one, const char *other);
void expect_same_file(const char *one, const char *other, const char *name);

/* The loss that --evaluate printed. */
double loss_in(const char *printed);

/* FOLDER/summary.json, and a number in it; expect_member() fails unless a member of it has this
   value. */
char *summary_of(const char *folder);
double summary_number(const char *folder, const char *name);
void expect_member(const char *folder, const char *name, const char *value);

/* Fails unless two safetensors files hold the same arrays. Their texts may differ. */
void expect_same_arrays(const char *one, const char *other);

/* Fails unless two runs' folders hold the same files to the last bit, except for times: of the log,
   of its checksum and of the summary. */
void expect_same_folder(const char *one, const char *other);

/* A run in memory that these options give, separated by blanks, before its first update: its
   corpus, its model, and a batch of its size. */
struct session;
void memory_start(struct session *t, const char *options);
void memory_end(struct session *t);

/* ---- JSON that the program wrote (tests in Python check that it is well-formed) ---- */

/* The value of a member of the object at the start of `object`, or NULL if there is no such
   member. */
const char *json_member(const char *object, const char *name);

/* True if the value is this string or, where `text` has no quotes, this number or word. */
bool json_is(const char *value, const char *text);

/* ---- Safetensors files that a test writes ---- */

/* Writes a file of these texts and arrays. */
void stored_write(const char *path, const struct stored_text *texts, size_t text_count,
                  const struct stored *arrays, size_t array_count);

/* A safetensors file to be changed: edited_load() reads it, and edited_save() writes it with
   checksums of its own. Its content is valid until the end of the test. */
extern struct edited {
    struct stored_text texts[200];
    struct stored arrays[200];
    size_t text_count, array_count;
} edited;
void edited_load(const char *path);
void edited_save(const char *path);

/* The array of this name, which must exist. */
struct stored *edited_find(const char *name);

/* The values of an array of floats. */
static inline float *stored_floats(const struct stored *array) {
    return (float *)array->data;
}

/* Models of other programs: other.st, a file with nanoGPT's names that has only weights. It is made
   from the model of a run, so it must give the results of this run. */

/* Trains a run in out/ with these options. `edited` becomes its weights, without texts. */
void foreign_learn(const char *options);

/* Writes other.st without this array. */
void foreign_put_without(struct stored *array);

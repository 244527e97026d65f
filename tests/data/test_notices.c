/* Damage in safetensors files is noticed: lengths that a file does not have, and a model and a
   checkpoint that are cut short. Files without checksums, from older versions or other programs, are
   read with a notice; so are options that a person changed. Changed rows are refused. */
#include "data/crc32.h"
#include "data/die.h"
#include "tests/command.h"
#include "tests/death.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 100000 }; // more than a stream reads ahead
static float many[MANY];

static void read_many(void *context) {
    struct safetensors *file = context;
    safetensors_read(file, file->arrays, STORED_F32, many);
}

Test(safetensors, a_file_that_gets_shorter_while_it_is_open) {
    const struct stored array = {"a", STORED_F32, 1, {MANY}, many, 0, 0};
    uint64_t length;
    size_t size;
    stored_write(NULL, 0, &array, 1, &length, &size);
    struct safetensors file;
    safetensors_open(&file, "model");
    cr_assert(!truncate("model", (off_t)size - 1));
    const struct death *death = caught(read_many, &file);
    cr_expect_str_eq(death->line, "model: not a valid safetensors file: it is cut short");
    safetensors_close(&file);
}

/* Lengths and shapes beyond the end of the file, read in a process that cannot allocate 99 MiB. */
static void open_promises(void *unused) {
    memory_limit(16 << 20);
    char *volatile memory = malloc(99 << 20);
    if (memory) die(STATUS_MACHINE, "the limit does not limit");
    static const struct {
        uint64_t length;
        const char *header, *problem;
    } promise[] = {{100000001, "{}", "its header would have more than 100000000 bytes"},
                   {1ull << 62, "{}", "its header would have more than 100000000 bytes"},
                   {UINT64_MAX, "{}", "its header would have more than 100000000 bytes"},
                   {100000000, "{}", "it is cut short"},
                   {0,
                    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000000000],"
                    "\"data_offsets\":[0,4000000000]}}",
                    "it is cut short"}};
    for (size_t i = 0; i < sizeof promise / sizeof *promise; i++) {
        char bytes[256], line[256];
        size_t header = strlen(promise[i].header);
        uint64_t length = promise[i].length ? promise[i].length : header;
        for (int b = 0; b < 8; b++) bytes[b] = (char)(length >> 8 * b & 255);
        memcpy(bytes + 8, promise[i].header, header);
        struct opening opening = {.bytes = bytes, .size = 8 + header};
        const char *problem = opening_problem(&opening);
        snprintf(line, sizeof line, "it: not a valid safetensors file: %s", promise[i].problem);
        if (!problem || strcmp(problem, line) != 0)
            die(STATUS_MACHINE, "%s, not %s", problem ? problem : "none", line);
    }
}

Test(safetensors, nothing_is_allocated_on_a_promise) {
    if (SANITIZED || !file_there("/proc/self/statm"))
        skip("safetensors", "memory cannot be limited here");
    struct ending ending = call(open_promises, NULL);
    cr_expect(ending.status == 0, "%s", ending.err);
}

/* ---- damaged models ---- */

/* The model or the checkpoint of a run with a small vocabulary. */
static char *trained(const char *name, size_t *size, size_t *header) {
    char path[64];
    if (!file_there("run")) {
        file_put("text.txt", "abababababababababababababababababababababababab", 48);
        expect_done(train(TINY "--norm=bn --n-embd=4 --quiet --out=run text.txt"));
    }
    snprintf(path, sizeof path, "run/%s.safetensors", name);
    char *bytes = file_text(path, size);
    cr_assert(bytes && *size > 8);
    *header = (unsigned char)bytes[0] | (size_t)(unsigned char)bytes[1] << 8;
    struct opening opening = {.bytes = bytes, .size = *size};
    const char *problem = opening_problem(&opening);
    cr_assert(!problem && opening.file.header_checked, "%s", problem);
    safetensors_close(&opening.file);
    return bytes;
}

Test(safetensors, a_model_cut_short_anywhere) {
    size_t size, header;
    const char *bytes = trained("model", &size, &header);
    for (size_t length = 1; length < size; length++) { // fmemopen() has no empty file
        char *part = malloc(length);                   // so that a sanitizer sees reads beyond it
        memcpy(part, bytes, length);
        struct opening opening = {.bytes = part, .size = length};
        const char *problem = opening_problem(&opening);
        cr_assert(problem, "%zu bytes of %zu are enough", length, size);
        cr_assert_str_eq(problem,
                         length < 8 ? "it: not a valid safetensors file: it is shorter than 8 bytes"
                                    : "it: not a valid safetensors file: it is cut short");
        free(part);
    }
}

/* A use of a run, and the file that it reads. */
Test(safetensors, a_run_cut_short) {
    static const char *const uses[][2] = {
        {"model", "--generate=run"}, {"model", "--evaluate=run"}, {"checkpoint", "--resume=run"}};
    for (int i = 0; i < 3; i++) {
        size_t size, header;
        char path[64], line[128];
        const char *bytes = trained(uses[i][0], &size, &header);
        snprintf(path, sizeof path, "run/%s.safetensors", uses[i][0]);
        snprintf(line, sizeof line, "train: %s: not a valid safetensors file: it is ", path);
        for (size_t length = 0; length < size; length += size / 7) {
            file_put(path, bytes, length);
            train_refuses(STATUS_MACHINE, line, "%s", uses[i][1]);
        }
        file_put(path, bytes, size);
    }
    cr_expect(file_there("run/summary.json"));
}

Test(safetensors, a_checkpoint_without_its_seal) {
    size_t size, header;
    char *bytes = trained("checkpoint", &size, &header);
    char *name = strstr(bytes + 8, "header_crc32");
    name[11] ^= 1;
    file_put("run/checkpoint.safetensors", bytes, size);
    train_refuses(STATUS_MACHINE, "run/checkpoint.safetensors: its header has no checksum",
                  "--resume=run");
}

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    struct ending ending = train(TINY "--quiet --norm=bn --probe-interval=2 --out=run text.txt");
    cr_assert(!ending.status, "%s", ending.err);
}

TestSuite(notices, .init = enter, .fini = folder_leave);

/* Removes a checksum from a file's header; with `sealed` the header keeps its own, as in files of
   version 0.1. */
static void unseal(const char *path, bool sealed) {
    size_t bytes;
    char *text = file_text(path, &bytes), digits[9];
    char *data = strstr(text + 8, ",\"data_crc32\":\""), *header = strstr(text + 8, "header_crc32");
    cr_assert(data && header);
    memset(data, ' ', strlen(",\"data_crc32\":\"00000000\""));
    if (!sealed) {
        memset(header - 1, ' ', strlen("\"header_crc32\":\"00000000\""));
        *strchr(header, ',') = ' ';
    } else {
        uint64_t length;
        memcpy(&length, text, sizeof length);
        memcpy(header + strlen("header_crc32\":\""), "00000000", 8);
        snprintf(digits, sizeof digits, "%08x", crc32_of(0, text + 8, length));
        memcpy(header + strlen("header_crc32\":\""), digits, 8);
    }
    file_put(path, text, bytes);
}

static void expect_notes(const char *command, const char *notes) {
    struct ending ending = train("%s", command);
    cr_expect(!ending.status, "%s: %s", command, ending.err);
    size_t length = strlen(notes);
    cr_expect(!strncmp(ending.err, notes, length) && !strstr(ending.err + length, "note:"),
              "%s: %s", command, ending.err);
    ending = train("%s --quiet", command);
    cr_expect(!ending.status && !*ending.err, "%s, quietly: %s", command, ending.err);
}

#define NO_DATA                                                                                    \
    "note: run/model.safetensors has no checksum of its data: damage there would not be found\n"
#define NONE "note: run/model.safetensors has no checksum: damage in it would not be found\n"

Test(notices, a_model_without_checksums) {
    expect_notes("--generate=run --num-chars=9", "");
    struct ending whole = train("--evaluate=run");
    unseal("run/model.safetensors", true);
    expect_notes("--generate=run --num-chars=9", NO_DATA);
    expect_notes("--evaluate=run", NO_DATA);
    expect_notes("--evaluate=run/model.safetensors", NO_DATA);
    struct ending ending = train("--evaluate=run");
    cr_expect_str_eq(ending.out, whole.out);
    cr_assert(!train(TINY "--quiet --norm=bn --force --out=run text.txt").status);
    unseal("run/model.safetensors", false);
    expect_notes("--generate=run/model.safetensors --num-chars=9", NONE);
    train_refuses(STATUS_MACHINE, "its header has no checksum, so a run did not write it",
                  "--generate=run --num-chars=9");
}

/* The folder as version 0.1 left it. */
static void make_old(const char *folder) {
    char path[64];
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    unseal(path, true);
    snprintf(path, sizeof path, "%s/log.crc32", folder);
    cr_assert(!remove(path));
    snprintf(path, sizeof path, "%s/config.ini", folder);
    char *text = file_text(path, NULL), *last = strstr(text, "# crc32");
    cr_assert(last && strchr(last, '\n') && !strchr(last, '\n')[1], "not the last line");
    file_put(path, text, (size_t)(last - text));
}

Test(notices, a_run_of_an_older_version_goes_on) {
    static const char options[] = TINY "--quiet --norm=bn --probe-interval=2 --out=%s text.txt";
    cr_assert(!train(options, "whole").status);
    cr_assert(!train("--quiet --resume=whole --max-iters=8").status);
    make_old("run");
    expect_notes("--resume=run --max-iters=8",
                 "note: run/checkpoint.safetensors has no checksum of its data: damage there would "
                 "not be found\n"
                 "note: run/log.crc32 is missing: damage in log.csv, probes.csv and samples.txt "
                 "would not be "
                 "found\n");
    expect_same_log("run", "whole");
    expect_same_file("run", "whole", "checkpoint.safetensors");
    expect_same_file("run", "whole", "probes.csv");
    cr_expect(file_there("run/log.crc32"), "the checksum was not added");
    expect_notes("--resume=run --max-iters=9", "");
}

Test(notices, options_that_a_person_changed) {
    expect_notes("--config=run/config.ini --force --out=again", "");
    char *text = file_text("run/config.ini", NULL), *at = strstr(text, "max-iters = 4\n");
    cr_assert(at);
    at[strlen("max-iters = ")] = '6';
    file_put("run/config.ini", text, strlen(text));
#define CHANGED                                                                                    \
    "note: run/config.ini was changed after the program wrote it: its checksum differs\n"
    expect_notes("--config=run/config.ini --force --out=again", CHANGED);
    expect_member("again", "steps", "6");
    struct ending ending = train("--resume=run");
    cr_expect(!ending.status && !strncmp(ending.err, CHANGED, strlen(CHANGED)), "%s", ending.err);
    expect_member("run", "steps", "6");
    expect_notes("--resume=run", ""); // the file was written again
    file_put("mine.ini", "norm = rms\nmax-iters = 2\n", 25);
    expect_notes("--config=mine.ini --force --out=again text.txt --sample=0", "");
}

static void expect_changed(const char *name) {
    char refusal[128];
    snprintf(refusal, sizeof refusal,
             "run/%s: was changed or damaged after the last checkpoint (delete run/log.crc32",
             name);
    train_refuses(STATUS_MACHINE, refusal, "--resume=run --max-iters=8");
    cr_expect(file_there("run/summary.json"), "the refusal changed the run");
}

Test(notices, rows_that_were_changed) {
    static const char *const names[] = {"log.csv", "probes.csv"};
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        char path[64];
        snprintf(path, sizeof path, "run/%s", names[i]);
        char *text = file_text(path, &bytes);
        file_put(path, text, bytes / 2);
        expect_changed(names[i]);
        cr_expect(strlen(file_text(path, NULL)) == bytes / 2, "the refusal changed %s", path);
        cr_assert(!remove(path));
        struct ending ending = train("--resume=run --max-iters=8");
        cr_expect(ending.status == STATUS_MACHINE && strstr(ending.err, "No such file"), "%s",
                  ending.err);
        cr_expect(!file_there(path), "the refusal created %s", path);
        char *second = strchr(text, '\n') + 1;
        *second = (char)(*second + 1); // the step 0
        file_put(path, text, bytes);
        expect_changed(names[i]);
        *second = (char)(*second - 1);
        file_put(path, text, bytes);
    }
    file_put("run/log.crc32", "log.csv 10\n", 11);
    train_refuses(STATUS_MACHINE, "run/log.crc32: is damaged (delete it to continue",
                  "--resume=run --max-iters=8");
    cr_assert(!remove("run/log.crc32") && !mkfifo("run/log.crc32", 0666));
    train_refuses(STATUS_MACHINE, "run/log.crc32: is not a regular file",
                  "--resume=run --max-iters=8");
    cr_assert(!remove("run/log.crc32"));
    struct ending ending = train("--quiet --resume=run --max-iters=8");
    cr_expect(!ending.status, "%s", ending.err);
}

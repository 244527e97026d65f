/* Files without checksums, from older versions or other programs, are read with a notice; so are
   options that a person changed. Changed rows are refused. */
#include "data/crc32.h"
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

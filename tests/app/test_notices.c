/* Damage in safetensors files is noticed: lengths that a file does not have, and a model that is
   cut short. Files without checksums, from older versions or other programs, are read with a
   notice; so are options that a person changed. Missing rows are refused. */
#include "data/crc32.h"
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

/* ---- damaged models ---- */

static void enter(void) {
    text_enter();
    expect_done(train(TINY "--quiet --norm=bn --probe-interval=2 --out=run text.txt"));
}

TestSuite(notices, .init = enter, .fini = folder_leave);

/* Removes a checksum from a file's header; with `sealed` the header keeps its own, as in files of
   version 0.1. */
static void unseal(const char *path, bool sealed) {
    static const char name[] = "header_crc32\":\"";
    size_t bytes;
    char *text = file_text(path, &bytes), digits[9];
    char *data = strstr(text + 8, ",\"data_crc32\":\""), *header = strstr(text + 8, name);
    cr_assert(data && header);
    memset(data, ' ', strlen(",\"data_crc32\":\"00000000\""));
    if (!sealed) {
        memset(header - 1, ' ', strlen("\"header_crc32\":\"00000000\""));
        *strchr(header, ',') = ' ';
    } else {
        uint64_t length;
        memcpy(&length, text, sizeof length);
        memcpy(header + strlen(name), "00000000", 8);
        snprintf(digits, sizeof digits, "%08x", crc32_of(0, text + 8, length));
        memcpy(header + strlen(name), digits, 8);
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
    struct ending ended = train("--evaluate=run");
    unseal("run/model.safetensors", true);
    expect_notes("--generate=run --num-chars=9", NO_DATA);
    expect_notes("--evaluate=run", NO_DATA);
    expect_notes("--evaluate=run/model.safetensors", NO_DATA);
    struct ending ending = train("--evaluate=run");
    cr_expect_str_eq(ending.out, ended.out);
    cr_assert(!train(TINY "--quiet --norm=bn --force --out=run text.txt").status);
    unseal("run/model.safetensors", false);
    unseal("run/checkpoint.safetensors", false);
    expect_notes("--generate=run/model.safetensors --num-chars=9", NONE);
    train_refuses(STATUS_MACHINE, "its header has no checksum, so a run did not write it",
                  "--generate=run --num-chars=9");
    train_refuses(STATUS_MACHINE, "run/checkpoint.safetensors: its header has no checksum",
                  "--resume=run");
}

/* Version 0.1 wrote no checksums of data, tables and options. */
Test(notices, a_run_of_an_older_version_goes_on) {
    expect_done(train(TINY "--quiet --norm=bn --probe-interval=2 --out=whole text.txt"));
    expect_done(train("--quiet --resume=whole --max-iters=8"));
    unseal("run/checkpoint.safetensors", true);
    cr_assert(!remove("run/log.crc32"));
    char *text = file_text("run/config.ini", NULL), *last = strstr(text, "# crc32");
    cr_assert(last && strchr(last, '\n') && !strchr(last, '\n')[1], "not the last line");
    file_put("run/config.ini", text, (size_t)(last - text));
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
    char *text = file_text("run/config.ini", NULL), *line = strstr(text, "max-iters = 4\n");
    cr_assert(line);
    line[strlen("max-iters = ")] = '6';
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

/* Changed values are found by every flipped bit (test_flips.c). */
Test(notices, rows_that_are_missing) {
    static const char *const paths[] = {"run/log.csv", "run/probes.csv"};
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        char *text = file_text(paths[i], &bytes);
        file_put(paths[i], text, bytes / 2);
        train_refuses(STATUS_MACHINE,
                      say("%s: was changed or damaged after the last checkpoint (delete "
                          "run/log.crc32",
                          paths[i]),
                      "--resume=run --max-iters=8");
        cr_expect(file_there("run/summary.json"), "the refusal changed the run");
        cr_expect(strlen(file_text(paths[i], NULL)) == bytes / 2, "the refusal changed the file");
        cr_assert(!remove(paths[i]));
        train_refuses(STATUS_MACHINE, "No such file", "--resume=run --max-iters=8");
        cr_expect(!file_there(paths[i]), "the refusal created %s", paths[i]);
        file_put(paths[i], text, bytes);
    }
    file_put("run/log.crc32", "log.csv 10\n", 11);
    train_refuses(STATUS_MACHINE, "run/log.crc32: is damaged (delete it to continue",
                  "--resume=run --max-iters=8");
    cr_assert(!remove("run/log.crc32"));
    expect_done(train("--quiet --resume=run --max-iters=8"));
}

/* Before the program knows whether notices are shown, and after. */
Test(notice, is_said_once) {
    cr_redirect_stderr();
    for (int i = 0; i < 2; i++) {
        notice("one");
        notice("one more");
        notice_start(!i);
    }
    fflush(stderr);
    cr_assert_stderr_eq_str("note: one\nnote: one more\n");
}

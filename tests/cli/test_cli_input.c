/* The program with unusable input or a failing machine: an exit status, one line, and no
   half-written file. */
#include "data/die.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(cli_input, .init = folder_enter, .fini = folder_leave);

/* A refusal before the run's folder is made. */
static void expect_no_run(const struct ending *ending, int status, const char *part) {
    expect_refusal(ending, status, part);
    cr_expect(!file_there("out") && !file_there("runs"), "a folder was made");
}

static void expect_bad_text(const char *text, size_t bytes, int status, const char *part) {
    file_put("text.txt", text, bytes);
    struct ending ending = train(TINY "--out=out text.txt");
    expect_no_run(&ending, status, part);
    cr_expect(strstr(ending.err, "corpus: text.txt: "), "no name: %s", ending.err);
    ending = train_in((struct surroundings){.input = "text.txt"}, TINY "--out=out -");
    expect_no_run(&ending, status, part);
    cr_expect(strstr(ending.err, "corpus: standard input: "), "no name: %s", ending.err);
}

Test(cli_input, texts_that_are_too_short) {
    expect_bad_text("", 0, STATUS_MACHINE, "is empty");
    expect_bad_text("x", 1, STATUS_USAGE, "--block-size");
    expect_bad_text("\xe4\xb8\xad", 3, STATUS_USAGE, "--block-size");
    expect_bad_text("\xef\xbb\xbf", 3, STATUS_USAGE, "--block-size");
    expect_bad_text("short", 5, STATUS_USAGE, "--block-size");
    expect_bad_text("12345678", 8, STATUS_USAGE, "--block-size");
    expect_bad_text("abcdefghij", 10, STATUS_USAGE, "--val-fraction"); // 9 train, 1 validates
}

Test(cli_input, the_shortest_text_that_trains) {
    file_put("text.txt", "abcdefghijk", 11);
    struct ending ending = train(TINY "--out=out text.txt");
    cr_expect(ending.status == 0, "%s", ending.err);
}

Test(cli_input, texts_that_are_no_texts) {
    expect_bad_text("good, then \xff", 12, STATUS_MACHINE, "not UTF-8 at byte 11, 0xff");
    expect_bad_text("caf\xe9 in Latin-1", 15, STATUS_MACHINE, "--level=byte");
    expect_bad_text("a\0b", 3, STATUS_MACHINE, "NUL byte at byte 1");
    expect_bad_text("\0\0\0\0", 4, STATUS_MACHINE, "--level=byte");
    expect_bad_text("\xff\xfe"
                    "a\0b\0",
                    6, STATUS_MACHINE, "not UTF-8 at byte 0"); // UTF-16
}

Test(cli_input, files_that_cannot_be_read) {
    struct ending ending = train(TINY "--out=out missing.txt");
    expect_no_run(&ending, STATUS_MACHINE, "missing.txt: No such file or directory");
    cr_assert(mkdir("folder", 0777) == 0);
    ending = train(TINY "--out=out folder");
    expect_no_run(&ending, STATUS_MACHINE, "folder: Is a directory");
    file_put("file.txt", "text", 4);
    ending = train(TINY "--out=out file.txt/below");
    expect_no_run(&ending, STATUS_MACHINE, "Not a directory");
    ending = train(TINY "--out=out --config=missing.ini");
    expect_no_run(&ending, STATUS_MACHINE, "config: missing.ini: No such file or directory");
    ending = train_with((const char *[]){"--out=out", "two words.txt", NULL});
    expect_no_run(&ending, STATUS_MACHINE, "corpus: two words.txt: No such file");
    // Permissions do not bind root: for root, a file whose reading fails takes the place.
    const char *unreadable = getuid() ? "file.txt" : "/proc/self/mem";
    cr_assert(chmod("file.txt", 0) == 0);
    if (file_there(unreadable)) {
        ending = train(TINY "--out=out %s", unreadable);
        expect_no_run(&ending, STATUS_MACHINE, unreadable);
    }
}

Test(cli_input, more_memory_than_there_is) {
    corpus_put_tiny("text.txt", 2000);
    static const char *const sizes[] = {
        "--n-embd=1000000 --n-layer=100", "--n-embd=1000000 --n-layer=10000",
        "--batch-size=1000000000", "--batch-size=1000000000 --block-size=1000 --n-embd=65536",
        "--n-layer=10000 --n-embd=65536"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct ending ending = train(TINY "--out=out %s text.txt", sizes[i]);
        cr_expect(ending.status == STATUS_MACHINE, "%s: status %d", sizes[i], ending.status);
        expect_no_run(&ending, STATUS_MACHINE, "train: memory: ");
        cr_expect(strstr(ending.err, "(try a smaller "), "no hint: %s", ending.err);
    }
    struct ending ending = train(TINY "--out=out --block-size=1000000000 text.txt");
    expect_no_run(&ending, STATUS_USAGE, "--block-size");
}

Test(cli_input, folders_that_cannot_be_written) {
    corpus_put_tiny("text.txt", 500);
    train_refuses(STATUS_MACHINE, "run: text.txt: cannot be created",
                  TINY "--out=text.txt text.txt");
    train_refuses(STATUS_MACHINE, "Not a directory", TINY "--out=text.txt/out text.txt");
    struct ending ending = train(TINY "--out=/proc/out text.txt");
    expect_refusal(&ending, STATUS_MACHINE, "run: /proc/out: cannot be created");
    if (getuid()) {
        cr_assert(mkdir("locked", 0555) == 0);
        train_refuses(STATUS_MACHINE, "Permission denied", TINY "--out=locked text.txt");
    }
}

/* On a disk that is full for files longer than `limit`, the message names the file that failed.
   Neither a part of that file nor a temporary file is left. */
static void expect_full(size_t limit, const char *name, const char *options) {
    struct ending ending = train_in((struct surroundings){.file_limit = limit},
                                    TINY "--quiet --force --out=out %stext.txt", options);
    expect_refusal(&ending, STATUS_MACHINE, name);
    cr_expect(strstr(ending.err, ": File too large"), "no reason: %s", ending.err);
    char *path = say("out/%s", name);
    cr_expect(!file_there(path) || strstr(name, "log.csv"), "%s is left", path);
    for (int i = 0; i < 5; i++) {
        path = say("out/%s.tmp",
                   (const char *[]){"config.ini", "model.safetensors", "checkpoint.safetensors",
                                    "sample.txt", "summary.json"}[i]);
        cr_expect(!file_there(path), "%s is left", path);
    }
    if (strcmp(name, "sample.txt") != 0) // which is written when all else is saved
        cr_expect(!file_there("out/summary.json"), "a run that failed has a summary");
}

/* No limit is below 2000, because OpenMP libraries write files of their own. A long corpus name
   makes the config longer than that. */
Test(cli_input, a_full_disk) {
    char long_name[2100] = "";
    for (int i = 0; i < 1000; i++) strcat(long_name, "./");
    corpus_put_tiny("text.txt", 2000);
    expect_done(train(TINY "--quiet --out=whole text.txt"));
    expect_done(train(TINY "--quiet --checkpoint-interval=0 --out=alone text.txt"));
    size_t model, checkpoint, config;
    file_text("alone/model.safetensors", &model);
    file_text("whole/checkpoint.safetensors", &checkpoint);
    file_text("whole/config.ini", &config);
    cr_assert(model > 6000 && config > 100 && config < 2900);
    expect_full(2000, "config.ini", long_name);
    expect_full(config + 1999, "config.ini", long_name);
    expect_full(3000, "log.csv", "--max-iters=100 ");
    expect_full(model - 1, "model.safetensors", "--checkpoint-interval=0 ");
    expect_full(model / 2, "model.safetensors", "--checkpoint-interval=0 ");
    expect_full(checkpoint - 1, "checkpoint.safetensors", "");
    expect_full(2 * checkpoint, "sample.txt", "--sample=50000 ");
}

Test(cli_input, a_sample_that_cannot_be_shown) {
    if (!file_there("/dev/full")) skip("cli_input", "this system has no /dev/full");
    corpus_put_tiny("text.txt", 500);
    struct ending ending = train_in((struct surroundings){.output = "/dev/full"},
                                    TINY "--sample=20 --out=out text.txt");
    cr_expect(ending.status == STATUS_MACHINE, "status %d", ending.status);
    cr_expect(strstr(ending.err, "No space left on device"), "%s", ending.err);
    size_t bytes = 0;
    cr_expect(file_text("out/sample.txt", &bytes) && bytes == 20, "the file is not whole");
    cr_expect(file_there("out/model.safetensors") && !file_there("out/sample.txt.tmp"));
}

Test(cli_input, a_closed_standard_input_is_no_text) {
    char *command = say("%s " TINY "--out=out - <&- 2>message", getenv("TRAIN"));
    cr_expect(WEXITSTATUS(system(command)) == 1);
    cr_expect_str_eq(file_text("message", 0),
                     "train: corpus: standard input: Bad file descriptor\n");
}

/* The program with unusable input or a failing machine: an exit status, one line, and no
   half-written file. Runs on items, as a person would make them. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
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
    expect_bad_text("\xef\xbb\xbf"
                    "a\xff",
                    5, STATUS_MACHINE, "not UTF-8 at byte 4, 0xff");
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

static void enter(void) {
    folder_enter();
    items_put("items.txt", 100);
}

TestSuite(cli_items, .init = enter, .fini = folder_leave);

#define ITEMS TINY "--items --batch-size=4 --eval-interval=2 --quiet --sample=1 "

static struct ending done(struct ending ending) {
    cr_assert(ending.status == 0, "status %d: %s", ending.status, ending.err);
    return ending;
}

Test(cli_items, a_run_says_what_it_learned_from) {
    struct ending ending = done(train(TINY "--items --block-size=5 --out=out items.txt"));
    cr_expect(
        strstr(ending.err,
               "items.txt: 100 items, 10 of them for validation, the longest has 6 characters: "),
        "%s", ending.err);
    cr_expect(strstr(ending.err, " characters, 8 different; "), "%s", ending.err);
    cr_expect(strstr(ending.err, " and are cut (--block-size=7 keeps them whole)\n"), "%s",
              ending.err);
    expect_member("out", "items", "100");
    expect_member("out", "items_train", "90");
    expect_member("out", "items_longest", "6");
    expect_member("out", "items_cut", "32"); // those of 5 and 6 characters
    expect_member("out", "vocabulary", "9");
    struct log log = log_of("out");
    double tokens = log_number(&log, log.rows - 1, TOKENS),
           pads = summary_number("out", "pad_share");
    cr_expect(log_number(&log, 0, TOKENS) == 0 && tokens == summary_number("out", "tokens"));
    cr_expect(tokens >= 4 * 2 * 2 && tokens < 4 * 2 * 5); // targets of 4 batches of 2
    cr_expect(pads >= 0 && pads < 0.6);
    done(train(ITEMS "--out=whole items.txt"));
    expect_member("whole", "items_cut", "0");
    done(train(TINY "--out=text items.txt"));
    expect_member("text", "items", "null");
    expect_member("text", "pad_share", "null");
}

/* The lines of sample.txt, each a label and an item. */
static int count_labels(const char *text, const char *label) {
    int count = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        count += !strncmp(line, label, strlen(label));
    return count;
}

Test(cli_items, what_it_makes_is_known_or_new) {
    done(train(ITEMS "--max-iters=60 --out=out --num-items=50 items.txt"));
    char *text = file_text("out/sample.txt", NULL), *items = file_text("items.txt", NULL);
    int known = count_labels(text, "known  "), unknown = count_labels(text, "new    "), held = 0;
    cr_assert(known + unknown == 50 && known > 0 && unknown > 0, "%s", text);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        char *want = say("\n%.*s\n", (int)(end - line - 7), line + 7);
        bool there = strstr(items, want) || !strncmp(items, want + 1, strlen(want + 1));
        if (*line == 'k') cr_expect(there, "%s is not known", want);
        if (*line == 'n') held += there;
    }
    struct ending ending = done(train("--generate=out --num-items=50"));
    cr_expect_str_eq(ending.out, text);
    char *want = say(
        "50 items: %d known (in the training split), %d new (%d of them in the validation split)",
        known, unknown, held);
    cr_expect(!strncmp(ending.err, want, strlen(want)), "%s, not %s", ending.err, want);
}

/* Standard input has no name to read it from again, so it may be given once more. */
Test(cli_items, what_came_in_by_standard_input_is_known_too) {
    const struct surroundings items = {.input = "items.txt"};
    struct ending ending = train_in(items, ITEMS "--max-iters=60 --out=out -");
    cr_assert(ending.status == 0, "%s", ending.err);
    ending = train_in(items, "--generate=out --num-items=50 -");
    cr_expect(ending.status == 0 && strstr(ending.out, "known  "), "%s%s", ending.out, ending.err);
    ending = done(train("--generate=out --num-items=50"));
    cr_expect(strstr(ending.err, "standard input is missing or has changed"), "%s", ending.err);
}

Test(cli_items, one_item_many_times_is_learned_by_heart) {
    file_put("same.txt",
             "\xe5\xba\x8a\xe5\x89\x8d\r\n\xe5\xba\x8a\xe5\x89\x8d\r\n\r\n"
             "\xe5\xba\x8a\xe5\x89\x8d",
             24);
    done(train(ITEMS "--max-iters=80 --learning-rate=0.02 --num-items=2 --temperature=0 "
                     "--norm=bn --out=out same.txt"));
    cr_expect_str_eq(file_text("out/sample.txt", NULL), "known  \xe5\xba\x8a\xe5\x89\x8d\n"
                                                        "known  \xe5\xba\x8a\xe5\x89\x8d\n");
    struct ending ending =
        done(train("--generate=out --quiet --num-items=1 --prompt=\xe5\x89\x8d"));
    cr_expect(!strncmp(ending.out, "new    \xe5\x89\x8d", 10) && !*ending.err);
    cr_assert(!remove("same.txt"));
    ending = done(train("--generate=out --num-items=1"));
    cr_expect_str_eq(ending.out, "\xe5\xba\x8a\xe5\x89\x8d\n");
    cr_expect(strstr(ending.err, "same.txt is missing or has changed\n1 item\n"), "%s", ending.err);
}

Test(cli_items, a_run_goes_on_to_the_bit) {
    static const char lively[] =
        ITEMS "--norm=bn --grad-accum=3 --dropout=0.1 --lr-decay-iters=40 --prepbn-steps=40 "
              "--num-items=3 ";
    static const char *const ways[] = {"", "--bucket", "--pad-to=block --pad-stats=include"};
    for (int way = 0; way < 3; way++) {
        done(train("%s %s --force --max-iters=40 --out=whole items.txt", lively, ways[way]));
        done(train("%s %s --force --threads=2 --max-iters=17 --out=parts items.txt", lively,
                   ways[way]));
        done(train("--quiet --max-iters=40 --resume=parts"));
        expect_same_folder("whole", "parts");
        cr_expect(summary_number("whole", "pad_share") == summary_number("parts", "pad_share"));
    }
}

Test(cli_items, runs_of_all_norms_see_the_same_items) {
    static const char *const norms[] = {"ln", "bn", "none"};
    for (int bucket = 0; bucket < 2; bucket++) {
        double tokens[3], pads[3];
        for (int i = 0; i < 3; i++) {
            done(train(ITEMS "--force --norm=%s --max-iters=30 --bucket=%s --out=out items.txt",
                       norms[i], bucket ? "on" : "off"));
            tokens[i] = summary_number("out", "tokens");
            pads[i] = summary_number("out", "pad_share");
        }
        cr_expect(tokens[0] == tokens[1] && tokens[1] == tokens[2]);
        cr_expect(pads[0] == pads[1] && (bucket ? pads[0] < 0.1 : pads[0] > 0.1), "%g", pads[0]);
    }
}

/* The same items give the same loss, whatever the line ends and the pads are. */
Test(cli_items, line_ends_and_pads_make_no_difference) {
    char *text = file_text("items.txt", NULL), windows[2048], *to = windows;
    for (const char *c = text; *c; c++) {
        if (*c == '\n') *to++ = '\r';
        *to++ = *c;
    }
    file_put("windows.txt", windows, (size_t)(to - windows) - 2); // without the last line end
    for (int bytes = 0; bytes < 2; bytes++) {
        const char *level = bytes ? "--level=byte" : "";
        done(train(ITEMS "%s --force --out=a items.txt", level));
        done(train(ITEMS "%s --force --out=b windows.txt", level));
        done(train_in((struct surroundings){.input = "windows.txt"}, ITEMS "%s --force --out=c -",
                      level));
        expect_same_log("a", "b");
        expect_same_log("a", "c");
        done(train(ITEMS "%s --force --pad-to=block --out=b items.txt", level));
        struct log a = log_of("a"), b = log_of("b");
        for (int row = 0; row < a.rows - 1; row++)
            cr_expect_float_eq(log_number(&a, row, TRAIN_LOSS), log_number(&b, row, TRAIN_LOSS),
                               1e-5);
    }
}

Test(cli_items, a_stored_model_is_measured_on_items) {
    done(train(ITEMS "--out=out --eval-iters=0 items.txt"));
    struct log log = log_of("out");
    char *want = say("loss %s nats per character, ", log.cell[log.rows - 1][VAL_LOSS]);
    struct ending ending = done(train("--evaluate=out"));
    cr_expect(!strncmp(ending.out, want, strlen(want)), "%s, not %s", ending.out, want);
    cr_expect(strstr(ending.out, " characters and ends of 10 items\n"), "%s", ending.out);
    double loss[2];
    for (int i = 0; i < 2; i++) { // other batches, the same targets
        ending = done(train("--evaluate=out --batch-size=%d %s", 1 + 6 * i, i ? "--bucket" : ""));
        sscanf(ending.out, "loss %lf", &loss[i]);
    }
    cr_expect_float_eq(loss[0], loss[1], 1e-6);
    file_put("one.txt", "a", 1);
    ending = done(train("--evaluate=out one.txt"));
    cr_expect(strstr(ending.out, ": one.txt, 2 characters and ends of 1 items\n"), "%s",
              ending.out);
}

Test(cli_items, separators_of_other_kinds_belong_to_an_item) {
    file_put("odd.txt",
             "a\xe2\x80\xa8"
             "b\nab\nb\xe2\x80\xa8\n",
             14);
    done(train(ITEMS "--out=out odd.txt"));
    expect_member("out", "items", "3");
    expect_member("out", "items_longest", "3");
    expect_member("out", "vocabulary", "4");
}

Test(cli_items, lines_of_very_different_length) {
    FILE *file = fopen("long.txt", "wb");
    for (int i = 1; i <= 2000; i += 37) {
        for (int k = 0; k < i; k++) fputc("abcdef"[(i + k) % 6], file);
        fputc('\n', file);
    }
    fclose(file);
    done(train(ITEMS "--bucket --norm=bn --out=out long.txt"));
    expect_member("out", "items", "55");
    expect_member("out", "items_cut", "54");
    expect_member("out", "items_longest", "1999");
    done(train(ITEMS "--max-iters=1 --block-size=2000 --bucket --out=all long.txt"));
    expect_member("all", "items_cut", "0");
}

Test(cli_items, what_is_refused) {
    struct ending ending;
    file_put("blank.txt", "\n\r\n \t\n", 6);
    train_refuses(STATUS_MACHINE, "blank.txt: has no items, only blank lines", "--items blank.txt");
    file_put("one.txt", "alone", 5);
    train_refuses(STATUS_USAGE, "--val-fraction", "--items one.txt");
    done(train(ITEMS "--out=out items.txt"));
    train_refuses(STATUS_USAGE, "--items=off: contradicts --items=on of out/model",
                  "--generate=out --items=off");
    train_refuses(STATUS_USAGE, "one.txt: is not the corpus that", "--generate=out one.txt");
    ending = train_in((struct surroundings){.input = "one.txt"}, "--generate=out -");
    expect_refusal(&ending, STATUS_USAGE, "standard input: is not the corpus that");
    train_refuses(STATUS_MACHINE, "none.txt: No such file", "--generate=out none.txt");
    train_refuses(STATUS_USAGE, "--prompt: is too long", "--generate=out --prompt=abcdefgh");
    ending = train_with((const char *[]){"--generate=out", "--prompt=a\nb", NULL});
    expect_refusal(&ending, STATUS_USAGE, "--prompt: holds a newline");
}

/* The program with unusable input or a failing machine: an exit status, one line, and no
   half-written file. Runs on items, as a person would make them. */
#include "data/die.h"
#include "model/math/arena.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(cli_input, .init = text_enter, .fini = folder_leave);

/* A refusal before the run's folder is made. */
static const char *expect_no_run(struct ending ending, int status, const char *part) {
    cr_expect(!file_there("out") && !file_there("runs"), "a folder was made");
    return expect_refusal(ending, status, part);
}

Test(cli_input, texts_that_cannot_be_trained_on) {
    static const struct {
        const char *text;
        size_t bytes;
        int status;
        const char *part;
    } bad[] = {{"", 0, STATUS_MACHINE, "is empty"},
               {"x", 1, STATUS_USAGE, "--block-size"},
               {"\xe4\xb8\xad", 3, STATUS_USAGE, "--block-size"},
               {"\xef\xbb\xbf", 3, STATUS_USAGE, "--block-size"},
               {"12345678", 8, STATUS_USAGE, "--block-size"},
               {"abcdefghij", 10, STATUS_USAGE, "--val-fraction"}, // 9 train, 1 validates
               {"good, then \xff", 12, STATUS_MACHINE, "not UTF-8 at byte 11, 0xff"},
               {"caf\xe9 in Latin-1", 15, STATUS_MACHINE, "--level=byte"},
               {"a\0b", 3, STATUS_MACHINE, "NUL byte at byte 1"},
               {"\xef\xbb\xbf*\xff", 5, STATUS_MACHINE, "not UTF-8 at byte 4, 0xff"},
               {"\0\0\0\0", 4, STATUS_MACHINE, "--level=byte"},
               {"\xff\xfe*\0*\0", 6, STATUS_MACHINE, "not UTF-8 at byte 0"}}; // UTF-16
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_put("text.txt", bad[i].text, bad[i].bytes);
        struct ending named = train(TINY "--out=out text.txt");
        struct ending read =
            train_in((struct surroundings){.input = "text.txt"}, TINY "--out=out -");
        expect_part(expect_no_run(named, bad[i].status, bad[i].part), "corpus: text.txt: ");
        expect_part(expect_no_run(read, bad[i].status, bad[i].part), "corpus: standard input: ");
    }
    file_put("text.txt", "abcdefghijk", 11); // the shortest text that trains
    expect_done(train(TINY "--out=out text.txt"));
}

Test(cli_input, files_that_cannot_be_read) {
    // Permissions do not bind root: for root, a file whose reading fails takes the place.
    const char *unreadable = getuid() ? "file.txt" : "/proc/self/mem";
    const char *const cases[][2] = {
        {"missing.txt", "missing.txt: No such file or directory"},
        {"folder", "folder: Is a directory"},
        {"file.txt/below", "Not a directory"},
        {"--config=missing.ini", "config: missing.ini: No such file or directory"},
        {"two words.txt", "corpus: two words.txt: No such file"},
        {unreadable, unreadable}};
    file_put("file.txt", "text", 4);
    cr_assert(!mkdir("folder", 0777) && !chmod("file.txt", 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (*cases[i][0] != '/' || file_there(unreadable))
            expect_no_run(train_with((const char *[]){"--out=out", cases[i][0], NULL}),
                          STATUS_MACHINE, cases[i][1]);
}

static void take_too_much(void *unused) {
    struct arena arena = {.used = 1 << 26};
    arena_allocate(&arena, "what is given back");
    arena_free(&arena);
    arena.used = PTRDIFF_MAX;
    arena_allocate(&arena, "this");
}

Test(cli_input, more_memory_than_there_is) {
    const bool wide = sizeof(size_t) > 4; // with 32 bits, sizes exceed what can be addressed
    if (wide) expect_refusal(call(take_too_much, NULL), STATUS_MACHINE, "beside 0.0 GiB in use");
    static const char *const sizes[] = {
        "--n-embd=1000000 --n-layer=100", "--n-embd=1000000 --n-layer=10000",
        "--batch-size=1000000000", "--batch-size=1000000000 --block-size=1000 --n-embd=65536",
        "--n-layer=10000 --n-embd=65536"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct ending ending = train(TINY "--out=out %s text.txt", sizes[i]);
        expect_part(expect_no_run(ending, wide ? STATUS_MACHINE : STATUS_USAGE, "train: memory: "),
                    "(try a smaller ");
    }
    expect_no_run(train(TINY "--out=out --block-size=1000000000 text.txt"), STATUS_USAGE,
                  "--block-size");
}

Test(cli_input, folders_that_cannot_be_written) {
    train_refuses(STATUS_MACHINE, "run: text.txt: cannot be created",
                  TINY "--out=text.txt text.txt");
    train_refuses(STATUS_MACHINE, "Not a directory", TINY "--out=text.txt/out text.txt");
    train_refuses(STATUS_MACHINE, "run: /proc/out: cannot be created",
                  TINY "--out=/proc/out text.txt");
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
    expect_refusal(ending, STATUS_MACHINE, say("%s: File too large", name));
    char *path = say("out/%s", name);
    cr_expect(!file_there(path) || strstr(name, "log.csv"), "%s is left", path);
    cr_expect(!file_there(say("%s.tmp", path)), "%s.tmp is left", path);
    if (strcmp(name, "sample.txt") != 0) // which is written when all else is saved
        cr_expect(!file_there("out/summary.json"), "a run that failed has a summary");
}

/* No limit is below 2000, because OpenMP libraries write files of their own. A long corpus name
   makes the config longer than that. */
Test(cli_input, a_full_disk) {
    char long_name[2100] = "";
    for (int i = 0; i < 1000; i++) strcat(long_name, "./");
    expect_done(train(TINY "--quiet --out=whole text.txt"));
    expect_done(train(TINY "--quiet --checkpoint-interval=0 --out=alone text.txt"));
    size_t model, checkpoint, config;
    file_text("alone/model.safetensors", &model);
    file_text("whole/checkpoint.safetensors", &checkpoint);
    file_text("whole/config.ini", &config);
    cr_assert(config > 100 && config + 100 < model / 2);
    expect_full(2000, "config.ini", long_name);
    expect_full(config + 1999, "config.ini", long_name);
    expect_full(config + 100, "log.csv", "--max-iters=100 ");
    expect_full(model - 1, "model.safetensors", "--checkpoint-interval=0 ");
    expect_full(model / 2, "model.safetensors", "--checkpoint-interval=0 ");
    expect_full(model - 1, "best.safetensors", "--checkpoint-interval=0 --keep-best ");
    expect_full(checkpoint - 1, "checkpoint.safetensors", "");
    expect_full(2 * checkpoint, "sample.txt", "--sample=50000 ");
}

Test(cli_input, a_sample_that_cannot_be_shown) {
    if (!file_there("/dev/full")) skip("cli_input", "no /dev/full");
    struct ending ending = train_in((struct surroundings){.output = "/dev/full"},
                                    TINY "--sample=20 --out=out text.txt");
    cr_expect(ending.status == STATUS_MACHINE, "status %d", ending.status);
    cr_expect(strstr(ending.err, "No space left on device"), "%s", ending.err);
    size_t bytes = 0;
    cr_expect(file_text("out/sample.txt", &bytes) && bytes == 20, "the file is not whole");
    cr_expect(file_there("out/model.safetensors") && !file_there("out/sample.txt.tmp"));
}

Test(cli_input, a_closed_standard_input_is_no_text) {
    expect_refusal(bash("\"$TRAIN\" " TINY "--out=out - <&-"), STATUS_MACHINE,
                   "train: corpus: standard input: Bad file descriptor\n");
}

Test(cli_input, a_dump_replaces_a_fifo_of_its_temporary_name) {
    cr_assert(!bash("mkfifo dump.tmp").status);
    expect_done(bash("\"$TRAIN\" " TINY "--quiet --out=whole text.txt"));
    expect_done(bash("timeout -s KILL 20 \"$TRAIN\" --evaluate=whole --dump=dump"));
}

/* A FIFO is as good as a file if somebody writes to it, sooner or later. */
Test(cli_input, a_fifo_with_a_writer) {
    static const char *const words[] = {"<(cat text.txt)",
                                        "<(sleep 3; cat text.txt)",
                                        "fifo & sleep 1; cat text.txt >fifo; wait $!",
                                        "- < <(cat text.txt)",
                                        "- <fifo & cat text.txt >fifo; wait $!",
                                        "--config=<(echo seed = 1) text.txt"};
    cr_assert(!bash("mkfifo fifo").status);
    output_of(TINY "--quiet --out=file text.txt");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        expect_done(bash(
            say("timeout -s KILL 20 \"$TRAIN\" " TINY "--quiet --force --out=out %s", words[i])));
        expect_same_arrays("file/model.safetensors", "out/model.safetensors");
    }
}

Test(cli_input, a_device_without_text) {
    train_refuses(STATUS_MACHINE, "corpus: /dev/null: is empty", TINY "/dev/null");
}

TestSuite(cli_items, .init = corpora_enter, .fini = folder_leave);

#define ITEMS TINY "--items --batch-size=4 --eval-interval=2 --quiet --sample=1 "

Test(cli_items, a_run_says_what_it_learned_from) {
    const char *said = messages_of(TINY "--items --block-size=5 --out=out items.txt");
    expect_part(said, "items.txt: 100 items, 10 of them for validation, the longest has 6 "
                      "characters: ");
    expect_part(said, " characters, 8 different; ");
    expect_part(said, " and are cut (--block-size=7 keeps them whole)\n");
    static const char *const members[][2] = {{"items", "100"},
                                             {"items_train", "90"},
                                             {"items_longest", "6"},
                                             {"items_cut", "32"}, // those of 5 and 6 characters
                                             {"vocabulary", "9"}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        expect_member("out", members[i][0], members[i][1]);
    struct log log = log_of("out");
    double tokens = log_number(&log, log.rows - 1, TOKENS),
           pads = summary_number("out", "pad_share");
    cr_expect(log_number(&log, 0, TOKENS) == 0 && tokens == summary_number("out", "tokens"));
    cr_expect(tokens >= 4 * 2 * 2 && tokens < 4 * 2 * 5); // targets of 4 batches of 2
    cr_expect(pads >= 0 && pads < 0.6);
    output_of(TINY "--quiet --items --block-size=5 --pad-to=block --out=full items.txt");
    cr_expect_float_eq(summary_number("full", "pad_share"), 1 - tokens / (4 * 2 * 5), 1e-12);
    output_of(ITEMS "--out=whole items.txt");
    expect_member("whole", "items_cut", "0");
    output_of(TINY "--quiet --out=text items.txt");
    expect_member("text", "items", "null");
    expect_member("text", "pad_share", "null");
}

/* Each line of sample.txt is a label and an item. */
Test(cli_items, what_it_makes_is_known_or_new) {
    const char items[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np\n";
    file_put("letters.txt", items, sizeof items - 1);
    output_of(ITEMS "--val-fraction=0.5 --max-iters=30 --out=out --num-items=50 letters.txt");
    char *text = file_text("out/sample.txt", NULL);
    int known = 0, unknown = 0, held = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        bool there = strstr(say("\n%s", items), say("\n%.*s", (int)(end - line - 6), line + 7));
        known += !strncmp(line, "known  ", 7);
        unknown += !strncmp(line, "new    ", 7);
        held += *line == 'n' && there;
        cr_expect(*line == 'n' || there, "is not known: %.9s", line);
    }
    cr_assert(known + unknown == 50 && known > 0 && held > 0 && unknown > held, "%s", text);
    struct ending ending = train("--generate=out --num-items=50");
    cr_expect_str_eq(ending.out, text);
    expect_part(ending.err, say("50 items: %d known (in the training split), %d new (%d of them in "
                                "the validation split)",
                                known, unknown, held));
}

/* Standard input has no name to read it from again, so it may be given once more. */
Test(cli_items, what_came_in_by_standard_input_is_known_too) {
    const struct surroundings items = {.input = "items.txt"};
    expect_done(train_in(items, ITEMS "--max-iters=60 --out=out -"));
    expect_part(train_in(items, "--generate=out --num-items=50 -").out, "known  ");
    expect_part(messages_of("--generate=out --num-items=50"),
                "standard input is missing or has changed");
}

Test(cli_items, one_item_many_times_is_learned_by_heart) {
    file_put("same.txt",
             "\xe5\xba\x8a\xe5\x89\x8d\r\n\xe5\xba\x8a\xe5\x89\x8d\r\n\r\n"
             "\xe5\xba\x8a\xe5\x89\x8d",
             24);
    expect_done(train(ITEMS "--max-iters=80 --learning-rate=0.02 --num-items=2 --temperature=0 "
                            "--norm=bn --out=out same.txt"));
    cr_expect_str_eq(file_text("out/sample.txt", NULL), "known  \xe5\xba\x8a\xe5\x89\x8d\n"
                                                        "known  \xe5\xba\x8a\xe5\x89\x8d\n");
    expect_part(output_of("--generate=out --quiet --num-items=1 --prompt=\xe5\x89\x8d"),
                "new    \xe5\x89\x8d");
    cr_assert(!remove("same.txt"));
    struct ending ending = train("--generate=out --num-items=1");
    cr_expect_str_eq(ending.out, "\xe5\xba\x8a\xe5\x89\x8d\n");
    expect_part(ending.err, "same.txt is missing or has changed\n1 item\n");
}

Test(cli_items, a_run_goes_on_to_the_bit) {
    static const char lively[] =
        ITEMS "--norm=bn --grad-accum=3 --dropout=0.1 --lr-decay-iters=40 --prepbn-steps=40 "
              "--num-items=3 --force ";
    static const char *const ways[] = {"", "--bucket", "--pad-to=block --pad-stats=include"};
    for (int way = 0; way < 3; way++) {
        output_of("%s %s --max-iters=40 --out=whole items.txt", lively, ways[way]);
        output_of("%s %s --threads=2 --max-iters=17 --out=parts items.txt", lively, ways[way]);
        output_of("--quiet --max-iters=40 --resume=parts");
        expect_same_folder("whole", "parts");
        cr_expect(summary_number("whole", "pad_share") == summary_number("parts", "pad_share"));
    }
}

Test(cli_items, a_stored_model_is_measured_on_items) {
    output_of(ITEMS "--out=out --eval-iters=0 items.txt");
    struct log log = log_of("out");
    const char *usual = output_of("--evaluate=out"), *last = log.cell[log.rows - 1][VAL_LOSS];
    expect_part(usual, say("loss: %s nats per character\n", last));
    expect_part(usual, " characters and ends of 10 items\n");
    double loss; // other batches, the same targets
    sscanf(output_of("--evaluate=out --batch-size=7 --bucket"), "loss: %lf", &loss);
    cr_expect_float_eq(loss, strtod(last, NULL), 1e-6);
    file_put("one.txt", "a", 1);
    expect_part(output_of("--evaluate=out one.txt"),
                ": one.txt, 2 characters and ends of 1 items\n");
}

Test(cli_items, what_is_refused) {
    file_put("blank.txt", "\n\r\n \t\n", 6);
    train_refuses(STATUS_MACHINE, "blank.txt: has no items, only blank lines", "--items blank.txt");
    file_put("one.txt", "alone", 5);
    train_refuses(STATUS_USAGE, "--val-fraction", "--items one.txt");
    train_refuses(STATUS_USAGE, "--items", "--items --corpus=random");
    output_of(ITEMS "--out=out items.txt");
    train_refuses(STATUS_USAGE, "--items=off: contradicts --items=on of out/model",
                  "--generate=out --items=off");
    train_refuses(STATUS_USAGE, "one.txt: is not the corpus that", "--generate=out one.txt");
    train_refuses(STATUS_MACHINE, "none.txt: No such file", "--generate=out none.txt");
    train_refuses(STATUS_USAGE, "--prompt: is too long", "--generate=out --prompt=abcdefgh");
    train_refuses(STATUS_USAGE, "--prompt: holds a newline", "--generate=out --prompt=a\nb");
}

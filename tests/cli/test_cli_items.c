/* Runs on items, as a person would make them. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void expect_same_run(const char *one, const char *other) {
    expect_same_log(one, other);
    expect_same_file(one, other, "model.safetensors");
    expect_same_file(one, other, "checkpoint.safetensors");
    expect_same_file(one, other, "sample.txt");
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
        expect_same_run("whole", "parts");
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

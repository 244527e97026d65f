/* The file of --evaluate --dump: its losses and gradients, and that it is never incomplete.
   scripts/pytorch/check_normlab.py tests its other arrays. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(dump_file, .init = corpora_enter, .fini = folder_leave);

/* The elements of an array as doubles, held, and their number. */
static double *numbers(const char *path, const char *name, size_t *count) {
    struct safetensors file;
    safetensors_open(&file, path);
    const struct stored *array = safetensors_find(&file, name);
    cr_assert(array, "%s: no %s", path, name);
    *count = stored_count(array);
    double *values = hold(*count * sizeof *values);
    safetensors_read(&file, array, STORED_F64, values);
    safetensors_close(&file);
    return values;
}

/* A text of d.st, and its loss. */
static const char *text_of(const char *name) {
    edited_load("d.st");
    for (size_t i = 0; i < edited.text_count; i++)
        if (!strcmp(edited.texts[i].name, name)) return edited.texts[i].text;
    cr_assert_fail("d.st: no %s", name);
    return NULL;
}

static double loss(void) {
    return strtod(text_of("loss"), NULL);
}

/* Where every character is the same, so is every batch. With beta1 = 0 Adam's first moment is the
   gradient of the update. */
static void check_the_gradient_is_that_of_an_update(const struct pair *pair) {
    const char *options = pair_options(pair);
    output_of(TINY "--quiet --force --learning-rate=0.02 --out=model %s text.txt", options);
    expect_done(train("--evaluate=model --batch-size=2 --stats=own --dump=d.st same.txt"));
    output_of(TINY "--quiet --start=model --max-iters=1 --beta1=0 --grad-clip=0 --grad-accum=3 "
                   "--prepbn-steps=0 --checkpoint-interval=1 --val-fraction=0.3 --force --out=one "
                   "%s same.txt",
              options);
    struct log log = log_of("one");
    size_t gradients = 0, moments, count;
    cr_expect_str_eq(text_of("statistics"), "own");
    cr_expect_float_eq(loss(), log_number(&log, 0, TRAIN_LOSS), 1e-8 * loss());
    edited_load("one/checkpoint.safetensors");
    for (size_t i = 0; i < edited.array_count; i++) {
        const char *name = strstr(edited.arrays[i].name, "exp_avg.");
        if (!name) continue;
        double *want = numbers("one/checkpoint.safetensors", edited.arrays[i].name, &moments);
        double *got = numbers("d.st", say("grad.%s", name + 8), &count);
        cr_expect(count == moments && !memcmp(got, want, count * sizeof *got), "%s: %s differs",
                  options, name);
        gradients++;
    }
    edited_load("d.st");
    size_t others = 0; // than gradients: at least those that every model has
    for (size_t i = 0; i < edited.array_count; i++)
        others += strncmp(edited.arrays[i].name, "grad.", 5) != 0;
    cr_expect(gradients == edited.array_count - others && others >= 10);
}

Test(dump_file, the_gradient_is_that_of_an_update) {
    char same[3 * 2 * 8 + 1]; // three batches
    memset(same, 'e', sizeof same);
    file_put("same.txt", same, sizeof same);
    every_row(check_the_gradient_is_that_of_an_update);
}

/* The mean loss of the valid targets, from the logits of d.st. */
static double logits_loss(size_t *pads) {
    size_t size, N;
    double *logits = numbers("d.st", "logits", &size), *targets = numbers("d.st", "targets", &N);
    double *valid = numbers("d.st", "valid", &N), sum = 0;
    size_t V = size / N, count = 0;
    *pads = 0;
    for (size_t n = 0; n < N; n++) {
        double exponentials = 0;
        *pads += valid[n] == 0;
        if (targets[n] < 0) continue;
        cr_expect(valid[n] == 1);
        for (size_t v = 0; v < V; v++) exponentials += exp(logits[n * V + v]);
        sum += log(exponentials) - logits[n * V + (size_t)targets[n]];
        count++;
    }
    return sum / (double)count;
}

/* Fails unless the loss that the command prints follows from the logits that it dumps. */
static void expect_loss_of_logits(const char *command, size_t *pads) {
    const char *printed = output_of("%s --dump=d.st", command);
    cr_expect_float_eq(loss(), loss_in(printed), 1e-8, "%s", printed);
    cr_expect_float_eq(loss(), logits_loss(pads), 1e-6, "%s", command);
}

/* If one batch is all that is measured, its logits give the loss that is printed. */
Test(dump_file, the_loss_follows_from_the_logits) {
    static const char *const sources[] = {"running", "own", "single", "position", "all"};
    size_t pads;
    output_of(TINY "--quiet --items --norm=bn --learning-rate=0.02 --max-iters=20 --out=model "
                   "items.txt");
    for (int i = 0; i < 5; i++) {
        expect_loss_of_logits(say("--evaluate=model --batch-size=10 --stats=%s", sources[i]),
                              &pads);
        cr_expect(pads > 0, "the items are all of one length");
        cr_expect_str_eq(text_of("statistics"), i < 4 ? sources[i] : "running");
        size_t gradients = 0;
        for (size_t k = 0; k < edited.array_count; k++)
            gradients += !strncmp(edited.arrays[k].name, "grad.", 5);
        cr_expect((gradients > 0) == (i == 1), "%s", sources[i]);
    }
    // the last block of a text ends early: what is after it has no part in the batch's statistics
    corpus_put_tiny("short.txt", 20);
    output_of(TINY "--quiet --norm=bn --learning-rate=0.02 --force --out=model text.txt");
    expect_loss_of_logits("--evaluate=model --batch-size=3 --stats=own short.txt", &pads);
    cr_expect(pads == 5, "19 targets in 3 blocks of 8: %zu pads", pads);
}

Test(dump_file, it_changes_nothing_else_and_is_the_same_again) {
    output_of(TINY "--quiet --norm=bn --qk-norm=on --v-norm=on --ffn-norm=on --block-size=40 "
                   "--batch-size=3 --out=model text.txt");
    const char *without = output_of("--evaluate=model --stats=own --leak");
    cr_expect_str_eq(
        output_of("--evaluate=model --stats=own --leak --dump=model/one.st --threads=1"), without);
    cr_assert(!mkdir("again", 0777));
    output_of("--evaluate=model --stats=own --dump=again/one.st --threads=3");
    expect_same_file("model", "again", "one.st");
    // a norm that allows micro-batches
    output_of(TINY "--quiet --force --out=model --grammar-chars=60000");
    output_of("--evaluate=model --stats=own --batch-size=600 --dump=model/one.st");
    output_of("--evaluate=model --stats=own --batch-size=600 --micro-batch-tokens=0 "
              "--dump=again/one.st");
    expect_same_file("model", "again", "one.st");
}

static void expect_refused(int status, const char *options, const char *part) {
    size_t files = files_in(".");
    struct ending ending = train("--evaluate=model %s", options);
    cr_expect(ending.status == status && strstr(ending.err, part), "%s: status %d: %s", options,
              ending.status, ending.err);
    cr_expect(strchr(ending.err, '\n') == ending.err + strlen(ending.err) - 1, "%s", ending.err);
    cr_expect(files_in(".") == files, "%s: a file is left", options);
}

Test(dump_file, what_cannot_be_written_is_one_line) {
    output_of(TINY "--quiet --out=model text.txt");
    cr_assert(!mkdir("folder", 0777) && !mkfifo("pipe", 0666));
    expect_refused(STATUS_MACHINE, "--dump=nowhere/d.st", "dump: nowhere/d.st: No such file");
    expect_refused(STATUS_MACHINE, "--dump=folder", "dump: folder: is not a regular file");
    expect_refused(STATUS_MACHINE, "--dump=pipe", "dump: pipe: is not a regular file");
    expect_refused(STATUS_USAGE, "--dump=d.st --stats=position", "--stats=position: works for bn");
    expect_refused(STATUS_USAGE, "--dump=d.st --batch-size=1000 --stats=other", "--stats=other: ");
    if (getuid()) {
        cr_assert(!mkdir("locked", 0555));
        expect_refused(STATUS_MACHINE, "--dump=locked/d.st", "locked/d.st: Permission denied");
    }
    expect_part(messages_of("--generate=model --dump=d.st"),
                "no effect: --dump (only with --evaluate)");
    expect_done(train("--evaluate=model"));
}

/* A dump replaces no file of the run, and not the corpus. */
Test(dump_file, what_is_read_is_not_replaced) {
    static const char *const kept[] = {"model/model.safetensors",
                                       "model/checkpoint.safetensors",
                                       "model/best.safetensors",
                                       "model/config.ini",
                                       "model/log.csv",
                                       "model/log.crc32",
                                       "model/probes.csv",
                                       "model/summary.json",
                                       "model/sample.txt",
                                       "./model/../text.txt",
                                       "words.txt",
                                       "link.st"};
    output_of(TINY "--quiet --sample=9 --probe-interval=1 --keep-best=on "
                   "--checkpoint-interval=1 --out=model text.txt");
    corpus_put_tiny("words.txt", 2000);
    cr_assert(!symlink("model/model.safetensors", "link.st"));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        size_t bytes, again;
        char *before = file_text(kept[i], &bytes);
        char *option = say("--vocabulary=words.txt --dump=%s", kept[i]);
        expect_refused(STATUS_USAGE, option, "would replace a file of the run or the corpus");
        char *after = file_text(kept[i], &again);
        cr_expect(bytes == again && !memcmp(before, after, bytes), "%s was changed", kept[i]);
    }
    expect_done(train("--evaluate=model --dump=model/d.st"));
    expect_done(train("--evaluate=model --dump=model/d.st")); // replaces a dump
}

/* A new run replaces no file that it reads. */
Test(dump_file, a_run_does_not_replace_what_it_reads) {
    output_of(TINY "--quiet --sample=99 --out=model text.txt");
    size_t files = files_in("model");
    train_refuses(STATUS_USAGE, "model/sample.txt: this run reads the file and would also",
                  TINY "--quiet --val-fraction=0.5 --force --out=model model/sample.txt");
    train_refuses(STATUS_USAGE, "model/model.safetensors: this run reads the file and",
                  TINY "--quiet --force --start=model --out=./model text.txt");
    cr_expect(files_in("model") == files);
    output_of(TINY "--quiet --force --config=model/config.ini --out=model text.txt");
}

/* A full disk leaves the old file, and no part of the new one. */
Test(dump_file, a_full_disk_leaves_the_old_file) {
    output_of(TINY "--quiet --out=model text.txt");
    file_put("d.st", "old", 3);
    size_t files = files_in(".");
    static const size_t limits[] = {200, 1000, 8000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const struct surroundings full = {.file_limit = limits[i], .output = "/dev/null"};
        struct ending ending = train_in(full, "--evaluate=model --dump=d.st");
        cr_expect(ending.status == STATUS_MACHINE && strstr(ending.err, "dump: d.st: File too l"),
                  "status %d: %s", ending.status, ending.err);
        cr_expect(files_in(".") == files && !strcmp(file_text("d.st", NULL), "old"));
    }
    expect_done(train("--evaluate=model --dump=d.st"));
    cr_expect(files_in(".") == files && strcmp(file_text("d.st", NULL), "old") != 0);
}

/* A model that diverges on a text gives no dump. */
Test(dump_file, no_dump_without_a_loss) {
    foreign_learn("--norm=none");
    for (size_t i = 0; i < edited.array_count; i++)
        for (size_t k = 0; k < stored_count(&edited.arrays[i]); k++)
            stored_floats(&edited.arrays[i])[k] *= 1e30F;
    edited_save("huge.st");
    train_refuses(STATUS_DIVERGED, "huge.st: its loss is ",
                  "--quiet --evaluate=huge.st --norm=none " SAID "--dump=d.st text.txt");
    cr_expect(!file_there("d.st") && !file_there("d.st.tmp"));
}

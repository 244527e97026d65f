/* Stored runs whose files are complete and have correct checksums, but have contents that ./train
   never writes, as another program could. An error says what is wrong, and nothing in the folder
   changes. Also the readers of tests/fuzz/ on files that broke a reader or could break one. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "model/math/tensor.h"
#include "tests/command.h"
#include "tests/fuzz/fuzz.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void enter(void) {
    text_enter();
    expect_done(train(TINY "--norm=bn --quiet --out=run text.txt"));
    cr_assert(!remove("run/config.ini")); // which would report changed texts first
}

TestSuite(damage, .init = enter, .fini = folder_leave);

#define ATTENTION "transformer.h.0.attn.c_attn.weight"
#define EMBEDDING "transformer.wte.weight"

/* Makes one change to the model and to the checkpoint; both are refused with the same words. */
static void expect_damage(void (*change)(void), const char *part) {
    static const char *const uses[][2] = {
        {"model", "--generate=run"}, {"model", "--evaluate=run"}, {"checkpoint", "--resume=run"}};
    const char *log = file_text("run/log.csv", NULL);
    for (int i = 0; i < 3; i++) {
        size_t before;
        const char *path = say("run/%s.safetensors", uses[i][0]);
        const char *text = file_text(path, &before);
        edited_load(path);
        change();
        edited_save(path);
        train_refuses(STATUS_MACHINE, say("train: %s: %s", path, part), "%s", uses[i][1]);
        file_put(path, text, before);
    }
    cr_expect_str_eq(file_text("run/log.csv", NULL), log);
    cr_expect(file_there("run/summary.json"));
}

/* Makes one change to a text of the file. */
static void put_text(const char *path, const char *name, const char *text) {
    size_t i = 0;
    edited_load(path);
    while (i < edited.text_count && strcmp(edited.texts[i].name, name) != 0) i++;
    edited.texts[i] = (struct stored_text){name, text};
    edited.text_count += i == edited.text_count;
    edited_save(path);
}

Test(damage, options_of_a_model_that_cannot_be) {
    const char path[] = "run/model.safetensors";
    put_text(path, "n-head", "0");
    train_refuses(STATUS_USAGE, "n-head=0: must be a whole number from 1", "--generate=run");
    put_text(path, "n-head", "2");
    put_text(path, "batch-size", "1000000000");
    train_refuses(STATUS_MACHINE, "memory: ", "--evaluate=run");
    expect_done(train("--generate=run --num-chars=9 --quiet")); // which has a batch of its own
}

Test(damage, steps_that_are_none) {
    static const char path[] = "run/checkpoint.safetensors",
                      *const wrong[][3] = {
                          {"step", "-1", "step: is not a whole number"},
                          {"step", "3.5", "step: is not a whole number"},
                          {"step", "nan", "has no number for step"},
                          {"step", "4x", "has no number for step"},
                          {"best_step", "1e99", "best_step: is not a whole number"},
                          {"tokens", "1e99", "tokens: is not a whole number"},
                          {"pads", "1e99", "pads: is not a whole number"},
                          // which would be larger than 2^53 after the next update
                          {"tokens", "9007199254740992", "is more than 4 updates can have had"},
                          {"pads", "9007199254740992", "is more than 4 updates can have had"},
                          {"best_step", "5", "is more than 4 updates can have had"}};
    const char *log = file_text("run/log.csv", NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_text(path, wrong[i][0], wrong[i][1]);
        train_refuses(STATUS_MACHINE, wrong[i][2], "--resume=run --max-iters=9");
        put_text(path, wrong[i][0], "4");
    }
    cr_expect_str_eq(file_text("run/log.csv", NULL), log);
}

static const char VARIANCE[] = "transformer.ln_f.running_var";

/* Every element of the array becomes this number. */
static void fill(const char *name, float value) {
    static float values[1000];
    struct stored *changed = edited_find(name);
    cr_assert(stored_count(changed) <= 1000);
    for (int i = 0; i < 1000; i++) values[i] = value;
    changed->data = values;
}

static void spoil_variance(void) {
    fill(VARIANCE, NAN);
}

Test(damage, weights_that_are_nan) {
    expect_damage(spoil_variance, "transformer.ln_f.running_var: holds nan or infinity");
    edited_load("run/checkpoint.safetensors");
    fill("optimizer.exp_avg_sq." EMBEDDING, NAN);
    edited_save("run/checkpoint.safetensors");
    train_refuses(STATUS_MACHINE, "optimizer.exp_avg_sq." EMBEDDING ": holds nan or infinity",
                  "--resume=run");
}

Test(damage, a_model_that_gives_nan) {
    edited_load("run/model.safetensors");
    fill(VARIANCE, -9);
    edited_save("run/model.safetensors");
    struct ending ending = train("--generate=run");
    cr_expect(ending.status == STATUS_DIVERGED && strstr(ending.err, "logits are nan"), "%s",
              ending.err);
    train_refuses(STATUS_DIVERGED, "its loss is nan", "--evaluate=run");
}

static void count_on(int64_t batches) {
    static int64_t count;
    count = batches;
    edited_find("transformer.ln_f.num_batches_tracked")->data = &count;
}

static void count_too_far(void) {
    count_on(INT64_MAX);
}

static void count_past_the_end(void) {
    count_on(TENSOR_COUNT_MAX + 1);
}

static void count_backwards(void) {
    count_on(-1);
}

/* The count of a run that starts at the largest number stays there, and is read again. */
Test(damage, counts_that_cannot_be_continued) {
#define NO_COUNT "transformer.ln_f.num_batches_tracked: is not a number of batches from 0 to 2^53"
    expect_damage(count_too_far, NO_COUNT);
    expect_damage(count_past_the_end, NO_COUNT);
    expect_damage(count_backwards, NO_COUNT);
    edited_load("run/model.safetensors");
    count_on(TENSOR_COUNT_MAX);
    edited_save("last.st");
    expect_done(train(TINY "--quiet --norm=bn --start=last.st --out=last text.txt"));
    expect_done(train("--evaluate=last"));
}

static void rename_it(void) {
    edited_find(ATTENTION)->name = "x";
}

/* An embedding with many channels is cheap; the matrices that it implies are not. */
static void widen(void) {
    enum { C = 100000 };
    static float zeros[C];
    static const char *const names[] = {EMBEDDING, "transformer.wpe.weight", "lm_head.weight"};
    struct stored wide = {.type = STORED_F32, .dimensions = 2, .shape = {1, C}, .data = zeros};
    for (int i = 0; i < 3; i++) {
        wide.name = names[i];
        *edited_find(names[i]) = wide;
    }
}

static void empty(void) { // this many positions, of no channels
    struct stored *changed = edited_find("transformer.wpe.weight");
    changed->shape[0] = 1000000000;
    changed->shape[1] = 0;
}

Test(damage, sizes_that_the_arrays_do_not_bear_out) {
    expect_damage(rename_it, "its model has no characters, channels, positions or layers");
    expect_damage(widen, ATTENTION ": its shape does not fit 100000 channels");
    expect_damage(empty, "its token and position embeddings differ in their number of channels");
}

Test(damage, what_lies_where_a_file_should) {
    static const char *const names[] = {"run/checkpoint.safetensors", "run/log.csv"};
    for (int i = 0; i < 2; i++) {
        cr_assert(!rename(names[i], "kept") && !mkfifo(names[i], 0666));
        train_refuses(STATUS_MACHINE, "is not a regular file", "--resume=run");
        cr_assert(!remove(names[i]) && !mkdir(names[i], 0777));
        train_refuses(STATUS_MACHINE, "Is a directory", "--resume=run");
        cr_assert(!remove(names[i]) && !rename("kept", names[i]));
    }
    train_refuses(STATUS_MACHINE, "/dev/null: is not a regular file", "--generate=/dev/null");
    expect_done(train("--resume=run --quiet --max-iters=5"));
}

TestSuite(fuzz, .init = folder_enter, .fini = folder_leave);

static const struct reader *reader;

static void read_in_child(void *unused) {
    reader->read("input");
}

/* The reader accepts a file without a word, or refuses it in one line and with a status. */
static void expect_case(const struct file_case *one) {
    FILE *file = fopen("input", "wb");
    file_case_write(one, file);
    fclose(file);
    struct ending ending = call(read_in_child, NULL);
    if (!one->problem) {
        cr_expect(!ending.status && !*ending.err, "%s: %s: %s", one->reader, one->content,
                  ending.err);
        return;
    }
    cr_expect(ending.status == STATUS_MACHINE || ending.status == STATUS_USAGE, "%s: %s: %d",
              one->reader, one->content, ending.status);
    expect_refusal(ending, ending.status, one->problem);
}

Test(fuzz, every_reader_knows_its_cases) {
    for (reader = readers; reader->name; reader++) {
        int taken = 0, refused = 0;
        for (const struct file_case *one = file_cases; one->reader; one++) {
            if (strcmp(one->reader, reader->name) != 0) continue;
            expect_case(one);
            one->problem ? refused++ : taken++;
        }
        cr_expect(taken && (refused || !strcmp(reader->name, "vocabulary")), "%s", reader->name);
    }
}

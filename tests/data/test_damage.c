/* Stored runs whose files are complete and have correct checksums, but have contents that ./train
   never writes, as another program could. An error says what is wrong, and nothing in the folder
   changes. Also the readers of tests/fuzz/ on files that broke a reader or could break one. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "tests/command.h"
#include "tests/fuzz/fuzz.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    expect_done(train(TINY "--norm=bn --quiet --out=run text.txt"));
    cr_assert(!remove("run/config.ini")); // which would report changed texts first
}

TestSuite(damage, .init = enter, .fini = folder_leave);

static void set_text(const char *name, const char *text) {
    size_t i = 0;
    while (i < edited.text_count && strcmp(edited.texts[i].name, name) != 0) i++;
    edited.texts[i] = (struct stored_text){name, text};
    edited.text_count += i == edited.text_count;
}

static struct stored *array(const char *name) {
    for (size_t i = 0; i < edited.array_count; i++)
        if (!strcmp(edited.arrays[i].name, name)) return &edited.arrays[i];
    cr_assert(false, "no %s", name);
    return NULL;
}

#define ATTENTION "transformer.h.0.attn.c_attn.weight"
#define EMBEDDING "transformer.wte.weight"

/* Makes one change to the model and to the checkpoint; both are refused with the same words. */
static void expect_damage(void (*change)(const void *), const void *context, int status,
                          const char *part) {
    static const char *const uses[][2] = {
        {"model", "--generate=run"}, {"model", "--evaluate=run"}, {"checkpoint", "--resume=run"}};
    const char *log = file_text("run/log.csv", NULL);
    for (int i = 0; i < 3; i++) {
        char path[64], line[512];
        size_t before, after;
        snprintf(path, sizeof path, "run/%s.safetensors", uses[i][0]);
        const char *whole = file_text(path, &before);
        edited_load(path);
        change(context);
        edited_save(path);
        const char *changed = file_text(path, &after);
        cr_assert(before != after || memcmp(whole, changed, before), "the change changes nothing");
        struct ending ending = train("%s", uses[i][1]);
        snprintf(line, sizeof line, "train: %s: %s", path, part);
        expect_refusal(&ending, status, line);
        file_put(path, whole, before);
    }
    cr_expect_str_eq(file_text("run/log.csv", NULL), log);
    cr_expect(file_there("run/summary.json"));
}

static void text(const void *pair) {
    const char *const *words = pair;
    set_text(words[0], words[1]);
}

static void expect_text_damage(const char *name, const char *value, int status, const char *part) {
    expect_damage(text, (const char *[]){name, value}, status, part);
}

Test(damage, texts_that_contradict_the_arrays) {
    expect_text_damage(
        "n-layer", "10000", STATUS_MACHINE,
        "n-layer, n-embd, block-size, ffn-width or bias differ between its metadata and "
        "its arrays");
    expect_text_damage("norm", "rms", STATUS_MACHINE,
                       "transformer.h.0.ln_1.bias: is not part of this model");
}

Test(damage, texts_that_are_out_of_range) {
    expect_text_damage("n-layer", "99999999999999999999", STATUS_USAGE, "n-layer=9999");
    expect_text_damage("n-head", "0", STATUS_USAGE, "n-head=0: must be a whole number from 1");
    expect_text_damage("norm-eps", "nan", STATUS_USAGE, "norm-eps=nan: must be a number from");
    expect_text_damage("norm", "LN", STATUS_USAGE, "norm=LN: must be one of");
}

Test(damage, a_batch_that_no_memory_holds) {
    edited_load("run/model.safetensors");
    set_text("batch-size", "1000000000");
    edited_save("run/model.safetensors");
    train_refuses(STATUS_MACHINE, "memory: ", "--evaluate=run");
    struct ending ending = train("--generate=run --num-chars=9"); // which has a batch of its own
    cr_expect(ending.status == 0, "%s", ending.err);
}

static void expect_checkpoint_damage(const char *name, const char *value, const char *part) {
    const char *log = file_text("run/log.csv", NULL);
    edited_load("run/checkpoint.safetensors");
    set_text(name, value);
    edited_save("run/checkpoint.safetensors");
    train_refuses(STATUS_MACHINE, part, "--resume=run --max-iters=9");
    cr_expect_str_eq(file_text("run/log.csv", NULL), log);
}

Test(damage, steps_that_are_none) {
    static const char *const none[] = {"-1", "3.5", "1e300"}, *const words[] = {"", "nan", "4x"};
    for (int i = 0; i < 3; i++)
        expect_checkpoint_damage("step", none[i], "step: is not a whole number");
    for (int i = 0; i < 3; i++)
        expect_checkpoint_damage("step", words[i], "has no number for step");
    edited_load("run/checkpoint.safetensors");
    set_text("step", "4");
    edited_save("run/checkpoint.safetensors");
    static const char *const counts[] = {"best_step", "tokens", "pads"};
    for (int i = 0; i < 3; i++) {
        char part[64];
        snprintf(part, sizeof part, "%s: is not a whole number", counts[i]);
        expect_checkpoint_damage(counts[i], "1e99", part);
        set_text(counts[i], "4");
        edited_save("run/checkpoint.safetensors");
    }
}

static void poke(const void *name) { // nan in place of its first element
    static float values[1000];
    struct stored *changed = array(name);
    memcpy(values, changed->data, stored_count(changed) * sizeof *values);
    values[0] = NAN;
    changed->data = values;
}

Test(damage, weights_that_are_nan) {
    expect_damage(poke, ATTENTION, STATUS_MACHINE, ATTENTION ": holds nan or infinity");
    expect_damage(poke, "transformer.ln_f.running_var", STATUS_MACHINE,
                  "transformer.ln_f.running_var: holds nan or infinity");
    edited_load("run/checkpoint.safetensors");
    poke("optimizer.exp_avg_sq." EMBEDDING);
    edited_save("run/checkpoint.safetensors");
    train_refuses(STATUS_MACHINE, "optimizer.exp_avg_sq." EMBEDDING ": holds nan or infinity",
                  "--resume=run");
}

Test(damage, a_model_that_gives_nan) {
    edited_load("run/model.safetensors");
    static float negative[] = {-9, -9, -9, -9, -9, -9, -9, -9};
    struct stored *variance = array("transformer.ln_f.running_var");
    cr_assert(stored_count(variance) == 8);
    variance->data = negative;
    edited_save("run/model.safetensors");
    struct ending ending = train("--generate=run");
    cr_expect(ending.status == STATUS_DIVERGED && strstr(ending.err, "logits are nan"), "%s",
              ending.err);
    train_refuses(STATUS_DIVERGED, "its loss is nan", "--evaluate=run");
}

static void rename_it(const void *name) {
    array(name)->name = "x";
}

/* An embedding with many channels is cheap; the matrices that it implies are not. */
static void widen(const void *attention) {
    enum { C = 100000 };
    static char zeros[C];
    static const char *const names[] = {EMBEDDING, "transformer.wpe.weight", "lm_head.weight"};
    struct stored wide = {.type = STORED_OTHER, .dimensions = 2, .shape = {1, C}, .data = zeros};
    for (int i = 0; i < 3; i++) {
        wide.name = names[i];
        *array(names[i]) = wide;
    }
    if (attention) { // the same number of columns, but one row
        wide.name = attention;
        *array(attention) = wide;
    }
}

static void empty(const void *name) { // this many positions, of no channels
    struct stored *changed = array(name);
    changed->shape[0] = 1000000000;
    changed->shape[1] = 0;
}

Test(damage, sizes_that_the_arrays_do_not_bear_out) {
    expect_damage(rename_it, ATTENTION, STATUS_MACHINE,
                  "its model has no characters, channels, positions or layers");
    expect_damage(widen, NULL, STATUS_MACHINE,
                  ATTENTION ": its shape does not fit 100000 channels");
    expect_damage(widen, ATTENTION, STATUS_MACHINE,
                  ATTENTION ": its shape does not fit 100000 channels");
    expect_damage(empty, "transformer.wpe.weight", STATUS_MACHINE,
                  "its token and position embeddings differ in their number of channels");
}

Test(damage, what_lies_where_a_file_should) {
    static const char *const names[] = {"run/checkpoint.safetensors", "run/log.csv"};
    for (int i = 0; i < 2; i++) {
        cr_assert(!rename(names[i], "kept") && !mkfifo(names[i], 0666));
        train_refuses(STATUS_MACHINE, "is not a regular file", "--resume=run");
        cr_assert(!remove(names[i]) && !mkdir(names[i], 0777));
        train_refuses(STATUS_MACHINE, "Is a directory", "--resume=run");
        cr_assert(!remove(names[i]) && !symlink("nowhere/at/all", names[i]));
        struct ending ending = train("--resume=run");
        cr_expect(ending.status == STATUS_MACHINE && strlen(ending.err), "%s", ending.err);
        cr_assert(!remove(names[i]) && !rename("kept", names[i]));
    }
    train_refuses(STATUS_MACHINE, "/dev/null: is not a regular file", "--generate=/dev/null");
    struct ending ending = train("--resume=run --quiet --max-iters=5");
    cr_expect(ending.status == 0, "%s", ending.err);
}

Test(damage, a_folder_that_may_not_be_read) {
    if (!geteuid()) skip("damage", "nothing is forbidden to root");
    cr_assert(!chmod("run", 0));
    static const char *const uses[] = {"--resume=run", "--generate=run", "--evaluate=run"};
    for (int i = 0; i < 3; i++) {
        train_refuses(STATUS_MACHINE, "Permission denied", "%s", uses[i]);
    }
    cr_assert(!chmod("run", 0777));
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
    expect_refusal(&ending, ending.status, one->problem);
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

/* The number of batches that a norm has seen is an integer: it grows beyond 2^24, where a float
   would stop, in memory and in files. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "tests/command.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

TestSuite(batches, .init = folder_enter, .fini = folder_leave);

static const int64_t edge = 1 << 24;

static const struct norm_kind *const *first_counting(const struct norm_kind *const *kind) {
    for (; *kind; kind++)
        for (int i = 0; (*kind)->state[i].name; i++)
            if ((*kind)->state[i].counts) return kind;
    return NULL;
}

static void expect_to_move_on(const struct norm_kind *kind, int64_t axis) {
    enum { B = 3, T = 4, C = 6, MORE = 5 };
    struct norm_options options = small_norms;
    norms_set(&options, "bn-axis", (double)axis);
    struct lone_norm lone;
    lone_norm_init_with(&lone, kind, &options, B, T, C);
    real *x = random_reals(B * T * C, 5), *y = random_reals(B * T * C, 6);
    lone.tokens.training = true;
    *lone.norm.batches = edge - 2;
    for (int i = 0; i < MORE; i++) lone_norm_forward(&lone, y, x);
    cr_expect(*lone.norm.batches == edge - 2 + MORE, "%s: %lld", kind->name,
              (long long)*lone.norm.batches);
    lone.tokens.training = false;
    lone_norm_forward(&lone, y, x);
    cr_expect(*lone.norm.batches == edge - 2 + MORE, "%s: evaluation counts batches", kind->name);
    free(x);
    free(y);
    lone_norm_free(&lone);
}

Test(batches, every_norm_counts_beyond_2_to_the_24) {
    int kinds = 0;
    for (const struct norm_kind *const *kind = norm_kinds; (kind = first_counting(kind));
         kind++, kinds++) {
        expect_to_move_on(*kind, BN_AXIS_BATCH_TIME);
        expect_to_move_on(*kind, BN_AXIS_BATCH);
    }
    cr_expect(kinds == 5, "%d kinds: bn, brn, in, pn, prepbn", kinds);
}

/* The first state of prepbn is its lambda. */
Test(batches, prepbn_becomes_bn_beyond_2_to_the_24) {
    enum { B = 3, T = 4, C = 6 };
    struct norm_options options = small_norms;
    norms_set(&options, "prepbn-steps", (double)(edge + 3));
    struct lone_norm lone;
    lone_norm_init_with(&lone, norm_find("prepbn"), &options, B, T, C);
    real *x = random_reals(B * T * C, 5), *y = random_reals(B * T * C, 6);
    lone.tokens.training = true;
    *lone.norm.batches = edge;
    for (int i = 0; i < 5; i++) {
        lone_norm_forward(&lone, y, x);
        cr_expect((lone.norm.saved[0] > 0) == (i < 3), "batch %d: lambda %g", i,
                  (double)lone.norm.saved[0]);
    }
    free(x);
    free(y);
    lone_norm_free(&lone);
}

/* Sets all arrays of a file whose names end with `name` to `value`. */
static void set_counts(const char *path, const char *name, const void *value, int type) {
    enum { ENTRIES_MAX = 200 };
    static struct stored arrays[ENTRIES_MAX];
    static struct stored_text texts[ENTRIES_MAX];
    struct safetensors file;
    size_t count = 0, changed = 0;
    safetensors_open(&file, path);
    cr_assert(file.array_count < ENTRIES_MAX && file.text_count < ENTRIES_MAX);
    char *bytes = file_text(path, NULL);
    for (size_t i = 0; i < file.text_count; i++)
        if (!strstr(file.texts[i].name, "er_crc32") && strcmp(file.texts[i].name, "data_crc32"))
            texts[count++] = file.texts[i];
    for (size_t i = 0; i < file.array_count; i++) {
        arrays[i] = file.arrays[i];
        arrays[i].data = bytes + file.first + file.arrays[i].begin;
        size_t length = strlen(arrays[i].name), end = strlen(name);
        if (length < end || strcmp(arrays[i].name + length - end, name) != 0) continue;
        cr_expect(arrays[i].type == STORED_I64 && !arrays[i].dimensions, "%s", arrays[i].name);
        arrays[i].type = type;
        arrays[i].data = value;
        changed++;
    }
    cr_assert(changed > 2, "%s: no %s", path, name);
    FILE *out = fopen("changed", "wb");
    safetensors_write(out, texts, count, arrays, file.array_count);
    cr_assert(!fclose(out) && !rename("changed", path));
    safetensors_close(&file);
}

static void expect_counts(const char *path, const char *name, int64_t value) {
    struct safetensors file;
    int64_t found;
    size_t count = 0;
    safetensors_open(&file, path);
    for (size_t i = 0; i < file.array_count; i++) {
        const struct stored *array = &file.arrays[i];
        if (!strstr(array->name, name)) continue;
        cr_assert(array->type == STORED_I64);
        safetensors_read(&file, array, STORED_I64, &found);
        cr_expect(found == value, "%s: %lld, not %lld", array->name, (long long)found,
                  (long long)value);
        count++;
    }
    cr_expect(count > 2);
    safetensors_close(&file);
}

static void check_file(const char *norm, const char *name) {
    const int64_t before = edge - 1, large = ((int64_t)1 << 53) + 1, negative = -1;
    const float real_number = 16777215, half = 2.5;
    struct ending ending = train(TINY "--quiet --norm=%s --force --out=run text.txt", norm);
    cr_assert(!ending.status, "%s", ending.err);
    expect_counts("run/model.safetensors", name, 4);
    set_counts("run/checkpoint.safetensors", name, &before, STORED_I64);
    ending = train("--quiet --resume=run --max-iters=8");
    cr_assert(!ending.status, "%s", ending.err);
    expect_counts("run/checkpoint.safetensors", name, edge + 3);
    expect_counts("run/model.safetensors", name, edge + 3);
    set_counts("run/checkpoint.safetensors", name, &large, STORED_I64);
    ending = train("--quiet --resume=run --max-iters=9");
    cr_assert(!ending.status, "%s", ending.err);
    expect_counts("run/checkpoint.safetensors", name, large + 1);
    set_counts("run/checkpoint.safetensors", name, &real_number, STORED_F32);
    ending = train("--quiet --resume=run --max-iters=11");
    cr_assert(!ending.status, "%s", ending.err);
    expect_counts("run/checkpoint.safetensors", name, edge + 1);
    set_counts("run/checkpoint.safetensors", name, &negative, STORED_I64);
    train_refuses(STATUS_MACHINE, "is not a number of batches", "--resume=run --max-iters=12");
    ending = train(TINY "--quiet --norm=%s --force --out=run text.txt", norm);
    set_counts("run/checkpoint.safetensors", name, &half, STORED_F32);
    train_refuses(STATUS_MACHINE, "is not a number of batches", "--resume=run --max-iters=12");
}

Test(batches, files_keep_integers) {
    corpus_put_tiny("text.txt", 2000);
    check_file("bn", ".num_batches_tracked");
    check_file("pn", ".iters");
    check_file("prepbn", ".num_batches_tracked");
}

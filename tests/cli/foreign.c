#include "tests/cli/foreign.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct foreign foreign;

struct stored *foreign_add(const char *name, int type, int dimensions, const size_t *shape) {
    cr_assert(foreign.count < FOREIGN_ARRAYS && strlen(name) < FOREIGN_NAME);
    size_t i = foreign.count++;
    strcpy(foreign.name[i], name);
    foreign.array[i] = (struct stored){
        .name = foreign.name[i], .type = type, .dimensions = dimensions, .data = foreign.value[i]};
    memcpy(foreign.array[i].shape, shape, (size_t)dimensions * sizeof *shape);
    memset(foreign.value[i], 0, sizeof foreign.value[i]);
    cr_assert(stored_count(&foreign.array[i]) <= FOREIGN_VALUES);
    return &foreign.array[i];
}

static void foreign_take(const char *path) {
    struct safetensors file;
    safetensors_open(&file, path);
    for (size_t i = 0; i < file.array_count; i++) {
        const struct stored *array = &file.arrays[i];
        foreign_add(array->name, STORED_F32, array->dimensions, array->shape);
        safetensors_read(&file, array, STORED_F32, foreign.value[i]);
    }
    safetensors_close(&file);
    cr_assert(foreign.count > 3);
}

void foreign_learn(const char *options) {
    foreign.count = foreign.texts = 0;
    expect_done(train(TINY "--quiet --max-iters=30 --learning-rate=0.02 --eval-interval=1000 "
                           "--log-interval=1000 --force --out=out %s text.txt",
                      options));
    foreign_take("out/model.safetensors");
}

void foreign_enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    corpus_put_tiny("other.txt", 300);
}

void foreign_enter_and_learn(void) {
    foreign_enter();
    foreign_learn("");
}

size_t foreign_place(const char *name) {
    for (size_t i = 0; i < foreign.count; i++)
        if (!strcmp(foreign.name[i], name)) return i;
    cr_assert_fail("no %s", name);
    return 0;
}

void foreign_say(const char *name, const char *text) {
    foreign.text[foreign.texts++] = (struct stored_text){name, text};
}

/* Leaves out the array at this place; none if it is SIZE_MAX. */
void foreign_put_without(const char *path, size_t left_out) {
    struct stored arrays[FOREIGN_ARRAYS];
    size_t count = 0;
    for (size_t i = 0; i < foreign.count; i++)
        if (i != left_out) arrays[count++] = foreign.array[i];
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    safetensors_write(file, foreign.text, foreign.texts, arrays, count);
    cr_assert(!fclose(file));
}

void foreign_put(const char *path) {
    foreign_put_without(path, SIZE_MAX);
}

#define NOTE "note: other.st has no checksum: damage in it would not be found\n"

char *foreign_output(const char *format, const char *options) {
    char *line = say("%s %s", format, options);
    struct ending ending = train("%s", line);
    // a file that safetensors_write() did not make has no checksum
    cr_assert(ending.status == 0 && (!*ending.err || !strcmp(ending.err, NOTE)), "%s: %s", line,
              ending.err);
    return say("%s", ending.out);
}

void foreign_expect_same(const char *options) {
    cr_expect_str_eq(foreign_output("--evaluate=other.st" MEASURE, options),
                     foreign_output("--evaluate=out" MEASURE, ""));
    cr_expect_str_eq(foreign_output("--generate=other.st" GENERATE, options),
                     foreign_output("--generate=out" GENERATE, ""));
}

void foreign_expect_refused(int status, const char *options, const char *part) {
    struct ending ending = train("--generate=other.st %s", options);
    expect_refusal(&ending, status, part);
    ending = train("--evaluate=other.st %s other.txt", options);
    expect_refusal(&ending, status, part);
}

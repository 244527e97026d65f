#include "tests/cli/foreign.h"
#include "tests/command.h"
#include "tests/support.h"
#include <string.h>

void foreign_learn(const char *options) {
    expect_done(train(TINY "--quiet --max-iters=30 --learning-rate=0.02 --eval-interval=1000 "
                           "--log-interval=1000 --force --out=out %s text.txt",
                      options));
    edited_load("out/model.safetensors");
    edited.text_count = 0;
}

void foreign_enter(void) {
    text_enter();
    corpus_put_tiny("other.txt", 300);
}

void foreign_enter_and_learn(void) {
    foreign_enter();
    foreign_learn("");
}

struct stored *foreign_add(const char *name, int dimensions, const size_t *shape) {
    struct stored *array = &edited.arrays[edited.array_count++];
    *array = (struct stored){.name = name, .type = STORED_F32, .dimensions = dimensions};
    memcpy(array->shape, shape, (size_t)dimensions * sizeof *shape);
    array->data = hold(stored_count(array) * sizeof(float));
    return array;
}

float *foreign_values(const struct stored *array) {
    return (float *)array->data;
}

void foreign_say(const char *name, const char *text) {
    edited.texts[edited.text_count++] = (struct stored_text){name, text};
}

void foreign_put_without(struct stored *array) {
    struct stored kept = *array;
    size_t after = (size_t)(edited.arrays + --edited.array_count - array);
    memmove(array, array + 1, after * sizeof *array);
    edited_save("other.st");
    memmove(array + 1, array, after * sizeof *array);
    *array = kept;
    edited.array_count++;
}

char *foreign_output(const char *command, const char *options) {
    struct ending ending = train("%s %s", command, options);
    expect_done(ending);
    return say("%s", ending.out);
}

void foreign_expect_same(const char *options) {
    cr_expect_str_eq(foreign_output("--evaluate=other.st" MEASURE, options),
                     foreign_output("--evaluate=out" MEASURE, ""));
    cr_expect_str_eq(foreign_output("--generate=other.st" GENERATE, options),
                     foreign_output("--generate=out" GENERATE, ""));
}

void foreign_expect_refused(int status, const char *options, const char *part) {
    edited_save("other.st");
    train_refuses(status, part, "--generate=other.st %s", options);
    train_refuses(status, part, "--evaluate=other.st %s other.txt", options);
}

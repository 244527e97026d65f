/* Damage in safetensors files is noticed: lengths that a file does not have, and a model and a
   checkpoint that are cut short or changed by a bit. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/data/stored_file.h"
#include "tests/death.h"
#include "tests/sanitizer.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 100000 }; // more than a stream reads ahead
static float many[MANY];

static void read_many(void *context) {
    struct safetensors *file = context;
    safetensors_read(file, file->arrays, STORED_F32, many);
}

Test(safetensors, a_file_that_gets_shorter_while_it_is_open) {
    const struct stored array = {"a", STORED_F32, 1, {MANY}, many, 0, 0};
    uint64_t length;
    size_t size;
    stored_write(NULL, 0, &array, 1, &length, &size);
    struct safetensors file;
    safetensors_open(&file, "model");
    cr_assert(!truncate("model", (off_t)size - 1));
    const struct death *death = caught(read_many, &file);
    cr_expect_str_eq(death->line, "model: not a valid safetensors file: it is cut short");
    safetensors_close(&file);
}

static void open_path(void *path) {
    struct safetensors file;
    safetensors_open(&file, path);
}

static void expect_refused(const char *path, const char *line) {
    const struct death *death = caught(open_path, (void *)path);
    cr_expect(death->status == STATUS_MACHINE);
    cr_expect_str_eq(death->line, line);
}

Test(safetensors, what_is_no_file) {
    cr_assert(!mkdir("folder", 0777) && !mkfifo("fifo", 0666) && !symlink("loop", "loop"));
    expect_refused("missing", "missing: No such file or directory");
    expect_refused("folder", "folder: Is a directory");
    expect_refused("fifo", "fifo: is not a regular file");
    expect_refused("/dev/null", "/dev/null: is not a regular file");
    expect_refused("loop", "loop: Too many levels of symbolic links");
}

/* Lengths and shapes beyond the end of the file, read in a process that cannot allocate 99 MiB. */
static void open_promises(void *unused) {
    unsigned long pages;
    FILE *own = fopen("/proc/self/statm", "r");
    if (!own || fscanf(own, "%lu", &pages) != 1) die(STATUS_MACHINE, "no /proc/self/statm");
    fclose(own);
    rlim_t limit = pages * (size_t)sysconf(_SC_PAGESIZE) + (16 << 20);
    if (setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit})) die(STATUS_MACHINE, "no limit");
    char *volatile memory = malloc(99 << 20);
    if (memory) die(STATUS_MACHINE, "the limit does not limit");
    static const struct {
        uint64_t length;
        const char *header, *problem;
    } promise[] = {{100000001, "{}", "its header would have more than 100000000 bytes"},
                   {1ull << 62, "{}", "its header would have more than 100000000 bytes"},
                   {UINT64_MAX, "{}", "its header would have more than 100000000 bytes"},
                   {100000000, "{}", "it is cut short"},
                   {0,
                    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000000000],"
                    "\"data_offsets\":[0,4000000000]}}",
                    "it is cut short"}};
    for (size_t i = 0; i < sizeof promise / sizeof *promise; i++) {
        char bytes[256], line[256];
        size_t header = strlen(promise[i].header);
        uint64_t length = promise[i].length ? promise[i].length : header;
        for (int b = 0; b < 8; b++) bytes[b] = (char)(length >> 8 * b & 255);
        memcpy(bytes + 8, promise[i].header, header);
        struct opening opening = {.bytes = bytes, .size = 8 + header};
        const char *problem = opening_problem(&opening);
        snprintf(line, sizeof line, "it: not a valid safetensors file: %s", promise[i].problem);
        if (!problem || strcmp(problem, line) != 0)
            die(STATUS_MACHINE, "%s, not %s", problem ? problem : "none", line);
    }
}

Test(safetensors, nothing_is_allocated_on_a_promise) {
    if (SANITIZED || !file_there("/proc/self/statm"))
        skip("safetensors", "memory cannot be limited here");
    struct ending ending = call(open_promises, NULL);
    cr_expect(ending.status == 0, "%s", ending.err);
}

Test(safetensors, the_longest_header) {
    const size_t longest = 100000000;
    char *bytes = malloc(8 + longest + 1);
    cr_assert(bytes);
    memset(bytes + 8, ' ', longest + 1);
    memcpy(bytes + 8, "{}", 2);
    for (size_t length = longest; length <= longest + 1; length++) {
        for (int i = 0; i < 8; i++) bytes[i] = (char)(length >> 8 * i & 255);
        struct opening opening = {.bytes = bytes, .size = 8 + length};
        const char *problem = opening_problem(&opening);
        cr_expect(!problem == (length == longest), "%zu bytes: %s", length, problem);
        if (!problem) safetensors_close(&opening.file);
    }
    free(bytes);
}

/* ---- damaged models ---- */

/* The model or the checkpoint of a run with a small vocabulary. */
static char *trained(const char *name, size_t *size, size_t *header) {
    char path[64];
    if (!file_there("run")) {
        file_put("text.txt", "abababababababababababababababababababababababab", 48);
        expect_done(train(TINY "--norm=bn --n-embd=4 --quiet --out=run text.txt"));
    }
    snprintf(path, sizeof path, "run/%s.safetensors", name);
    char *bytes = file_text(path, size);
    cr_assert(bytes && *size > 8);
    *header = (unsigned char)bytes[0] | (size_t)(unsigned char)bytes[1] << 8;
    struct opening opening = {.bytes = bytes, .size = *size};
    const char *problem = opening_problem(&opening);
    cr_assert(!problem && opening.file.header_checked, "%s", problem);
    safetensors_close(&opening.file);
    return bytes;
}

Test(safetensors, a_model_cut_short_anywhere) {
    size_t size, header;
    const char *bytes = trained("model", &size, &header);
    for (size_t length = 1; length < size; length++) { // fmemopen() has no empty file
        char *part = malloc(length);                   // so that a sanitizer sees reads beyond it
        memcpy(part, bytes, length);
        struct opening opening = {.bytes = part, .size = length};
        const char *problem = opening_problem(&opening);
        cr_assert(problem, "%zu bytes of %zu are enough", length, size);
        cr_assert_str_eq(problem,
                         length < 8 ? "it: not a valid safetensors file: it is shorter than 8 bytes"
                                    : "it: not a valid safetensors file: it is cut short");
        free(part);
    }
}

/* A use of a run, and the file that it reads. */
Test(safetensors, a_run_cut_short) {
    static const char *const uses[][2] = {
        {"model", "--generate=run"}, {"model", "--evaluate=run"}, {"checkpoint", "--resume=run"}};
    for (int i = 0; i < 3; i++) {
        size_t size, header;
        char path[64], line[128];
        const char *bytes = trained(uses[i][0], &size, &header);
        snprintf(path, sizeof path, "run/%s.safetensors", uses[i][0]);
        snprintf(line, sizeof line, "train: %s: not a valid safetensors file: it is ", path);
        for (size_t length = 0; length < size; length += size / 7) {
            file_put(path, bytes, length);
            train_refuses(STATUS_MACHINE, line, "%s", uses[i][1]);
        }
        file_put(path, bytes, size);
    }
    cr_expect(file_there("run/summary.json"));
}

Test(safetensors, a_checkpoint_without_its_seal) {
    size_t size, header;
    char *bytes = trained("checkpoint", &size, &header);
    char *name = strstr(bytes + 8, "header_crc32");
    name[11] ^= 1;
    file_put("run/checkpoint.safetensors", bytes, size);
    train_refuses(STATUS_MACHINE, "run/checkpoint.safetensors: its header has no checksum",
                  "--resume=run");
}

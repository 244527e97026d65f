/* A reader under libFuzzer: fuzz --target=NAME [libFuzzer's flags] [FOLDER]... See
   scripts/upkeep/fuzz.sh.

   An input is a file in memory. A reader that dies returns here without releasing what it held, so
   the memory and the files that it takes are recorded. After a death they are released here; a
   reader that returns must have released them itself. This finds leaks too (libFuzzer's own
   detection would report what a death left). */
#define _GNU_SOURCE // memfd_create
#include "tests/fuzz/fuzz.h"
#include "tests/death.h"
#include <omp.h>
#include <sanitizer/allocator_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HELD_MAX = 4096 }; // at the same time, for one input

static const struct reader *reader;
static int descriptor;
static char path[64];

static _Thread_local bool noting;
static const volatile void *pieces[HELD_MAX], *streams[HELD_MAX];

static void replace(const volatile void **list, const volatile void *from,
                    const volatile void *to) {
    for (int i = 0; i < HELD_MAX; i++)
        if (list[i] == from) {
            list[i] = to;
            return;
        }
    if (!from) abort(); // no room
}

static void on_malloc(const volatile void *piece, size_t size) {
    if (noting && piece) replace(pieces, NULL, piece);
}

static void on_free(const volatile void *piece) {
    if (noting && piece) replace(pieces, piece, NULL);
}

/* Calls by the program and the readers arrive here through the linker's --wrap. */
FILE *__real_fopen(const char *name, const char *mode);
FILE *__real_fdopen(int number, const char *mode);
int __real_fclose(FILE *file);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fdopen(int number, const char *mode);
int __wrap_fclose(FILE *file);

static FILE *note(FILE *file) {
    if (noting && file) replace(streams, NULL, file);
    return file;
}

FILE *__wrap_fopen(const char *name, const char *mode) {
    return note(__real_fopen(name, mode));
}

FILE *__wrap_fdopen(int number, const char *mode) {
    return note(__real_fdopen(number, mode));
}

int __wrap_fclose(FILE *file) {
    if (noting) replace(streams, file, NULL);
    return __real_fclose(file);
}

/* Releases what is recorded; returns how much it was. */
static int give_back(void) {
    int count = 0;
    for (int i = 0; i < HELD_MAX; i++)
        if (streams[i]) count++, __wrap_fclose((FILE *)streams[i]); // also frees its memory
    for (int i = 0; i < HELD_MAX; i++)
        if (pieces[i]) count++, free((void *)pieces[i]);
    return count;
}

static void read_input(void *unused) {
    reader->read(path);
}

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* Writes the reader's known cases into a folder, for libFuzzer to start with. */
static void put_cases(const char *folder) {
    for (const struct file_case *one = file_cases; one->reader; one++) {
        char name[4096];
        if (strcmp(one->reader, reader->name) != 0) continue;
        snprintf(name, sizeof name, "%s/case-%d", folder, (int)(one - file_cases));
        FILE *file = fopen(name, "wb");
        if (!file) continue;
        file_case_write(one, file);
        fclose(file);
    }
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *name = "", *folder = NULL;
    for (int i = 1; i < *count; i++) {
        if (!strncmp((*arguments)[i], "--target=", 9)) name = (*arguments)[i] + 9;
        if (!folder && (*arguments)[i][0] != '-') folder = (*arguments)[i];
    }
    for (reader = readers; reader->name && strcmp(reader->name, name) != 0;) reader++;
    descriptor = memfd_create("input", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (!reader->name || descriptor < 0 ||
        !__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free)) {
        fputs("fuzz: --target=NAME is missing, or the name is not in readers.c\n", stderr);
        exit(2);
    }
    if (folder) put_cases(folder);
    omp_set_num_threads(omp_get_max_threads()); // memory that OpenMP takes once and keeps
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (ftruncate(descriptor, 0) || pwrite(descriptor, data, size, 0) != (ssize_t)size) abort();
    noting = true;
    const struct death *death = caught(read_input, NULL);
    int left = give_back();
    noting = false;
    if (death->status) {
        if (death->status > 2 || !*death->line) abort(); // an error has a status and a message
    } else if (left && !reader->keeps) {
        fprintf(stderr, "fuzz: %d pieces of memory and files were not given back\n", left);
        abort();
    }
    return 0;
}

/* A safetensors file whose header length does not fit is refused at once, so most inputs are given
   one that fits. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max);
    if (strcmp(reader->name, "safetensors") != 0 || size < 8 || seed % 8 == 0) return size;
    size_t end = size;
    while (end > 8 && data[end - 1] != '}') end--;
    for (int i = 0; i < 8; i++) data[i] = (uint8_t)((uint64_t)(end - 8) >> 8 * i);
    return size;
}

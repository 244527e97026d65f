#include "tests/data/stored_file.h"
#include "data/die.h"
#include "tests/command.h"
#include "tests/death.h"
#include <criterion/criterion.h>
#include <stdio.h>

char *stored_write(const struct stored_text *texts, size_t text_count, const struct stored *arrays,
                   size_t array_count, uint64_t *header, size_t *size) {
    FILE *file = fopen("model", "wb");
    safetensors_write(file, texts, text_count, arrays, array_count);
    cr_assert(fclose(file) == 0);
    char *bytes = file_text("model", size);
    cr_assert(*size >= 8);
    *header = 0;
    for (int i = 0; i < 8; i++) *header |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    cr_assert(*header <= *size - 8, "the header is longer than the file");
    cr_expect(*header % 8 == 0 && bytes[8] == '{');
    return bytes;
}

static void open_bytes(void *context) {
    struct opening *opening = context;
    FILE *stream = fmemopen((char *)opening->bytes, opening->size, "rb");
    cr_assert(stream, "no stream");
    safetensors_open_stream(&opening->file, "it", stream);
}

const char *opening_problem(struct opening *opening) {
    const struct death *death = caught(open_bytes, opening);
    if (!death->status) return NULL;
    cr_expect(death->status == STATUS_MACHINE, "status %d: %s", death->status, death->line);
    safetensors_close(&opening->file);
    return death->line;
}

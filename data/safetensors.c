/* The format (Hugging Face safetensors): an unsigned little-endian 64-bit length, so many bytes of
   JSON, padded with spaces to a multiple of 8, then the arrays one after the other without holes.
   The JSON maps each name to its dtype, shape and [begin, end) offsets behind the header. Numbers
   are little-endian, as is every machine that this program is built for. */
#include "safetensors.h"
#include "die.h"
#include "json.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {{"F32", 4}, {"F64", 8}, {"I64", 8}};

static size_t bytes_of(const struct stored *array) {
    size_t count = types[array->type].size;
    for (int i = 0; i < array->dimensions; i++) count *= array->shape[i];
    return count;
}

void safetensors_write(FILE *stream, const struct stored_text *texts, size_t text_count,
                       const struct stored *arrays, size_t array_count) {
    char *header = NULL;
    size_t length = 0, offset = 0;
    FILE *json = open_memstream(&header, &length);
    if (!json) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    fputs("{\"__metadata__\":{", json);
    for (size_t i = 0; i < text_count; i++) {
        if (i) fputc(',', json);
        json_string(json, texts[i].name);
        fputc(':', json);
        json_string(json, texts[i].text);
    }
    fputc('}', json);
    for (size_t i = 0; i < array_count; i++) {
        const struct stored *array = &arrays[i];
        fputc(',', json);
        json_string(json, array->name);
        fprintf(json, ":{\"dtype\":\"%s\",\"shape\":[", types[array->type].name);
        for (int d = 0; d < array->dimensions; d++)
            fprintf(json, "%s%zu", d ? "," : "", array->shape[d]);
        fprintf(json, "],\"data_offsets\":[%zu,%zu]}", offset, offset + bytes_of(array));
        offset += bytes_of(array);
    }
    fputc('}', json);
    if (fclose(json)) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    uint64_t padded = (length + 7) / 8 * 8;
    for (int i = 0; i < 8; i++) fputc(padded >> 8 * i & 255, stream);
    fwrite(header, 1, length, stream);
    for (; length < padded; length++) fputc(' ', stream);
    for (size_t i = 0; i < array_count; i++)
        fwrite(arrays[i].data, 1, bytes_of(&arrays[i]), stream);
    free(header);
}

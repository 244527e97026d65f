/* The format (Hugging Face safetensors):

     8 bytes    the length of the header, unsigned
     header     JSON, padded with spaces to a multiple of 8 bytes
     data       the arrays, one after another without gaps

   The header maps each name to a dtype, a shape and the [begin, end) offsets of its bytes in the
   data. Numbers are little-endian, as every machine is that this program is built for.

   Files written here start with two texts in `__metadata__`: `header_crc32`, the CRC-32 of the
   header with eight zeros in its place, and `data_crc32`, the CRC-32 of the data. Other programs
   take them for texts like any other and may copy them to files with other bytes. So header_crc32
   counts only at the place where it is written here, and data_crc32 only if header_crc32 is
   right. */
#include "data/files/safetensors.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/files/file.h"
#include "data/files/json.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER_MAX = 100000000 }; // bytes; the format's own limit

/* What to do with files of other programs. */
#define ASK     " (scripts/load_pytorch.py FILE says what the file is)"
#define CONVERT " (scripts/load_pytorch.py FILE -o NEW converts it)"

static const struct {
    const char *name;
    size_t size;
} types[] = {[STORED_F32] = {"F32", 4}, [STORED_F64] = {"F64", 8}, [STORED_I64] = {"I64", 8}};
enum { TYPES = sizeof types / sizeof *types };

/* How a header with a checksum starts, and the place of its digits. */
static const char checked_start[] = "{\"__metadata__\":{\"header_crc32\":\"00000000\"";
enum { DIGITS = 8, DIGITS_AT = sizeof checked_start - 1 - 1 - DIGITS };

size_t stored_count(const struct stored *array) {
    size_t count = 1;
    for (int i = 0; i < array->dimensions; i++) count *= array->shape[i];
    return count;
}

size_t stored_bytes(const struct stored *array) {
    return stored_count(array) * types[array->type].size;
}

/* The list with room for one more after `count` objects. */
static void *grown(void *list, size_t count, size_t size) {
    return memory_grow(list, count + 1, size, "the header of a file");
}

void safetensors_add_text(struct safetensors *file, const char *name, char *text) {
    file->texts = grown(file->texts, file->text_count, sizeof *file->texts);
    file->texts[file->text_count++] = (struct stored_text){name, text};
}

void safetensors_add(struct safetensors *file, struct stored array) {
    file->arrays = grown(file->arrays, file->array_count, sizeof array);
    file->arrays[file->array_count++] = array;
}

/* Puts the checksum of a header into its place there. */
static void put_digits(char *header, size_t length) {
    char digits[DIGITS + 1];
    memcpy(header + DIGITS_AT, checked_start + DIGITS_AT, DIGITS);
    snprintf(digits, sizeof digits, "%08x", crc32_of(0, header, length));
    memcpy(header + DIGITS_AT, digits, DIGITS);
}

void safetensors_write(const struct safetensors *file, FILE *stream) {
    const struct stored *arrays = file->arrays;
    char *header = NULL;
    size_t length = 0, offset = 0;
    FILE *json = open_memstream(&header, &length);
    if (!json) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    uint32_t data_crc = 0;
    for (size_t i = 0; i < file->array_count; i++)
        data_crc = crc32_of(data_crc, arrays[i].data, stored_bytes(&arrays[i]));
    fprintf(json, "%s,\"data_crc32\":\"%08x\"", checked_start, data_crc);
    for (size_t i = 0; i < file->text_count; i++) {
        fputc(',', json);
        json_string(json, file->texts[i].name);
        fputc(':', json);
        json_string(json, file->texts[i].text);
    }
    fputc('}', json);
    for (size_t i = 0; i < file->array_count; i++) {
        const struct stored *array = &arrays[i];
        fputc(',', json);
        json_string(json, array->name);
        fprintf(json, ":{\"dtype\":\"%s\",\"shape\":[", types[array->type].name);
        for (int d = 0; d < array->dimensions; d++)
            fprintf(json, "%s%zu", d ? "," : "", array->shape[d]);
        fprintf(json, "],\"data_offsets\":[%zu,%zu]}", offset, offset + stored_bytes(array));
        offset += stored_bytes(array);
    }
    fputc('}', json);
    while (ftello(json) % 8) fputc(' ', json);
    if (fclose(json)) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    put_digits(header, length);
    fwrite(&(uint64_t){length}, sizeof(uint64_t), 1, stream);
    fwrite(header, 1, length, stream);
    for (size_t i = 0; i < file->array_count; i++)
        fwrite(arrays[i].data, 1, stored_bytes(&arrays[i]), stream);
    free(header);
}

/* `name` is that of an entry of the header, or "". */
static _Noreturn void refuse(const struct safetensors *file, const char *name, const char *why) {
    die(STATUS_MACHINE, "%s: not a valid safetensors file: %s%s%s", file->path, name,
        *name ? ": " : "", why);
}

/* Compares the header, `length` bytes, with its checksum, if it has one. */
static void check_header(struct safetensors *file, uint64_t length) {
    if (length < sizeof checked_start - 1 || memcmp(file->header, checked_start, DIGITS_AT)) return;
    char digits[DIGITS];
    memcpy(digits, file->header + DIGITS_AT, DIGITS);
    put_digits(file->header, length);
    if (memcmp(file->header + DIGITS_AT, digits, DIGITS))
        refuse(file, "", "its header was changed");
    file->header_checked = true;
}

/* Compares the data, `bytes` bytes after the header, with its checksum, if it has one. */
static void check_data(struct safetensors *file, uint64_t bytes) {
    const char *stored = file->header_checked ? safetensors_text(file, "data_crc32") : NULL;
    char digits[DIGITS + 1];
    uint32_t crc = 0;
    if (!stored) return;
    if (!file_crc32(file->stream, bytes, &crc)) refuse(file, "", "it is cut short");
    snprintf(digits, sizeof digits, "%08x", crc);
    if (strcmp(stored, digits) != 0) refuse(file, "", "its data was changed");
    file->data_checked = true;
}

static void read_texts(struct safetensors *file, struct json *json) {
    json_take(json, '{');
    for (bool first = true; json_more(json, '}', first); first = false) {
        const char *name = json_text(json);
        json_take(json, ':');
        safetensors_add_text(file, name, json_text(json));
    }
}

/* {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, each once, in any order. */
static void read_array(struct safetensors *file, struct json *json, struct stored *array) {
    static const char *const members[] = {"dtype", "shape", "data_offsets"};
    enum { DTYPE, SHAPE, OFFSETS, MEMBERS };
    int seen = 0;
    json_take(json, '{');
    for (bool first = true; json_more(json, '}', first); first = false) {
        const char *key = json_text(json);
        int member = 0;
        json_take(json, ':');
        while (member < MEMBERS && strcmp(key, members[member]) != 0) member++;
        if (member == MEMBERS || seen & 1 << member)
            refuse(file, array->name, "has a member that is unknown or occurs twice");
        seen |= 1 << member;
        if (member == DTYPE) {
            const char *type = json_text(json);
            while (array->type < TYPES && strcmp(type, types[array->type].name) != 0) array->type++;
            if (array->type == TYPES) refuse(file, array->name, "is not F32, F64 or I64" CONVERT);
            continue;
        }
        json_take(json, '[');
        if (member == OFFSETS) {
            array->begin = json_count(json);
            if (!json_more(json, ']', false)) refuse(file, array->name, "has only one offset");
            array->end = json_count(json);
            json_take(json, ']');
            continue;
        }
        while (json_more(json, ']', !array->dimensions)) {
            if (array->dimensions == STORED_DIMENSIONS)
                refuse(file, array->name, "has more than 8 dimensions");
            array->shape[array->dimensions++] = json_count(json);
        }
    }
    if (seen != (1 << MEMBERS) - 1)
        refuse(file, array->name, "lacks its dtype, shape or data_offsets");
}

static int by_place(const void *one, const void *other) {
    const struct stored *a = one, *b = other;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Compares texts or arrays, both of which start with their name. */
static int by_name(const void *one, const void *other) {
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Sorts texts or arrays by name. Dies if a name occurs twice. */
static void sort_names(const struct safetensors *file, void *list, size_t count, size_t size) {
    if (count) qsort(list, count, size, by_name);
    for (const char *item = list; count > 1; item += size, count--)
        if (!by_name(item, item + size))
            refuse(file, *(const char *const *)(const void *)item, "occurs twice");
}

/* Dies unless the arrays fill `bytes` bytes without gaps. */
static void check_arrays(struct safetensors *file, uint64_t bytes) {
    size_t count = file->array_count;
    uint64_t end = 0;
    if (count) qsort(file->arrays, count, sizeof *file->arrays, by_place);
    for (size_t i = 0; i < count; i++) {
        const struct stored *array = &file->arrays[i];
        if (array->begin != end)
            refuse(file, array->name, "does not start where the previous array ends");
        uint64_t size = types[array->type].size;
        for (int d = 0; d < array->dimensions; d++)
            if (__builtin_mul_overflow(size, array->shape[d], &size))
                refuse(file, array->name, "is larger than any file");
        if (array->end < array->begin || array->end - array->begin != size)
            refuse(file, array->name, "has offsets that do not match its shape");
        end = array->end;
    }
    if (end < bytes) refuse(file, "", "bytes follow the last array");
    if (end > bytes) refuse(file, "", "it is cut short");
    if (count) qsort(file->arrays, count, sizeof *file->arrays, by_name);
}

static void read_header(struct safetensors *file, uint64_t length) {
    struct json json = {file->header, file->header, file->header + length, file->path};
    if (file->header[0] != '{') refuse(file, "", "its header does not start with {");
    bool described = false;
    json.next++;
    for (bool first = true; json_more(&json, '}', first); first = false) {
        struct stored array = {.name = json_text(&json)};
        json_take(&json, ':');
        if (strcmp(array.name, "__metadata__") != 0) {
            read_array(file, &json, &array);
            safetensors_add(file, array);
            continue;
        }
        if (described) refuse(file, "", "__metadata__ occurs twice");
        described = true;
        read_texts(file, &json);
    }
    if (!json_done(&json)) refuse(file, "", "its header continues after the last }");
    sort_names(file, file->texts, file->text_count, sizeof *file->texts);
    sort_names(file, file->arrays, file->array_count, sizeof *file->arrays);
}

void safetensors_open(struct safetensors *file, const char *path) {
    struct stat status;
    if (stat(path, &status)) die(STATUS_MACHINE, "%s: %s", path, strerror(errno));
    if (S_ISDIR(status.st_mode)) die(STATUS_MACHINE, "%s: %s", path, strerror(EISDIR));
    if (!S_ISREG(status.st_mode)) // opening a FIFO would block
        die(STATUS_MACHINE, "%s: is not a regular file", path);
    FILE *stream = fopen(path, "rb");
    if (!stream) die(STATUS_MACHINE, "%s: %s", path, strerror(errno));
    *file = (struct safetensors){.stream = stream, .path = path};
    uint64_t length, rest = (uint64_t)status.st_size - sizeof length;
    if (status.st_size < (off_t)sizeof length || !fread(&length, sizeof length, 1, stream))
        refuse(file, "", "it is shorter than 8 bytes");
    if (length > HEADER_MAX)
        refuse(file, "", "its header would have more than 100000000 bytes" ASK);
    if (length > rest) refuse(file, "", "it is cut short" ASK);
    file->first = sizeof length + length;
    file->header = memory_take(length + 1, 1, "the header of a file");
    if (fread(file->header, 1, length, stream) != length) refuse(file, "", "it is cut short");
    check_header(file, length);
    read_header(file, length);
    check_arrays(file, rest - length);
    check_data(file, rest - length);
}

void safetensors_close(struct safetensors *file) {
    const bool built = !file->header; // the names of arrays, and the texts
    if (file->stream) fclose(file->stream);
    for (size_t i = 0; built && i < file->array_count; i++) free((char *)file->arrays[i].name);
    for (size_t i = 0; built && i < file->text_count; i++) free((char *)file->texts[i].text);
    free(file->header);
    free(file->texts);
    free(file->arrays);
    *file = (struct safetensors){0};
}

const char *safetensors_text(const struct safetensors *file, const char *name) {
    const struct stored_text *text =
        file->text_count
            ? bsearch(&name, file->texts, file->text_count, sizeof *file->texts, by_name)
            : NULL;
    return text ? text->text : NULL;
}

const struct stored *safetensors_find(const struct safetensors *file, const char *name) {
    return file->array_count
               ? bsearch(&name, file->arrays, file->array_count, sizeof *file->arrays, by_name)
               : NULL;
}

void safetensors_read(const struct safetensors *file, const struct stored *array,
                      enum stored_type as, void *to) {
    const size_t size = types[array->type].size, count = stored_count(array);
    if (fseeko(file->stream, (off_t)(file->first + array->begin), SEEK_SET))
        die(STATUS_MACHINE, "%s: %s", file->path, strerror(errno));
    const bool same = array->type == (int)as;
    if (same && fread(to, size, count, file->stream) != count) refuse(file, "", "it is cut short");
    for (size_t i = 0; !same && i < count; i++) {
        union {
            float f32;
            double f64;
            int64_t i64;
        } element;
        if (fread(&element, size, 1, file->stream) != 1) refuse(file, "", "it is cut short");
        const double value = array->type == STORED_I64   ? (double)element.i64
                             : array->type == STORED_F64 ? element.f64
                                                         : (double)element.f32;
        const bool integral = fabs(value) < 0x1p63 && value == floor(value);
        if (as == STORED_F32)
            ((float *)to)[i] = (float)value;
        else if (as == STORED_F64)
            ((double *)to)[i] = value;
        else
            ((int64_t *)to)[i] = array->type == STORED_I64 ? element.i64
                                 : integral                ? (int64_t)value
                                                           : INT64_MIN;
    }
}

#include "data/files/table_checksum.h"
#include "data/crc32.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

const char *const table_names[TABLES] = {"log.csv", "probes.csv", "samples.txt"};

enum { TEXT_MAX = 256 };

bool table_checksum_extend(struct table_checksum *checksum, int descriptor, uint64_t bytes) {
    struct table_checksum longer = *checksum;
    char piece[1 << 16];
    while (longer.bytes < bytes) {
        size_t wanted = bytes - longer.bytes < sizeof piece ? bytes - longer.bytes : sizeof piece;
        errno = 0;
        ssize_t read = pread(descriptor, piece, wanted, (off_t)longer.bytes);
        if (read <= 0) return false;
        longer.crc32 = crc32_of(longer.crc32, piece, (size_t)read);
        longer.bytes += (uint64_t)read;
    }
    *checksum = longer;
    return true;
}

static void put_text(char text[TEXT_MAX], const struct table_checksum checksums[TABLES]) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < TABLES; i++)
        if (checksums[i].bytes)
            used += (size_t)snprintf(text + used, TEXT_MAX - used, "%s %" PRIu64 " %08x\n",
                                     table_names[i], checksums[i].bytes, checksums[i].crc32);
}

void table_checksums_write(FILE *stream, const struct table_checksum checksums[TABLES]) {
    char text[TEXT_MAX];
    put_text(text, checksums);
    fputs(text, stream);
}

bool table_checksums_read(FILE *stream, struct table_checksum checksums[TABLES]) {
    char text[TEXT_MAX], again[TEXT_MAX];
    size_t length = fread(text, 1, sizeof text - 1, stream);
    text[length] = 0;
    memset(checksums, 0, TABLES * sizeof *checksums);
    const char *line = text;
    for (int i = 0; i < TABLES; i++) {
        size_t name = strlen(table_names[i]);
        if (strncmp(line, table_names[i], name) != 0) continue;
        sscanf(line + name, " %" SCNu64 " %" SCNx32, &checksums[i].bytes, &checksums[i].crc32);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    put_text(again, checksums);
    return checksums[TABLE_LOG].bytes && length == strlen(again) && !memcmp(text, again, length);
}

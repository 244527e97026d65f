#include "data/files/table_seal.h"
#include "data/crc32.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

const char *const table_names[TABLES] = {"log.csv", "probes.csv"};

enum { LONGEST_TEXT = 256 };

bool table_seal_extend(struct table_seal *seal, int descriptor, uint64_t bytes) {
    struct table_seal longer = *seal;
    char piece[1 << 16];
    while (longer.bytes < bytes) {
        size_t wanted = bytes - longer.bytes < sizeof piece ? bytes - longer.bytes : sizeof piece;
        errno = 0;
        ssize_t read = pread(descriptor, piece, wanted, (off_t)longer.bytes);
        if (read <= 0) return false;
        longer.crc32 = crc32_of(longer.crc32, piece, (size_t)read);
        longer.bytes += (uint64_t)read;
    }
    *seal = longer;
    return true;
}

static void put_text(char text[LONGEST_TEXT], const struct table_seal seals[TABLES]) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < TABLES; i++)
        if (seals[i].bytes)
            used += (size_t)snprintf(text + used, LONGEST_TEXT - used, "%s %" PRIu64 " %08x\n",
                                     table_names[i], seals[i].bytes, seals[i].crc32);
}

void table_seals_write(FILE *stream, const struct table_seal seals[TABLES]) {
    char text[LONGEST_TEXT];
    put_text(text, seals);
    fputs(text, stream);
}

bool table_seals_read(FILE *stream, struct table_seal seals[TABLES]) {
    char text[LONGEST_TEXT], again[LONGEST_TEXT];
    size_t length = fread(text, 1, sizeof text - 1, stream);
    text[length] = 0;
    memset(seals, 0, TABLES * sizeof *seals);
    const char *line = text;
    for (int i = 0; i < TABLES; i++) {
        size_t name = strlen(table_names[i]);
        if (strncmp(line, table_names[i], name) != 0) continue;
        sscanf(line + name, " %" SCNu64 " %" SCNx32, &seals[i].bytes, &seals[i].crc32);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    put_text(again, seals);
    return seals[TABLE_LOG].bytes && length == strlen(again) && !memcmp(text, again, length);
}

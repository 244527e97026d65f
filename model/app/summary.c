/* The checksum of a text that contains the checksum: it is computed with zeros in its place. */
#define _GNU_SOURCE // memmem()
#include "model/app/summary.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/files/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OWN_NAME "\"crc32\": \""
#define LOG_NAME "\"log_crc32\": \""
enum { DIGITS = 8, START = sizeof SUMMARY_START - 1 };

/* The digits of a checksum in a text that starts with SUMMARY_START. */
static char *digits_of(char *text, const char *name) {
    return text + (strstr(SUMMARY_START, name) - SUMMARY_START) + strlen(name);
}

static void put_digits(char *to, uint32_t crc) {
    char digits[DIGITS + 1];
    snprintf(digits, sizeof digits, "%08x", crc);
    memcpy(to, digits, DIGITS);
}

void summary_seal(char *text, size_t length, uint32_t log_crc32) {
    put_digits(digits_of(text, LOG_NAME), log_crc32);
    put_digits(digits_of(text, OWN_NAME), 0);
    put_digits(digits_of(text, OWN_NAME), crc32_of(0, text, length));
}

/* Whether the text of a summary, of `length` bytes, has the right checksums. `text` is changed. */
static bool text_fits(char *text, size_t length, const char *log) {
    char start[START + 1] = SUMMARY_START, written[DIGITS];
    uint32_t crc = 0;
    if (length < START) return !memmem(text, length, OWN_NAME, strlen(OWN_NAME));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? LOG_NAME : OWN_NAME;
        memcpy(digits_of(start, name), digits_of(text, name), DIGITS);
    }
    if (memcmp(text, start, START) != 0)
        return !memmem(text, length, OWN_NAME, strlen(OWN_NAME)) &&
               !memmem(text, length, LOG_NAME, strlen(LOG_NAME));
    memcpy(written, digits_of(text, OWN_NAME), DIGITS);
    put_digits(digits_of(text, OWN_NAME), 0);
    put_digits(digits_of(start, OWN_NAME), crc32_of(0, text, length));
    if (memcmp(written, digits_of(start, OWN_NAME), DIGITS) != 0) return false;
    if (!file_checksum(log, &crc)) return true; // there is no log
    put_digits(digits_of(start, LOG_NAME), crc);
    return !memcmp(digits_of(start, LOG_NAME), digits_of(text, LOG_NAME), DIGITS);
}

bool summary_fits(const char *folder) {
    char path[4096], log[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s/summary.json", folder);
    snprintf(log, sizeof log, "%s/log.csv", folder);
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return true;
    FILE *file = fopen(path, "rb");
    if (!file) return true;
    const size_t size = (size_t)status.st_size;
    char *text = memory_take(size + 1, 1, "summary.json");
    const bool fits = fread(text, 1, size, file) == size && text_fits(text, size, log);
    fclose(file);
    free(text);
    return fits;
}

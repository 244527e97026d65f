#include "data/files/line.h"

ssize_t line_read(FILE *file, char *text, size_t size) {
    size_t length = 0;
    int byte = 0;
    while (byte != '\n' && length + 1 < size && (byte = getc_unlocked(file)) != EOF)
        text[length++] = (char)byte;
    text[length] = 0;
    if (length + 1 < size || byte == '\n') return (ssize_t)length;
    return getc_unlocked(file) == EOF ? (ssize_t)length : -1;
}

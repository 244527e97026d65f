#include "crc32.h"

uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *in = bytes;
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    crc = ~crc;
    for (size_t i = 0; i < count; i++) crc = table[(crc ^ in[i]) & 255] ^ crc >> 8;
    return ~crc;
}

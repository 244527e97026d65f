/* Sixteen bytes at a time, by table lookups ("slicing", Kounavis and Berry 2005). */
#include "data/crc32.h"
#include <string.h>

enum { PIECE = 16 };

static uint32_t by_place[PIECE][256]; // [k][b]: the CRC of byte b followed by k zero bytes

static void make_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ crc >> 1 : crc >> 1;
        by_place[0][i] = crc;
    }
    for (int k = 1; k < PIECE; k++)
        for (int i = 0; i < 256; i++)
            by_place[k][i] = by_place[0][by_place[k - 1][i] & 255] ^ by_place[k - 1][i] >> 8;
}

uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *in = bytes;
    if (!by_place[0][1]) make_tables();
    crc = ~crc;
    for (; count >= PIECE; in += PIECE, count -= PIECE) {
        uint32_t word[PIECE / 4]; // little-endian, as every machine that this program is built for
        memcpy(word, in, sizeof word);
        word[0] ^= crc;
        crc = 0;
        for (int i = 0, place = PIECE - 1; i < PIECE / 4; i++)
            for (int byte = 0; byte < 4; byte++, place--)
                crc ^= by_place[place][word[i] >> 8 * byte & 255];
    }
    for (; count; in++, count--) crc = by_place[0][(crc ^ *in) & 255] ^ crc >> 8;
    return ~crc;
}

/* Eight bytes at a time by tables ("slicing by 8", Kounavis and Berry 2005): by_place[k][b] is the
   CRC of byte b with k zero bytes after it. */
#include "crc32.h"
#include <string.h>

static uint32_t by_place[8][256];

static void make_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ crc >> 1 : crc >> 1;
        by_place[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            by_place[k][i] = by_place[0][by_place[k - 1][i] & 255] ^ by_place[k - 1][i] >> 8;
}

uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *in = bytes;
    if (!by_place[0][1]) make_tables();
    crc = ~crc;
    for (; count >= 8; in += 8, count -= 8) {
        uint32_t low, high; // little-endian, as every machine that this program is built for
        memcpy(&low, in, sizeof low);
        memcpy(&high, in + 4, sizeof high);
        low ^= crc;
        crc = by_place[7][low & 255] ^ by_place[6][low >> 8 & 255] ^ by_place[5][low >> 16 & 255] ^
              by_place[4][low >> 24] ^ by_place[3][high & 255] ^ by_place[2][high >> 8 & 255] ^
              by_place[1][high >> 16 & 255] ^ by_place[0][high >> 24];
    }
    for (; count; in++, count--) crc = by_place[0][(crc ^ *in) & 255] ^ crc >> 8;
    return ~crc;
}

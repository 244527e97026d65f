/* CRC-32 (IEEE 802.3, as zlib's). It finds every change of one, two or three bits in up to 11 KB,
   and every single changed bit in data of any length. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The CRC of data that is given in pieces: `crc` is 0 for the first piece, and the previous result
   for each later one. The first call fills tables, so two threads must not make it at once. */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count);

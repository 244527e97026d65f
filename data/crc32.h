/* CRC-32 (IEEE 802.3, as zlib's). It finds every change of one, two or three bits in up to 11 KB,
   and every single changed bit in data of any length. */
#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of bytes that come in pieces: `crc` is 0 for the first piece, then the last result. The
   first call makes tables, so it must not run in two threads at once. */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count);

#endif

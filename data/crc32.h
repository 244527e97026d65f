/* CRC-32 (IEEE 802.3, as zlib's). */
#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes that come piece by piece: `crc` is 0 at first, then what the piece before gave. */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t count);

#endif

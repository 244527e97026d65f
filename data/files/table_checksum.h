/* Checksums of the tables that a run writes row by row. The file log.crc32 in the run's folder has
   a line for each table, as the table was when the last checkpoint was written:

     log.csv BYTES CRC32
     probes.csv BYTES CRC32
     samples.txt BYTES CRC32

   BYTES is the table's length. Rows that were added later are not covered; resuming from the
   checkpoint drops them. The file is written before the checkpoint, so that it always covers the
   rows that a checkpoint needs. The checksums are not in the checkpoint itself because rows contain
   times, and two runs with the same options shall have the same checkpoint. */
#ifndef TABLE_CHECKSUM_H
#define TABLE_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_LOG, TABLE_PROBES, TABLE_SAMPLES, TABLES };
extern const char *const table_names[TABLES];

/* The CRC-32 of the first `bytes` bytes of a table; bytes 0: there is no checksum. */
struct table_checksum {
    uint64_t bytes;
    uint32_t crc32;
};

/* Extends the checksum to the first `bytes` bytes of an open file. Returns false if they cannot be
   read (errno is set) or the file is shorter (errno is 0). The checksum is then unchanged. */
bool table_checksum_extend(struct table_checksum *checksum, int descriptor, uint64_t bytes);

/* Write the text of log.crc32 to a stream, and read it. Reading returns false if the text differs
   in any way from what would be written. */
void table_checksums_write(FILE *stream, const struct table_checksum checksums[TABLES]);
bool table_checksums_read(FILE *stream, struct table_checksum checksums[TABLES]);

#endif

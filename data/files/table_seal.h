/* Checksums of the tables that a run writes row by row. log.crc32 in the run's folder holds them, a
   line for each table, as both were when the last checkpoint was written:

     log.csv BYTES CRC32
     probes.csv BYTES CRC32

   BYTES is the table's length. Rows that were added later are not covered: a run that goes on from
   the checkpoint drops them. The file is written before the checkpoint, so the rows that an older
   checkpoint covers are a part of those here. It is apart from the checkpoint because rows hold
   times: the checkpoints of two equal runs stay equal. */
#ifndef TABLE_SEAL_H
#define TABLE_SEAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_LOG, TABLE_PROBES, TABLES };
extern const char *const table_names[TABLES];

/* The first `bytes` bytes of a table; 0: there is no checksum. */
struct table_seal {
    uint64_t bytes;
    uint32_t crc32;
};

/* Extends the seal to the first `bytes` bytes of an open file. Returns false if they cannot be read
   (errno is set) or the file is shorter (errno is 0). The seal is then unchanged. */
bool table_seal_extend(struct table_seal *seal, int descriptor, uint64_t bytes);

/* The text of log.crc32, to a stream and back. Reading returns false if the stream holds anything
   that writing would not write. */
void table_seals_write(FILE *stream, const struct table_seal seals[TABLES]);
bool table_seals_read(FILE *stream, struct table_seal seals[TABLES]);

#endif

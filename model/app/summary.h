/* The checksums of summary.json, which a run writes at its end. It starts with two members:

     "crc32"       the CRC-32 of its own text, with eight zeros in the place of these digits
     "log_crc32"   the CRC-32 of log.csv, which is then complete

   Two, so that no single flipped bit makes a summary look like one of an older version, which has
   neither. scripts/common/runs.py checks them too. */
#ifndef SUMMARY_H
#define SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUMMARY_START "{\n  \"crc32\": \"00000000\",\n  \"log_crc32\": \"00000000\",\n"

/* Puts the checksums into a text that starts with SUMMARY_START. */
void summary_seal(char *text, size_t length, uint32_t log_crc32);

/* Whether the run in this folder is as it was when it ended: false if its summary.json or log.csv
   does not match a checksum. True if there is nothing to check. */
bool summary_fits(const char *folder);

#endif

/* The standard streams. */
#pragma once

/* Opens each standard stream that the caller closed on /dev/null. Otherwise the next file would get
   its number, and messages would be written to that file. Reading from standard input then
   fails. */
void streams_open(void);

/* For what only prints, such as --evaluate: dies with status 1 if the caller closed standard output,
   because then nobody would see the result. Training leaves its results in files. */
void streams_expect_output(void);

/* Flushes standard output; dies with status 1 if it cannot be written. */
void streams_flush(void);

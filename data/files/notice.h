/* Notes on standard error that are not errors, such as "note: x.ini was changed". They are held
   back until it is known whether --quiet silences them; if the program ends with an error before
   that, they are not shown. */
#ifndef NOTICE_H
#define NOTICE_H

#include <stdbool.h>

/* Takes one line without "note: " and newline. The same line is shown only once. */
void notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shows the lines held back and from now on each line at once; if not `shown`, drops all of
   them. */
void notice_start(bool shown);

#endif

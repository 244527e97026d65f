/* Lines on standard error that are not errors, such as "note: x.ini was changed". They wait until
   it is known whether --quiet silences them, and so never come before an error of the start. */
#ifndef NOTICE_H
#define NOTICE_H

#include <stdbool.h>

/* One line, without its end. The same line is shown once. */
void notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shows the lines that wait and all later ones at once; or with `shown` false none of them. */
void notice_start(bool shown);

#endif

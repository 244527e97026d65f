/* What the process shares with its caller: standard streams and signals. */
#ifndef PROCESS_H
#define PROCESS_H

#include <signal.h>

/* ---- standard streams ---- */

/* Opens each standard stream that the caller closed on /dev/null. Otherwise the next file would get
   its number, and messages would be written to that file. Reading from standard input then fails. */
void streams_open(void);

/* Flushes standard output; dies with status 1 if it cannot be written. */
void streams_flush(void);

/* ---- SIGINT and SIGTERM: training finishes its step, saves, and ends ---- */

/* The signal that the last interrupt_now() saw: the first one that this process received, or with
   several ranks the largest number among theirs; 0: none. */
extern int interrupt_signal;

/* Looks for a signal, of any rank; returns interrupt_signal. All ranks call it at the same points. */
int interrupt_now(void);

/* From interrupt_catch() to interrupt_release() the signals are only noted. A second
   Ctrl-C ends the program at once. A second SIGTERM does not, since some programs send it to a
   process and then to the process's group. */
void interrupt_catch(void);
void interrupt_release(void);

#endif

/* SIGINT and SIGTERM: training finishes its step, saves, and ends. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <signal.h>

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

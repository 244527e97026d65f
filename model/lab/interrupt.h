/* SIGINT and SIGTERM: training finishes its step, saves, and ends. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <signal.h>

/* The first signal that arrived; 0: none. */
extern volatile sig_atomic_t interrupt_signal;

/* From interrupt_catch() to interrupt_release() the signals only set interrupt_signal. A second
   Ctrl-C ends the program at once. A second SIGTERM does not, since some programs send it to a
   process and then to the process's group. */
void interrupt_catch(void);
void interrupt_release(void);

#endif

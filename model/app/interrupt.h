/* SIGINT, SIGTERM and SIGHUP: training finishes its step, saves, and ends. */
#pragma once

#include <stdbool.h>

/* The signal that the last interrupt_now() saw: the first one that this process received, or with
   several ranks the largest number among theirs; 0: none. */
extern int interrupt_signal;

/* Looks for a signal, of any rank; returns interrupt_signal. All ranks call it at the same
   points. */
int interrupt_now(void);

/* Whether the signals are only noted, instead of ending the program. Then a second Ctrl-C ends it
   at once. A second SIGTERM does not, since some programs send it to a process and then to the
   process's group. A signal that this process was started to ignore stays ignored. */
void interrupt_note(bool noted);

#include "model/lab/interrupt.h"

volatile sig_atomic_t interrupt_signal;

static void note(int number) {
    if (!interrupt_signal) interrupt_signal = number;
    signal(SIGINT, SIG_DFL);
}

void interrupt_catch(void) {
    signal(SIGINT, note);
    signal(SIGTERM, note);
}

void interrupt_release(void) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

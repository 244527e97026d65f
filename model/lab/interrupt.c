/* The first signal counts; a second Ctrl-C ends the program at once. */
#include "model/lab/interrupt.h"
#include "model/math/ranks.h"
#include <signal.h>

int interrupt_signal;
static volatile sig_atomic_t caught;

int interrupt_now(void) {
    return interrupt_signal = ranks_largest(caught);
}

static void note(int number) {
    if (!caught) caught = number;
    signal(SIGINT, SIG_DFL);
}

void interrupt_note(bool noted) {
    signal(SIGINT, noted ? note : SIG_DFL);
    signal(SIGTERM, noted ? note : SIG_DFL);
}

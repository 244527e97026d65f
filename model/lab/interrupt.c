#include "model/lab/interrupt.h"
#include "model/math/ranks.h"

int interrupt_signal;
static volatile sig_atomic_t caught;

int interrupt_now(void) {
    return interrupt_signal = ranks_largest(caught);
}

static void note(int number) {
    if (!caught) caught = number;
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

/* The first signal counts; a second Ctrl-C ends the program at once. */
#include "model/app/interrupt.h"
#include "model/math/ranks.h"
#include <signal.h>

int interrupt_signal;
static volatile sig_atomic_t caught;

int interrupt_now(void) {
    return interrupt_signal = ranks_largest(caught);
}

/* What the parent process made this one ignore stays ignored, as SIGINT in a script's background
   jobs and SIGHUP under nohup. */
static void react(int number, void (*reaction)(int)) {
    struct sigaction now;
    if (!sigaction(number, NULL, &now) && now.sa_handler != SIG_IGN) signal(number, reaction);
}

static void note(int number) {
    if (!caught) caught = number;
    react(SIGINT, SIG_DFL);
}

void interrupt_note(bool noted) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    for (int i = 0; i < 3; i++) react(numbers[i], noted ? note : SIG_DFL);
}

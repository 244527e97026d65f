/* A processor that lacks an instruction of this build would end the program without a word. It ends
   with status 1 and a line instead.

   Compiled without -march (see the Makefile), so that its code runs on any processor. Nothing calls
   it: it comes before any other constructor, whose code may be what cannot run. Not on a Mac, where
   constructors have no order. */
#include "data/die.h"
#include <signal.h>
#include <unistd.h>

#ifdef __x86_64__
#    define COMMON "x86-64-v2"
#else
#    define COMMON "armv8-a"
#endif

#ifndef __APPLE__
static void illegal(int number) {
    static const char line[] =
        "train: processor: lacks instructions for which this program was built (build it here with "
        "make, or for many processors with make ARCH=" COMMON ")\n";
    (void)!write(STDERR_FILENO, line, sizeof line - 1); // what else could it do
    _exit(STATUS_MACHINE);
}

__attribute__((constructor(101))) static void look(void) {
    signal(SIGILL, illegal);
}
#endif

/* What the program's code dies of, as a value. The tests' program and the fuzz targets are linked
   with death.c in the place of data/die.c. */
#ifndef DEATH_H
#define DEATH_H

struct death {
    int status;      // 0: it lives
    char line[8192]; // else the message
};

/* Calls the function and comes back even if it dies. What it held then stays held: memory and open
   files are the caller's to give back, or to leave to the end of a process of its own (call()). */
const struct death *caught(void (*function)(void *), void *context);

#endif

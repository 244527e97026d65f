/* Catches die(). */
#pragma once

struct death {
    int status;      // 0: the function returned
    char line[8192]; // otherwise the message
};

/* Calls the function and returns even if it dies. Memory and open files that it held then stay with
   it: the caller releases them, or leaves them to the end of a child process (call()). */
const struct death *caught(void (*function)(void *), void *context);

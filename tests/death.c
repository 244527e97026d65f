#include "tests/death.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// the program's own die(), under another name
#define die die_at_once
#include "data/die.c"
#undef die

_Noreturn void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

static jmp_buf back;
static bool catching;
static struct death death;

const struct death *caught(void (*function)(void *), void *context) {
    death = (struct death){0};
    catching = true;
    if (!setjmp(back)) function(context);
    catching = false;
    return &death;
}

void die(int status, const char *format, ...) {
    char line[sizeof death.line];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (!catching) die_at_once(status, "%s", line);
    death.status = status;
    strcpy(death.line, line);
    longjmp(back, 1);
}

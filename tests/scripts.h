/* The scripts run as a person would run them, and what they leave; for suites that work in a folder
   of command.h. */
#ifndef SCRIPTS_H
#define SCRIPTS_H

#include "tests/command.h"

enum { WORDS = 32 }; // of a command, at most

void text_put(const char *folder, const char *name, const char *text);

/* Becomes the script words[0] of scripts/; the words end with NULL. */
void exec_script(void *words);

/* Runs a script with blank-separated arguments; a ~ in them stands for a blank. */
struct ending script(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs a command line of bash. */
struct ending bash(const char *command);

/* Makes a file an executable program with this text. */
void program_put(const char *name, const char *text);

/* Makes bin/NAME a program with this text, which goes before others of its name on PATH. */
void command_put(const char *name, const char *text);

void expect_line(const char *text, const char *line);
void expect_part(const char *text, const char *part); // no text fails too
void expect_success(const struct ending *ending);     // with nothing on standard error
void expect_picture(const char *name, const char *begin, const char *end);

#endif

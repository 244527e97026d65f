/* Runs scripts as a person would, and checks what they leave; for suites that work in a folder of
   command.h. */
#ifndef SCRIPTS_H
#define SCRIPTS_H

#include "tests/command.h"

enum { WORDS = 32 }; // at most in a command

void text_put(const char *folder, const char *name, const char *text);

/* Replaces this process by the script words[0] of scripts/; the words end with NULL. */
void exec_script(void *words);

/* Runs a script with arguments separated by blanks; a ~ stands for a blank within an argument. */
struct ending script(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs a command line of bash. */
struct ending bash(const char *command);

/* Makes a file an executable program with this text. */
void program_put(const char *name, const char *text);

/* Makes bin/NAME an executable program with this text, and puts bin/ at the front of PATH. */
void command_put(const char *name, const char *text);

void expect_line(const char *text, const char *line);
void expect_part(const char *text, const char *part); // fails if there is no text
void expect_success(const struct ending *ending);     // and nothing on standard error
void expect_picture(const char *name, const char *begin, const char *end);

#endif

#define _GNU_SOURCE // realpath, setenv
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void text_put(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file_put(path, text, strlen(text));
}

void exec_script(void *context) {
    char **words = context, path[4096];
    const char *scripts = getenv("SCRIPTS");
    snprintf(path, sizeof path, "%s/%s", scripts ? scripts : "scripts", words[0]);
    execv(path, words);
    perror(path);
    _exit(99);
}

struct ending script(const char *format, ...) {
    char line[4096], *words[WORDS];
    va_list arguments;
    cr_assert(getenv("SCRIPTS"), "SCRIPTS must name the folder of scripts (`make check` sets it)");
    va_start(arguments, format);
    cr_assert((size_t)vsnprintf(line, sizeof line, format, arguments) < sizeof line);
    va_end(arguments);
    int count = split(line, words, WORDS);
    for (int i = 1; i < count; i++)
        for (char *c = words[i]; *c; c++)
            if (*c == '~') *c = ' ';
    return call(exec_script, words);
}

static void exec_bash(void *command) {
    execlp("bash", "bash", "-c", command, (char *)NULL);
    perror("bash");
    _exit(99);
}

struct ending bash(const char *command) {
    return call(exec_bash, (char *)command);
}

void program_put(const char *name, const char *text) {
    file_put(name, text, strlen(text));
    cr_assert(!chmod(name, 0755));
}

void command_put(const char *name, const char *text) {
    char file[256], folder[4096], path[16384];
    const char *before = getenv("PATH");
    snprintf(file, sizeof file, "bin/%s", name);
    mkdir("bin", 0777);
    unlink(file); // do not write through a link
    program_put(file, text);
    cr_assert(realpath("bin", folder));
    if (strncmp(before, folder, strlen(folder)) != 0) {
        snprintf(path, sizeof path, "%s:%s", folder, before);
        setenv("PATH", path, 1);
    }
}

void expect_line(const char *text, const char *line) {
    char bounded[512];
    snprintf(bounded, sizeof bounded, "\n%s\n", line);
    cr_expect(strstr(text, bounded), "no line %s in:\n%s", line, text);
}

void expect_part(const char *text, const char *part) {
    cr_expect(text && strstr(text, part), "no \"%s\" in:\n%s", part, text ? text : "no file");
}

void expect_success(const struct ending *ending) {
    cr_expect(ending->status == 0, "status %d: %s", ending->status, ending->err);
    cr_expect(!*ending->err, "on standard error: %s", ending->err);
}

void expect_picture(const char *name, const char *begin, const char *end) {
    size_t bytes = 0;
    char *text = file_text(name, &bytes);
    cr_assert(text && bytes > 1000, "%s: %zu bytes", name, bytes);
    cr_expect(!memcmp(text, begin, strlen(begin)), "%s: has another beginning", name);
    bool found = false;
    for (size_t at = bytes - 16; at + strlen(end) <= bytes; at++)
        found |= !memcmp(text + at, end, strlen(end));
    cr_expect(found, "%s: has another end", name);
}

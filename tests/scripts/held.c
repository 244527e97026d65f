#define _GNU_SOURCE // setenv, realpath
#include "tests/scripts/held.h"
#include "tests/json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void held_enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    char real[4096];
    cr_assert(realpath(getenv("TRAIN"), real));
    setenv("REAL", real, 1);
    program_put("held",
                "#!/bin/bash\n"
                "all=$*\n"
                "case $all in *=a/runs/*)\n"
                "    name=${all#*=a/runs/} how=${all%%=a/runs/*}\n"
                "    echo \"${name%% *} $$ ${how##* }\" >>begun\n"
                "    for ((i = 0; i < 600; i++)); do [ ! -e go ] || break; sleep 0.05; done ;;\n"
                "esac\n"
                "exec \"$REAL\" \"$@\"\n");
}

void held_start(void) {
    char path[4096];
    cr_assert(realpath("held", path));
    setenv("TRAIN", path, 1);
}

void held_release(void) {
    file_put("go", "", 0);
}

void hide_gnu_parallel(void) {
    char path[8192];
    cr_assert(!mkdir("bin", 0777));
    program_put("bin/parallel",
                "#!/bin/sh\necho \"parallel: invalid option -- '-'\" >&2\nexit 1\n");
    cr_assert(realpath("bin", path));
    strcat(strcat(path, ":"), getenv("PATH"));
    setenv("PATH", path, 1);
}

int held_lines(const char *name) {
    int lines = 0;
    for (const char *text = file_text(name, NULL); text && *text; text++) lines += *text == '\n';
    return lines;
}

void held_wait(const char *name, int count) {
    int lines = 0;
    for (int tries = 0; tries < 1500 && lines < count; tries++) {
        pause_for(20000);
        FILE *file = fopen(name, "r");
        lines = 0;
        for (int c; file && (c = fgetc(file)) != EOF;) lines += c == '\n';
        if (file) fclose(file);
    }
    cr_assert(lines >= count, "%s: never had %d lines", name, count);
}

pid_t held_process(const char *name) {
    const char *line = strstr(file_text("begun", NULL), name);
    cr_assert(line, "%s has not started", name);
    return (pid_t)atol(line + strlen(name));
}

void expect_exit_reason(const char *run, const char *reason) {
    char path[256];
    snprintf(path, sizeof path, "%s/summary.json", run);
    const char *summary = file_text(path, NULL);
    cr_assert(summary, "%s is missing", path);
    cr_expect(json_is(json_member(summary, "exit_reason"), reason), "%s is not %s", run, reason);
}

void expect_status(const struct ending *ending, int status) {
    cr_expect(ending->status == status, "status %d, not %d: %s", ending->status, status,
              ending->err);
}

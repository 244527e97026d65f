/* Starts commands and calls in children, and collects their exit status and what they print. */
#define _GNU_SOURCE // on_exit
#include "tests/command.h"
#include "data/die.h"
#include "tests/support.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[4096];

void folder_enter(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/normlab-test-XXXXXX", parent ? parent : "/tmp");
    cr_assert(mkdtemp(folder) && !chdir(folder), "%s: cannot be made or entered", folder);
}

void folder_leave(void) {
    cr_expect(!chdir("/") && !system(say("rm -rf '%s'", folder)), "%s: cannot be removed", folder);
}

void file_put(const char *name, const char *text, size_t bytes) {
    FILE *file = fopen(name, "wb");
    cr_assert(file, "%s: cannot be written", name);
    cr_assert(fwrite(text, 1, bytes, file) == bytes);
    cr_assert(fclose(file) == 0);
}

char *file_text(const char *name, size_t *bytes) {
    struct stat status;
    FILE *file = fopen(name, "rb");
    cr_assert(file && !fstat(fileno(file), &status), "%s is missing", name);
    char *text = hold((size_t)status.st_size + 1);
    size_t used = fread(text, 1, (size_t)status.st_size, file);
    fclose(file);
    if (bytes) *bytes = used;
    return text;
}

char *say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments) + 1;
    va_end(arguments);
    char *text = hold((size_t)size);
    va_start(arguments, format);
    vsnprintf(text, (size_t)size, format, arguments);
    va_end(arguments);
    return text;
}

bool file_there(const char *name) {
    return !access(name, F_OK);
}

size_t files_in(const char *name) {
    DIR *listing = opendir(name);
    cr_assert(listing, "%s: cannot be listed", name);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(listing));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(listing);
    return count;
}

void text_enter(void) {
    static const char line[] = "the cat sees a dog, and the dog sees the cat.\n";
    char text[2000];
    folder_enter();
    for (size_t i = 0; i < sizeof text; i++) text[i] = line[i % (sizeof line - 1)];
    file_put("text.txt", text, sizeof text);
}

void corpora_enter(void) {
    text_enter();
    FILE *file = fopen("items.txt", "wb");
    cr_assert(file, "items.txt: cannot be written");
    for (size_t i = 0; i < 100; i++) {
        for (size_t k = 0; k <= i * 7 % 6; k++) fputc("abcdefgh"[(i + k * (i / 8 + 1)) % 8], file);
        fputc('\n', file);
    }
    cr_assert(fclose(file) == 0);
}

/* Forks. Returns twice, in the child with id 0, which ignores no signal, even if whoever started the
   tests does, as a script does with SIGINT in the background. */
static struct process start(void) {
    struct process process = {.out = tmpfile(), .err = tmpfile()};
    cr_assert(process.out && process.err, "no temporary files");
    process.id = fork();
    cr_assert(process.id >= 0, "no new process");
    if (process.id) return process;
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    alarm(600);
    int in = open("/dev/null", O_RDONLY);
    if (dup2(in, 0) < 0 || dup2(fileno(process.out), 1) < 0 || dup2(fileno(process.err), 2) < 0)
        _exit(99);
    return process;
}

static void take(FILE *file, char *text, size_t size) {
    rewind(file);
    size_t length = fread(text, 1, size, file);
    cr_assert(length < size, "too much output for the test");
    text[length] = 0;
    fclose(file);
}

struct ending process_end(struct process process) {
    static struct ending ending;
    int status;
    cr_assert(waitpid(process.id, &status, 0) == process.id);
    ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    take(process.out, ending.out, sizeof ending.out);
    take(process.err, ending.err, sizeof ending.err);
    return ending;
}

/* The child is a copy of the test: what the test has not freed yet is no leak of the child's. */
static void leave_at_once(int status, void *unused) {
    fflush(NULL);
    _exit(status);
}

struct ending call(void (*function)(void *), void *context) {
    fflush(NULL);
    struct process process = start();
    if (process.id) return process_end(process);
    on_exit(leave_at_once, NULL);
    function(context);
    exit(0);
}

struct process bash_start(const char *command) {
    struct process process = start();
    if (process.id) return process;
    execlp("bash", "bash", "-c", command, (char *)NULL);
    _exit(99);
}

struct ending bash(const char *command) {
    return process_end(bash_start(command));
}

void expect_refusal(struct ending ending, int status, const char *part) {
    const char *end = strchr(ending.err, '\n');
    cr_expect(ending.status == status, "status %d, not %d: %s", ending.status, status, ending.err);
    cr_expect(!strncmp(ending.err, "train: ", 7), "not \"train: ...\": %s", ending.err);
    cr_expect(end && !end[1], "not one line: %s", ending.err);
    cr_expect(strstr(ending.err, part), "no \"%s\" in: %s", part, ending.err);
    cr_expect(!*ending.out, "on standard output: %s", ending.out);
}

void expect_done(struct ending ending) {
    cr_assert(ending.status == 0, "status %d: %s", ending.status, ending.err);
}

void expect_part(const char *text, const char *part) {
    cr_expect(text && strstr(text, part), "no \"%s\" in: %s", part, text ? text : "nothing");
}

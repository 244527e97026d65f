/* Starts ./train and shell commands, and collects their exit status and what they print. */
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 128, LONGEST_RUN = 60 }; // of a run, in seconds

static char folder[4096], program[4096];

void folder_enter(void) {
    const char *parent = getenv("TMPDIR"), *path = getenv("TRAIN");
    cr_assert(!path || realpath(path, program), "TRAIN=%s: no such program", path);
    snprintf(folder, sizeof folder, "%s/normlab-test-XXXXXX", parent ? parent : "/tmp");
    cr_assert(mkdtemp(folder) && !chdir(folder), "%s: cannot be made or entered", folder);
}

void skip(const char *suite, const char *why) {
    fprintf(stderr, "[SKIP] %s: %s\n", suite, why);
    cr_skip_test("%s", why);
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

void corpus_put_tiny(const char *name, size_t characters) {
    static const char line[] = "the cat sees a dog, and the dog sees the cat.\n";
    char *text = hold(characters);
    for (size_t i = 0; i < characters; i++) text[i] = line[i % (sizeof line - 1)];
    file_put(name, text, characters);
}

void text_enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
}

void items_put(const char *name, size_t items) {
    FILE *file = fopen(name, "wb");
    cr_assert(file, "%s: cannot be written", name);
    for (size_t i = 0; i < items; i++) {
        for (size_t k = 0; k <= i * 7 % 6; k++) fputc("abcdefgh"[(i + k * (i / 8 + 1)) % 8], file);
        fputc('\n', file);
    }
    cr_assert(fclose(file) == 0);
}

void corpora_enter(void) {
    text_enter();
    items_put("items.txt", 100);
}

static int open_or_die(const char *name, int flags) {
    int descriptor = open(name, flags, 0666);
    if (descriptor < 0) {
        perror(name);
        _exit(99);
    }
    return descriptor;
}

/* Forks. Returns twice, in the child with id 0, which ignores no signal, even if whoever started the
   tests does, as a script does with SIGINT in the background. */
static struct process start(struct surroundings around) {
    struct process process = {.out = tmpfile(), .err = tmpfile()};
    cr_assert(process.out && process.err, "no temporary files");
    process.id = fork();
    cr_assert(process.id >= 0, "no new process");
    if (process.id) return process;
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    alarm(LONGEST_RUN);
    int in = open_or_die(around.input ? around.input : "/dev/null", O_RDONLY);
    int out = around.output ? open_or_die(around.output, O_WRONLY | O_CREAT) : fileno(process.out);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(fileno(process.err), 2) < 0) _exit(99);
    if (around.file_limit) {
        struct rlimit limit = {around.file_limit, around.file_limit};
        if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(99);
    }
    return process;
}

static void take(FILE *file, char *text, size_t size) {
    rewind(file);
    size_t length = fread(text, 1, size, file);
    cr_assert(length < size, "too much output for the test");
    text[length] = 0;
    fclose(file);
}

struct ending process_end(struct process process, int number) {
    if (number) kill(process.id, number);
    static struct ending ending;
    int status;
    cr_assert(waitpid(process.id, &status, 0) == process.id);
    ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    take(process.out, ending.out, sizeof ending.out);
    take(process.err, ending.err, sizeof ending.err);
    return ending;
}

static struct process start_train(struct surroundings around, char **words) {
    cr_assert(*program, "TRAIN must name the program to test (`make check` sets it)");
    struct process process = start(around);
    if (process.id) return process;
    execv(program, words);
    perror(program);
    _exit(99);
}

struct process train_line_start(struct surroundings around, char *line) {
    char *words[WORDS] = {program};
    split(line, words + 1, WORDS - 1);
    return start_train(around, words);
}

struct ending train_with(const char *const *arguments) {
    char *words[WORDS] = {program};
    for (int i = 0; arguments[i]; i++) {
        cr_assert(i + 2 < WORDS);
        words[i + 1] = (char *)arguments[i];
    }
    return process_end(start_train((struct surroundings){0}, words), 0);
}

static bool has_lines(const char *name, int lines) {
    FILE *file = fopen(name, "r");
    if (!file) return false;
    for (int c; (c = fgetc(file)) != EOF;) lines -= c == '\n';
    fclose(file);
    return lines <= 0;
}

void pause_for(long microseconds) {
    nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL);
}

void process_wait(struct process process, const char *file, int lines) {
    for (int tries = 0; tries < 200 * LONGEST_RUN && !has_lines(file, lines); tries++) {
        siginfo_t ended = {0};
        waitid(P_PID, (id_t)process.id, &ended, WEXITED | WNOHANG | WNOWAIT);
        if (ended.si_pid) break;
        pause_for(5000);
    }
}

struct ending interrupt(struct process process, int number, const char *log) {
    process_wait(process, log, 2); // the header's line and one more
    return process_end(process, number);
}

/* The child is a copy of the test: what the test has not freed yet is no leak of the child's. */
static void leave_at_once(int status, void *unused) {
    fflush(NULL);
    _exit(status);
}

struct ending call(void (*function)(void *), void *context) {
    fflush(NULL);
    struct process process = start((struct surroundings){0});
    if (process.id) return process_end(process, 0);
    on_exit(leave_at_once, NULL);
    function(context);
    exit(0);
}

struct process bash_start(const char *command) {
    struct process process = start((struct surroundings){0});
    if (process.id) return process;
    execlp("bash", "bash", "-c", command, (char *)NULL);
    _exit(99);
}

struct ending bash(const char *command) {
    return process_end(bash_start(command), 0);
}

const char *expect_refusal(struct ending ending, int status, const char *part) {
    const char *end = strchr(ending.err, '\n');
    cr_expect(ending.status == status, "status %d, not %d: %s", ending.status, status, ending.err);
    cr_expect(!strncmp(ending.err, "train: ", 7), "not \"train: ...\": %s", ending.err);
    cr_expect(end && !end[1], "not one line: %s", ending.err);
    cr_expect(strstr(ending.err, part), "no \"%s\" in: %s", part, ending.err);
    cr_expect(!*ending.out, "on standard output: %s", ending.out);
    return say("%s", ending.err);
}

void expect_done(struct ending ending) {
    cr_assert(ending.status == 0, "status %d: %s", ending.status, ending.err);
}

char *expect_output(struct ending ending) {
    cr_assert(!ending.status && !*ending.err, "status %d: %s", ending.status, ending.err);
    return say("%s", ending.out);
}

char *expect_messages(struct ending ending) {
    expect_done(ending);
    return say("%s", ending.err);
}

void expect_part(const char *text, const char *part) {
    cr_expect(text && strstr(text, part), "no \"%s\" in: %s", part, text ? text : "nothing");
}

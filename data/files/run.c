#include "data/files/run.h"
#include "data/die.h"
#include "data/files/line.h"
#include "data/files/sync.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(const struct run *run, const char *name, char *path, size_t size) {
    if ((size_t)snprintf(path, size, "%s/%s", run->folder, name) >= size)
        die(STATUS_USAGE, "run: %s: the name is too long", run->folder);
}

#define COLUMNS "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second"
static const char *const headers[] = {COLUMNS "\n", COLUMNS ",eval_train_loss\n"};

static const char *first_line(const struct run *run, int table) {
    static const char *const others[TABLES] = {
        [TABLE_PROBES] = "step,layer,site,metric,value\n", [TABLE_SAMPLES] = "step\ttext\n"};
    return table == TABLE_LOG ? headers[run->eval_train] : others[table];
}

static _Noreturn void refuse(const struct run *run, const char *name) {
    die(STATUS_MACHINE, "run: %s/%s: %s", run->folder, name, strerror(errno));
}

/* Opens a table for reading and writing; creates it if it is missing. */
static void open_table(struct run *run, int table) {
    const char *name = table_names[table];
    char path[4096];
    struct stat status;
    path_of(run, name, path, sizeof path);
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "r+");
    if (!file || fstat(descriptor, &status)) refuse(run, name);
    if (!S_ISREG(status.st_mode)) // reading from a FIFO would block
        die(STATUS_MACHINE, "run: %s: is not a regular file", path);
    run->table[table] = file;
}

/* Opens the log and locks it; creates it if it is missing. */
static void open_log(struct run *run) {
    open_table(run, TABLE_LOG);
    // any other error: the file system has no locks
    if (flock(fileno(run->table[TABLE_LOG]), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        die(STATUS_USAGE, "run: %s: another process is writing this run", run->folder);
}

bool run_has(const struct run *run, const char *name) {
    char path[4096];
    if (run->silent) return false;
    path_of(run, name, path, sizeof path);
    return !access(path, F_OK);
}

static const char *const run_files[] = {"log.csv",
                                        "config.ini",
                                        "checkpoint.safetensors",
                                        "model.safetensors",
                                        "best.safetensors",
                                        "summary.json",
                                        "sample.txt",
                                        "probes.csv",
                                        "samples.txt",
                                        "log.crc32",
                                        NULL};

bool run_owns(const char *folder, const char *path) {
    for (int i = 0; run_files[i]; i++) {
        char own[4096];
        snprintf(own, sizeof own, "%s/%s", folder, run_files[i]);
        if (file_same(own, path)) return true;
    }
    return false;
}

/* Whether the folder has a file that a new run would replace or remove. A log with no more than a
   header does not count: a run that was killed at its start may have left it. */
static bool holds_run(const struct run *run) {
    // bytes for a header and one character more
    char start[sizeof COLUMNS ",eval_train_loss\n" + 1] = "";
    for (int i = 1; run_files[i]; i++)
        if (run_has(run, run_files[i])) return true;
    rewind(run->table[TABLE_LOG]);
    size_t length = fread(start, 1, sizeof start - 1, run->table[TABLE_LOG]);
    return strlen(start) != length ||
           (strncmp(headers[0], start, length) != 0 && strncmp(headers[1], start, length) != 0);
}

static void remove_files(const struct run *run, const char *const *names) {
    char path[4096];
    for (; *names; names++) {
        path_of(run, *names, path, sizeof path);
        if (unlink(path) && errno != ENOENT)
            die(STATUS_MACHINE, "run: %s: %s", path, strerror(errno));
    }
}

void run_remove(const struct run *run, const char *name) {
    if (!run->silent) remove_files(run, (const char *const[]){name, NULL});
}

static void write_checksums(const struct run *run) {
    struct new_file file = file_create(run, "log.crc32");
    table_checksums_write(file.stream, run->checksum);
    file_commit(&file);
}

/* Opens a file of the folder for reading: its descriptor, or -1 if it is missing. */
static int open_regular(const struct run *run, const char *name) {
    char path[4096];
    struct stat status;
    path_of(run, name, path, sizeof path);
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0 && errno == ENOENT) return -1;
    if (descriptor < 0 || fstat(descriptor, &status)) refuse(run, name);
    if (!S_ISREG(status.st_mode)) die(STATUS_MACHINE, "run: %s: is not a regular file", path);
    return descriptor;
}

/* Reads the checksums of the tables. Runs of older versions have none. */
static void read_checksums(struct run *run) {
    int descriptor = open_regular(run, "log.crc32");
    if (descriptor < 0) {
        notice("%s/log.crc32 is missing: damage in log.csv, probes.csv and samples.txt would not "
               "be found",
               run->folder);
        return;
    }
    FILE *file = fdopen(descriptor, "r");
    if (!file) refuse(run, "log.crc32");
    bool whole = table_checksums_read(file, run->checksum);
    fclose(file);
    if (!whole)
        die(STATUS_MACHINE,
            "run: %s/log.crc32: is damaged (delete it to continue without checking the tables)",
            run->folder);
}

static void check_checksums(const struct run *run) {
    for (int i = 0; i < TABLES; i++) {
        const char *name = table_names[i];
        struct table_checksum found = {0};
        if (!run->checksum[i].bytes) continue;
        int descriptor = open_regular(run, name);
        if (descriptor < 0) refuse(run, name);
        bool read = table_checksum_extend(&found, descriptor, run->checksum[i].bytes);
        if (!read && errno) refuse(run, name);
        close(descriptor);
        if (!read || found.crc32 != run->checksum[i].crc32)
            die(STATUS_MACHINE,
                "run: %s/%s: was changed or damaged after the last checkpoint (delete %s/log.crc32 "
                "to continue with it as it is)",
                run->folder, name, run->folder);
    }
}

/* Keeps the first `length` bytes of a table, to which rows are added next. If that is less than its
   checksum covers, the checksum of the kept bytes is written first, so that a kill in between does
   no harm. An empty table gets its header. */
static void cut(struct run *run, int table, size_t length) {
    const char *name = table_names[table];
    FILE *file = run->table[table];
    if (length < run->checksum[table].bytes) {
        run->checksum[table] = (struct table_checksum){0};
        if (!table_checksum_extend(&run->checksum[table], fileno(file), length)) refuse(run, name);
        write_checksums(run);
    }
    if (ftruncate(fileno(file), (off_t)length) || fseeko(file, (off_t)length, SEEK_SET))
        refuse(run, name);
    if (!length) fputs(first_line(run, table), file);
    if (fflush(file)) refuse(run, name);
}

/* Creates the folder and its parents, as mkdir -p. With `fresh`, returns false if it exists. */
static bool make_folder(char *folder, bool fresh) {
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(folder, 0777) && errno != EEXIST && errno != EISDIR ? errno : 0;
        *slash = '/';
        if (failed) die(STATUS_MACHINE, "run: %s: cannot be created: %s", folder, strerror(failed));
    }
    if (!mkdir(folder, 0777)) return true;
    struct stat status;
    if (errno == EEXIST && fresh) return false;
    if (errno == EEXIST && !stat(folder, &status) && S_ISDIR(status.st_mode)) return true;
    die(STATUS_MACHINE, "run: %s: cannot be created: %s", folder, strerror(errno));
}

/* What a run writes at its end, and temporary names that a killed run may leave. */
static const char *const end_files[] = {"summary.json",         "summary.json.tmp",
                                        "sample.txt",           "sample.txt.tmp",
                                        "model.safetensors",    "model.safetensors.tmp",
                                        "best.safetensors.tmp", "checkpoint.safetensors.tmp",
                                        "log.crc32.tmp",        NULL};

void run_open(struct run *run, const char *out, const char *name, bool force) {
    if (run->silent) {
        run->table[TABLE_LOG] = file_create_nowhere().stream;
        return;
    }
    memset(run->table, 0, sizeof run->table);
    memset(run->checksum, 0, sizeof run->checksum);
    int length = out ? snprintf(run->folder, sizeof run->folder, "%s", out)
                     : snprintf(run->folder, sizeof run->folder, "runs/%s", name);
    if (length >= (int)sizeof run->folder - 32)
        die(STATUS_USAGE, "run: --out: the name is too long");
    if (out) {
        while (length > 1 && run->folder[length - 1] == '/') run->folder[--length] = 0;
        make_folder(run->folder, false);
    } else {
        for (int number = 2; !make_folder(run->folder, true); number++)
            snprintf(run->folder + length, sizeof run->folder - length, "-%d", number);
    }
    open_log(run);
    if (!force && holds_run(run))
        die(STATUS_USAGE,
            "run: %s: contains a run already (--resume=%s continues it, --force replaces it)",
            run->folder, run->folder);
    // Files of an earlier run would belong to another model. Its options go first: after a kill in
    // between, --resume then finds no options to restart that run with.
    remove_files(run, (const char *const[]){"config.ini", NULL});
    remove_files(run, end_files);
    remove_files(run, (const char *const[]){"checkpoint.safetensors", "best.safetensors",
                                            "probes.csv", "samples.txt", "log.crc32", NULL});
    cut(run, TABLE_LOG, 0);
}

void run_lock(struct run *run, const char *folder) {
    if (run->silent) return;
    memset(run->table, 0, sizeof run->table);
    memset(run->checksum, 0, sizeof run->checksum);
    if (snprintf(run->folder, sizeof run->folder, "%s", folder) >= (int)sizeof run->folder - 32)
        die(STATUS_USAGE, "run: --resume: the name is too long");
    if (run_has(run, "log.csv")) open_log(run);
}

/* Whether the first `bytes` bytes of a table may stay: the checksum covers them, or there is
   none. */
static bool may_stay(const struct run *run, int table, size_t bytes) {
    return !run->checksum[table].bytes || bytes <= run->checksum[table].bytes;
}

enum { ROW_BYTES = 4096 }; // that a row of a table may have

/* The length of the header and of the rows of updates before `step`, which stay in the log;
   *seconds is set to the time in the last of them. Nothing is changed. */
static size_t scan_log(const struct run *run, int64_t step, double *seconds) {
    char line[ROW_BYTES];
    size_t kept = 0;
    ssize_t length;
    for (int number = 1; (length = line_read(run->table[TABLE_LOG], line, sizeof line)) != 0;
         number++) {
        bool whole = length > 0 && line[length - 1] == '\n'; // not cut off
        long long at = -1;
        double elapsed = -1;
        if (length < 0 ||
            (number == 1 ? strncmp(line, headers[run->eval_train], (size_t)length) != 0
                         : whole && (sscanf(line, "%lld,%lf,", &at, &elapsed) != 2 || at < 0 ||
                                     !(elapsed >= 0 && isfinite(elapsed)))))
            die(STATUS_MACHINE, "run: %s/log.csv:%d: is not a row of a run's log", run->folder,
                number);
        if (!whole || !may_stay(run, TABLE_LOG, kept + (size_t)length)) break;
        if (number > 1 && at >= step) break;
        if (number > 1) *seconds = elapsed;
        kept += (size_t)length;
    }
    if (ferror(run->table[TABLE_LOG])) refuse(run, "log.csv");
    return kept;
}

double run_resume(struct run *run, int64_t step) {
    double seconds = 0;
    if (run->silent) {
        run->table[TABLE_LOG] = file_create_nowhere().stream;
        return 0;
    }
    if (step > 0) read_checksums(run);
    if (!run->table[TABLE_LOG]) {
        check_checksums(run); // before a missing log is created
        open_log(run);
    }
    size_t kept = scan_log(run, step, &seconds);
    check_checksums(run);
    remove_files(run, end_files);
    if (!step)
        remove_files(run,
                     (const char *const[]){"log.crc32", NULL}); // it covers rows, and none stays
    cut(run, TABLE_LOG, kept);
    return seconds;
}

void run_start_table(struct run *run, int table, int64_t step) {
    const char *name = table_names[table], *header = first_line(run, table);
    char line[ROW_BYTES], after;
    size_t kept = 0;
    ssize_t length;
    if (run->silent) {
        run->table[table] = file_create_nowhere().stream;
        return;
    }
    open_table(run, table);
    FILE *file = run->table[table];
    for (int number = 1; (length = line_read(file, line, sizeof line)) != 0; number++) {
        long long at = -1;
        if (length > 0 && line[length - 1] != '\n') break;
        if (length < 0 || (number == 1 ? strcmp(line, header) != 0
                                       : sscanf(line, "%lld%c", &at, &after) != 2 ||
                                             after != header[strlen("step")]))
            die(STATUS_MACHINE, "run: %s/%s:%d: is not a row of a run's table", run->folder, name,
                number);
        if (at >= step || !may_stay(run, table, kept + (size_t)length)) break;
        kept += (size_t)length;
    }
    if (ferror(file)) refuse(run, name);
    cut(run, table, kept);
}

/* Makes the last row visible to others. */
static void end_row(struct run *run, int table) {
    FILE *file = run->table[table];
    fputc('\n', file);
    if (fflush(file) || ferror(file)) refuse(run, table_names[table]);
}

void run_probe(struct run *run, int64_t step, int layer, const char *site, const char *metric,
               double value) {
    FILE *probes = run->table[TABLE_PROBES];
    fprintf(probes, "%lld,", (long long)step);
    if (layer >= 0) fprintf(probes, "%d", layer);
    fprintf(probes, ",%s,%s,", site, metric);
    if (isnan(value))
        fputs("nan", probes);
    else
        fprintf(probes, "%.9g", value);
    end_row(run, TABLE_PROBES);
}

void run_sample(struct run *run, int64_t step, const char *text) {
    fprintf(run->table[TABLE_SAMPLES], "%lld\t%s", (long long)step, text);
    end_row(run, TABLE_SAMPLES);
}

static void cell(FILE *log, const char *format, double value) {
    fputc(',', log);
    if (isnan(value))
        fputs("nan", log); // it was measured; printf() might print a sign
    else if (value >= 0)
        fprintf(log, format, value);
}

void run_log(struct run *run, const struct log_row *row) {
    FILE *log = run->table[TABLE_LOG];
    fprintf(log, "%lld", (long long)row->step);
    cell(log, "%.3f", row->seconds);
    cell(log, "%.0f", (double)row->tokens);
    cell(log, "%.6g", row->lr);
    cell(log, "%.9g", row->train_loss);
    cell(log, "%.9g", row->val_loss);
    cell(log, "%.9g", row->grad_norm);
    cell(log, "%.0f", row->tokens_per_second);
    if (run->eval_train) cell(log, "%.9g", row->eval_train_loss);
    end_row(run, TABLE_LOG);
}

void run_sync(struct run *run) {
    if (run->silent) return;
    for (int i = 0; i < TABLES; i++)
        if (run->table[i] && !sync_file(fileno(run->table[i]))) refuse(run, table_names[i]);
}

void run_write_checksums(struct run *run) {
    struct stat status;
    if (run->silent) return;
    for (int i = 0; i < TABLES; i++)
        if (run->table[i] &&
            (fstat(fileno(run->table[i]), &status) ||
             !table_checksum_extend(&run->checksum[i], fileno(run->table[i]), status.st_size)))
            refuse(run, table_names[i]);
    write_checksums(run);
}

void run_close(struct run *run) {
    for (int i = 0; i < TABLES; i++)
        if (run->table[i] && fclose(run->table[i])) refuse(run, table_names[i]);
}

struct new_file file_create(const struct run *run, const char *name) {
    char path[4096];
    if (run->silent) return file_create_nowhere();
    path_of(run, name, path, sizeof path);
    return file_create_at("run", path);
}

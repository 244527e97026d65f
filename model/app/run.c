/* The tables of a run grow by rows, and a run that resumes cuts off the rows after its
   checkpoint. All other files are replaced as a whole (file.h). */
#include "model/app/run.h"
#include "data/die.h"
#include "data/format.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files of a run. The options go first when a run is replaced: after a kill in between,
   --resume then finds none to restart that run with. The next END_FILES are written at its end. The
   tables are the last ones. */
static const char *const run_files[] = {"config.ini",       "summary.json",
                                        "sample.txt",       "model.safetensors",
                                        "best.safetensors", "checkpoint.safetensors",
                                        "log.crc32",        "probes.csv",
                                        "samples.txt",      "log.csv"};
enum { RUN_FILES = sizeof run_files / sizeof *run_files, END_FILES = 3 };
enum { CHECKSUMS_BYTES = 256, ROW_BYTES = 4096 }; // of log.crc32, of a row of a table

static const char *const table_names[TABLES] = {"log.csv", "probes.csv", "samples.txt"};

static const char *first_line(const struct run *run, int table) {
    static const char *const others[TABLES] = {
        [TABLE_PROBES] = "step,layer,site,metric,value\n", [TABLE_SAMPLES] = "step\ttext\n"};
    return table == TABLE_LOG ? columns_header(run->optional) : others[table];
}

static _Noreturn void refuse(const struct run *run, const char *name) {
    die(STATUS_MACHINE, "run: %s/%s: %s", run->folder, name, strerror(errno));
}

/* The path of a file in a folder, in a buffer of the function. */
static const char *path_of(const char *folder, const char *name) {
    static char path[4096]; // longer than run->folder and every name
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

bool run_has(const struct run *run, const char *name) {
    return !run->silent && !access(path_of(run->folder, name), F_OK);
}

bool run_owns(const char *folder, const char *path) {
    for (int i = 0; i < RUN_FILES; i++)
        if (file_same(path_of(folder, run_files[i]), path)) return true;
    return false;
}

void run_remove(const struct run *run, const char *name) {
    if (!run->silent && unlink(path_of(run->folder, name)) && errno != ENOENT) refuse(run, name);
}

/* Removes the files that a run writes at its end, or with `fresh` every file except the log, and
   temporary files that a killed run may have left. */
static void remove_files(const struct run *run, bool fresh) {
    char temporary[64];
    for (int i = 0; i < RUN_FILES - 1; i++) {
        if (fresh || (i > 0 && i <= END_FILES)) run_remove(run, run_files[i]);
        snprintf(temporary, sizeof temporary, "%s.tmp", run_files[i]);
        run_remove(run, temporary);
    }
}

/* Dies unless each file of the run can be replaced or removed. */
static void check_files(const struct run *run) {
    char temporary[64];
    for (int i = 0; i < RUN_FILES; i++) {
        file_check("run", path_of(run->folder, run_files[i]));
        snprintf(temporary, sizeof temporary, "%s.tmp", run_files[i]);
        file_check("run", path_of(run->folder, temporary));
    }
}

/* Opens a file of the folder for reading, or with `writing` also for writing, and then creates it
   if it is missing. NULL if it is missing. */
static FILE *open_file(const struct run *run, const char *name, bool writing) {
    const char *path = path_of(run->folder, name);
    struct stat status;
    const int flags = (writing ? O_RDWR | O_CREAT : O_RDONLY) | O_NONBLOCK | O_CLOEXEC;
    int descriptor = open(path, flags, 0666); // a FIFO would block
    if (descriptor < 0 && errno == ENOENT && !writing) return NULL;
    if (descriptor < 0 || fstat(descriptor, &status)) refuse(run, name);
    if (!S_ISREG(status.st_mode)) die(STATUS_MACHINE, "run: %s: is not a regular file", path);
    FILE *file = fdopen(descriptor, writing ? "r+" : "r");
    if (!file) refuse(run, name);
    return file;
}

/* If the run is silent, opens tables that are not kept. */
static bool opened_nowhere(struct run *run) {
    for (int i = 0; run->silent && i < TABLES; i++) run->table[i] = file_create_nowhere().stream;
    return run->silent;
}

/* Opens the log and locks it; creates it if it is missing. */
static void open_log(struct run *run) {
    run->table[TABLE_LOG] = open_file(run, "log.csv", true);
    // any other error: the file system has no locks
    if (flock(fileno(run->table[TABLE_LOG]), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        die(STATUS_USAGE, "run: %s: another process is writing this run", run->folder);
}

/* ---- log.crc32: the checksums of the tables ---- */

/* Extends the checksum to the first `bytes` bytes of an open file; false as file_crc32(). */
static bool extend(struct table_checksum *checksum, FILE *file, uint64_t bytes) {
    const uint64_t from = checksum->bytes;
    if (bytes <= from) return true;
    checksum->bytes = bytes;
    return !fseeko(file, (off_t)from, SEEK_SET) &&
           file_crc32(file, bytes - from, &checksum->crc32) && !fseeko(file, 0, SEEK_END);
}

static void put_checksums(const struct run *run, char text[CHECKSUMS_BYTES]) {
    text[0] = 0;
    for (int i = 0; i < TABLES; i++)
        if (run->checksum[i].bytes)
            format_add(text, CHECKSUMS_BYTES, "%s %" PRIu64 " %08x\n", table_names[i],
                       run->checksum[i].bytes, run->checksum[i].crc32);
}

static void write_checksums(const struct run *run) {
    char text[CHECKSUMS_BYTES];
    struct new_file file = run_create_file(run, "log.crc32");
    put_checksums(run, text);
    fputs(text, file.stream);
    file_commit(&file);
}

/* Reads the checksums of the tables. Runs of older versions have none. Dies if the text differs in
   any way from what would be written. */
static void read_checksums(struct run *run) {
    char text[CHECKSUMS_BYTES], again[CHECKSUMS_BYTES];
    FILE *file = open_file(run, "log.crc32", false);
    if (!file) {
        notice("%s/log.crc32 is missing: damage in log.csv, probes.csv and samples.txt would not "
               "be found",
               run->folder);
        return;
    }
    size_t length = fread(text, 1, sizeof text - 1, file);
    if (ferror(file)) refuse(run, "log.crc32");
    fclose(file);
    text[length] = 0;
    for (int i = 0; i < TABLES; i++) {
        struct table_checksum *checksum = &run->checksum[i];
        const char *line = strstr(text, table_names[i]);
        if (line) sscanf(line, "%*s %" SCNu64 " %" SCNx32, &checksum->bytes, &checksum->crc32);
    }
    put_checksums(run, again);
    if (!run->checksum[TABLE_LOG].bytes || length != strlen(again) || memcmp(text, again, length))
        die(STATUS_MACHINE,
            "run: %s/log.crc32: is damaged (delete it to continue without checking the tables)",
            run->folder);
}

static void check_checksums(const struct run *run) {
    for (int i = 0; i < TABLES; i++) {
        const char *name = table_names[i];
        struct table_checksum found = {0};
        if (!run->checksum[i].bytes) continue;
        FILE *file = open_file(run, name, false);
        if (!file) refuse(run, name);
        bool ended = extend(&found, file, run->checksum[i].bytes);
        if (!ended && errno) refuse(run, name);
        fclose(file);
        if (!ended || found.crc32 != run->checksum[i].crc32)
            die(STATUS_MACHINE,
                "run: %s/%s: was changed or damaged after the last checkpoint (delete %s/log.crc32 "
                "to continue with it as it is)",
                run->folder, name, run->folder);
    }
}

/* ---- opening a run, and the rows of its tables that stay ---- */

/* Whether a complete line is a row of the table; reads its first cell, and the second one of the log:
   the seconds, which are an empty cell where an older version's clock was put back. */
static bool is_row(const struct run *run, int table, const char *line, long long *step,
                   double *seconds) {
    const char separator = first_line(run, table)[strlen("step")];
    int end = 0;
    *seconds = 0;
    if (sscanf(line, "%lld%n", step, &end) != 1 || *step < 0 || line[end] != separator)
        return false;
    if (table != TABLE_LOG || line[end + 1] == ',') return true;
    return sscanf(line + end + 1, "%lf", seconds) == 1 && *seconds >= 0 && isfinite(*seconds);
}

/* The length of a table's header and of its rows of updates before `step`, which stay: the table's
   checksum covers them, or there is none. *seconds is set to the latest time in these rows of the
   log. */
static size_t scan(const struct run *run, int table, int64_t step, double *seconds) {
    char line[ROW_BYTES];
    const char *header = first_line(run, table);
    const uint64_t covered = run->checksum[table].bytes;
    FILE *file = run->table[table];
    size_t kept = 0;
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        const size_t length = (size_t)ftello(file) - kept; // a damaged line may contain NUL
        const bool ended = line[length - 1] == '\n';       // not cut off
        long long cell = -1;
        double elapsed = 0;
        const bool right = number == 1 ? !strncmp(line, header, length)
                                       : !ended || is_row(run, table, line, &cell, &elapsed);
        if ((!ended && !feof(file)) || !right)
            die(STATUS_MACHINE, "run: %s/%s:%d: is not a row of a run's %s", run->folder,
                table_names[table], number, table == TABLE_LOG ? "log" : "table");
        if (!ended || (number > 1 && cell >= step)) break;
        if (covered && kept + length > covered) break;
        *seconds = fmax(*seconds, elapsed);
        kept += length;
    }
    if (ferror(file)) refuse(run, table_names[table]);
    return kept;
}

/* Keeps the first kept[] bytes of a table, to which rows are added next. If that is less than its
   checksum covers, the checksum of the kept bytes is written first, so that a kill in between does
   no harm. An empty table gets its header. */
static void cut(struct run *run, int table) {
    const size_t length = run->kept[table];
    const char *name = table_names[table];
    FILE *file = run->table[table];
    if (length < run->checksum[table].bytes) {
        run->checksum[table] = (struct table_checksum){0};
        if (!extend(&run->checksum[table], file, length)) refuse(run, name);
        write_checksums(run);
    }
    if (ftruncate(fileno(file), (off_t)length) || fseeko(file, (off_t)length, SEEK_SET))
        refuse(run, name);
    if (!length) fputs(first_line(run, table), file);
    if (fflush(file)) refuse(run, name);
}

/* Whether a table has more than its header. */
static bool has_rows(const struct run *run, int table) {
    char line[ROW_BYTES] = "";
    FILE *file = open_file(run, table_names[table], false);
    if (!file) return false;
    const char *header = table == TABLE_LOG ? columns_header(0) : first_line(run, table);
    const size_t length = fgets(line, sizeof line, file) ? (size_t)ftello(file) : 0;
    const size_t common = strcspn(header, "\n"); // columns with an option may follow
    const bool more = getc(file) != EOF;
    fclose(file);
    return more || strncmp(header, line, length < common ? length : common) != 0;
}

/* Whether the folder has a file that a new run would replace or remove. Tables with no more than a
   header do not count: a run that was killed at its start may have left them. */
static bool holds_run(const struct run *run) {
    for (int i = 0; i < TABLES; i++)
        if (has_rows(run, i)) return true;
    for (int i = 0; i < RUN_FILES - TABLES; i++)
        if (run_has(run, run_files[i])) return true;
    return false;
}

/* Opens the tables of the run beside its log. */
static void open_tables(struct run *run) {
    for (int i = TABLE_LOG + 1; i < TABLES; i++)
        if (run->uses[i]) run->table[i] = open_file(run, table_names[i], true);
}

static _Noreturn void refuse_replacing(const struct run *run) {
    const bool ended = run_has(run, "model.safetensors"); // it has its checkpoint, or kept none
    const bool resumable =
        run_has(run, "checkpoint.safetensors") || (run_has(run, "config.ini") && !ended);
    char hint[sizeof run->folder + 32] = "";
    if (resumable) snprintf(hint, sizeof hint, "--resume=%s continues it, ", run->folder);
    die(STATUS_USAGE, "run: %s: already contains a run (%s--force replaces it)", run->folder, hint);
}

void run_open(struct run *run, const char *out, const char *name, bool force) {
    if (opened_nowhere(run)) return;
    int length = out ? snprintf(run->folder, sizeof run->folder, "%s", out)
                     : snprintf(run->folder, sizeof run->folder, "runs/%s", name);
    if (length >= (int)sizeof run->folder - 32)
        die(STATUS_USAGE, "run: --out: the name is too long");
    if (out) {
        while (length > 1 && run->folder[length - 1] == '/') run->folder[--length] = 0;
        file_make_folder("run", run->folder, false);
    }
    for (int number = 2; !out && !file_make_folder("run", run->folder, true); number++)
        snprintf(run->folder + length, sizeof run->folder - length, "-%d", number);
    open_log(run);
    if (!force && holds_run(run)) refuse_replacing(run);
    check_files(run);
    remove_files(run, true); // they would belong to another model
    open_tables(run);
    for (int i = 0; i < TABLES; i++)
        if (run->table[i]) cut(run, i);
}

void run_lock(struct run *run, const char *folder) {
    if (run->silent) return;
    if (snprintf(run->folder, sizeof run->folder, "%s", folder) >= (int)sizeof run->folder - 32)
        die(STATUS_USAGE, "run: --resume: the name is too long");
    if (run_has(run, "log.csv")) open_log(run);
}

double run_check(struct run *run, int64_t step) {
    double seconds = 0, none = 0;
    if (opened_nowhere(run)) return 0;
    check_files(run);
    if (step > 0) read_checksums(run);
    if (!run->table[TABLE_LOG]) {
        check_checksums(run); // before a missing log is created
        open_log(run);
    }
    run->kept[TABLE_LOG] = scan(run, TABLE_LOG, step, &seconds);
    check_checksums(run);
    open_tables(run);
    for (int i = TABLE_LOG + 1; i < TABLES; i++)
        if (run->table[i]) run->kept[i] = scan(run, i, step, &none);
    return seconds;
}

void run_resume(struct run *run) {
    if (run->silent) return;
    remove_files(run, false);
    if (!run->checksum[TABLE_LOG].bytes) run_remove(run, "log.crc32"); // no row it covers stays
    for (int i = 0; i < TABLES; i++)
        if (run->table[i]) cut(run, i);
}

/* ---- writing ---- */

/* Makes the last row visible to others. */
static void end_row(struct run *run, int table) {
    FILE *file = run->table[table];
    fputc('\n', file);
    if (fflush(file) || ferror(file)) refuse(run, table_names[table]);
}

void run_log(struct run *run, const struct state *state) {
    columns_write(run->table[TABLE_LOG], state);
    end_row(run, TABLE_LOG);
}

void run_probe(void *run, int64_t step, int layer, const char *site, const char *metric,
               double value) {
    FILE *probes = ((struct run *)run)->table[TABLE_PROBES];
    fprintf(probes, "%lld,", (long long)step);
    if (layer >= 0) fprintf(probes, "%d", layer);
    fprintf(probes, ",%s,%s,", site, metric);
    columns_number(probes, "%.9g", value);
    end_row(run, TABLE_PROBES);
}

void run_sample(struct run *run, int64_t step, const char *text) {
    fprintf(run->table[TABLE_SAMPLES], "%lld\t%s", (long long)step, text);
    end_row(run, TABLE_SAMPLES);
}

void run_sync(struct run *run, bool checksums) {
    if (run->silent) return;
    for (int i = 0; i < TABLES; i++) {
        FILE *table = run->table[i];
        if (!table) continue;
        if (!file_sync(fileno(table))) refuse(run, table_names[i]);
        // rows were added at the end, where the file still is
        if (checksums && !extend(&run->checksum[i], table, (uint64_t)ftello(table)))
            refuse(run, table_names[i]);
    }
    if (checksums) write_checksums(run);
}

uint32_t run_log_crc32(const struct run *run) {
    struct table_checksum log = run->checksum[TABLE_LOG];
    FILE *file = run->table[TABLE_LOG];
    if (!run->silent && !extend(&log, file, (uint64_t)ftello(file))) refuse(run, "log.csv");
    return log.crc32;
}

void run_close(struct run *run) {
    for (int i = 0; i < TABLES; i++)
        if (run->table[i] && fclose(run->table[i])) refuse(run, table_names[i]);
    memset(run->table, 0, sizeof run->table);
    memset(run->kept, 0, sizeof run->kept);
    memset(run->checksum, 0, sizeof run->checksum);
}

struct new_file run_create_file(const struct run *run, const char *name) {
    return run->silent ? file_create_nowhere() : file_create_at("run", path_of(run->folder, name));
}

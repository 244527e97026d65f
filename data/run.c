#include "run.h"
#include "die.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(const struct run *run, const char *name, char *path, size_t size) {
    if ((size_t)snprintf(path, size, "%s/%s", run->folder, name) >= size)
        die(STATUS_USAGE, "run: %s: the name is too long", run->folder);
}

static bool holds_run(const struct run *run) {
    char path[4096];
    path_of(run, "config.ini", path, sizeof path);
    if (!access(path, F_OK)) return true;
    path_of(run, "log.csv", path, sizeof path);
    return !access(path, F_OK);
}

/* Makes the folder and those that it lies in, as mkdir -p; `fresh` fails where it stands already.
 */
static bool make_folder(char *folder, bool fresh) {
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(folder, 0777) && errno != EEXIST && errno != EISDIR ? errno : 0;
        *slash = '/';
        if (failed) die(STATUS_MACHINE, "run: %s: cannot be made: %s", folder, strerror(failed));
    }
    if (!mkdir(folder, 0777)) return true;
    struct stat status;
    if (errno == EEXIST && fresh) return false;
    if (errno == EEXIST && !stat(folder, &status) && S_ISDIR(status.st_mode)) return true;
    die(STATUS_MACHINE, "run: %s: cannot be made: %s", folder, strerror(errno));
}

void run_open(struct run *run, const char *out, const char *name, bool force) {
    int length = out ? snprintf(run->folder, sizeof run->folder, "%s", out)
                     : snprintf(run->folder, sizeof run->folder, "runs/%s", name);
    if (length >= (int)sizeof run->folder - 32)
        die(STATUS_USAGE, "run: --out: the name is too long");
    if (out) {
        while (length > 1 && run->folder[length - 1] == '/') run->folder[--length] = 0;
        make_folder(run->folder, false);
        if (holds_run(run) && !force)
            die(STATUS_USAGE, "run: %s: holds a run already (--force writes over it)", run->folder);
    } else {
        for (int number = 2; !make_folder(run->folder, true); number++)
            snprintf(run->folder + length, sizeof run->folder - length, "-%d", number);
    }
    // What an earlier run left there would speak of another model.
    static const char *const files[] = {"summary.json",      "summary.json.tmp",
                                        "sample.txt",        "sample.txt.tmp",
                                        "model.safetensors", "model.safetensors.tmp"};
    char path[4096];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        path_of(run, files[i], path, sizeof path);
        if (unlink(path) && errno != ENOENT)
            die(STATUS_MACHINE, "run: %s: %s", path, strerror(errno));
    }
    path_of(run, "log.csv", path, sizeof path);
    run->log = fopen(path, "w");
    if (!run->log) die(STATUS_MACHINE, "run: %s: %s", path, strerror(errno));
    fputs("step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second\n", run->log);
    if (fflush(run->log)) die(STATUS_MACHINE, "run: %s: %s", path, strerror(errno));
}

static void cell(FILE *log, const char *format, double value) {
    fputc(',', log);
    if (isnan(value))
        fputs("nan", log); // a measurement, and printf may give it a sign
    else if (value >= 0)
        fprintf(log, format, value);
}

void run_log(struct run *run, const struct log_row *row) {
    fprintf(run->log, "%lld", (long long)row->step);
    cell(run->log, "%.3f", row->seconds);
    cell(run->log, "%.0f", (double)row->tokens);
    cell(run->log, "%.6g", row->lr);
    cell(run->log, "%.9g", row->train_loss);
    cell(run->log, "%.9g", row->val_loss);
    cell(run->log, "%.9g", row->grad_norm);
    cell(run->log, "%.0f", row->tokens_per_second);
    fputc('\n', run->log);
    if (fflush(run->log) || ferror(run->log))
        die(STATUS_MACHINE, "run: %s/log.csv: %s", run->folder, strerror(errno));
}

void run_close(struct run *run) {
    if (fclose(run->log)) die(STATUS_MACHINE, "run: %s/log.csv: %s", run->folder, strerror(errno));
}

struct run_file file_create(const struct run *run, const char *name) {
    struct run_file file;
    path_of(run, name, file.path, sizeof file.path);
    char temporary[256];
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    path_of(run, temporary, file.temporary, sizeof file.temporary);
    file.stream = fopen(file.temporary, "wb");
    if (!file.stream) die(STATUS_MACHINE, "run: %s: %s", file.temporary, strerror(errno));
    return file;
}

void file_commit(struct run_file *file) {
    bool failed = fflush(file->stream) || ferror(file->stream) || fsync(fileno(file->stream));
    int why = errno;
    if (fclose(file->stream) && !failed) failed = true, why = errno;
    if (!failed && rename(file->temporary, file->path)) failed = true, why = errno;
    if (failed) {
        unlink(file->temporary);
        die(STATUS_MACHINE, "run: %s: %s", file->path, strerror(why));
    }
}

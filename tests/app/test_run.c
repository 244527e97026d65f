/* A run's folder, its log, and its files, which are replaced atomically. What must survive a power
   failure: a file is synced before it is renamed, and its folder afterwards. The test replaces
   fsync() and rename(). */
#include "data/die.h"
#include "model/app/record.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEADER "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second\n"

TestSuite(run, .init = folder_enter, .fini = folder_leave);

static void put(const struct run *run, const char *name, const char *text) {
    struct new_file file = run_create_file(run, name);
    fputs(text, file.stream);
    file_commit(&file);
}

/* Opens a run, writes the files that a run leaves, and closes it. Returns its folder. */
static const char *opened(const char *out, bool force) {
    static struct run run;
    run_open(&run, out, "ln-pre-s1", force);
    static const char *const names[] = {"config.ini", "model.safetensors", "sample.txt",
                                        "summary.json"};
    for (int i = 0; i < 4; i++) put(&run, names[i], "old");
    run_close(&run);
    return run.folder;
}

static void open_in_child(void *out) {
    opened(out, false);
}

Test(run, a_free_number_is_added_to_the_name) {
    cr_expect_str_eq(opened(NULL, false), "runs/ln-pre-s1");
    cr_expect_str_eq(opened(NULL, false), "runs/ln-pre-s1-2");
    cr_expect_str_eq(opened(NULL, true), "runs/ln-pre-s1-3");
    cr_assert(mkdir("runs/ln-pre-s1-4", 0777) == 0);
    cr_expect_str_eq(opened(NULL, false), "runs/ln-pre-s1-5");
    cr_expect(files_in("runs") == 5);
}

Test(run, folders_are_made_as_deep_as_asked) {
    cr_expect_str_eq(opened("a/b/c", false), "a/b/c");
    cr_expect_str_eq(opened("d///", false), "d");
    cr_expect_str_eq(opened("./e//f/", false), "./e//f");
    cr_assert(!mkdir("stands", 0777));
    cr_expect_str_eq(opened("stands", false), "stands"); // which holds no run
    cr_expect(file_there("a/b/c/log.csv") && file_there("d/log.csv") && file_there("e/f/log.csv"));
}

Test(run, a_run_is_not_written_over) {
    opened("here", false);
    file_put("here/log.csv", "kept", 4);
    expect_refusal(call(open_in_child, "here/"), STATUS_USAGE,
                   "here: already contains a run (--force replaces it)"); // without a checkpoint
    file_put("here/checkpoint.safetensors", "kept", 4);
    expect_refusal(
        call(open_in_child, "here/"), STATUS_USAGE,
        "here: already contains a run (--resume=here continues it, --force replaces it)");
    cr_assert(!remove("here/checkpoint.safetensors") && !remove("here/model.safetensors"));
    expect_refusal(call(open_in_child, "here/"), STATUS_USAGE, "(--resume=here continues it,");
    cr_expect_str_eq(file_text("here/log.csv", NULL), "kept");
    cr_assert(remove("here/config.ini") == 0);
    expect_refusal(call(open_in_child, "here"), STATUS_USAGE,
                   "--force"); // the log alone is worth keeping too
    cr_assert(remove("here/log.csv") == 0);
    static const char *const paths[] = {"0/config.ini",        "1/checkpoint.safetensors",
                                        "2/model.safetensors", "3/summary.json",
                                        "4/sample.txt",        "5/probes.csv",
                                        "6/best.safetensors"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char folder[] = {paths[i][0], 0};
        cr_assert(mkdir(folder, 0777) == 0);
        file_put(paths[i], "kept", 4); // a file that somebody copied here or made himself
        expect_refusal(call(open_in_child, folder), STATUS_USAGE, "--force");
        cr_expect_str_eq(file_text(paths[i], NULL), "kept");
    }
}

/* A run that was killed before its options were written has tables without rows at most. */
Test(run, a_start_that_was_killed_is_no_run) {
    static const char *const headers[][2] = {{"log.csv", HEADER},
                                             {"probes.csv", "step,layer,site,metric,value\n"},
                                             {"samples.txt", "step\ttext\n"}};
    for (int i = 0; i < 3; i++)
        for (int rows = 0; rows < 2; rows++)
            for (size_t length = 0; length <= strlen(headers[i][1]); length++) {
                const size_t kept = rows ? strlen(headers[i][1]) : length;
                cr_assert(!bash("rm -rf here && mkdir here").status);
                char *text = say("%.*s%s", (int)kept, headers[i][1], rows ? "0" : "");
                file_put(say("here/%s", headers[i][0]), text, strlen(text));
                if (rows) {
                    expect_refusal(call(open_in_child, "here"), STATUS_USAGE,
                                   "here: already contains a run (--force replaces it)");
                    break;
                }
                expect_done(call(open_in_child, "here"));
            }
}

Test(run, force_leaves_nothing_of_the_run_before) {
    opened("here", false);
    file_put("here/notes.txt", "mine", 4);
    file_put("here/best.safetensors", "old", 3);
    struct run run = {0};
    run_open(&run, "here", "", true);
    run_close(&run);
    cr_expect_str_eq(file_text("here/log.csv", NULL), HEADER);
    cr_expect(!file_there("here/summary.json") && !file_there("here/sample.txt"));
    cr_expect(!file_there("here/config.ini"), "--resume would start the earlier run again");
    cr_expect(!file_there("here/model.safetensors") && file_there("here/notes.txt"));
    cr_expect(!file_there("here/best.safetensors"));
}

/* A resumed run does not look like one that has ended. */
Test(run, resuming_removes_what_a_run_writes_at_its_end) {
    opened("here", false);
    file_put("here/checkpoint.safetensors", "old", 3);
    file_put("here/checkpoint.safetensors.tmp", "of a kill", 9);
    struct run run = {0};
    run_lock(&run, "here");
    run_check(&run, 0);
    run_resume(&run);
    run_close(&run);
    cr_expect(!file_there("here/checkpoint.safetensors.tmp"));
    cr_expect(!file_there("here/summary.json") && !file_there("here/sample.txt"));
    cr_expect(!file_there("here/model.safetensors"));
    cr_expect(file_there("here/config.ini") && file_there("here/checkpoint.safetensors"));
}

Test(run, a_name_that_is_too_long) {
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    expect_refusal(call(open_in_child, name), STATUS_USAGE, "--out: the name is too long");
}

Test(run, rows_of_the_log) {
    struct run run = {0};
    run_open(&run, "here", "", false);
    const double none = NOT_MEASURED;
    const struct state rows[] = {{.step = 7,
                                  .seconds = 1.25,
                                  .tokens = 1234567890123,
                                  .lr = 1e-3,
                                  .train_loss = none,
                                  .val_loss = none,
                                  .grad_norm = none,
                                  .tokens_per_second = none},
                                 {.step = 1000000000,
                                  .seconds = 3600.0004,
                                  .lr = 0.00012345678,
                                  .train_loss = 2.0 / 3,
                                  .val_loss = 1.5,
                                  .tokens_per_second = 123456.7},
                                 {.step = 7,
                                  .seconds = 1.25,
                                  .lr = 1e-3,
                                  .train_loss = -NAN,
                                  .val_loss = INFINITY,
                                  .grad_norm = NAN,
                                  .tokens_per_second = none}};
    run_log(&run, &rows[0]);
    cr_expect_str_eq(file_text("here/log.csv", NULL), HEADER "7,1.250,1234567890123,0.001,,,,\n");
    run_log(&run, &rows[1]);
    run_log(&run, &rows[2]);
    run_close(&run);
    cr_expect_str_eq(file_text("here/log.csv", NULL),
                     HEADER "7,1.250,1234567890123,0.001,,,,\n"
                            "1000000000,3600.000,0,0.000123457,0.666666667,1.5,0,123457\n"
                            "7,1.250,0,0.001,nan,inf,nan,\n");
}

/* Reading a row of the log gives the numbers that were written, each from its own column. */
Test(run, rows_of_the_log_are_read_as_they_were_written) {
    static const double loss[] = {NOT_MEASURED, 0, 0.625, 4};
    enum { LOSSES = sizeof loss / sizeof *loss };
    struct run run = {.optional = UINT32_MAX};
    struct state read;
    run_open(&run, "here", "", false);
    for (int i = 0; i < LOSSES * LOSSES; i++)
        run_log(&run, &(struct state){.step = i,
                                      .seconds = 8,
                                      .tokens = 9,
                                      .lr = 7,
                                      .train_loss = loss[i / LOSSES],
                                      .val_loss = loss[i % LOSSES],
                                      .grad_norm = 6,
                                      .tokens_per_second = 5,
                                      .optional = UINT32_MAX});
    run_close(&run);
    char *line = file_text("here/log.csv", NULL);
    cr_expect(!columns_read(line, &read), "the header is no row");
    for (int i = 0; i < LOSSES * LOSSES; i++) {
        line = strchr(line, '\n') + 1;
        cr_assert(columns_read(line, &read));
        cr_expect(read.step == i && read.train_loss == loss[i / LOSSES] &&
                      read.val_loss == loss[i % LOSSES],
                  "row %d: step %lld, losses %g and %g", i, (long long)read.step, read.train_loss,
                  read.val_loss);
        cr_expect(read.seconds == 8 && read.tokens == 9 && read.lr == 7 && read.grad_norm == 6 &&
                  read.tokens_per_second == 5 && read.eval_train_loss == NOT_MEASURED);
    }
}

/* A kill after the log was cut and before the next checkpoint: the checksum fits the rows. */
Test(run, a_log_that_was_cut_has_its_checksum) {
    struct run run = {.uses[TABLE_PROBES] = true};
    run_open(&run, "here", "", false);
    for (int step = 0; step < 6; step++) {
        run_log(&run, &(struct state){.step = step, .seconds = step});
        run_probe(&run, step, 0, "attn", "stream_rms", step);
    }
    run_sync(&run, true);
    run_close(&run);
    for (int step = 6; step > 2; step -= 2)
        for (int again = 0; again < 2; again++) {
            run_lock(&run, "here");
            cr_expect(run_check(&run, step) == step - 1);
            run_resume(&run);
            run_log(&run, &(struct state){.step = step, .seconds = 9}); // after the checksum
            run_probe(&run, step, 0, "attn", "stream_rms", 9);
            run_close(&run);
        }
    cr_expect_str_eq(file_text("here/probes.csv", NULL), "step,layer,site,metric,value\n"
                                                         "0,0,attn,stream_rms,0\n"
                                                         "1,0,attn,stream_rms,1\n"
                                                         "2,0,attn,stream_rms,2\n"
                                                         "3,0,attn,stream_rms,3\n"
                                                         "4,0,attn,stream_rms,9\n");
    run_lock(&run, "here");
    cr_expect(run_check(&run, 0) == 0 && file_there("here/log.crc32"));
    run_resume(&run);
    cr_expect(!file_there("here/log.crc32"));
    run_close(&run);
    cr_expect_str_eq(file_text("here/log.csv", NULL), HEADER);
}

/* As an older version wrote it whose clock was put back: a negative time is an empty cell. */
Test(run, a_log_whose_time_falls_is_continued_at_its_latest_time) {
    static const double times[] = {1, 5, NOT_MEASURED, 2, 9};
    struct run run = {0};
    run_open(&run, "here", "", false);
    for (int step = 0; step < 5; step++)
        run_log(&run, &(struct state){.step = step, .seconds = times[step]});
    run_sync(&run, true);
    run_close(&run);
    expect_part(file_text("here/log.csv", NULL), "\n2,,0,");
    for (int step = 5; step > 0; step--) {
        static const double latest[] = {0, 1, 5, 5, 5, 9};
        run_lock(&run, "here");
        cr_expect(run_check(&run, step) == latest[step], "%d rows", step);
        run_resume(&run);
        run_close(&run);
    }
}

static char calls[256];              // f: a file was synced, d: a folder, r: a file was renamed
static int file_error, folder_error; // errno of an fsync() that fails, 0: it succeeds

int fsync(int descriptor) {
    struct stat status;
    bool folder = !fstat(descriptor, &status) && S_ISDIR(status.st_mode);
    if (strlen(calls) + 1 < sizeof calls) strcat(calls, folder ? "d" : "f");
    errno = folder ? folder_error : file_error;
    return errno ? -1 : (int)syscall(SYS_fsync, descriptor);
}

int rename(const char *from, const char *to) {
    if (strlen(calls) + 1 < sizeof calls) strcat(calls, "r");
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

TestSuite(sync, .init = folder_enter, .fini = folder_leave);

static void write_all(void *unused) {
    struct run run = {.uses = {[TABLE_PROBES] = true, [TABLE_SAMPLES] = true}};
    run_open(&run, "here", "", true);
    calls[0] = 0;
    struct new_file file = run_create_file(&run, "summary.json");
    fputs("text", file.stream);
    file_commit(&file);
    cr_expect_str_eq(calls, "frd", "the file, its name, the folder: %s", calls);
    calls[0] = 0;
    run_sync(&run, true);
    cr_expect_str_eq(calls, "ffffrd", "the log, the probes, the samples, checksums: %s", calls);
    run_close(&run);
}

Test(sync, a_file_then_its_name_then_the_folder) {
    write_all(NULL);
    cr_expect_str_eq(file_text("here/summary.json", NULL), "text");
}

/* Shares of other systems fail in many ways where a folder is synced. */
Test(sync, what_cannot_be_synced_is_taken_as_it_is) {
    static const int tolerated[] = {EINVAL, EROFS, ENOTSUP, EACCES, EPERM, EBADF, EISDIR, ENOSYS};
    for (int i = 0; i < 8; i++) {
        folder_error = tolerated[i];
        file_error = i < 3 ? tolerated[i] : 0; // these three may be a file's, too
        write_all(NULL);
    }
    cr_expect(file_there("here/summary.json") && file_there("here/log.crc32"));
}

static void sync_log(void *unused) {
    struct run run = {0};
    run_open(&run, "here", "", true);
    run_sync(&run, false);
}

Test(sync, a_disk_that_fails_is_an_error) {
    static const int errors[] = {EACCES, EPERM, EBADF, EISDIR, ENOSYS, EIO};
    for (int i = 0; i < 6; i++) {
        file_error = errors[i];
        expect_refusal(call(write_all, NULL), STATUS_MACHINE,
                       say("run: here/summary.json: %s", strerror(file_error)));
    }
    cr_expect(!file_there("here/summary.json") && !file_there("here/summary.json.tmp"));
    expect_refusal(call(sync_log, NULL), STATUS_MACHINE, "run: here/log.csv: Input/output error");
    file_error = 0;
    folder_error = EIO;
    expect_refusal(call(write_all, NULL), STATUS_MACHINE, "run: here: Input/output error");
}

/* An update a second, of 100, 200, ... targets; every other update has a row. The targets before a
   resume are none of this time. */
Test(run, a_row_s_speed_is_since_the_row_before) {
    static const double speeds[] = {NOT_MEASURED, 0, 150, 0, 350};
    static struct config config = {.log_interval = 2};
    static struct record r = {.config = &config};
    r.run.table[TABLE_LOG] = tmpfile();
    r.state.tokens = 7000;
    record_start(&r);
    for (int step = 0; step < 5; step++, r.state.step++) {
        record_step(&r);
        if (step % 2 == 0) cr_expect(r.state.tokens_per_second == speeds[step], "row %d", step);
        record_update(&r,
                      (struct update){.trained.targets = 100 * ((size_t)step + 1), .seconds = 1});
        record_write(&r, ENDING_NONE);
    }
    cr_expect(r.state.speed == 300, "of all updates");
    fclose(r.run.table[TABLE_LOG]);
}

/* What must survive a power failure: a file is on the disk before it gets its name, and the folder
   after. fsync() and rename() are replaced. */
#include "data/die.h"
#include "data/files/run.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    struct run run = {0};
    run_open(&run, "here", "", true);
    run_start_table(&run, TABLE_PROBES, 0);
    run_start_table(&run, TABLE_SAMPLES, 0);
    calls[0] = 0;
    struct new_file file = file_create(&run, "summary.json");
    fputs("text", file.stream);
    file_commit(&file);
    cr_expect_str_eq(calls, "frd", "the file, its name, the folder: %s", calls);
    calls[0] = 0;
    run_sync(&run);
    cr_expect_str_eq(calls, "fff", "the log, the probes and the samples: %s", calls);
    run_write_checksums(&run);
    cr_expect_str_eq(calls, "ffffrd", "their checksums: %s", calls);
    run_close(&run);
}

Test(sync, a_file_then_its_name_then_the_folder) {
    write_all(NULL);
    cr_expect_str_eq(file_text("here/summary.json", NULL), "text");
}

Test(sync, what_cannot_be_synced_is_taken_as_it_is) {
    static const int tolerated[] = {EINVAL, EROFS, ENOTSUP};
    for (int i = 0; i < 3; i++) {
        file_error = folder_error = tolerated[i];
        write_all(NULL);
    }
    cr_expect(file_there("here/summary.json") && file_there("here/log.crc32"));
}

static void write_one(void *unused) {
    struct run run = {0};
    run_open(&run, "here", "", true);
    struct new_file file = file_create(&run, "summary.json");
    file_commit(&file);
}

static void sync_log(void *unused) {
    struct run run = {0};
    run_open(&run, "here", "", true);
    run_sync(&run);
}

Test(sync, a_disk_that_fails_is_an_error) {
    file_error = EIO;
    struct ending ending = call(write_one, NULL);
    expect_refusal(&ending, STATUS_MACHINE, "run: here/summary.json: Input/output error");
    cr_expect(!file_there("here/summary.json") && !file_there("here/summary.json.tmp"));
    ending = call(sync_log, NULL);
    expect_refusal(&ending, STATUS_MACHINE, "run: here/log.csv: Input/output error");
    file_error = 0;
    folder_error = EIO;
    ending = call(write_one, NULL);
    expect_refusal(&ending, STATUS_MACHINE, "run: here: Input/output error");
}

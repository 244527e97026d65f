/* Flips single bits of every file that --resume, --generate or --evaluate reads: every 37th bit, and with
   `make check-all` every bit. The damage causes an error or a notice, or has no effect. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "model/app/run.h"
#include "model/options/config.h"
#include "tests/command.h"
#include "tests/death.h"
#include "tests/support.h"
#include <string.h>
#include <unistd.h>

enum { STEPS = 4 };

static void enter(void) {
    text_enter();
    expect_done(
        bash(say("\"$TRAIN\" " TINY "--quiet --norm=bn --probe-interval=3 --sample-interval=3 "
                 "--eval-interval=2 --max-iters=%d --out=run text.txt",
                 STEPS)));
}

TestSuite(flips, .init = enter, .fini = folder_leave, .timeout = 900);

/* How a file is read. */
struct reading {
    const char *path;
    void (*read)(struct reading *reading); // may die; otherwise returns what it found:
    bool noticed, same;
    void (*restore)(void); // after a read that did not die: restores the folder; or NULL
    size_t first;          // number of bits at the start that are all flipped
    char *bytes;           // of the file, with the flipped bit
    size_t count;
};

static void flip(const struct reading *reading, size_t bit) {
    reading->bytes[bit / 8] ^= (char)(1 << bit % 8);
    FILE *file = fopen(reading->path, "r+b");
    bool done = file && !fseek(file, (long)(bit / 8), SEEK_SET) &&
                fputc((unsigned char)reading->bytes[bit / 8], file) != EOF;
    if (!done || fclose(file)) fprintf(stderr, "%s: cannot be written\n", reading->path);
}

static void read_it(void *reading) {
    ((struct reading *)reading)->read(reading);
}

/* The status of the death, or 0. */
static int read_flipped(struct reading *reading) {
    reading->noticed = reading->same = false;
    int status = caught(read_it, reading)->status;
    if (!status && reading->restore) reading->restore();
    return status;
}

/* Runs in a child process, so that what a death leaves ends with it. */
static void flip_bits(void *context) {
    struct reading *reading = context;
    size_t unnoticed = 0, refused = 0, same = 0;
    reading->bytes = file_text(reading->path, &reading->count);
    alarm(800);
    for (size_t bit = 0; bit < 8 * reading->count;
         bit += sweep() || bit < reading->first ? 1 : 37) {
        flip(reading, bit);
        int status = read_flipped(reading);
        bool told = status == STATUS_MACHINE || status == STATUS_USAGE || reading->noticed;
        bool equal = !status && reading->same;
        flip(reading, bit);
        refused += told;
        same += equal && !told;
        if (told || equal) continue;
        fprintf(stderr, "%s: byte %zu, bit %zu is not noticed\n", reading->path, bit / 8, bit % 8);
        unnoticed++;
    }
    int status = read_flipped(reading);
    if (status || reading->noticed || !reading->same) fputs("the whole file is not read\n", stderr);
    printf("%zu %zu %zu\n", refused, same, unnoticed);
}

/* Fails unless each bit is noticed or has no effect, and at least `percent` of 100 are noticed. */
static void expect_noticed(struct reading reading, int percent) {
    size_t refused, same, unnoticed;
    struct ending ending = call(flip_bits, &reading);
    cr_assert(!ending.status && !*ending.err, "%s: status %d: %.2000s", reading.path, ending.status,
              ending.err);
    cr_assert(sscanf(ending.out, "%zu %zu %zu", &refused, &same, &unnoticed) == 3);
    cr_expect(!unnoticed && refused > (sweep() ? 100 : 10) &&
                  100 * refused >= (refused + same) * (size_t)percent,
              "%s: %zu noticed, %zu without effect", reading.path, refused, same);
}

/* A header whose checksum has lost its name looks like another program's: the command refuses it in
   a run's folder, or reports it when the file itself is named (see below). */
static void read_safetensors(struct reading *reading) {
    static struct safetensors file;
    safetensors_close(&file); // of the flip before, if that died
    safetensors_open(&file, reading->path);
    reading->same = file.data_checked;
    reading->noticed = !file.header_checked;
}

Test(flips, the_model_and_the_checkpoint) {
    expect_noticed((struct reading){.path = "run/model.safetensors", .read = read_safetensors},
                   100);
    expect_noticed((struct reading){.path = "run/checkpoint.safetensors", .read = read_safetensors},
                   100);
}

/* The rows of a resumed run. */
static const char *const tables[] = {"run/log.csv", "run/probes.csv", "run/samples.txt",
                                     "run/log.crc32"};
static struct {
    char *text;
    size_t bytes;
} complete[TABLES + 1], kept[TABLES];
static double kept_seconds;
static struct run run;

static void restore_tables(void) {
    for (int i = 0; i <= TABLES; i++) file_put(tables[i], complete[i].text, complete[i].bytes);
}

static void resume_tables(void) {
    run = (struct run){.uses = {[TABLE_PROBES] = true, [TABLE_SAMPLES] = true}};
    run_lock(&run, "run");
    kept_seconds = run_check(&run, STEPS);
    run_resume(&run);
    run_close(&run);
}

static bool is_kept(int i) {
    char text[1 << 16];
    FILE *file = fopen(tables[i], "rb");
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    return bytes == kept[i].bytes && !memcmp(text, kept[i].text, bytes);
}

static void read_tables(struct reading *reading) {
    double seconds = kept_seconds;
    for (int i = 0; i < TABLES; i++)
        if (run.table[i]) fclose(run.table[i]); // of the flip before, if that died; it holds a lock
    memset(run.table, 0, sizeof run.table);
    resume_tables();
    memset(run.table, 0, sizeof run.table);
    reading->same = seconds == kept_seconds && is_kept(TABLE_LOG) && is_kept(TABLE_PROBES) &&
                    is_kept(TABLE_SAMPLES);
    kept_seconds = seconds;
}

Test(flips, the_tables_and_their_checksums) {
    for (int k = 0; k <= TABLES; k++) complete[k].text = file_text(tables[k], &complete[k].bytes);
    resume_tables();
    for (int k = 0; k < TABLES; k++) kept[k].text = file_text(tables[k], &kept[k].bytes);
    memset(run.table, 0, sizeof run.table);
    cr_assert(kept[0].bytes < complete[0].bytes, "the log has no row after the checkpoint");
    restore_tables();
    for (int k = 0; k <= TABLES; k++) // the log's row after the checkpoint is removed anyway
        expect_noticed(
            (struct reading){.path = tables[k], .read = read_tables, .restore = restore_tables},
            k == TABLE_LOG ? 75 : 100);
}

/* All values of a configuration as a file. */
static char *values_of(const struct config *config) {
    static char text[1 << 15];
    FILE *file = fmemopen(text, sizeof text, "w");
    options_write(config_options, config, "", file);
    fclose(file);
    return text;
}

static char whole_values[1 << 15];

static void read_config(struct reading *reading) {
    struct config config;
    config_start(&config);
    reading->noticed = !options_read(config_options, &config, reading->path);
    reading->same = !strcmp(values_of(&config), whole_values);
}

Test(flips, the_options) {
    struct config config;
    config_start(&config);
    cr_assert(options_read(config_options, &config, "run/config.ini"));
    strcpy(whole_values, values_of(&config));
    expect_noticed((struct reading){.path = "run/config.ini", .read = read_config}, 90);
}

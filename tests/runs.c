/* Compares runs cell by cell and byte by byte, except for what contains times. */
#include "tests/runs.h"
#include "data/die.h"
#include "model/app/session.h"
#include "tests/command.h"
#include "tests/support.h"
#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const column_names[COLUMNS] = {
    "step",      "seconds",           "tokens",         "lr", "train_loss", "val_loss",
    "grad_norm", "tokens_per_second", "eval_train_loss"};

struct log log_of(const char *folder) {
    struct log log = {0};
    const char *path = say("%s/log.csv", folder);
    char *text = file_text(path, NULL), *line;
    cr_assert(*text && text[strlen(text) - 1] == '\n', "%s: is cut short", path);
    line = strsep(&text, "\n");
    int place[COLUMNS], columns = 0; // of the log's columns, in struct log
    for (const char *name; (name = strsep(&line, ","));) {
        int i = 0;
        while (i < COLUMNS && strcmp(name, column_names[i]) != 0) i++;
        cr_assert(i < COLUMNS, "%s: column_names of runs.c lacks %s", path, name);
        cr_assert(columns < COLUMNS && (i == columns || i >= EVERY_LOG), "%s: %s", path, name);
        place[columns++] = i;
    }
    cr_assert(columns >= EVERY_LOG, "%s: too few columns", path);
    for (; (line = strsep(&text, "\n")) && *line; log.rows++) {
        cr_assert(log.rows < LOG_ROWS, "%s: too many rows for the test", path);
        for (int column = 0; column < columns; column++)
            cr_assert((log.cell[log.rows][place[column]] = strsep(&line, ",")), "%s: too few cells",
                      path);
        cr_assert(!line, "%s: too many cells", path);
    }
    cr_assert(log.rows > 0, "%s: no rows", path);
    return log;
}

double log_number(const struct log *log, int row, int column) {
    cr_assert(row >= 0 && row < log->rows && *log->cell[row][column], "row %d has no number", row);
    return strtod(log->cell[row][column], NULL);
}

void expect_same_log(const char *one, const char *other) {
    struct log a = log_of(one), b = log_of(other);
    cr_assert(a.rows > 1 && a.rows == b.rows);
    for (int row = 0; row < a.rows; row++)
        for (int i = 0; i < COLUMNS; i++)
            if (i != SECONDS && i != SPEED && a.cell[row][i] && b.cell[row][i])
                cr_expect_str_eq(a.cell[row][i], b.cell[row][i], "%s and %s, row %d", one, other,
                                 row);
}

void expect_same_file(const char *one, const char *other, const char *name) {
    size_t bytes, other_bytes;
    char *text = file_text(say("%s/%s", one, name), &bytes);
    char *other_text = file_text(say("%s/%s", other, name), &other_bytes);
    cr_expect(bytes > 0 && bytes == other_bytes && !memcmp(text, other_text, bytes),
              "%s: %s differs from %s", name, one, other);
}

char *summary_of(const char *folder) {
    return file_text(say("%s/summary.json", folder), NULL);
}

double loss_in(const char *printed) {
    double loss;
    cr_assert(sscanf(printed, "loss: %lf nats per character", &loss) == 1, "%s", printed);
    return loss;
}

double summary_number(const char *folder, const char *name) {
    const char *value = json_member(summary_of(folder), name);
    cr_assert(value, "%s/summary.json: no %s", folder, name);
    return strtod(value, NULL);
}

void expect_member(const char *folder, const char *name, const char *value) {
    const char *found = json_member(summary_of(folder), name);
    cr_expect(json_is(found, value), "%s/summary.json: %s is not %s: %.40s", folder, name, value,
              found ? found : "missing");
}

void expect_same_arrays(const char *one, const char *other) {
    struct safetensors a, b;
    safetensors_open(&a, one);
    safetensors_open(&b, other);
    cr_expect(a.array_count == b.array_count);
    for (size_t i = 0; i < a.array_count; i++) {
        size_t count = stored_count(&a.arrays[i]);
        const struct stored *same = safetensors_find(&b, a.arrays[i].name);
        cr_assert(same && stored_count(same) == count, "no %s", a.arrays[i].name);
        double *x = hold(count * sizeof *x), *y = hold(count * sizeof *y);
        safetensors_read(&a, &a.arrays[i], STORED_F64, x);
        safetensors_read(&b, same, STORED_F64, y);
        cr_expect(!memcmp(x, y, count * sizeof *x), "%s differs", a.arrays[i].name);
    }
    safetensors_close(&a);
    safetensors_close(&b);
}

void expect_same_folder(const char *one, const char *other) {
    static const char timed[] = " log.csv log.crc32 summary.json . .. ";
    DIR *listing = opendir(one);
    cr_assert(listing, "%s is missing", one);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (!strstr(timed, say(" %s ", entry->d_name))) expect_same_file(one, other, entry->d_name);
    closedir(listing);
    expect_same_log(one, other);
    cr_expect(files_in(one) == files_in(other), "a temporary file remains");
}

void memory_start(struct session *t, const char *options) {
    char *words[64] = {"train"};
    *t = (struct session){0};
    struct config given;
    config_parse(&given, 1 + split(say("%s", options), words + 1, 63), words);
    t->plan = plan_of(&given);
    const struct config *config = t->loader.config = &t->plan.config;
    session_join(config);
    session_corpus(&t->loader.corpus, config, NULL);
    t->loader.batch = batch_make(config->batch_size, config->model.block_size);
    model_init(&t->model, &config->model, t->loader.corpus.vocabulary.V, config->batch_size,
               config->seed);
}

void memory_end(struct session *t) {
    model_free(&t->model);
    batch_free(&t->loader.batch);
    corpus_free(&t->loader.corpus);
}

const char *json_member(const char *object, const char *name) {
    const char *quoted = say("\"%s\":", name);
    int depth = 0;
    for (const char *c = object; *c; c++) {
        if (*c == '"') {
            if (depth == 1 && !strncmp(c, quoted, strlen(quoted)))
                return c + strlen(quoted) + strspn(c + strlen(quoted), " \n");
            while (*++c != '"') c += *c == '\\';
        } else {
            depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
        }
    }
    return NULL;
}

bool json_is(const char *value, const char *text) {
    if (!value) return false;
    size_t length = strlen(text), quote = *value == '"';
    return !strncmp(value + quote, text, length) &&
           strchr(quote ? "\"" : ",}] \n", value[quote + length]);
}

void stored_write(const char *path, const struct stored_text *texts, size_t text_count,
                  const struct stored *arrays, size_t array_count) {
    FILE *file = fopen(path, "wb");
    const struct safetensors content = {.texts = (struct stored_text *)texts,
                                        .text_count = text_count,
                                        .arrays = (struct stored *)arrays,
                                        .array_count = array_count};
    cr_assert(file, "%s: cannot be written", path);
    safetensors_write(&content, file);
    cr_assert(!fclose(file));
}

struct edited edited;

void edited_load(const char *path) {
    static struct safetensors file; // its names stay in use until the next change
    safetensors_close(&file);
    safetensors_open(&file, path);
    char *bytes = file_text(path, NULL);
    edited.text_count = edited.array_count = 0;
    for (size_t i = 0; i < file.text_count; i++)
        if (strcmp(file.texts[i].name, "header_crc32") != 0 && // the writer adds its own
            strcmp(file.texts[i].name, "data_crc32") != 0)
            edited.texts[edited.text_count++] = file.texts[i];
    for (size_t i = 0; i < file.array_count; i++) {
        edited.arrays[i] = file.arrays[i];
        edited.arrays[i].data = bytes + file.first + file.arrays[i].begin;
    }
    edited.array_count = file.array_count;
    cr_assert(file.text_count < 200 && file.array_count < 200);
}

void edited_save(const char *path) {
    stored_write(path, edited.texts, edited.text_count, edited.arrays, edited.array_count);
}

struct stored *edited_find(const char *name) {
    for (size_t i = 0; i < edited.array_count; i++)
        if (!strcmp(edited.arrays[i].name, name)) return &edited.arrays[i];
    cr_assert_fail("no %s", name);
    return NULL;
}

void foreign_learn(const char *options) {
    expect_done(train(TINY "--quiet --max-iters=30 --learning-rate=0.02 --eval-interval=1000 "
                           "--log-interval=1000 --force --out=out %s text.txt",
                      options));
    edited_load("out/model.safetensors");
    edited.text_count = 0;
}

void foreign_put_without(struct stored *array) {
    struct stored kept = *array;
    size_t after = (size_t)(edited.arrays + --edited.array_count - array);
    memmove(array, array + 1, after * sizeof *array);
    edited_save("other.st");
    memmove(array + 1, array, after * sizeof *array);
    *array = kept;
    edited.array_count++;
}

/* Readers of files, each as a function that reads one and checks what must hold of what it
   returns. The branches that the one file in FOLDER reaches are listed by

     build/clang*-fuzz/fuzz --target=READER -merge=1 -use_counters=0 -merge_control_file=LIST \
         NEW FOLDER */
#include "data/files/safetensors.h"
#include "data/text/items.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "model/app/run.h"
#include "model/norm/formula.h"
#include "model/options/config.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "readers: broken: %s\n", what);
    abort();
}

/* The file's bytes, followed by a NUL. */
static char *bytes_of(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    check(file && !fstat(fileno(file), &status), "a file to read");
    char *text = calloc((size_t)status.st_size + 1, 1);
    check(text, "memory");
    *bytes = fread(text, 1, (size_t)status.st_size, file);
    fclose(file);
    return text;
}

static void check_utf8(const char *text) {
    for (size_t offset = 0, bytes = strlen(text); offset < bytes;)
        check(utf8_decode((const unsigned char *)text, bytes, &offset) > 0,
              "names and texts are UTF-8");
}

/* The arrays follow one another without gaps up to the end of the file, and can be read. */
static void read_safetensors(const char *path) {
    struct safetensors file;
    struct stat status;
    safetensors_open(&file, path);
    uint64_t bytes = 0;
    for (size_t i = 0; i < file.text_count; i++) {
        check_utf8(file.texts[i].name);
        check_utf8(file.texts[i].text);
        check(safetensors_text(&file, file.texts[i].name) == file.texts[i].text, "no text twice");
    }
    for (size_t i = 0; i < file.array_count; i++) {
        const struct stored *array = &file.arrays[i];
        check_utf8(array->name);
        check(safetensors_find(&file, array->name) == array, "no array twice");
        check(array->end >= array->begin, "a size");
        bytes += array->end - array->begin;
        size_t count = stored_count(array);
        double *values = calloc(count + 1, sizeof *values);
        check(values && count <= array->end - array->begin, "an element has a byte or more");
        safetensors_read(&file, array, STORED_F64, values);
        safetensors_read(&file, array, STORED_F32, values);
        free(values);
    }
    check(!stat(path, &status) && file.first + bytes == (uint64_t)status.st_size, "a whole file");
    safetensors_close(&file);
}

/* Numbers are in their ranges. What is written reads back as the same. */
static void read_config(const char *path) {
    struct config config, again;
    char option[4200], text[2][64];
    snprintf(option, sizeof option, "--config=%s", path);
    config_parse(&config, 2, (char *[]){"train", option, NULL});
    FILE *file = fopen("again.ini", "w");
    check(file, "a file to write");
    options_write(config_options, &config, "", file);
    fclose(file);
    config_start(&again);
    options_read(config_options, &again, "again.ini");
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        bool number = o->kind == OPTION_INT || o->kind == OPTION_REAL;
        if (number && o->scope != OPTION_OF_CALL) {
            double value = o->kind == OPTION_INT ? (double)option_data_of(o, &config)->integer
                                                 : option_data_of(o, &config)->real;
            bool automatic = value == OPTION_AUTO && !strcmp(o->start, "auto");
            check(automatic || (value >= o->min && value <= o->max), o->name);
        }
        if (o->scope == OPTION_OF_CALL) continue;
        const char *one = option_value(o, &config, text[0], sizeof text[0]);
        const char *other = option_value(o, &again, text[1], sizeof text[1]);
        check(!one == !other && (!one || !strcmp(one, other)), o->name);
    }
}

/* Each id maps back to the character of the text. */
static void check_corpus(const struct corpus *corpus, const char *text, size_t bytes) {
    const struct vocabulary *vocabulary = &corpus->vocabulary;
    bool marked = vocabulary->level == LEVEL_CHAR && !strncmp(text, "\xef\xbb\xbf", 3);
    size_t offset = marked ? 3 : 0;
    for (size_t i = 0; i < corpus->length; i++) {
        check((size_t)ids_at(&corpus->ids, i) < vocabulary->V, "ids are below V");
        uint32_t symbol = vocabulary->symbols[ids_at(&corpus->ids, i)];
        char character[4] = {(char)symbol};
        size_t length = vocabulary->level == LEVEL_CHAR ? utf8_encode(symbol, character) : 1;
        check(offset + length <= bytes && !memcmp(text + offset, character, length),
              "the same text");
        offset += length;
    }
    check(offset == bytes && corpus->train <= corpus->length, "nothing is left out");
}

/* Items are what is between markers. */
static void check_items(const struct corpus *corpus) {
    int32_t marker = vocabulary_id(&corpus->vocabulary, END_MARKER);
    size_t tokens = 0;
    for (size_t i = 0; i < corpus->units; i++) {
        const struct item *item = &items_of(corpus)[i];
        check(item->tokens > 1 && item->start + item->tokens <= corpus->length, "inside");
        check(!item->start || ids_at(&corpus->ids, item->start - 1) == marker, "a start");
        for (size_t t = 1; t <= item->tokens; t++)
            check((ids_at(&corpus->ids, item->start + t - 1) == marker) == (t == item->tokens),
                  "a line");
        tokens += item->tokens;
    }
    check(corpus->units && tokens == corpus->characters + corpus->units, "all of them");
    check(corpus->train <= corpus->units && corpus->length <= corpus->bytes + 1, "no more");
}

static void read_corpus(const char *path) {
    size_t bytes;
    char *text = bytes_of(path, &bytes);
    for (int level = LEVEL_BYTE; level >= LEVEL_CHAR; level--) { // bytes are always valid
        struct corpus corpus, again;
        corpus_read(&corpus, path, &(struct corpus_options){.level = level, .val_fraction = 0.1});
        check_corpus(&corpus, text, bytes);
        corpus_read(&again, path,
                    &(struct corpus_options){
                        .level = level, .val_fraction = 0.1, .known = &corpus.vocabulary});
        check(corpus.ids.width == again.ids.width && corpus.length == again.length &&
                  !memcmp(corpus.ids.data, again.ids.data, corpus.length * corpus.ids.width),
              "known ids");
        corpus_free(&corpus);
        corpus_free(&again);
    }
    free(text);
}

static void read_items(const char *path) {
    for (int level = LEVEL_BYTE; level >= LEVEL_CHAR; level--) {
        struct corpus corpus;
        corpus_read(
            &corpus, path,
            &(struct corpus_options){.level = level, .val_fraction = 0.1, .kind = &corpus_items});
        check_items(&corpus);
        corpus_free(&corpus);
    }
}

/* A vocabulary is ascending, finds its own symbols, and is written as it was read. */
static void read_vocabulary(const char *path) {
    size_t bytes;
    char *text = bytes_of(path, &bytes);
    for (int level = LEVEL_CHAR; level <= LEVEL_BYTE; level++) {
        struct vocabulary vocabulary, again;
        if (!vocabulary_parse(&vocabulary, level, text)) continue;
        char *written = vocabulary_text(&vocabulary);
        check(vocabulary_parse(&again, level, written), "what is written can be read");
        check(vocabulary.V && vocabulary.V == again.V, "as many");
        for (size_t i = 0; i < vocabulary.V; i++) {
            check(vocabulary.symbols[i] == again.symbols[i], "the same");
            check(vocabulary_id(&vocabulary, vocabulary.symbols[i]) == (int32_t)i, "found");
        }
        FILE *file = fopen("/dev/null", "w");
        struct writer writer = {.vocabulary = &vocabulary, .file = file};
        for (size_t i = 0; file && i < vocabulary.V; i++) writer_put(&writer, (int32_t)i);
        if (file) writer_flush(&writer, true), fclose(file);
        free(written);
        vocabulary_free(&again);
        vocabulary_free(&vocabulary);
    }
    free(text);
}

/* What remains of a log is a prefix of it, in whole lines. */
static void read_log(const char *path) {
    size_t before, after;
    char *was = bytes_of(path, &before), log[4200];
    struct run run = {0};
    snprintf(log, sizeof log, "%s%s", *path == '/' ? "" : "../", path);
    check(!mkdir("run", 0777) || errno == EEXIST, "a folder");
    check((!unlink("run/log.csv") || errno == ENOENT) && !symlink(log, "run/log.csv"), "a log");
    run_lock(&run, "run");
    double seconds = run_check(&run, 5);
    run_resume(&run);
    run_close(&run);
    char *is = bytes_of(path, &after);
    check(seconds >= 0 && isfinite(seconds), "a time");
    check(after && is[after - 1] == '\n', "whole lines");
    check(!before || after > before || !memcmp(was, is, after), "a beginning");
    free(was);
    free(is);
}

/* The text of a formula: what is accepted has a gradient, whose value on numbers is computed. */
static void read_formula(const char *path) {
    size_t bytes;
    char *text = bytes_of(path, &bytes);
    struct norm_kind *kind = formula_kind("norm", text);
    const struct norm norm = {.kind = kind, .formula = formula_of(kind), .C = 6};
    check(!strcmp(kind->name, norm.formula->graph.text), "its name is its text");
    check(program_fits(&norm.formula->training, 1), "it fits one channel");
    for (enum formula_change change = SHIFT_OF_TOKEN; change <= SCALE_OF_CHANNEL; change++)
        check(formula_effect(&norm, change) <= EFFECT_UNKNOWN, "an effect");
    formula_free(kind);
    free(text);
}

const struct reader readers[] = {{"safetensors", read_safetensors, false},
                                 {"config", read_config, true}, // texts are kept
                                 {"corpus", read_corpus, false},
                                 {"items", read_items, false},
                                 {"vocabulary", read_vocabulary, false},
                                 {"log", read_log, false},
                                 {"formula", read_formula, true}, // messages end it anywhere
                                 {NULL, NULL, false}};

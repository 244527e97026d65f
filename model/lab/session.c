#include "model/lab/session.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/text/grammar.h"
#include "data/text/items.h"
#include "model/math/ranks.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

void session_join(struct session *t) {
    struct config *config = &t->config;
    t->run.silent = ranks_number() > 0;
    if (t->run.silent) config->quiet = true;
    if (ranks_count() > 1 && config->corpus && !strcmp(config->corpus, "-"))
        die(STATUS_USAGE, "corpus: -: standard input reaches the first rank only (give a file)");
    if (ranks_here() > 1 && !config->team) { // --threads=auto
        int64_t share = omp_get_num_procs() / (int64_t)ranks_here();
        if (config->threads > share) config->threads = share ? share : 1;
        omp_set_num_threads((int)config->threads);
    }
}

/* Of the program's file, or 0 where the system does not show it. */
static uint32_t checksum_of_program(void) {
    static char buffer[1 << 16];
    uint32_t crc = 0;
    FILE *file = fopen("/proc/self/exe", "rb");
    for (size_t bytes; file && (bytes = fread(buffer, 1, sizeof buffer, file));)
        crc = crc32_of(crc, buffer, bytes);
    if (file) fclose(file);
    return crc;
}

/* Without what may differ from machine to machine. */
static uint32_t checksum_of_options(const struct config *config) {
    struct config common = *config;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (!file) die(STATUS_MACHINE, "memory: not enough to compare options");
    common.threads = common.team = 0;
    common.quiet = false;
    common.corpus = NULL; // it has a checksum of its own
    options_write(config_options, &common, file);
    fclose(file);
    uint32_t crc = crc32_of(0, text, size);
    free(text);
    return crc;
}

void session_compare(const struct session *t) {
    if (ranks_count() == 1) return;
    ranks_check("the program", checksum_of_program());
    ranks_check("the corpus", t->corpus.crc32);
    ranks_check("an option", checksum_of_options(&t->config));
}

void session_compare_weights(const struct session *t) {
    const struct tensor_list *param = &t->model.lists.param, *state = &t->model.lists.state;
    if (ranks_count() == 1) return;
    uint32_t crc = crc32_of((uint32_t)t->outcome.steps, param->value, param->size * sizeof(real));
    crc = crc32_of(crc, state->value, state->size * sizeof(real));
    for (int i = 0; i < OPTIMIZER_STATES && t->optimizer.state[i]; i++)
        crc = crc32_of(crc, t->optimizer.state[i], param->size * sizeof(real));
    ranks_check("the stored model", crc);
}

const struct vocabulary *session_vocabulary(const struct session *t) {
    return t->known.symbols ? &t->known : &t->corpus.vocabulary;
}

void session_corpus(struct session *t, const struct vocabulary *known) {
    const struct config *config = &t->config;
    struct corpus_options options = {.level = (int)config->level,
                                     .val_fraction = config->val_fraction,
                                     .hold_out = config->hold_out,
                                     .known = known,
                                     .kind = config->items ? &corpus_items : &corpus_text,
                                     .batch_size = (size_t)config->batch_size,
                                     .pad_to_block = config->pad_to == PAD_TO_BLOCK,
                                     .bucket = config->bucket};
    t->outcome.grammar_entropy = NOT_MEASURED;
    if (config->corpus && !strcmp(config->corpus, RANDOM_CORPUS)) {
        if (config->items) die(STATUS_USAGE, "--items: --corpus=" RANDOM_CORPUS " has no lines");
        if (config->level == LEVEL_BYTE && known)
            die(STATUS_USAGE, "--corpus=" RANDOM_CORPUS
                              ": is made of characters, but the model was trained on bytes");
        if (config->level == LEVEL_BYTE)
            die(STATUS_USAGE, "--level=byte: --corpus=" RANDOM_CORPUS
                              " is made of characters (leave out --level)");
        corpus_make_random(&t->corpus, (size_t)config->random_chars, known);
    } else if (config->corpus) {
        corpus_read(&t->corpus, config->corpus, &options);
    } else {
        size_t length = config->grammar_chars;
        char *text = grammar_text(config->grammar_seed, length);
        if (!text)
            die(STATUS_MACHINE, "memory: not enough for the grammar's text of %zu bytes", length);
        corpus_make(&t->corpus, "the built-in grammar", text, length, &options);
        free(text);
        if (!config->items) t->outcome.grammar_entropy = grammar_entropy(); // of running text
    }
    t->outcome.corpus = t->corpus.name;
    t->outcome.corpus_bytes = t->corpus.bytes;
    t->outcome.corpus_characters = t->corpus.characters;
    t->outcome.corpus_crc32 = t->corpus.crc32;
    t->outcome.vocabulary = session_vocabulary(t)->V;
    t->outcome.items = items_size(&t->corpus, (size_t)config->model.block_size);
}

struct bad_tensor session_bad_tensor(const struct session *t, bool gradients) {
    const struct tensor_list *param = &t->model.lists.param, *state = &t->model.lists.state;
    const struct {
        const struct tensor_list *list;
        const real *values; // NULL: not searched
        const char *of;
    } kinds[] = {{param, param->value, ""},
                 {param, gradients ? param->grad : NULL, "gradient of "},
                 {state, state->value, ""},
                 {param, t->optimizer.state[0], "moment of "},
                 {param, t->optimizer.state[1], "moment of "}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].values) continue;
        const struct tensor *bad = tensor_nonfinite(kinds[i].list, kinds[i].values);
        if (bad) return (struct bad_tensor){bad, kinds[i].of};
    }
    return (struct bad_tensor){NULL, ""};
}

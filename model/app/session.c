/* From options to a run that is ready to train.

   --start: the vocabulary of the file, if it has one, becomes that of the run, so that a character
   keeps its embedding and another text may lack some of the characters. A run that resumes has its
   weights and vocabulary in its checkpoint and does not read the file again, unless it was stopped
   before its first checkpoint. */
#include "model/app/session.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/text/grammar.h"
#include "model/app/messages.h"
#include "model/math/ranks.h"
#include "model/model_pass.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* ---- several ranks ---- */

void session_join(const struct config *config) {
    omp_set_num_threads((int)config->threads);
    if (ranks.count > 1 && config->corpus && !strcmp(config->corpus, "-"))
        die(STATUS_USAGE, "corpus: -: only the first rank can read standard input (give a file)");
}

/* The checksum of the options that training depends on. The corpus has a checksum of its own. */
static uint32_t checksum_of_options(const struct config *config) {
    uint32_t crc = 0;
    char text[TEXT_SIZE];
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        const bool common = o->scope != OPTION_OF_CALL && o->role != OPTION_OPERAND;
        const char *value = common ? option_value(o, config, text, sizeof text) : NULL;
        if (value) crc = crc32_of(crc, value, strlen(value) + 1);
    }
    return crc;
}

void session_compare(const struct config *config, const struct corpus *corpus) {
    uint32_t program = 0; // stays 0 if the system does not show it
    if (ranks.count == 1) return;
    file_checksum("/proc/self/exe", &program);
    ranks_check("the program", program);
    ranks_check("the corpus", corpus->crc32);
    ranks_check("an option", checksum_of_options(config));
}

void session_compare_weights(const struct model *model, const struct optimizer *optimizer) {
    const struct tensor_list *param = &model->lists.param, *state = &model->lists.state;
    if (ranks.count == 1) return;
    uint32_t crc = crc32_of(0, param->value, param->size * sizeof(real));
    crc = crc32_of(crc, state->value, state->size * sizeof(real));
    if (optimizer) crc = crc32_of(crc, &optimizer->step, sizeof optimizer->step);
    for (int i = 0; optimizer && i < OPTIMIZER_STATES && optimizer->state[i]; i++)
        crc = crc32_of(crc, optimizer->state[i], param->size * sizeof(real));
    ranks_check("the stored model", crc);
}

/* ---- the corpus ---- */

void session_corpus(struct corpus *corpus, const struct config *config,
                    const struct vocabulary *known) {
    struct corpus_options options = {.level = (int)config->level,
                                     .val_fraction = config->val_fraction,
                                     .hold_out = config->hold_out,
                                     .known = known,
                                     .kind = config->items ? &corpus_items : &corpus_text,
                                     .batch_size = (size_t)config->batch_size,
                                     .pad_to_block = config->pad_to == PAD_TO_BLOCK,
                                     .bucket = config->bucket};
    if (config->corpus && !strcmp(config->corpus, RANDOM_CORPUS)) {
        if (config->items) die(STATUS_USAGE, "--items: --corpus=" RANDOM_CORPUS " has no lines");
        if (config->level == LEVEL_BYTE)
            die(STATUS_USAGE, known ? "--corpus=" RANDOM_CORPUS
                                      ": is made of characters, but the model was trained on bytes"
                                    : "--level=byte: --corpus=" RANDOM_CORPUS
                                      " is made of characters (leave out --level)");
        corpus_make_random(corpus, (size_t)config->random_chars, known);
    } else if (config->corpus) {
        corpus_read(corpus, config->corpus, &options);
    } else {
        size_t length = config->grammar_chars;
        char *text = grammar_text(config->grammar_seed, length);
        corpus_make(corpus, "the built-in grammar", text, length, &options);
        free(text);
    }
}

/* ---- a run ---- */

/* Notes each option of the model that differs from that of the file: shapes do not show all of
   them. An option that is not in effect changes nothing and is not noted. */
static void note_differences(const struct checkpoint *file, const struct config *config) {
    char where[4200], texts[2][TEXT_SIZE];
    struct config stored;
    snprintf(where, sizeof where, "%s: ", file->path);
    config_start(&stored);
    for (size_t i = 0; i < file->file.text_count; i++)
        options_set(config_options, &stored, where, file->file.texts[i].name,
                    file->file.texts[i].text);
    stored = plan_of(&stored).config;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->scope != OPTION_OF_MODEL || o->kind == OPTION_HEADING ||
            !safetensors_text(&file->file, o->name) || !option_is_active(o, config))
            continue;
        const char *was = option_value(o, &stored, texts[0], TEXT_SIZE);
        const char *is = option_value(o, config, texts[1], TEXT_SIZE);
        if (strcmp(was, is) != 0)
            notice("%s comes from a model with --%s=%s, but this model has %s", file->path, o->name,
                   was, is);
    }
}

/* --start. Before the corpus is read: opens the file, and reads its vocabulary. The stream of
   `file` stays NULL if no weights are to be read, since `from`, of a run that resumes, has them. */
static void open_start(struct checkpoint *file, const struct checkpoint *from,
                       const struct config *config, struct vocabulary *known) {
    *file = (struct checkpoint){0};
    if (!config->start) return;
    if (!from->file.stream) {
        checkpoint_open_start(file, config->start);
        from = file;
    }
    if (safetensors_text(&from->file, "vocabulary"))
        checkpoint_read_vocabulary(from, (int)config->level, known);
}

/* Reads the weights into the new model, and closes the file. */
static void read_start(struct checkpoint *file, const struct config *config, struct model *model,
                       const char *corpus) {
    if (!file->file.stream) return;
    const struct stored *embedding = safetensors_find(&file->file, EMBEDDING_NAME);
    if (embedding->dimensions && embedding->shape[0] != model->V)
        die(STATUS_MACHINE,
            "%s: its embedding has %zu characters, but the vocabulary of %s has %zu", file->path,
            embedding->shape[0], corpus, model->V);
    checkpoint_read_model(file, model, true);
    note_differences(file, config);
    safetensors_close(&file->file);
}

/* Reads the run as it was at its last checkpoint, or before its first step if it has none. Changes
   nothing in its folder. */
static void read_resumed(struct session *t) {
    const struct config *config = &t->plan.config;
    struct state *run = &t->record.state;
    if (t->checkpoint.file.stream) {
        checkpoint_read_model(&t->checkpoint, &t->model, false);
        checkpoint_read_run(&t->checkpoint, config, &t->model, &t->optimizer, t->record.tracked,
                            run);
        record_read_best(&t->record, &t->checkpoint);
    }
    if (run->step > config->max_iters)
        die(STATUS_USAGE, "--max-iters=%lld: the run in %s has done %lld already",
            (long long)config->max_iters, config->resume, (long long)run->step);
    run->seconds = run_check(&t->record.run, run->step);
}

/* Writes config.ini: the options, and in a comment what became of them, which scripts read while the
   run has no summary.json. */
static void write_options(const struct run *run, const struct plan *plan) {
    char *notes = NULL;
    size_t length;
    FILE *memory = open_memstream(&notes, &length);
    if (!memory) die(STATUS_MACHINE, "memory: not enough for the options");
    fputs("# {", memory);
    config_write_outcome(plan, memory);
    fputs("}\n", memory);
    fclose(memory);
    struct new_file file = run_create_file(run, "config.ini");
    options_write(config_options, &plan->given, notes, file.stream);
    file_commit(&file);
    free(notes);
}

/* Opens the run's folder. Whatever could refuse the run comes before: from here on, files of an
   earlier run in this folder are replaced and removed. */
static void open_run(struct session *t) {
    const struct config *config = &t->plan.config;
    const int64_t connection = config->model.connection; // 0: the placement's
    struct run *run = &t->record.run;
    const struct norm_kind *norm = norm_kinds[config->model.norm];
    char name[128], formula[16]; // of a new folder
    snprintf(formula, sizeof formula, "f%08x", crc32_of(0, norm->name, strlen(norm->name)));
    snprintf(name, sizeof name, "%s-%s%s%s-s%lld", norm->typed ? formula : norm->name,
             placements[config->model.placement].name, connection ? "-" : "",
             connection ? connection_kinds[connection - 1]->name : "", (long long)config->seed);
    if (!config->resume) run_open(run, config->out, name, config->force);
    write_options(run, &t->plan);
    if (config->resume) {
        record_resume_best(&t->record);
        run_resume(run);
    }
}

/* Dies if the run would replace a file that it reads. */
static void check_reads(const struct config *config, const struct checkpoint *start) {
    const char *folder = config->resume ? config->resume : config->out;
    const char *const read[] = {config->corpus, start->path};
    for (size_t i = 0; folder && i < sizeof read / sizeof *read; i++)
        if (read[i] && run_owns(folder, read[i]))
            die(STATUS_USAGE, "run: %s: this run reads the file and would also replace it (%s)",
                read[i],
                config->resume ? "copy the file, and name the copy"
                               : "give another folder as --out");
}

void session_start(struct session *t) {
    const struct config *config = &t->plan.config;
    struct loader *loader = &t->loader;
    struct corpus *corpus = &loader->corpus;
    struct record *record = &t->record;
    struct checkpoint start;
    struct vocabulary known = {0}; // of --start, or without symbols
    progress_start(&t->progress, config->quiet);
    messages_plot_start(&t->chart, &t->progress, config);
    open_start(&start, &t->checkpoint, config, &known);
    check_reads(config, &start);
    loader->config = config;
    session_corpus(corpus, config, known.symbols ? &known : NULL);
    vocabulary_free(&known);
    session_compare(config, corpus);
    corpus_check(corpus, config->model.block_size);
    config_settle_count(&t->plan, corpus);
    model_init(&t->model, &config->model, corpus->vocabulary.V, config->batch_size, config->seed);
    t->model.threads = t->plan.team;
    read_start(&start, config, &t->model, corpus->name);
    optimizer_init(&t->optimizer, &config->optimizer, &t->model.lists.param, model_team(&t->model));
    if (config->probe_interval) probe_init(&t->probe, &t->model, run_probe, &record->run);
    record_init(record, &t->plan, corpus, &t->model, &t->optimizer, &t->probe.watch.tracked);
    loader->batch = batch_make(config->batch_size, config->model.block_size);
    record->run.optional = record->state.optional;
    record->run.uses[TABLE_PROBES] = config->probe_interval > 0;
    record->run.uses[TABLE_SAMPLES] = config->sample_interval > 0;
    if (config->resume) read_resumed(t);
    safetensors_close(&t->checkpoint.file);
    // weights of a file have their values already
    if (!config->start && !record->state.step && model_needs_first_batch(&config->model)) {
        corpus_sample(corpus, config->seed, 0, &loader->batch);
        model_set_initial(&t->model, &loader->batch);
    }
    session_compare_weights(&t->model, &t->optimizer);
    open_run(t);
    messages_plot_resume(&t->chart, config, record->run.folder);
}

void session_free(struct session *t) {
    run_close(&t->record.run);
    if (t->plan.config.probe_interval) probe_free(&t->probe);
    batch_free(&t->loader.batch);
    record_free(&t->record);
    optimizer_free(&t->optimizer);
    model_free(&t->model);
    corpus_free(&t->loader.corpus);
}

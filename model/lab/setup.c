#include "model/lab/setup.h"
#include "data/die.h"
#include "model/lab/best.h"
#include "model/lab/plot.h"
#include "model/lab/start.h"
#include "model/lab/update.h"

static void open_new(struct session *t) {
    const struct config *config = &t->config;
    char name[128];
    snprintf(name, sizeof name, "%s-%s-s%lld", norm_kinds[config->model.norm]->name,
             placements[config->model.placement].name, (long long)config->seed);
    run_open(&t->run, config->out, name, config->force);
}

/* The run as it was at its last checkpoint, or before its first step if it has none. */
static void open_resumed(struct session *t) {
    const struct config *config = &t->config;
    struct outcome *outcome = &t->outcome;
    if (t->checkpoint.file.stream) {
        checkpoint_read_model(&t->checkpoint, &t->model);
        checkpoint_read_run(&t->checkpoint, config, &t->model, &t->optimizer, outcome);
    }
    if (outcome->steps > config->max_iters)
        die(STATUS_USAGE, "--max-iters=%lld: the run in %s has done %lld already",
            (long long)config->max_iters, config->resume, (long long)outcome->steps);
    outcome->seconds = run_resume(&t->run, outcome->steps);
    best_resume(t);
}

static void open_run(struct session *t) {
    const struct config *config = &t->config;
    struct outcome *outcome = &t->outcome;
    outcome->train_loss = outcome->val_loss = outcome->best_val_loss = NOT_MEASURED;
    outcome->val_accuracy = outcome->eval_train_loss = NOT_MEASURED;
    t->run.eval_train = config->eval_train;
    if (config->resume)
        open_resumed(t);
    else
        open_new(t);
    checkpoint_close(&t->checkpoint);
    struct new_file file = file_create(&t->run, "config.ini");
    options_write(config_options, config, file.stream);
    file_commit(&file);
}

/* Dies if the run would replace a file that it reads. */
static void check_reads(const struct config *config, const struct checkpoint *start) {
    const char *folder = config->resume ? config->resume : config->out;
    const char *const read[] = {config->corpus, start->path};
    for (size_t i = 0; folder && i < sizeof read / sizeof *read; i++)
        if (read[i] && run_owns(folder, read[i]))
            die(STATUS_USAGE, "run: %s: is read, and this run would replace it (%s)", read[i],
                config->resume ? "name a copy of it elsewhere" : "name another folder as --out");
}

void setup_run(struct session *t) {
    const struct config *config = &t->config;
    struct checkpoint start;
    progress_start(&t->progress, config->quiet);
    plot_start(t);
    start_open(&start, t);
    check_reads(config, &start);
    session_corpus(t, t->known.symbols ? &t->known : NULL);
    session_compare(t);
    corpus_check(&t->corpus, config->model.block_size);
    update_settle_count(t);
    model_init(&t->model, &config->model, session_vocabulary(t)->V, config->batch_size,
               config->seed);
    t->model.threads = (size_t)config->team;
    start_read(&start, t);
    optimizer_init(&t->optimizer, &config->optimizer, &t->model.lists.param, model_team(&t->model));
    best_init(t);
    t->batch = batch_make(config->batch_size, config->model.block_size);
    open_run(t);
    // weights of a file have their values already
    if (!config->start && !t->outcome.steps && model_profiled(&t->model)) {
        corpus_sample(&t->corpus, config->seed, 0, &t->batch);
        model_profile(&t->model, &t->batch);
    }
    session_compare_weights(t);
    plot_resume(t);
    if (config->probe_interval) {
        probe_init(&t->probe, &t->model);
        run_start_table(&t->run, TABLE_PROBES, t->outcome.steps);
    }
    if (config->sample_interval) run_start_table(&t->run, TABLE_SAMPLES, t->outcome.steps);
}

void setup_free(struct session *t) {
    run_close(&t->run);
    if (t->config.probe_interval) probe_free(&t->probe);
    batch_free(&t->batch);
    best_free(t);
    optimizer_free(&t->optimizer);
    corpus_free(&t->corpus);
    vocabulary_free(&t->known);
}

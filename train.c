/* normlab: trains a small character-level Transformer with any normalization in any placement.

   options -> corpus -> model -> loop (batch, forward, backward, adam, log) -> files and a sample

   A stored model can go on with its run (--resume), write (--generate) or be measured (--evaluate).
 */
#include "data/die.h"
#include "data/files/notice.h"
#include "data/files/quote.h"
#include "model/lab/best.h"
#include "model/lab/help.h"
#include "model/lab/use.h"
#include "model/math/profile.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Asks for the end. A second Ctrl-C ends the program at once; a second SIGTERM does not, since some
   programs send it to a process and then to its group. */
static void stop(int number) {
    if (!training_stopped) training_stopped = number;
    signal(SIGINT, SIG_DFL);
}

/* A closed standard stream would lend its number to the next file, and messages would end up there.
 */
static void open_standard_streams(void) {
    int number;
    do number = open("/dev/null", O_RDWR);
    while (number >= 0 && number <= STDERR_FILENO);
    if (number > STDERR_FILENO) close(number);
}

/* The run's folder, new or, where there is a checkpoint, as it was after that many updates. */
static void open_run(struct training *t) {
    const struct config *config = &t->config;
    struct outcome *outcome = &t->outcome;
    outcome->train_loss = outcome->val_loss = outcome->best_val_loss = NOT_MEASURED;
    outcome->val_accuracy = outcome->eval_train_loss = NOT_MEASURED;
    t->run.eval_train = config->eval_train;
    if (config->resume) {
        if (t->checkpoint.file.stream) {
            checkpoint_read_model(&t->checkpoint, &t->model);
            checkpoint_read_run(&t->checkpoint, config, &t->model, &t->adam, outcome);
        }
        if (outcome->steps > config->max_iters)
            die(STATUS_USAGE, "--max-iters=%lld: the run in %s has done %lld already",
                (long long)config->max_iters, config->resume, (long long)outcome->steps);
        outcome->seconds = run_resume(&t->run, outcome->steps);
        best_resume(t);
    } else {
        char name[128];
        snprintf(name, sizeof name, "%s-%s-s%lld", norm_kinds[config->model.norm]->name,
                 placements[config->model.placement].name, (long long)config->seed);
        run_open(&t->run, config->out, name, config->force);
    }
    checkpoint_close(&t->checkpoint);
    struct run_file file = file_create(&t->run, "config.ini");
    options_write(config_options, config, file.stream);
    file_commit(&file);
}

static void save_as(struct training *t, const char *name, const struct adam *adam) {
    struct run_file file = file_create(&t->run, name);
    checkpoint_write(file.stream, &t->model, adam, &t->config, &t->corpus.vocabulary, &t->outcome,
                     best_copy(t));
    file_commit(&file);
}

/* The first tensor that holds NaN or infinity, NULL if none does, and of what kind it is. */
struct bad {
    const struct tensor *tensor;
    const char *of;
};

static struct bad first_bad(const struct training *t, bool gradients) {
    const struct tensor_list *param = &t->model.lists.param, *state = &t->model.lists.state;
    const struct {
        const struct tensor_list *list;
        const real *values;
        const char *of;
    } kinds[] = {{param, param->value, ""},
                 {param, gradients ? param->grad : param->value, "gradient of "},
                 {state, state->value, ""},
                 {param, t->adam.m, "moment of "},
                 {param, t->adam.v, "moment of "}};
    struct bad bad = {NULL, ""};
    for (size_t i = 0; !bad.tensor && i < sizeof kinds / sizeof *kinds; i++)
        bad = (struct bad){tensor_nonfinite(kinds[i].list, kinds[i].values), kinds[i].of};
    return bad.tensor ? bad : (struct bad){NULL, ""};
}

/* All that the run needs to go on after outcome.steps updates, and with `last` the model alone too;
   nothing, and false, if something has become no number. */
static bool save(struct training *t, bool last) {
    double begin = omp_get_wtime();
    if (first_bad(t, false).tensor) return false;
    run_sync(&t->run);
    // an interrupt may have left one, which must not be behind the model
    bool stale = last && run_has(&t->run, "checkpoint.safetensors");
    if (t->config.checkpoint_interval || training_stopped || stale) {
        run_write_checksums(&t->run);
        save_as(t, "checkpoint.safetensors", &t->adam);
    }
    if (last) save_as(t, "model.safetensors", NULL);
    t->saved = omp_get_wtime();
    t->saving = t->saved - begin;
    return true;
}

/* Whether a checkpoint is due at this step of a run that is under way. */
static bool save_due(const struct training *t, int64_t step) {
    int64_t interval = t->config.checkpoint_interval;
    if (interval == OPTION_AUTO) return omp_get_wtime() - t->saved >= 100 * t->saving;
    return interval && step % interval == 0;
}

static void save_summary(struct training *t, const char *exit_reason) {
    t->outcome.exit_reason = exit_reason;
    struct run_file file = file_create(&t->run, "summary.json");
    summary_write(file.stream, &t->model, &t->config, &t->outcome);
    file_commit(&file);
}

static void write_probe(void *run, int64_t step, int layer, const char *site, const char *metric,
                        double value) {
    run_probe(run, step, layer, site, metric, value);
}

/* One update: the gradient of --grad-accum batches, then Adam. Returns the mean loss, over all
   targets alike, and in *norm the gradient's. Without an update if either is no number. */
static double update(struct training *t, int64_t step, double lr, double *norm) {
    int64_t accum = t->config.grad_accum, interval = t->config.probe_interval;
    bool probed = interval && step % interval == 0;
    double loss = 0, share = 0; // of a batch in the update's targets
    if (t->config.profile) profile_resume();
    const struct batch_count all = training_count(t, step);
    model_zero_grad(&t->model);
    for (int64_t i = 0; i < accum; i++) {
        uint64_t count = step * accum + i;
        corpus_sample(&t->corpus, t->config.seed, count, &t->batch);
        profile_lap(PROFILE_BATCH);
        t->model.probing = probed && i + 1 == accum;
        model_forward(&t->model, &t->batch, true, count);
        // so many like this one make the update
        double batches = (double)all.targets / (double)batch_targets(&t->batch);
        share = 1 / batches;
        loss += model_backward(&t->model, &t->batch, count, share) / batches;
    }
    *norm = adam_grad_norm(&t->adam, &t->model.lists.param);
    if (probed) probe_keep(&t->probe, &t->model);
    if (isfinite(loss) && isfinite(*norm)) {
        adam_step(&t->adam, &t->model.lists.param, lr, *norm);
        t->outcome.tokens += (int64_t)all.targets;
        t->outcome.pads += (int64_t)all.pads;
    }
    profile_stop();
    if (probed)
        probe_write(&t->probe, &t->model, &t->batch, share, step,
                    &(struct probe_sink){write_probe, &t->run});
    return loss;
}

/* The log is kept; the message names the first tensor that went bad. */
static _Noreturn void diverged(struct training *t, int64_t step, const char *what, double value) {
    struct bad bad = first_bad(t, true);
    save_summary(t, "diverged");
    run_close(&t->run);
    die(STATUS_DIVERGED,
        "diverged at step %lld: %s is %s, first bad tensor: %s%s (try a smaller --learning-rate, a "
        "longer --warmup-iters or another norm)",
        (long long)step, what, isnan(value) ? "nan" : "infinite", bad.of,
        bad.tensor ? bad.tensor->name : "logits");
}

/* Trains; every row of the log says how the model stood after so many updates. */
static void train(struct training *t) {
    const struct config *config = &t->config;
    struct outcome *outcome = &t->outcome;
    int64_t steps = config->max_iters;
    const int64_t first = outcome->steps, first_tokens = outcome->tokens;
    double start = omp_get_wtime() - outcome->seconds, training = 0, logged_training = 0;
    int64_t logged_tokens = first_tokens;
    t->saved = omp_get_wtime();
    t->saving = 0.01; // at a guess
    for (int64_t step = first;; step++) {
        bool last = step == steps || training_stopped, saved = last;
        outcome->steps = step;
        bool good = true;
        if (last || (step > first && save_due(t, step))) good = save(t, last);
        double trained = training; // until this row's own update
        struct log_row row = {.step = step,
                              .tokens = outcome->tokens,
                              .lr = schedule_rate(&config->schedule, step),
                              .train_loss = NOT_MEASURED,
                              .val_loss = NOT_MEASURED,
                              .grad_norm = NOT_MEASURED,
                              .tokens_per_second = NOT_MEASURED,
                              .eval_train_loss = NOT_MEASURED};
        if (trained > logged_training)
            row.tokens_per_second =
                (double)(row.tokens - logged_tokens) / (trained - logged_training);
        bool due = step % config->eval_interval == 0 || step == steps;
        if (due && !training_measure(t, &row))
            last = true, saved = false; // stopped: what was saved may lack the checkpoint
        if (!last) {
            double before = omp_get_wtime();
            row.train_loss = outcome->train_loss = update(t, step, row.lr, &row.grad_norm);
            training += omp_get_wtime() - before;
        }
        if (last && !saved) good = save(t, true); // stopped while it was evaluated
        row.seconds = omp_get_wtime() - start;
        outcome->seconds = row.seconds;
        if (training > 0)
            outcome->tokens_per_second = (double)(outcome->tokens - first_tokens) / training;

        bool failed = !isfinite(row.val_loss) || !isfinite(row.eval_train_loss) ||
                      !isfinite(row.train_loss) || !isfinite(row.grad_norm);
        if (step % config->log_interval == 0 || row.val_loss >= 0 || last || failed) {
            run_log(&t->run, &row);
            logged_tokens = row.tokens;
            logged_training = trained;
        }
        if (!isfinite(row.val_loss)) diverged(t, step, "the validation loss", row.val_loss);
        if (!isfinite(row.eval_train_loss))
            diverged(t, step, "the loss on the training slice", row.eval_train_loss);
        if (!isfinite(row.train_loss)) diverged(t, step, "the training loss", row.train_loss);
        if (!isfinite(row.grad_norm)) diverged(t, step, "the gradient's norm", row.grad_norm);
        if (last && !good) diverged(t, step, "what would be saved", INFINITY);
        if (row.val_loss >= 0) training_say_losses(t, &row);
        if (last) return;
        progress_step(&t->progress,
                      &(struct progress_state){step + 1, steps, row.seconds, row.train_loss,
                                               outcome->tokens_per_second});
    }
}

/* A line on what is learned from, and one more on items that do not fit. */
static void say_corpus(struct training *t) {
    const struct corpus *corpus = &t->corpus;
    const struct config *config = &t->config;
    char items[128] = "";
    if (t->outcome.items.all)
        snprintf(items, sizeof items,
                 "%zu items, %zu of them validate, the longest has %zu: ", corpus->units,
                 corpus->units - corpus->train, t->outcome.items.longest);
    progress_say(&t->progress,
                 "%s: %s%zu characters, %zu different; %s, %s: %zu parameters; %lld threads",
                 corpus->name, items, corpus->characters, corpus->distinct,
                 norm_kinds[config->model.norm]->name, placements[config->model.placement].name,
                 model_parameters(&t->model), (long long)config->threads);
    if (t->outcome.items.cut)
        progress_say(&t->progress,
                     "%zu items have no room for all of their characters and their end in a block "
                     "of %lld and are cut (--block-size=%zu keeps all)",
                     t->outcome.items.cut, (long long)config->model.block_size,
                     t->outcome.items.longest + 1);
}

/* The options that are given and have no effect. */
static void say_unused(struct training *t, int argc, char **argv) {
    char unused[1024];
    if (config_unused(&t->config, argc, argv, unused, sizeof unused))
        progress_say(&t->progress, "no effect: %s", unused);
}

/* The command that continues an interrupted run. */
static void say_resume(struct training *t, const char *program) {
    char command[4096], resume[4096];
    const char *corpus = t->config.corpus;
    bool piped = corpus && !strcmp(corpus, "-");
    snprintf(resume, sizeof resume, "--resume=%s", t->run.folder);
    size_t used = quote_word(program, command, sizeof command);
    if (used < sizeof command - 1) command[used++] = ' ';
    quote_word(resume, command + used, sizeof command - used);
    progress_say(&t->progress, "to continue%s: %s",
                 piped ? ", with the same text on standard input" : "", command);
}

static int train_model(struct training *t, int argc, char **argv) {
    const struct config *config = &t->config;
    training_corpus(t, NULL);
    corpus_check(&t->corpus, config->model.block_size);
    training_settle_updates(t);
    model_init(&t->model, &config->model, t->corpus.vocabulary.V, config->batch_size, config->seed);
    t->model.threads = (size_t)config->team;
    adam_init(&t->adam, &config->adam, &t->model.lists.param);
    t->adam.threads = model_team(&t->model);
    best_init(t);
    t->batch = batch_make(config->batch_size, config->model.block_size);
    open_run(t);
    t->progress = progress_start(config->quiet);
    if (config->probe_interval) {
        probe_init(&t->probe, &t->model);
        run_start_probes(&t->run, t->outcome.steps);
    }
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    say_corpus(t);
    progress_say(&t->progress, "norm %s; placement %s", norm_kinds[config->model.norm]->formula,
                 placements[config->model.placement].formula);
    say_unused(t, argc, argv);
    if (config->resume)
        progress_say(&t->progress, "goes on after step %lld", (long long)t->outcome.steps);

    train(t);

    int status = training_stopped ? 128 + training_stopped : STATUS_OK;
    save_summary(t, status ? "interrupted" : "done");
    signal(SIGINT, SIG_DFL); // all is saved: nothing to wait for any more
    signal(SIGTERM, SIG_DFL);
    if (!status) use_sample(t);
    if (t->outcome.grammar_entropy >= 0 && t->outcome.val_loss >= 0)
        progress_say(&t->progress, "val loss is %.4f above the entropy of the grammar, %.4f",
                     t->outcome.val_loss - t->outcome.grammar_entropy, t->outcome.grammar_entropy);
    progress_say(&t->progress, "%s after %lld steps, %.1f s, %.0f characters/s: %s",
                 t->outcome.exit_reason, (long long)t->outcome.steps, t->outcome.seconds,
                 t->outcome.tokens_per_second, t->run.folder);
    if (status) say_resume(t, argv[0]);
    if (config->profile && t->outcome.steps) profile_print(stdout, (double)t->outcome.steps);
    flush_output();
    run_close(&t->run);
    if (config->probe_interval) probe_free(&t->probe);
    batch_free(&t->batch);
    best_free(t);
    adam_free(&t->adam);
    corpus_free(&t->corpus);
    return status;
}

int main(int argc, char **argv) {
    static struct training t;
    open_standard_streams();
    config_parse(&t.config, argc, argv);
    if (help_answer(&t.config)) return STATUS_OK;
    if (t.config.resume) run_lock(&t.run, t.config.resume); // before anything of it is read
    const bool corpus_named = t.config.corpus != NULL;
    if (config_stored(&t.config)) checkpoint_open(&t.checkpoint, &t.config, argc, argv);

    notice_start(!t.config.quiet);

    int status = STATUS_OK;
    if (t.config.generate)
        use_generate(&t, corpus_named);
    else if (t.config.evaluate)
        use_evaluate(&t);
    else
        status = train_model(&t, argc, argv);
    checkpoint_close(&t.checkpoint);
    model_free(&t.model);
    return status;
}

/* normlab: trains a small character-level Transformer with any normalization in any placement.

   options -> corpus -> model -> for each step: save, evaluate, update, log -> files and a sample

   A stored model can also continue its run (--resume), write text (--generate) or be measured
   (--evaluate). */
#include "data/die.h"
#include "model/lab/help.h"
#include "model/lab/record.h"
#include "model/lab/say.h"
#include "model/lab/session.h"
#include "model/lab/use.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"

/* Trains from step outcome.steps, the number of updates done so far, to --max-iters, unless
   --max-seconds or --stop-at ends it earlier.

   A checkpoint is saved before the evaluation of its step: a resumed run then makes the evaluation
   again and writes the same row. */
static void train(struct session *t) {
    const struct config *config = &t->config;
    const struct clock *clock = &t->clock;
    struct loader *loader = &t->loader;
    struct model *model = &t->model;

    log_start(t);
    for (;; t->outcome.steps++) {
        const int64_t step = t->outcome.steps;
        struct log_row row = log_row(t);
        enum ending_reason ending = due_end(config, clock, &row);

        if (ending || due_checkpoint(config, clock, step)) save_run(t, ending);
        if (due_evaluation(config, step, ending)) {
            const enum ending_reason before = ending;
            log_evaluation(t, &row, evaluate_model(loader, model, step, &t->progress));
            ending = due_end(config, clock, &row); // meanwhile: a signal, a low loss
            if (ending != before) save_run(t, ending);
        }
        if (due_sample(config, step)) use_sample_line(t);
        if (!ending)
            log_update(t, &row, update_model(loader, model, &t->optimizer, &t->probe, step));

        log_write(t, &row, ending);
        log_check(t, &row, ending);
        say_progress(t, &row, ending);
        if (ending) return;
    }
}

/* A whole run; returns the exit status. */
static int run(struct session *t, int argc, char **argv) {
    session_start(t);
    interrupt_catch();
    say_start(t, argc, argv);

    train(t);

    int status = interrupt_now() ? 128 + interrupt_signal : STATUS_OK;
    save_summary(t, status ? "interrupted" : "done");
    ranks_first(0);      // the first rank has saved
    interrupt_release(); // everything is saved: a signal may now end the program at once
    if (!status && !t->run.silent) use_sample(t);
    say_end(t);
    if (status) say_resume(t, argv[0]);
    if (t->config.profile && t->outcome.profiled)
        profile_print(stdout, (double)t->outcome.profiled);
    streams_flush();
    return status;
}

int main(int argc, char **argv) {
    static struct session t;
    struct config *config = &t.config;
    int status = STATUS_OK;
    ranks_start(&argc, &argv);
    streams_open();
    config_parse(config, argc, argv);
    session_join(&t);
    if (help_answer(config)) return STATUS_OK;

    const bool corpus_given = config->corpus != NULL;
    if (config->resume) run_lock(&t.run, config->resume); // before its files are read
    if (config_stored(config)) checkpoint_open(&t.checkpoint, config, argc, argv);
    notice_start(!config->quiet);
    if (config->generate || config->evaluate) say_without_effect(config, argc, argv);

    if (config->generate)
        use_generate(&t, corpus_given);
    else if (config->evaluate)
        use_evaluate(&t);
    else
        status = run(&t, argc, argv);
    session_free(&t);
    return status;
}

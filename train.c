/* normlab: trains a small character-level Transformer with any normalization in any placement.

   options -> corpus -> model -> for each step: save, evaluate, update, log -> files and a sample

   A stored model can also continue its run (--resume), write text (--generate) or be measured
   (--evaluate). */
#include "data/die.h"
#include "model/lab/due.h"
#include "model/lab/help.h"
#include "model/lab/process.h"
#include "model/lab/record.h"
#include "model/lab/say.h"
#include "model/lab/setup.h"
#include "model/lab/step.h"
#include "model/lab/use.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"

/* Trains from step t->outcome.steps, the number of updates done so far, to --max-iters, unless
   --max-seconds or --stop-at ends it earlier.

   A checkpoint is saved before the evaluation of its step: a resumed run then makes the evaluation
   again and writes the same row. */
static void train(struct session *t) {
    const struct config *config = &t->config;
    log_start(t);
    for (;; t->outcome.steps++) {
        const int64_t step = t->outcome.steps;
        struct log_row row = log_row(t);
        enum ending ending = due_end(t, &row);

        if (ending || due_checkpoint(config, &t->clock, step)) save_run(t, ending);
        if (due_evaluation(config, step, ending)) {
            const enum ending before = ending;
            evaluate_run(t, &row);
            ending = due_end(t, &row); // meanwhile: a signal, a low loss
            if (ending != before) save_run(t, ending);
        }
        if (due_sample(config, step)) use_sample_line(t);
        if (!ending) update_model(t, &row);

        log_write(t, &row, ending);
        log_check(t, &row, ending);
        say_progress(t, &row, ending);
        if (ending) {
            t->outcome.ended_by = due_ending_option(ending);
            return;
        }
    }
}

/* A whole run; returns the exit status. */
static int run(struct session *t, int argc, char **argv) {
    setup_run(t);
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
    setup_free(t);
    return status;
}

int main(int argc, char **argv) {
    static struct session t;
    int status = STATUS_OK;
    ranks_start(&argc, &argv);
    streams_open();
    config_parse(&t.config, argc, argv);
    setup_join(&t);
    if (help_answer(&t.config)) return STATUS_OK;

    const bool corpus_given = t.config.corpus != NULL;
    if (t.config.resume) run_lock(&t.run, t.config.resume); // before any of its files is read
    if (config_stored(&t.config)) checkpoint_open(&t.checkpoint, &t.config, argc, argv);
    notice_start(!t.config.quiet);
    if (t.config.generate || t.config.evaluate) say_without_effect(&t.config, argc, argv);

    if (t.config.generate)
        use_generate(&t, corpus_given);
    else if (t.config.evaluate)
        use_evaluate(&t);
    else
        status = run(&t, argc, argv);
    checkpoint_close(&t.checkpoint);
    model_free(&t.model);
    return status;
}

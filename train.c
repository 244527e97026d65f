/* normlab: trains a small character-level Transformer with any normalization in any placement.

   options -> corpus -> model -> for each step: save, evaluate, update, log -> files and a sample

   A stored model can also continue its run (--resume), write text (--generate) or be measured
   (--evaluate). */
#include "data/die.h"
#include "data/streams.h"
#include "model/app/inference.h"
#include "model/app/interrupt.h"
#include "model/app/messages.h"
#include "model/app/session.h"
#include "model/math/profile.h"
#include "model/math/ranks.h"
#include "model/options/help.h"
#include <signal.h>

/* Trains from step state.step, the number of updates done so far, to --max-iters, unless
   --max-seconds or --stop-at ends it earlier.

   A checkpoint is saved before the evaluation of its step: a resumed run then makes the evaluation
   again and writes the same row. */
static void train(struct session *t) {
    const struct config *config = &t->plan.config;
    struct loader *loader = &t->loader;
    struct model *model = &t->model;
    struct record *record = &t->record;
    struct state *state = &record->state;

    record_start(record);
    for (;; state->step++) {
        const int64_t step = state->step;
        record_step(record);
        enum ending_reason ending = calendar_end(config, state);

        if (ending || calendar_checkpoint(config, state)) record_save(record, ending);
        if (calendar_evaluation(config, step, ending)) {
            const enum ending_reason before = ending;
            evaluate_model(loader, model, &t->progress, state);
            record_evaluation(record);
            ending = calendar_end(config, state); // meanwhile: a signal, a low loss
            if (ending != before) record_save(record, ending);
        }
        if (calendar_every(config->sample_interval, step))
            inference_sample_line(record, &t->progress);
        if (!ending)
            record_update(record,
                          update_model(loader, model, &t->optimizer, &t->probe, step, state->lr));

        record_write(record, ending);
        record_check(record, ending);
        messages_progress(&t->progress, &t->chart, record, ending);
        if (ending) return;
    }
}

/* What follows training; returns the exit status. */
static int finish(struct session *t, const char *program) {
    struct record *record = &t->record;
    int status = interrupt_now() ? 128 + interrupt_signal : STATUS_OK;
    record_save_summary(record, status ? "interrupted" : "done");
    ranks_wait();          // the first rank has saved
    interrupt_note(false); // everything is saved: a signal may now end the program at once
    if (!status && !record->run.silent) inference_sample(record, &t->progress);
    messages_end(&t->progress, record, program);
    if (t->plan.config.profile && record->state.profiled)
        profile_print(stdout, (double)record->state.profiled);
    streams_flush();
    session_free(t);
    return status;
}

int main(int argc, char **argv) {
    static struct session t;
    const struct config *config = &t.plan.config;
    struct config given;
    int status = STATUS_OK;
    ranks_start(&argc, &argv);
    streams_open();
    signal(SIGXFSZ, SIG_IGN); // a file at its size limit (ulimit -f) is then a write that fails
    config_parse(&given, argc, argv);
    t.record.run.silent = ranks.number > 0; // the first rank alone writes
    if (help_answer(&given)) return STATUS_OK;

    if (given.resume && !config_shows(&given))
        run_lock(&t.record.run, given.resume); // before its files are read
    if (config_stored(&given)) checkpoint_open(&t.checkpoint, &given, argc, argv);
    t.plan = plan_of(&given); // after what was stored, which may replace all options
    session_join(config);
    notice_start(!config->quiet);
    if (!config_shows(config) && (config->generate || config->evaluate))
        messages_without_effect(config, argc, argv);

    if (config_shows(config))
        config_show(&t.plan);
    else if (config->generate)
        inference_generate(&t.plan, &t.checkpoint, &t.progress);
    else if (config->evaluate)
        inference_evaluate(&t.plan, &t.checkpoint);
    else {
        session_start(&t);
        interrupt_note(true);
        messages_start(&t.progress, &t.record, argc, argv);
        train(&t);
        status = finish(&t, argv[0]);
    }
    safetensors_close(&t.checkpoint.file);
    streams_flush();
    return status;
}

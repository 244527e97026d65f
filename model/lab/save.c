#include "model/lab/save.h"
#include "model/lab/best.h"
#include "model/lab/interrupt.h"
#include <omp.h>

static void save_as(struct session *t, const char *name, const struct optimizer *optimizer) {
    struct new_file file = file_create(&t->run, name);
    checkpoint_write(file.stream, &t->model, optimizer, &t->config, session_vocabulary(t),
                     &t->outcome, best_copy(t));
    file_commit(&file);
}

void save_run(struct session *t, bool last) {
    double start = omp_get_wtime();
    if (session_bad_tensor(t, false).tensor) return;
    run_sync(&t->run);
    // a checkpoint that an earlier interrupt left must not be older than the model
    bool stale = last && run_has(&t->run, "checkpoint.safetensors");
    if (t->config.checkpoint_interval || interrupt_signal || stale) {
        run_write_checksums(&t->run);
        save_as(t, "checkpoint.safetensors", &t->optimizer);
    }
    if (last) save_as(t, "model.safetensors", NULL);
    t->clock.saved = omp_get_wtime();
    t->clock.saving = t->clock.saved - start;
}

void save_summary(struct session *t, const char *exit_reason) {
    t->outcome.exit_reason = exit_reason;
    t->outcome.profiled = t->outcome.steps - t->clock.step;
    struct new_file file = file_create(&t->run, "summary.json");
    summary_write(file.stream, &t->model, &t->config, &t->outcome);
    file_commit(&file);
}

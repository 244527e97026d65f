/* What is due, by the step and by the clock: checkpoints, the end of a run, rows of the log with
   their times. */
#include "data/clock.h"
#include "data/die.h"
#include "model/app/interrupt.h"
#include "model/app/session.h"
#include "model/math/profile.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <omp.h>
#include <signal.h>
#include <string.h>

TestSuite(calendar, .init = folder_enter, .fini = folder_leave);

/* OpenMP's clock, as where it is the time of day and somebody puts that back an hour at each look. */
double omp_get_wtime(void) {
    static double now = 1e9;
    return now -= 3600;
}

/* Waits until the clock shows another time. */
static void wait_for_clock(void) {
    for (const double start = clock_now(); clock_now() <= start;) {
    }
}

static void start(struct session *t, const char *options) {
    memory_start(t, say(TINY "--quiet --profile %s", options));
    optimizer_init(&t->optimizer, &t->plan.config.optimizer, &t->model.lists.param,
                   model_team(&t->model));
    record_init(&t->record, &t->plan, &t->loader.corpus, &t->model, &t->optimizer,
                &t->probe.watch.tracked);
    t->record.run.table[TABLE_LOG] = tmpfile();
    record_start(&t->record);
}

static void end(struct session *t) {
    fclose(t->record.run.table[TABLE_LOG]);
    record_free(&t->record);
    optimizer_free(&t->optimizer);
    memory_end(t);
}

Test(calendar, a_clock_that_is_put_back_changes_nothing) {
    struct session t;
    double last = 0;
    start(&t, "--max-seconds=1e-9 --checkpoint-interval=auto");
    struct record *r = &t.record;
    for (int step = 0; step < 3; step++, r->state.step++) {
        record_step(r);
        const struct update update = update_model(&t.loader, &t.model, &t.optimizer, &t.probe, step,
                                                  t.plan.config.schedule.rate);
        cr_expect(update.seconds > 0);
        record_update(r, update);
        cr_expect(r->state.train_loss == update.loss && r->state.grad_norm == update.grad_norm);
        record_write(r, ENDING_NONE);
        const double seconds = r->state.seconds;
        cr_expect(seconds > last && seconds < 3600, "%g after %g", seconds, last);
        last = seconds;
    }
    for (int i = 0; i < PROFILE_OPERATIONS; i++)
        cr_expect(profile_seconds((enum profile_operation)i) >= 0, "%s", profile_name[i]);
    record_step(r);
    cr_expect(calendar_end(&t.plan.config, &r->state) == ENDING_SECONDS);
    cr_expect(r->state.saving > 0, "a run of a second saves no checkpoint");
    r->state.saving = 0;
    cr_expect(calendar_checkpoint(&t.plan.config, &r->state), "saved long ago");
    end(&t);
}

/* None is due at the step that the program starts with: a resumed run has the checkpoint already. */
Test(calendar, no_checkpoint_at_the_first_step) {
    static const char *const intervals[] = {"auto", "1", "5"};
    for (int i = 0; i < 3; i++)
        for (int64_t first = 0; first <= 10; first += 5) { // fresh, and resumed
            struct session t;
            start(&t, say("--checkpoint-interval=%s", intervals[i]));
            struct record *r = &t.record;
            r->state.step = first;
            record_start(r);
            r->state.saving = 0; // so that auto finds one due at every other step
            wait_for_clock();
            cr_expect(!calendar_checkpoint(&t.plan.config, &r->state), "%s, %d", intervals[i],
                      (int)first);
            r->state.step = first + 5;
            cr_expect(calendar_checkpoint(&t.plan.config, &r->state), "%s, %d", intervals[i],
                      (int)first);
            r->state.step = first + 1;
            cr_expect(calendar_checkpoint(&t.plan.config, &r->state) == (i < 2));
            end(&t);
        }
}

/* With auto, a checkpoint takes about 1 % of the time. */
Test(calendar, automatic_checkpoints_wait_a_hundred_times_as_long_as_they_take) {
    const struct config config = {.checkpoint_interval = OPTION_AUTO};
    struct state run = {.step = 1, .saving = 1};
    run.saved = clock_now() - 90;
    cr_expect(!calendar_checkpoint(&config, &run));
    run.saved = clock_now() - 101;
    cr_expect(calendar_checkpoint(&config, &run));
    cr_expect(!calendar_checkpoint(&(struct config){.checkpoint_interval = 0}, &run), "0: never");
}

/* --stop-at: at a loss that was measured, and is this one or lower. */
Test(calendar, a_low_loss_ends_the_run) {
    const struct config config = {.max_iters = 9, .stop_at = 2};
    struct state run = {0};
    columns_unmeasured(&run);
    cr_expect(calendar_end(&config, &run) == ENDING_NONE, "nothing was measured");
    static const double losses[] = {2.5, 2, 1};
    for (int i = 0; i < 3; i++) {
        run.val_loss = losses[i];
        cr_expect(calendar_end(&config, &run) == (i ? ENDING_LOSS : ENDING_NONE));
        cr_expect(calendar_end(&(struct config){.max_iters = 9}, &run) == ENDING_NONE);
    }
    run.step = 9;
    cr_expect(calendar_end(&config, &run) == ENDING_ITERS);
}

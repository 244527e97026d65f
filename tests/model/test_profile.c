/* The clock of the operations: its parts add up to the time that passed, and timing changes no
   result. */
#include "data/text/corpus.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { B = 9, T = 37, V = 33 };

/* The weights after 4 updates. */
static real *weights_after(size_t threads, size_t *size) {
    struct model_config config = small_config(2, 0); // bn
    config.block_size = T;
    config.n_embd = 32;
    config.dropout = 0.1;
    struct batch batch = make_batch(B, T, V, 3);
    omp_set_num_threads(3);
    struct model model = held_model(&config, V, B, 1);
    model.threads = threads;
    struct optimizer adam = held_adamw(fit_options, &model.lists.param, model_team(&model));
    for (int step = 0; step < 4; step++) {
        train_step(&model, &adam, &batch, step, 1e-2);
    }
    double sum;
    model_forward(&model, &batch, false, 0);
    model_loss(&model, &batch, &sum);
    *size = model.lists.param.size;
    real *weights = hold(*size * sizeof(real));
    memcpy(weights, model.lists.param.value, *size * sizeof(real));
    return weights;
}

static double all_parts(void) {
    double sum = 0;
    for (int part = 0; part < PROFILE_PARTS; part++) {
        cr_expect(profile_seconds(part) >= 0, "%s", profile_name[part]);
        sum += profile_seconds(part);
    }
    return sum;
}

Test(profile, parts_are_the_whole) {
    size_t size;
    for (size_t threads = 1; threads <= 3; threads += 2) {
        double before = omp_get_wtime();
        profile_start();
        double begin = omp_get_wtime();
        cr_expect(all_parts() == 0, "does not start from zero");
        weights_after(threads, &size);
        double end = omp_get_wtime();
        profile_lap(PROFILE_OTHER);
        double after = omp_get_wtime(), sum = all_parts();
        profile_stop();
        // a clock that is read in between can be off by its own rounding only
        cr_expect(sum >= end - begin - 1e-6 && sum <= after - before + 1e-6,
                  "%.9f s are not between %.9f and %.9f", sum, end - begin, after - before);
        weights_after(threads, &size);
        cr_expect(all_parts() == sum, "stopped");
        profile_resume();
        profile_lap(PROFILE_OTHER);
        profile_stop();
        cr_expect(all_parts() >= sum && all_parts() - sum <= omp_get_wtime() - after, "resumed");
    }
}

Test(profile, has_a_name_for_every_part) {
    for (int i = 0; i < PROFILE_PARTS; i++) {
        cr_assert(profile_name[i] && *profile_name[i]);
        for (int j = 0; j < i; j++) cr_expect(strcmp(profile_name[i], profile_name[j]) != 0);
    }
}

Test(profile, changes_no_result) {
    for (size_t threads = 1; threads <= 3; threads += 2) {
        size_t size;
        real *off = weights_after(threads, &size);
        profile_start();
        real *on = weights_after(threads, &size);
        profile_stop();
        cr_expect(size > 1000 && difference(size, off, off) == 0 &&
                  !memcmp(off, on, size * sizeof(real)));
    }
}

Test(profile, prints_a_table_that_adds_up) {
    size_t size, length;
    char *text, *name, *rest;
    profile_start();
    weights_after(1, &size);
    profile_stop();
    FILE *file = open_memstream(&text, &length);
    profile_print(file, 4);
    fclose(file);
    double all = 0, percents = 0, total = -1;
    char *line = strtok_r(text, "\n", &rest); // the heading
    while ((line = strtok_r(NULL, "\n", &rest))) {
        double time, percent;
        name = line;
        cr_assert(strlen(line) > 24, "%s", line);
        int found = sscanf(line + 24, "%lf %lf%%", &time, &percent);
        if (found == 2) {
            all += time;
            percents += percent;
        } else {
            cr_assert(found == 1 && !strncmp(name, "all ", 4), "%s", line);
            total = time;
            break;
        }
    }
    double barriers, mib, busiest;
    cr_expect(sscanf(strtok_r(NULL, "\n", &rest), "barriers %lf", &barriers) == 1 && barriers >= 3,
              "forward, backward and update end in one each");
    cr_expect(sscanf(strtok_r(NULL, "\n", &rest), "MiB in products %lf", &mib) == 1 && mib > 0.1);
    cr_expect(sscanf(strtok_r(NULL, "\n", &rest), "busiest thread %lf%%", &busiest) == 1 &&
                  busiest == 100,
              "one thread has all products");
    cr_expect(fabs(all - total) < 1e-4 * PROFILE_PARTS, "%g, not %g", all, total);
    cr_expect(fabs(percents - 100) < 0.1 * PROFILE_PARTS, "%g %%", percents);
    cr_expect(fabs(total - 1e3 * all_parts() / 4) < 1e-3);
}

#include "tests/model/probed.h"
#include "data/text/corpus.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void probed_collect(void *context, int64_t step, int layer, const char *site, const char *metric,
                    double value) {
    struct probed_rows *rows = context;
    cr_assert(rows->count < PROBED_ROWS);
    struct probed_row *row = &rows->row[rows->count++];
    *row = (struct probed_row){.step = step, .layer = layer, .value = value};
    snprintf(row->site, sizeof row->site, "%s", site);
    snprintf(row->metric, sizeof row->metric, "%s", metric);
}

double probed_value(const struct probed_rows *rows, int layer, const char *site,
                    const char *metric) {
    double value = NAN;
    int found = 0;
    for (int i = 0; i < rows->count; i++) {
        const struct probed_row *row = &rows->row[i];
        if (row->layer != layer || strcmp(row->site, site) || strcmp(row->metric, metric)) continue;
        value = row->value;
        found++;
    }
    cr_assert(found == 1, "%d rows of layer %d, %s, %s", found, layer, site, metric);
    return value;
}

void probed_expect(const struct probed_rows *rows, int layer, const char *site, const char *metric,
                   double want) {
    double got = probed_value(rows, layer, site, metric), tolerance = in_double() ? 1e-9 : 2e-4;
    cr_expect(fabs(got - want) <= tolerance * fabs(want) + 1e-300,
              "layer %d, %s, %s: %.12g, not %.12g", layer, site, metric, got, want);
}

void probed_run(struct probed *p, const struct model_config *config, unsigned char *valid,
                double scale) {
    struct model_config watched = *config;
    watched.norms.watch = 1;
    *p = (struct probed){.scale = scale};
    p->model = held_model(&watched, SMALL_V, B, 1);
    p->adam = held_adamw((struct adamw_numbers){0.9, 0.99, 1e-8, 0.1, 0}, &p->model.lists.param, 1);
    probe_init(&p->probe, &p->model, (struct probe_sink){probed_collect, &p->rows});
    struct tensor_list *param = &p->model.lists.param;
    shake(param);
    for (int step = 0; step < 2; step++) {
        p->batch = make_batch(B, T, SMALL_V, 7 + step);
        p->batch.valid = valid;
        for (size_t n = 0; valid && n < N; n++)
            if (!valid[n]) p->batch.targets[n] = -1;
        p->model.probing = step == 1;
        p->tracked = copy_values(&p->model.lists.tracked);
        gradient_of(&p->model, &p->batch, step, scale);
        p->grad_norm = optimizer_grad_norm(&p->adam, param);
        p->before = copy_values(param);
        probe_keep(&p->probe, &p->model);
        optimizer_step(&p->adam, param, 1e-2, p->grad_norm);
        if (step == 1) probe_write(&p->probe, &p->model, &p->batch, scale, 5);
    }
}

void probed_free(struct probed *p) {
    probe_free(&p->probe);
}

bool probed_valid(const unsigned char *valid, size_t n) {
    return !valid || valid[n];
}

/* What nGPT promises (Loshchilov et al. 2024, arXiv:2410.01131), in a model with --norm=scale,
   whose stream has the length sqrt(C) where the paper's has 1. */
#include "data/text/corpus.h"
#include "model/connection/lambda.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { B = SMALL_B, T = SMALL_T, V = SMALL_V, N = B * T };

struct ngpt {
    struct model model;
    struct batch batch;
};

static struct ngpt make(const char *norm) {
    int placement = (int)(placement_find("ngpt") - placements);
    struct model_config config = small_config(norm_index(norm), placement);
    struct ngpt m = {.batch = make_batch(B, T, V, 3)};
    omp_set_num_threads(1);
    model_init(&m.model, &config, V, B, 1);
    return m;
}

static void free_ngpt(struct ngpt *m) {
    batch_free(&m->batch);
    model_free(&m->model);
}

/* Updates at a rate at which the weights move far from their initial values. */
static void update(struct ngpt *m, int steps) {
    struct tensor_list *param = &m->model.lists.param;
    struct optimizer adam;
    adamw_init(&adam, (struct adamw_numbers){0.9, 0.99, 1e-8, 0.1, 1}, param, 1);
    for (int step = 0; step < steps; step++) {
        model_zero_grad(&m->model);
        model_forward(&m->model, &m->batch, true, (uint64_t)step);
        model_backward(&m->model, &m->batch, (uint64_t)step, 1);
        optimizer_step(&adam, param, 0.03, optimizer_grad_norm(&adam, param));
    }
    optimizer_free(&adam);
}

static real *logits(struct ngpt *m) {
    m->model.lists.param.version++; // the test may have changed weights
    model_forward(&m->model, &m->batch, false, 0);
    return copy_logits(&m->model, N);
}

/* The parameters whose names end so: multiplies them. */
static void multiply(struct ngpt *m, const char *end, real factor) {
    const struct tensor_list *param = &m->model.lists.param;
    size_t found = 0, length = strlen(end);
    for (size_t k = 0; k < param->count; k++) {
        const struct tensor *t = &param->tensor[k];
        if (strlen(t->name) < length || strcmp(t->name + strlen(t->name) - length, end)) continue;
        for (size_t i = 0; i < t->size; i++) param->value[t->offset + i] *= factor;
        found++;
    }
    cr_assert(found > 0, "no parameter %s", end);
}

/* How far the lengths of `count` vectors of n numbers are from `want`. */
static double off_length(const real *x, size_t count, size_t n, size_t stride, size_t step,
                         double want) {
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double squares = 0;
        for (size_t j = 0; j < n; j++) squares += pow((double)x[i * stride + j * step], 2);
        worst = worse(worst, fabs(sqrt(squares) / want - 1));
    }
    return worst;
}

static double rounding(void) {
    return in_double() ? 1e-14 : 2e-6;
}

Test(ngpt, every_matrix_has_unit_vectors_at_first_and_after_each_update) {
    struct ngpt m = make("scale");
    const struct tensor_list *param = &m.model.lists.param;
    for (int step = 0; step < 4; step++) {
        for (size_t k = 0; k < param->count; k++) {
            const struct tensor *t = &param->tensor[k];
            const real *w = param->value + t->offset;
            size_t rows = t->shape[0], columns = t->shape[1], C = m.model.C;
            if (t->dimensions < 2) continue;
            bool down = strstr(t->name, "c_proj"); // C is the number of its rows
            cr_expect_eq(down ? rows : columns, C);
            double off =
                down ? off_length(w, columns, C, 1, columns, 1) : off_length(w, rows, C, C, 1, 1);
            cr_expect(off < rounding(), "%s after %d updates: %g", t->name, step, off);
        }
        update(&m, 1);
    }
    free_ngpt(&m);
}

Test(ngpt, the_stream_keeps_its_length) {
    struct ngpt m = make("scale");
    double length = sqrt((double)m.model.C);
    update(&m, 5);
    free(logits(&m));
    cr_expect(off_length(m.model.stream_in, N, m.model.C, m.model.C, 1, length) < rounding());
    for (size_t l = 0; l < m.model.L; l++) {
        const struct sublayer *both[] = {&m.model.layer[l].attention, &m.model.layer[l].mlp};
        for (int i = 0; i < 2; i++) {
            double off = off_length(both[i]->y, N, m.model.C, m.model.C, 1, length);
            cr_expect(off < rounding(), "layer %zu: %g", l, off);
        }
    }
    free_ngpt(&m);
}

/* W h is a cosine, so |logit| <= |s_z|, s_z = sqrt(C) times the gain; and s_z alone scales it. */
Test(ngpt, logits_are_bounded_by_s_z) {
    struct ngpt m = make("scale");
    update(&m, 5);
    real *z = logits(&m);
    const real *gain = m.model.logit_gain.param.value;
    double bound = sqrt((double)m.model.C) * (1 + rounding());
    for (size_t n = 0; n < N; n++)
        for (size_t v = 0; v < V; v++)
            cr_expect(fabs((double)z[n * V + v]) <= bound * fabs((double)gain[v]));
    multiply(&m, "sz", 2);
    real *twice = logits(&m);
    for (size_t i = 0; i < N * V; i++) z[i] *= 2;
    cr_expect(difference(N * V, twice, z) == 0 && largest(N * V, z) > 0);
    free(z);
    free(twice);
    free_ngpt(&m);
}

Test(ngpt, alpha_is_a_step_size_without_a_sign) {
    struct ngpt m = make("scale");
    const struct layer *layer = m.model.layer;
    size_t size = N * m.model.C;
    free(logits(&m));
    const struct connection *alpha = &layer->attention.connection;
    for (size_t c = 0; c < m.model.C; c++) {
        cr_expect(fabs((double)alpha->buffer[LAMBDA_B][c] - 0.05) < 1e-7);
        cr_expect(fabs((double)alpha->param[0].value[c] * sqrt((double)m.model.C) - 1) < 1e-6);
    }
    update(&m, 5);
    real *before = logits(&m);
    multiply(&m, "alpha", -1);
    multiply(&m, "sqk", -1); // of both q and k
    real *after = logits(&m);
    cr_expect(difference(N * V, after, before) == 0);
    multiply(&m, "alpha", 0);
    free(logits(&m));
    expect_close("y without a step", size, m.model.stream_out, m.model.stream_in, rounding());
    free(before);
    free(after);
    free_ngpt(&m);
}

/* q and k have the length of their factors, whatever the length of the rows of their matrix, and of
   what a branch adds only the direction counts. */
Test(ngpt, lengths_do_not_matter_where_they_are_normalized) {
    struct ngpt m = make("scale");
    update(&m, 5);
    multiply(&m, ".bias", 0);
    real *before = logits(&m);
    multiply(&m, "c_proj.weight", 3);
    multiply(&m, "c_attn.weight", 2);
    real *after = logits(&m);
    expect_close("logits", N * V, after, before, 20 * rounding());
    free(before);
    free(after);
    free_ngpt(&m);
}

Test(ngpt, norms_learn_neither_gamma_nor_beta) {
    struct ngpt m = make("ln");
    const struct tensor_list *param = &m.model.lists.param;
    for (size_t k = 0; k < param->count; k++)
        cr_expect(!strstr(param->tensor[k].name, "ln_") && !strstr(param->tensor[k].name, "norm"),
                  "%s", param->tensor[k].name);
    cr_expect(norm_present(&m.model.layer[0].attention.qkv_norm.norm[QKV_Q]));
    free_ngpt(&m);
}

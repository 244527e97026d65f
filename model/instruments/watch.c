/* The metrics, for a batch with mean_B and var_B and running averages m and v from before it:

     dist_mean = |mean_B - m| / C,  dist_var = |var_B - v| / C
     tid_mean  = |mean_B - m| / |sigma|,  tid_var = |sigma_B - sigma| / |sigma|
     g_mean, g_var = the lengths of the terms of watch.h

   with | | the length over the C channels, sigma = sqrt(v + eps) and sigma_B = sqrt(var_B + eps).

   Each thread adds up, in double, what it sees of a row block; the blocks are added in their order.
   These sums over rows are, of a norm whose terms are of channels,

     x (C)  x^2 (C)  dy (C)                   dy x (C)        saturation

   and of one whose terms are of tokens

     x (C)  x^2 (C)  g_mean^2, C - 1 unused   g_var^2, same   saturation */
#include "model/instruments/watch.h"
#include "model/math/ranks.h"
#include "model/math/reduce.h"
#include "model/model_pass.h"
#include "model/partition.h"
#include <math.h>
#include <string.h>

enum { DIST_MEAN, DIST_VAR, TID_MEAN, TID_VAR, PENALTY, SATURATION, G_MEAN, G_VAR };
const char *const watch_metrics[WATCH_METRICS] = {"dist_mean", "dist_var",   "tid_mean", "tid_var",
                                                  "penalty",   "saturation", "g_mean",   "g_var"};

static size_t width(const struct norm *norm) {
    return 4 * norm->C + 1;
}

static double square(double x) {
    return x * x;
}

/* ---- which norms ---- */

static const struct sublayer *sublayer_at(const struct watch *w, int i) {
    const struct layer *layer = &w->model->layer[i / 2];
    return i % 2 ? &layer->mlp : &layer->attention;
}

static size_t row_blocks(const struct watch *w) {
    return team_row_blocks(w->model->B * w->model->T);
}

static void add(struct watch *w, const struct norm *norm, size_t rows, int sublayer) {
    if (!norm_present(norm)) return;
    const struct watched watched = {
        norm,
        rows,
        sublayer,
        .mean = tensor_take(&w->tracked, norm->name, "mean", norm->C, 0, 0, 0).value,
        .var = tensor_take(&w->tracked, norm->name, "var", norm->C, 0, 1, 0).value,
        .sums = arena_take(&w->arena, row_blocks(w) * width(norm), sizeof(double))};
    if (w->norm) w->norm[w->norms] = watched;
    w->norms++;
}

/* Lists the norms and takes the memory: first counts norms, then bytes, then runs as in arena.h. */
static void lay_out(struct watch *w) {
    const struct model *m = w->model;
    const int sublayers = 2 * (int)m->L;
    struct tensor_list *t = &w->tracked;
    w->arena.used = 0;
    w->norm = arena_take(&w->arena, w->norms, sizeof *w->norm);
    *t = (struct tensor_list){.tensor = arena_take(&w->arena, t->count, sizeof *t->tensor),
                              .value = arena_reals(&w->arena, t->size)};
    w->squares = arena_take(&w->arena, (1 + 2 * m->L) * row_blocks(w), sizeof *w->squares);
    w->norms = 0;
    add(w, &m->embedding_norm, 1, -1);
    for (int i = 0; i < sublayers; i++) {
        const struct sublayer *s = sublayer_at(w, i);
        const struct qkv_norm *qkv = &s->qkv_norm;
        for (const struct op *op = s->chain.op; op < s->chain.op + s->chain.ops; op++) {
            if (op->kind == &op_norm) add(w, op->self, 1, i);
            for (int k = 0; op->kind == &op_qkv_norm && k < QKV_COUNT; k++)
                add(w, &qkv->norm[k], qkv->columns[k].rows, i);
        }
        add(w, &s->connection.norm, 1, i);
    }
    add(w, &m->end.norm, 1, sublayers);
    add(w, &m->final, 1, sublayers);
}

/* ---- what a thread sees ---- */

static void add_row(const struct watched *w, double *sums, const real *x) {
    const size_t C = w->norm->C;
    for (size_t c = 0; c < C; c++) {
        sums[c] += (double)x[c];
        sums[C + c] += square((double)x[c]);
    }
    if (w->norm->kind->saturated)
        sums[4 * C] += (double)w->norm->kind->saturated(w->norm, x) / (double)C;
}

static void add_gradient(const struct watched *w, double *sums, const real *x, const real *dy,
                         double eps) {
    const struct norm *norm = w->norm;
    const size_t C = norm->C;
    const double mean = norm->kind->centred ? (double)row_sum(C, x) / (double)C : 0;
    double var = 0, ones = 0, along = 0;
    if (norm->terms == NORM_TERMS_NONE) return;
    for (size_t c = 0; c < C; c++) {
        const double deviation = (double)x[c] - mean;
        const double g = norm->gamma ? (double)norm->gamma[c] * (double)dy[c] : (double)dy[c];
        var += square(deviation) / (double)C;
        ones += g / (double)C;
        along += g * deviation / (double)C;
        if (norm->terms != NORM_TERMS_OF_CHANNELS) continue;
        sums[2 * C + c] += (double)dy[c];
        sums[3 * C + c] += (double)dy[c] * (double)x[c];
    }
    if (norm->terms != NORM_TERMS_OF_TOKENS) return;
    sums[2 * C] += square(ones);
    sums[3 * C] += square(along) / (var + eps);
}

/* norm_observer */
static void see(void *watch, const struct norm *norm, const struct step *step,
                const struct tokens *tokens, const real *x, const real *dy) {
    const struct watch *w = watch;
    const size_t C = norm->C;
    const double eps = norm_setting(&w->model->config.norms, &norm_eps).real;
    const struct watched *found = w->norm, *end = found + w->norms;
    while (found < end && found->norm != norm) found++;
    if (found == end) return;
    for (size_t n = step->rows.begin, offset = 0; n < step->rows.end; n++) {
        double *sums = found->sums + (step->pass->first + n) / ROWS * width(norm);
        if (n % ROWS == 0 && !step->backward) memset(sums, 0, width(norm) * sizeof *sums);
        for (size_t row = 0; row < found->rows; row++, offset += C) {
            if (!token_counts(&step->pass->tokens, n)) continue;
            if (step->backward)
                add_gradient(found, sums, x + offset, dy + offset, eps);
            else
                add_row(found, sums, x + offset);
        }
    }
}

static void see_stream(const struct watch *w, int i, const struct step *step) {
    const size_t C = w->model->C;
    for (size_t n = step->rows.begin; n < step->rows.end; n += ROWS) {
        const real *dy = step->dy + (n - step->rows.begin) * C;
        double *sum = &watch_stream(w, i)[n / ROWS];
        *sum = 0;
        for (size_t k = 0; k < (team_row_block(n, step->rows).end - n) * C; k++)
            *sum += square((double)dy[k]);
    }
}

void watch_norms(const struct op *op, const struct step *step, norm_observer *look, void *context) {
    const struct tokens *tokens = &step->pass->tokens;
    if (op->kind == &op_norm || op->kind == &op_identity)
        look(context, op->self, step, tokens, step->x, step->dy);
    if (op->kind == &op_read) {
        const struct connection *c = op->self;
        look(context, &c->norm, step, tokens, c->norm_in + step->rows.begin * c->C, step->dy);
    }
    for (enum qkv i = QKV_Q; op->kind == &op_qkv_norm && i < QKV_COUNT; i++) {
        const struct qkv_norm *qkv = op->self;
        const struct tokens rows = qkv_norm_tokens(qkv, i, tokens);
        if (step->backward) qkv_norm_gather(qkv, i, step->rows, step->scratch, step->dy);
        look(context, &qkv->norm[i], step, &rows,
             qkv->raw[i] + step->rows.begin * qkv->columns[i].width, step->scratch);
    }
}

/* op_observer */
static void observe(void *watch, const struct op *op, const struct step *step) {
    const struct watch *w = watch;
    const struct model *m = w->model;
    if (!step->pass->tokens.training || (step->backward && !m->probing)) return;
    watch_norms(op, step, see, watch);
    if (step->backward && op->self == &m->embedding_norm) see_stream(w, -1, step);
    for (int i = 0; step->backward && i < 2 * (int)m->L; i++) {
        const struct chain *chain = &sublayer_at(w, i)->chain;
        if (op->out == &chain->value[chain->values - 1]) see_stream(w, i, step);
    }
}

double *watch_stream(const struct watch *w, int i) {
    return w->squares + (size_t)(i + 1) * row_blocks(w);
}

void watch_init(struct watch *w, struct model *model) {
    *w = (struct watch){.model = model};
    lay_out(w);
    lay_out(w);
    arena_allocate(&w->arena, "probes");
    lay_out(w);
    tensor_initialize(&w->tracked, 0);
    model->observe = observe;
    model->observer = w;
}

void watch_free(struct watch *w) {
    arena_free(&w->arena);
}

/* ---- a batch ---- */

/* The metrics, from sums over N valid rows. */
static void measure(struct watched *w, double N, double eps) {
    const struct norm *norm = w->norm;
    const size_t C = norm->C;
    const double *x = w->sums, *xx = x + C, *dy = xx + C, *dyx = dy + C;
    double means = 0, vars = 0, tracked = 0, difference = 0, ones = dy[0], along = dyx[0];
    if (norm->terms == NORM_TERMS_OF_CHANNELS) ones = along = 0;
    for (size_t c = 0; c < C; c++) {
        const double mean = x[c] / N, var = fmax(0, xx[c] / N - mean * mean);
        const double sigma = sqrt((double)w->var[c] + eps);
        means += square(mean - (double)w->mean[c]);
        vars += square(var - (double)w->var[c]);
        tracked += square(sigma);
        difference += square(sqrt(var + eps) - sigma);
        if (norm->terms != NORM_TERMS_OF_CHANNELS) continue;
        const double centre = norm->kind->centred ? mean : 0,
                     gamma = norm->gamma ? (double)norm->gamma[c] : 1;
        ones += square(gamma * dy[c] / N);
        along +=
            square(gamma * (dyx[c] - centre * dy[c]) / N) / (xx[c] / N - centre * centre + eps);
    }
    const double penalty = norm->kind->penalty ? norm->kind->penalty(norm) : 0;
    const bool has_terms = norm->terms != NORM_TERMS_NONE;
    w->metric[DIST_MEAN] = sqrt(means) / (double)C;
    w->metric[DIST_VAR] = sqrt(vars) / (double)C;
    w->metric[TID_MEAN] = sqrt(means / tracked);
    w->metric[TID_VAR] = sqrt(difference / tracked);
    w->metric[PENALTY] = penalty > 0 ? penalty : -1;
    w->metric[SATURATION] = norm->kind->saturated ? x[4 * C] / N : -1;
    w->metric[G_MEAN] = has_terms ? sqrt(ones) : -1;
    w->metric[G_VAR] = has_terms ? sqrt(along) : -1;
}

static void track(const struct watched *w, double N, double momentum) {
    const size_t C = w->norm->C;
    for (size_t c = 0; c < C; c++) {
        const double mean = w->sums[c] / N, var = fmax(0, w->sums[C + c] / N - mean * mean);
        w->mean[c] += (real)(momentum * (mean - (double)w->mean[c]));
        if (N > 1) w->var[c] += (real)(momentum * (var * N / (N - 1) - (double)w->var[c]));
    }
}

void watch_batch(struct watch *w, const struct batch *batch) {
    const struct norm_options *options = &w->model->config.norms;
    const struct tokens tokens = model_tokens(w->model, batch, true);
    const struct parts parts = partition_parts(&w->model->config, batch, batch);
    const size_t blocks = team_row_blocks(parts.total);
    size_t valid = 0;
    for (size_t n = 0; n < parts.total; n++) valid += token_counts(&tokens, n);
    for (struct watched *n = w->norm; valid && n < w->norm + w->norms; n++) {
        const size_t size = width(n->norm);
        const double N = (double)(valid * n->rows);
        if (model_shares(w->model)) // each rank has the blocks of some parts
            ranks_share(n->sums, blocks * size,
                        ranks_each(parts_count(&parts)) * parts.size / ROWS * size);
        for (size_t i = size; i < blocks * size; i++) n->sums[i % size] += n->sums[i];
        if (w->model->probing) measure(n, N, norm_setting(options, &norm_eps).real);
        track(n, N, norm_setting(options, &norm_momentum).real);
    }
}

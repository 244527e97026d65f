/* Computes the metrics of probe.h. Norms of weights and updates are sums over all elements of a
   tensor:

     update_ratio = sqrt(sum (w_after - w_before)^2 / sum w_before^2)

   for which the weights before an update are kept. The entropy of a query's attention weights p is
   -sum p ln p = largest + ln Z - sum e z / Z, with scores z, e = exp(z - largest) and Z = sum e. */
#include "model/instruments/probe.h"
#include "data/die.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOGIT_MAX, ENTROPY, SATURATED, HEAD_METRICS };
static const char *const head_names[] = {"logit_max", "entropy", "saturated"};

void probe_init(struct probe *probe, struct model *model, probe_row *row, void *context) {
    const size_t heads = model->B * (size_t)model->config.n_head;
    *probe = (struct probe){.row = row,
                            .context = context,
                            .weights = memory_take(model->lists.param.size, sizeof(real), "probes"),
                            .heads = memory_take(heads * HEAD_METRICS, sizeof(double), "probes")};
    watch_init(&probe->watch, model);
}

void probe_free(struct probe *probe) {
    watch_free(&probe->watch);
    free(probe->weights);
    free(probe->heads);
}

void probe_keep(struct probe *probe, const struct model *model) {
    memcpy(probe->weights, model->lists.param.value, model->lists.param.size * sizeof(real));
}

static void put(const struct probe *p, int layer, const char *site, const char *metric,
                double value) {
    p->row(p->context, p->step, layer, site, metric, value);
}

/* Splits "transformer.h.3.attn.c_attn" into 3 and "attn.c_attn", "transformer.ln_f" into -1 and
   "ln_f". */
static int layer_of(const char *name, const char **site) {
    int layer, length = 0;
    if (sscanf(name, "transformer.h.%d.%n", &layer, &length) == 1 && length) {
        *site = name + length;
        return layer;
    }
    *site = strncmp(name, "transformer.", 12) ? name : name + 12;
    return -1;
}

/* Root of the mean of y^2 over valid tokens; with `s` of what the sub-layer s added to its input to
   make y, its sum. */
static double rms(const struct probe *p, const real *y, const struct sublayer *s) {
    size_t C = p->model->C, N = p->tokens.B * p->tokens.T, valid = 0;
    double sum = 0;
    for (size_t n = 0; n < N; n++) {
        if (!token_counts(&p->tokens, n)) continue;
        valid++;
        for (size_t i = n * C; i < (n + 1) * C; i++) {
            double value = (double)y[i];
            if (s) value -= connection_kept(&s->connection, i);
            sum += value * value;
        }
    }
    return sqrt(sum / (double)(valid * C));
}

/* The L2 norm of the gradient of the output of sub-layer i, or for -1 of the first one's input. */
static double stream_grad(const struct probe *p, int i) {
    const double *squares = watch_stream(&p->watch, i);
    double sum = 0;
    for (size_t k = 0; k < team_row_blocks(p->tokens.B * p->tokens.T); k++) sum += squares[k];
    return sqrt(sum) / p->scale;
}

/* The learned numbers of a norm, such as dyt's alpha. */
static void put_numbers(const struct probe *p, const struct norm *norm, int layer,
                        const char *site) {
    const struct tensor_list *param = &p->model->lists.param;
    for (size_t i = 0; norm->kind->param[i].name; i++)
        if (norm->kind->param[i].scalar && norm->kind->param[i].role == NORM_OTHER)
            put(p, layer, site, norm->kind->param[i].name,
                (double)p->weights[norm->param[i].value - param->value]);
}

static void put_norm(const struct probe *p, const struct watched *w) {
    const char *site;
    const int layer = layer_of(w->norm->name, &site);
    for (int i = 0; i < WATCH_METRICS; i++) {
        const bool of_gradient = watch_metrics[i][0] == 'g';
        if (!(w->metric[i] < 0))
            put(p, layer, site, watch_metrics[i], w->metric[i] / (of_gradient ? p->scale : 1));
    }
    put_numbers(p, w->norm, layer, site);
}

/* The norms of sub-layer i, or before (-1) or after (2L) the layers. */
static void put_norms(const struct probe *p, int i) {
    for (const struct watched *w = p->watch.norm; w < p->watch.norm + p->watch.norms; w++)
        if (w->sublayer == i) put_norm(p, w);
}

static void put_sublayer(const struct probe *p, int i) {
    const struct layer *of = &p->model->layer[i / 2];
    const struct sublayer *s = i % 2 ? &of->mlp : &of->attention;
    const char *site = s->heads ? "attn" : "mlp";
    const int layer = i / 2;
    put(p, layer, site, "stream_rms", rms(p, s->y, NULL));
    put(p, layer, site, "output_rms", rms(p, s->connection.sum, s));
    put(p, layer, site, "stream_grad", stream_grad(p, i));
    put_norms(p, i);
}

/* One head of one sequence: the largest logit, and the sums of the other metrics over the valid
   queries that see more than one key. */
static void measure_head(const struct probe *p, const struct sublayer *s, size_t b, size_t h,
                         double measures[HEAD_METRICS]) {
    size_t T = p->tokens.T, C = s->C, HS = C / s->heads, E = s->E;
    const real *row = chain_stored(&s->chain, "expanded") + b * T * E, *q = row + h * HS;
    const real *k = row + C + h / (s->heads / s->attention.KV) * HS;
    double scale = 1 / sqrt((double)HS), cap = (double)s->attention.softcap;
    measures[LOGIT_MAX] = -INFINITY;
    measures[ENTROPY] = measures[SATURATED] = 0;
    for (size_t i = 0; i < T; i++) {
        // sum of e^(z - largest) and of z e^(z - largest), rescaled when a larger z comes
        double largest = -INFINITY, sum = 0, weighted = 0;
        if (!token_counts(&p->tokens, b * T + i)) continue;
        for (size_t j = 0; j <= i; j++) {
            double z = 0;
            for (size_t c = 0; c < HS; c++) z += (double)q[i * E + c] * (double)k[j * E + c];
            z *= scale;
            if (cap > 0) z = cap * tanh(z / cap);
            double larger = fmax(largest, z), shrink = exp(largest - larger);
            sum = sum * shrink + exp(z - larger);
            weighted = weighted * shrink + z * exp(z - larger);
            largest = larger;
        }
        measures[LOGIT_MAX] = fmax(measures[LOGIT_MAX], largest);
        if (!i) continue;
        measures[ENTROPY] += largest + log(sum) - weighted / sum;
        measures[SATURATED] += 1 / sum > 0.99;
    }
}

static void put_heads(const struct probe *p, int layer, const struct sublayer *s) {
    double *heads = p->heads;
    size_t B = p->tokens.B, T = p->tokens.T, queries = 0;
    for (size_t n = 0; n < B * T; n++) queries += n % T && token_counts(&p->tokens, n);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < B * s->heads; i++)
        measure_head(p, s, i / s->heads, i % s->heads, heads + i * HEAD_METRICS);
    for (size_t h = 0; h < s->heads; h++) {
        double total[HEAD_METRICS] = {-INFINITY, 0, 0};
        char site[32];
        for (size_t b = 0; b < B; b++) {
            const double *part = heads + (b * s->heads + h) * HEAD_METRICS;
            total[LOGIT_MAX] = fmax(total[LOGIT_MAX], part[LOGIT_MAX]);
            total[ENTROPY] += part[ENTROPY];
            total[SATURATED] += part[SATURATED];
        }
        total[ENTROPY] /= (double)(queries ? queries : 1);
        total[SATURATED] /= (double)(queries ? queries : 1);
        snprintf(site, sizeof site, "head.%zu", h);
        for (int i = 0; i < HEAD_METRICS; i++) put(p, layer, site, head_names[i], total[i]);
    }
}

static void put_tensor(const struct probe *p, const struct tensor *t) {
    const struct tensor_list *param = &p->model->lists.param;
    double weights = 0, gradient = 0, update = 0;
    for (size_t i = t->offset; i < t->offset + t->size; i++) {
        double w = (double)p->weights[i], g = (double)param->grad[i],
               u = (double)param->value[i] - w;
        weights += w * w;
        gradient += g * g;
        update += u * u;
    }
    const char *site;
    int layer = layer_of(t->name, &site);
    put(p, layer, site, "weight_norm", sqrt(weights));
    put(p, layer, site, "grad_norm", sqrt(gradient));
    if (weights > 0) put(p, layer, site, "update_ratio", sqrt(update / weights));
}

void probe_write(struct probe *p, const struct model *m, const struct batch *batch, double scale,
                 int64_t step) {
    const int sublayers = 2 * (int)m->L;
    p->model = m;
    p->tokens = (struct tokens){.B = batch->B, .T = batch->T, .valid = batch->valid};
    p->step = step;
    p->scale = scale;
    put(p, -1, "embd", "stream_rms", rms(p, m->stream_in, NULL));
    put(p, -1, "embd", "stream_grad", stream_grad(p, -1));
    put_norms(p, -1);
    for (int i = 0; i < sublayers; i++) {
        put_sublayer(p, i);
        if (i % 2 == 0) put_heads(p, i / 2, &m->layer[i / 2].attention);
    }
    if (m->end.norm_in) put(p, -1, "second", "stream_rms", rms(p, m->end.norm_in, NULL));
    put_norms(p, sublayers);
    for (size_t i = 0; i < m->lists.param.count; i++) put_tensor(p, &m->lists.param.tensor[i]);
}

/* --dump: every array against the same number computed in another way, for every norm and
   placement, source of statistics, and with pads. The norms' inputs and outputs are bound to what
   comes before and after them by products that are computed here in double. */
#include "model/connection/lambda.h"
#include "model/lab/dump.h"
#include "tests/support.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* N is more than a row block. */
enum { B = SMALL_B, T = 11, N = B * T, NH = 2, C_MAX = 8, WIDE_MAX = 64 };

/* Of the case: channels, of a head too; hidden units; heads of keys and values; a row of q, k, v. */
static size_t C, HS, WIDE, KV, E;
static const char *title; // of the case, for messages

static const struct stored *find(const struct dump *d, const char *site, const char *part) {
    char name[96];
    snprintf(name, sizeof name, "%s%s", site, part);
    size_t i = 0;
    while (i < d->count && strcmp(d->arrays[i].name, name) != 0) i++;
    cr_assert(i < d->count, "%s: no %s", title, name);
    return &d->arrays[i];
}

static const real *array(const struct dump *d, const char *site, const char *part) {
    return find(d, site, part)->data;
}

static void expect_same(const char *site, const char *part, size_t count, const real *got,
                        const real *want) {
    cr_expect(!memcmp(got, want, count * sizeof *got), "%s: %s%s has other bits", title, site,
              part);
}

static void expect_near(const char *site, const char *part, size_t count, const real *got,
                        const double *want) {
    double scale = 1e-3, error = 0;
    for (size_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs(want[i]));
        error = worse(error, fabs((double)got[i] - want[i]));
    }
    cr_expect(error <= (in_double() ? 1e-12 : 1e-5) * scale, "%s: %s%s is off by %g of %g", title,
              site, part, error, scale);
}

/* y (N,out) = factor x W^T + b. */
static void product(const struct linear *linear, double factor, double *y, const real *x) {
    for (size_t n = 0; n < N; n++)
        for (size_t o = 0; o < linear->out; o++) {
            double sum = linear->bias.value ? (double)linear->bias.value[o] : 0;
            for (size_t i = 0; i < linear->in; i++)
                sum += factor * (double)x[n * linear->in + i] *
                       (double)linear->weight.value[o * linear->in + i];
            y[n * linear->out + o] = sum;
        }
}

/* out (N,C): causal attention of q, k and v in qkv (N,E). */
static void attend(const struct sublayer *s, double *out, const real *qkv) {
    const double cap = (double)s->attention.softcap;
    for (size_t n = 0; n < N; n++)
        for (size_t h = 0; h < NH; h++) {
            const real *q = qkv + n * E + h * HS, *key = qkv + C + h * KV / NH * HS;
            const real *value = key + KV * HS;
            double weight[T], sum = 0;
            for (size_t c = 0; c < HS; c++) out[n * C + h * HS + c] = 0;
            for (size_t k = n - n % T; k <= n; k++) {
                double score = dot(HS, q, key + k * E) / sqrt((double)HS);
                sum += weight[k % T] = exp(cap > 0 ? cap * tanh(score / cap) : score);
            }
            for (size_t k = n - n % T; k <= n; k++)
                for (size_t c = 0; c < HS; c++)
                    out[n * C + h * HS + c] += weight[k % T] / sum * (double)value[k * E + c];
        }
}

/* The norm at a site of the dump: its input is `want`; the identity passes it on. */
static const real *check_norm(const struct dump *d, const struct norm *norm, size_t width,
                              const double *want) {
    const real *x = array(d, norm->name, ".input"), *y = array(d, norm->name, ".output");
    expect_near(norm->name, ".input", N * width, x, want);
    if (!norm_present(norm)) expect_same(norm->name, ".output", N * width, y, x);
    return y;
}

static void to_double(size_t count, double *to, const real *from) {
    for (size_t i = 0; i < count; i++) to[i] = (double)from[i];
}

/* The learned factor of column c. */
static double gain_of(const struct gain *gain, size_t c) {
    return gain_present(gain) ? (double)gain->scale * (double)gain->param.value[c] : 1;
}

/* The array is (B,T,heads,width), or if `heads` is 0 (B,T,width). */
static void expect_shape(const struct stored *array, size_t heads, size_t width) {
    const size_t want[] = {B, T, heads ? heads : width, width};
    cr_expect(array->dimensions == (heads ? 4 : 3) &&
                  !memcmp(array->shape, want, array->dimensions * sizeof *want),
              "%s: shape of %s", title, array->name);
}

/* The norm of q, k or v, whose input is in columns of qkv (N,E); these become its output. Without
   factors and positions these are the bits that attention reads, in `attended`. */
static void check_part(const struct dump *d, const struct sublayer *s, size_t part, double *qkv,
                       const real *attended) {
    const struct norm *norm = &s->qkv_norm.norm[part];
    const size_t of_part = part == QKV_Q ? NH : KV, all = of_part * HS;
    const size_t heads = s->qkv_norm.over_width ? 0 : of_part, width = heads ? HS : all;
    const size_t first = part == QKV_Q ? 0 : C + (part - 1) * KV * HS;
    double want[N * C_MAX], *columns = qkv + first;
    cr_expect(norm_present(norm) == (norm->name[0] != 0), "%s: name of an identity", title);
    if (!norm->name[0]) return;
    for (size_t n = 0; n < N; n++) memcpy(want + n * all, columns + n * E, all * sizeof *want);
    const real *y = check_norm(d, norm, all, want);
    expect_shape(find(d, norm->name, ".input"), heads, width);
    expect_shape(find(d, norm->name, ".output"), heads, width);
    const bool same = !s->qkv_norm.scale.value && !gain_present(&s->in_gain) && !s->rope.HS;
    for (size_t n = 0; n < N; n++) {
        to_double(all, columns + n * E, y + n * all);
        if (same) expect_same(norm->name, ".output", all, y + n * all, attended + n * E + first);
    }
}

/* The pair of elements i and i + HS / 2 of a head x, turned by the angle of position t. */
static void turn(double *x, size_t i, size_t t, double theta) {
    double angle = (double)t * pow(theta, -2 * (double)i / (double)HS);
    double a = x[i], b = x[i + HS / 2];
    x[i] = a * cos(angle) - b * sin(angle);
    x[i + HS / 2] = b * cos(angle) + a * sin(angle);
}

/* q^ = t_h sqrt(HS) u, with a learned scale; then positions; then q and k times their gain. */
static void scale_queries(const struct sublayer *s, double theta, double *qkv) {
    const size_t keys = C + KV * HS;
    for (size_t n = 0; n < N; n++) {
        double *x = qkv + n * E;
        for (size_t c = 0; c < C && s->qkv_norm.scale.value; c++)
            x[c] *= (double)s->qkv_norm.scale.value[c / HS] * sqrt((double)HS);
        for (size_t c = 0; c < keys && s->rope.HS; c += HS)
            for (size_t i = 0; i < HS / 2; i++) turn(x + c, i, n % T, theta);
        for (size_t c = 0; c < keys && gain_present(&s->in_gain); c++)
            x[c] *= gain_of(&s->in_gain, c % C);
    }
}

static void check_attention(const struct dump *d, const struct sublayer *s, double theta,
                            size_t layer, double *expanded) {
    char site[64];
    double out[N * C_MAX];
    snprintf(site, sizeof site, "transformer.h.%zu.attn", layer);
    const real *qkv = array(d, site, ".qkv");
    for (size_t part = 0; part < QKV_COUNT; part++) check_part(d, s, part, expanded, qkv);
    scale_queries(s, theta, expanded);
    expect_near(site, ".qkv", N * E, qkv, expanded);
    attend(s, out, qkv);
    for (size_t i = 0; i < N * C && s->gate.G; i++)
        out[i] /= 1 + exp(-(double)qkv[(i / C + 1) * E - s->gate.G + i % C * s->gate.G / C]);
    expect_near(site, ".output", N * C, array(d, site, ".output"), out);
}

/* inner (N,WIDE): the MLP's hidden units, which its projection reads. */
static void check_mlp(const struct dump *d, const struct sublayer *s, double *expanded,
                      real *inner) {
    real raw[N * WIDE_MAX];
    for (size_t i = 0; i < N * s->E; i++)
        raw[i] = (real)(gain_of(&s->in_gain, i % s->E) * expanded[i]);
    activation_forward(s->activation, N, WIDE, inner, raw);
    to_double(N * WIDE, expanded, inner);
    cr_expect(norm_present(&s->ffn_norm) == (s->ffn_norm.name[0] != 0), "%s: FFN's name", title);
    if (s->ffn_norm.name[0])
        memcpy(inner, check_norm(d, &s->ffn_norm, WIDE, expanded), N * WIDE * sizeof *inner);
}

/* What a sub-layer's branch reads: x, or x + N(r). Of a connection `without_post` only normlab.py has
   a formula: what it makes is taken from the dump. */
static const real *check_branch(const struct dump *d, const struct sublayer *s, const real *x,
                                const double *second, real *joined) {
    double want[N * C_MAX];
    to_double(N * C, want, x);
    if (s->connection.norm.name[0]) {
        const real *normed = check_norm(d, &s->connection.norm, C, second);
        for (size_t i = 0; i < N * C; i++) want[i] += (double)normed[i];
    }
    if (s->connection.kind->without_post) to_double(N * C, want, array(d, s->pre.name, ".input"));
    if (s->pre.name[0]) return check_norm(d, &s->pre, C, want);
    for (size_t i = 0; i < N * C; i++) joined[i] = (real)want[i];
    return joined;
}

/* The residual sum of x and f in channel c. */
static double residual_sum(const struct sublayer *s, size_t c, double x, double f) {
    const struct connection *k = &s->connection;
    const double a = k->a * x, b = k->b * f;
    const double value = k->size[0] ? (double)k->param[0].value[c % k->size[0]] : 0;
    if (k->kind->functions != &lambda_functions) return a + b;
    if (!strcmp(k->kind->name, "admin")) return value * a + b;
    if (strcmp(k->kind->name, "interpolate") != 0) return a + value * b;
    return a + 0.05 * sqrt((double)C) * fabs(value) * (b - a);
}

/* The sub-layer whose input is stream.NUMBER; adds its branch to the second stream. */
static void check_sublayer(const struct dump *d, const struct sublayer *s, double theta,
                           size_t number, double *second) {
    char before[16], after[16], site[64];
    double expanded[N * WIDE_MAX], f[N * C_MAX], sum[N * C_MAX];
    real inner[N * WIDE_MAX], joined[N * C_MAX];
    snprintf(before, sizeof before, "stream.%zu", number);
    snprintf(after, sizeof after, "stream.%zu", number + 1);
    const real *x = array(d, before, "");
    product(&s->in, s->s_factor, expanded, check_branch(d, s, x, second, joined));
    if (s->heads) {
        check_attention(d, s, theta, number / 2, expanded);
        snprintf(site, sizeof site, "transformer.h.%zu.attn", number / 2);
        memcpy(inner, array(d, site, ".output"), N * C * sizeof *inner);
    } else
        check_mlp(d, s, expanded, inner);
    product(&s->proj, 1, f, inner);
    if (s->out.name[0]) to_double(N * C, f, check_norm(d, &s->out, C, f));
    for (size_t i = 0; i < N * C; i++) {
        sum[i] = residual_sum(s, i % C, (double)x[i], f[i]);
        second[i] += f[i];
    }
    if (s->post.name[0]) to_double(N * C, sum, check_norm(d, &s->post, C, sum));
    if (!s->connection.kind->without_post) expect_near(after, "", N * C, array(d, after, ""), sum);
}

/* The batch, and what is before the first sub-layer. The second stream starts at `second`. */
static void check_start(const struct dump *d, const struct model *m, const struct batch *batch,
                        double *second) {
    double embedded[N * C_MAX];
    const double scale = gain_present(&m->embd_scale) ? (double)*m->embd_scale.param.value : 1;
    const int64_t *ids = (const int64_t *)array(d, "ids", "");
    const int64_t *targets = (const int64_t *)array(d, "targets", "");
    const int64_t *valid = (const int64_t *)array(d, "valid", "");
    for (size_t n = 0; n < N; n++) {
        cr_expect(ids[n] == batch->ids[n] && targets[n] == batch->targets[n]);
        cr_expect(valid[n] == (batch->valid ? batch->valid[n] : 1));
        for (size_t c = 0; c < C; c++)
            embedded[n * C + c] =
                scale * ((double)m->wte.value[ids[n] * C + c] +
                         (m->wpe.value ? (double)m->wpe.value[n % T * C + c] : 0));
    }
    memcpy(second, embedded, N * C * sizeof *second);
    if (m->embedding_norm.name[0])
        to_double(N * C, embedded, check_norm(d, &m->embedding_norm, C, embedded));
    expect_near("stream.0", "", N * C, array(d, "stream.0", ""), embedded);
}

/* What is after the last sub-layer: FINAL(x), or FINAL(x + N(r)). */
static void check_end(const struct dump *d, const struct model *m, const double *second) {
    double head[N * C_MAX], r[N * C_MAX], logits[N * SMALL_V];
    to_double(N * C, head, array(d, "stream.4", ""));
    memcpy(r, second, N * C * sizeof *r);
    if (m->end.norm.name[0]) to_double(N * C, r, check_norm(d, &m->end.norm, C, r));
    for (size_t i = 0; m->end.kind && i < N * C; i++) head[i] += r[i];
    if (m->end.kind && m->end.kind->without_post)
        to_double(N * C, head, array(d, m->final.name, ".input"));
    if (m->final.name[0]) to_double(N * C, head, check_norm(d, &m->final, C, head));
    expect_near("head_in", "", N * C, array(d, "head_in", ""), head);
    product(&m->head, 1, logits, array(d, "head_in", ""));
    for (size_t i = 0; gain_present(&m->logit_gain) && i < N * SMALL_V; i++)
        logits[i] *= gain_of(&m->logit_gain, i % SMALL_V);
    const double cap = m->config.logit_softcap;
    for (size_t i = 0; cap > 0 && i < N * SMALL_V; i++) logits[i] = cap * tanh(logits[i] / cap);
    expect_near("logits", "", N * SMALL_V, array(d, "logits", ""), logits);
}

/* The number of norms of the placement at the sites of one sub-layer. */
static size_t placed_norms(const struct model_config *config, int site, size_t layer) {
    const struct placement *row = placement_of(
        model_placement(config, site), site == SITE_ATTENTION, layer, 2, config->mix_fraction);
    return row->pre + row->out + row->post + !!model_connection(config, row)->norm;
}

/* The number of arrays: ids, targets, valid, logits, head_in, the stream, qkv and attention's
   output of two layers, and two for each norm that the configuration has. */
static size_t expected_count(const struct model_config *config) {
    const struct placement *row = &placements[config->placement];
    size_t norms =
        row->embedding + model_has_final(config) + (model_connection(config, row)->norm != NULL);
    for (size_t l = 0; l < 2; l++) {
        for (int site = SITE_ATTENTION; site <= SITE_FFN; site++)
            norms += placed_norms(config, site, l);
        norms += model_inner_norm(config, INNER_QK)->forward ? 2 : 0;
        norms += model_inner_norm(config, INNER_V)->forward ? 1 : 0;
        norms += model_inner_norm(config, INNER_FFN)->forward ? 1 : 0;
    }
    return 5 + 5 + 2 * 2 + 2 * norms;
}

static struct batch padded_batch(uint64_t key) {
    struct batch batch = make_batch(B, T, SMALL_V, key);
    batch.valid = batch.marks;
    for (size_t n = 0; n < N; n++) {
        batch.valid[n] = n % T < T - n / T; // T, T - 1, ... tokens
        if (!batch.valid[n]) batch.targets[n] = -1;
    }
    return batch;
}

static void check_source(const struct model *model, enum statistics_source source,
                         const struct batch *batch, const struct batch *other) {
    struct model m = held_measure(model, source);
    struct dump d;
    double second[N * C_MAX];
    dump_init(&d, batch);
    measure_passes(&m, source, batch, other, dump_pass, &d);
    cr_expect(d.count == expected_count(&m.config), "%s: %zu arrays, not %zu", title, d.count,
              expected_count(&m.config));
    for (size_t i = 0; i < d.count; i++)
        for (size_t j = 0; j < i; j++)
            cr_expect(strcmp(d.arrays[i].name, d.arrays[j].name) != 0, "%s twice",
                      d.arrays[i].name);
    check_start(&d, &m, batch, second);
    for (size_t l = 0; l < 2; l++) {
        check_sublayer(&d, &m.layer[l].attention, m.config.rope_theta, 2 * l, second);
        check_sublayer(&d, &m.layer[l].mlp, m.config.rope_theta, 2 * l + 1, second);
    }
    check_end(&d, &m, second);
    dump_free(&d);
}

/* Every array, after some training, from every source of statistics, with pads and without. */
static void check_config(struct model_config config, const char *options) {
    struct batch full = make_batch(B, T, SMALL_V, 7), other = make_batch(B, T, SMALL_V, 8);
    struct batch padded = padded_batch(9);
    struct model model;
    char text[320];
    omp_set_num_threads(1);
    C = (size_t)config.n_embd, HS = C / NH, KV = model_kv_heads(&config);
    E = C + 2 * KV * HS + (config.attn_gate == ATTN_GATE_HEAD ? NH : config.attn_gate ? C : 0);
    WIDE = model_ffn_width(&config);
    cr_assert(C <= C_MAX && WIDE <= WIDE_MAX / 2);
    config.block_size = T;
    config.dropout = 0.3; // which is left out
    for (int include = 0; include < 2; include++) {
        config.pad_stats = include ? PAD_STATS_INCLUDE : PAD_STATS_MASK;
        model = fit_small(&config, B);
        for (int source = 0; source < STATISTICS_SOURCES; source++) {
            if (!measure_has(&config, source)) continue;
            snprintf(text, sizeof text, "%s --stats=%s", options, statistics_name[source]);
            title = text;
            if (!include) check_source(&model, source, &full, &other);
            check_source(&model, source, &padded, &other);
        }
    }
}

static void check_every_array_is_what_it_is_called(const struct pair *pair) {
    check_config(pair_config(pair), pair_options(pair));
}

Test(dump, every_array_is_what_it_is_called) {
    every_norm_and_placement(check_every_array_is_what_it_is_called);
}

/* Options that no pair has: norms of v by head, a scale of queries without a norm, kinds and rows
   by site, no norm before the head. */
Test(dump, norms_and_rows_by_site) {
    struct model_config config = small_config(norm_index("bn"), 0);
    config.v_norm = INNER_NORM_ON;
    config.qk_scale = QK_SCALE_LEARNED;
    config.qk_scale_start = model_qk_scale_start(&config);
    check_config(config, "v by head, and a scale");
    config.qk_norm = INNER_NORM_KINDS + norm_index("l2");
    config.ffn_norm = INNER_NORM_KINDS + norm_index("none");
    config.site_norm[SITE_FFN] = 1 + norm_index("rms");
    config.site_placement[SITE_FFN] = 1 + placement_index("layerscale");
    check_config(config, "kinds by site");
    config.qk_norm_over = EXTENT_WIDTH;
    config.site_placement[SITE_ATTENTION] = 1 + placement_index("sandwich");
    config.site_norm[SITE_FINAL] = 1 + norm_index("none");
    check_config(config, "rows by site");
    const char *const rows[] = {"residual", "siamese", "ngpt"};
    for (size_t i = 0; i < 3; i++) {
        config = small_config(norm_index("bn"), placement_index(rows[i]));
        config.final_norm = FINAL_NORM_OFF;
        config.qk_norm = INNER_NORM_ON;
        config.ffn_norm = INNER_NORM_KINDS + norm_index("rms"); // does not pool, as bn would
        check_config(config, rows[i]);
    }
}

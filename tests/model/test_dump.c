/* --dump: every array against the same number computed in another way, for every norm and
   placement, source of statistics, and with pads. The norms' inputs and outputs are bound to what
   comes before and after them by products that are computed here in double. */
#include "data/text/corpus.h"
#include "model/lab/dump.h"
#include "tests/model/fit.h"
#include "tests/support.h"
#include <criterion/parameterized.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { B = SMALL_B, T = SMALL_T, N = B * T, C = 6, WIDE = 4 * C, NH = 2, HS = C / NH };

static const char *title; // of the case, for messages

static const real *array(const struct dump *d, const char *site, const char *part) {
    char name[96];
    snprintf(name, sizeof name, "%s%s", site, part);
    const struct stored *found = dump_find(d, name);
    cr_assert(found, "%s: no %s", title, name);
    return found->data;
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
        double off = fabs((double)got[i] - want[i]);
        if (!(off <= error)) error = off;
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

/* out (N,C): causal attention of q, k and v in qkv (N,3C). */
static void attend(double *out, const real *qkv) {
    for (size_t n = 0; n < N; n++)
        for (size_t h = 0; h < NH; h++) {
            const real *q = qkv + n * 3 * C + h * HS;
            double weight[T], sum = 0;
            for (size_t c = 0; c < HS; c++) out[n * C + h * HS + c] = 0;
            for (size_t k = n - n % T; k <= n; k++)
                sum += weight[k % T] =
                    exp(dot(HS, q, qkv + k * 3 * C + C + h * HS) / sqrt((double)HS));
            for (size_t k = n - n % T; k <= n; k++)
                for (size_t c = 0; c < HS; c++)
                    out[n * C + h * HS + c] +=
                        weight[k % T] / sum * (double)qkv[k * 3 * C + 2 * C + h * HS + c];
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

static void check_attention(const struct dump *d, const struct sublayer *s, size_t layer,
                            const double *expanded) {
    char site[64];
    double want[N * 3 * C], out[N * C];
    snprintf(site, sizeof site, "transformer.h.%zu.attn", layer);
    const real *qkv = array(d, site, ".qkv");
    memcpy(want, expanded, sizeof want);
    for (size_t i = 0; s->qk_norm.heads && i < 2; i++) {
        const char *name = s->qk_norm.norm[i].name;
        const real *x = array(d, name, ".input"), *y = array(d, name, ".output");
        cr_expect(dump_find(d, name) == NULL);
        for (size_t n = 0; n < N; n++) {
            expect_near(name, ".input", C, x + n * C, expanded + n * 3 * C + i * C);
            expect_same(name, ".output", C, y + n * C, qkv + n * 3 * C + i * C);
            to_double(C, want + n * 3 * C + i * C, y + n * C);
        }
    }
    expect_near(site, ".qkv", N * 3 * C, qkv, want);
    attend(out, qkv);
    expect_near(site, ".output", N * C, array(d, site, ".output"), out);
}

/* The sub-layer whose input is stream.NUMBER; adds its branch to the second stream. */
static void check_sublayer(const struct dump *d, const struct sublayer *s, size_t number,
                           double *second) {
    char before[16], after[16];
    double expanded[N * WIDE], want[N * C], sum[N * C];
    real inner[N * WIDE], raw[N * WIDE];
    snprintf(before, sizeof before, "stream.%zu", number);
    snprintf(after, sizeof after, "stream.%zu", number + 1);
    const real *x = array(d, before, ""), *normed = x, *f;
    to_double(N * C, want, x);
    if (s->pre.name[0]) normed = check_norm(d, &s->pre, C, want);
    product(&s->in, s->s_factor, expanded, normed);
    if (s->heads) {
        char site[64];
        check_attention(d, s, number / 2, expanded);
        snprintf(site, sizeof site, "transformer.h.%zu.attn", number / 2);
        memcpy(inner, array(d, site, ".output"), N * C * sizeof *inner);
    } else {
        for (size_t i = 0; i < N * WIDE; i++) inner[i] = (real)expanded[i];
        s->activation->forward(N * WIDE, inner, memcpy(raw, inner, sizeof raw));
        to_double(N * WIDE, expanded, inner);
        if (norm_present(&s->ffn_norm))
            memcpy(inner, check_norm(d, &s->ffn_norm, WIDE, expanded), sizeof inner);
    }
    product(&s->proj, 1, want, inner);
    f = s->out.name[0] ? check_norm(d, &s->out, C, want) : NULL;
    for (size_t i = 0; i < N * C; i++) {
        double branch = f ? (double)f[i] : want[i];
        sum[i] = s->a * (double)x[i] + branch;
        second[i] += branch;
    }
    if (s->post.name[0]) to_double(N * C, sum, check_norm(d, &s->post, C, sum));
    expect_near(after, "", N * C, array(d, after, ""), sum);
}

static void check_ends(const struct dump *d, const struct model *m, const struct batch *batch,
                       const double *second) {
    double embedded[N * C], head[N * C], logits[N * SMALL_V];
    const int64_t *ids = (const int64_t *)array(d, "ids", "");
    const int64_t *targets = (const int64_t *)array(d, "targets", "");
    const int64_t *valid = (const int64_t *)array(d, "valid", "");
    for (size_t n = 0; n < N; n++) {
        cr_expect(ids[n] == batch->ids[n] && targets[n] == batch->targets[n]);
        cr_expect(valid[n] == (batch->valid ? batch->valid[n] : 1));
        for (size_t c = 0; c < C; c++)
            embedded[n * C + c] =
                (double)m->wte.value[ids[n] * C + c] + (double)m->wpe.value[n % T * C + c];
    }
    if (m->embedding_norm.name[0])
        to_double(N * C, embedded, check_norm(d, &m->embedding_norm, C, embedded));
    expect_near("stream.0", "", N * C, array(d, "stream.0", ""), embedded);
    const real *last = array(d, "stream.4", "");
    for (size_t i = 0; i < N * C; i++) head[i] = m->second ? second[i] : (double)last[i];
    if (m->final.name[0]) to_double(N * C, head, check_norm(d, &m->final, C, head));
    for (size_t i = 0; m->second && i < N * C; i++) head[i] += (double)last[i];
    expect_near("head_in", "", N * C, array(d, "head_in", ""), head);
    product(&m->head, 1, logits, array(d, "head_in", ""));
    expect_near("logits", "", N * SMALL_V, array(d, "logits", ""), logits);
}

/* The number of arrays: ids, targets, valid, logits, head_in, the stream, qkv and attention's
   output of two layers, and two for each norm that the configuration has. */
static size_t expected_count(const struct model_config *config) {
    const struct placement *row = &placements[config->placement];
    bool qk = model_inner_norm(config, SITE_ATTENTION)->forward != NULL;
    bool ffn = model_inner_norm(config, SITE_FFN)->forward != NULL;
    size_t norms = row->embedding + model_has_final(config);
    for (size_t l = 0; l < 2; l++) {
        const struct placement *p = row->of_layer ? row->of_layer(l, 2, config->mix_fraction) : row;
        norms += 2 * (p->pre + p->out + p->post) + 2 * qk + ffn;
    }
    return 5 + 5 + 2 * 2 + 2 * norms;
}

static void visit(void *context, struct model *m, const struct measured_pass *pass) {
    dump_pass(context, m, pass);
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
    struct model m;
    struct dump d;
    double second[N * C];
    measure_init(&m, model, source);
    dump_init(&d, batch);
    measure_passes(&m, source, batch, other, visit, &d);
    cr_expect(d.count == expected_count(&m.config), "%s: %zu arrays, not %zu", title, d.count,
              expected_count(&m.config));
    for (size_t i = 0; i < d.count; i++)
        for (size_t j = 0; j < i; j++)
            cr_expect(strcmp(d.arrays[i].name, d.arrays[j].name) != 0, "%s twice",
                      d.arrays[i].name);
    to_double(N * C, second, array(&d, "stream.0", ""));
    for (size_t l = 0; l < 2; l++) {
        check_sublayer(&d, &m.layer[l].attention, 2 * l, second);
        check_sublayer(&d, &m.layer[l].mlp, 2 * l + 1, second);
    }
    check_ends(&d, &m, batch, second);
    dump_free(&d);
    model_free(&m);
}

ParameterizedTestParameters(dump, every_array_is_what_it_is_called) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, dump, every_array_is_what_it_is_called) {
    struct model_config config = pair_config(pair);
    struct batch full = make_batch(B, T, SMALL_V, 7), other = make_batch(B, T, SMALL_V, 8);
    struct batch padded = padded_batch(9);
    struct model model;
    char text[128];
    omp_set_num_threads(1);
    config.dropout = 0.3; // which is left out
    for (int include = 0; include < 2; include++) {
        config.pad_stats = include ? PAD_STATS_INCLUDE : PAD_STATS_MASK;
        fit_small(&model, &config, B);
        for (int source = 0; source < STATISTICS_SOURCES; source++) {
            if (!measure_has(&config, source)) continue;
            snprintf(text, sizeof text, "%s --stats=%s", pair_options(pair),
                     statistics_name[source]);
            title = text;
            if (!include) check_source(&model, source, &full, &other);
            check_source(&model, source, &padded, &other);
        }
        model_free(&model);
    }
    batch_free(&full);
    batch_free(&other);
    batch_free(&padded);
}

/* What stands in a dump does not depend on the number of threads. */
Test(dump, the_same_for_any_number_of_threads) {
    enum { LONG = 40 };
    struct model_config config = small_config(norm_index("bn"), 0);
    config.block_size = LONG;
    config.qk_norm = config.ffn_norm = INNER_NORM_ON;
    struct batch batch = make_batch(B, LONG, SMALL_V, 3);
    struct dump dumps[2];
    omp_set_num_threads(3);
    struct model model;
    model_init(&model, &config, SMALL_V, B, 1);
    for (size_t i = 0; i < 2; i++) {
        model.threads = 1 + 2 * i;
        dump_init(&dumps[i], &batch);
        measure_passes(&model, STATISTICS_OWN, &batch, NULL, visit, &dumps[i]);
    }
    cr_assert(dumps[0].count == dumps[1].count);
    for (size_t i = 0; i < dumps[0].count; i++) {
        const struct stored *one = &dumps[0].arrays[i], *two = &dumps[1].arrays[i];
        size_t size = one->type == STORED_I64 ? sizeof(int64_t) : sizeof(real);
        cr_expect(!memcmp(one->data, two->data, stored_count(one) * size), "%s", one->name);
    }
    dump_free(&dumps[0]);
    dump_free(&dumps[1]);
    batch_free(&batch);
    model_free(&model);
}

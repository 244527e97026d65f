/* `make bench`: how close training comes to what the processor can do.

   One run measures the peak multiply-add rate of the training's threads, a training step of three
   models, where its time goes, and the matrix products alone. Machines are noisy and their clocks
   move, so only ratios within one run mean much: times are medians, the peak is the best of many
   repetitions before and after all else.

   Floating-point operations per character = 6 P + 12 L C T, with P the matrices' parameters, the
   head included and embeddings not: a multiply and an add for each in the forward pass and twice
   that in the backward pass; the second term is attention's, its masked half included. */
#include "data/die.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include "model/lab/config.h"
#include "model/math/matmul.h"
#include "model/math/profile.h"
#include "model/math/simd.h"
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static const struct configuration {
    const char *name, *sizes;
    size_t V;
} configurations[] = {
    {"cpu", "--n-layer=4 --n-head=4 --n-embd=128 --block-size=64 --batch-size=12", 65},
    {"baby", "--n-layer=6 --n-head=6 --n-embd=384 --block-size=256 --batch-size=64", 65},
    {"micro", "--n-layer=1 --n-head=4 --n-embd=16 --block-size=16 --batch-size=1", 27},
    {.name = "kernels"}, // of those above
};

enum { KERNELS = sizeof configurations / sizeof *configurations - 1 };

/* What the command line asks of the bench itself; the options are ./train's. */
struct request {
    bool selected[KERNELS + 1];
    double seconds;
    const char *csv;
    char **option;
    size_t options;
};

/* One configuration in training, and what was measured of it. */
struct training {
    const char *name;
    size_t V;
    struct config config;
    struct model model;
    struct adam adam;
    struct batch batch;
    uint64_t count; // of batches so far
    double loss;
    double step, fastest;                  // seconds: the median, the least
    double speed, rate, bytes;             // characters and operations a second, memory
    double share[PROFILE_PARTS], profiled; // with the clock on: shares, and seconds a step
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs for about `seconds` after a warm-up, many short runs making one sample; returns the median
   time of a run, and the least in *fastest. */
static double measure(void (*run)(void *), void *context, double seconds, double *fastest) {
    enum { LEAST = 3, MOST = 300 };
    double sample[MOST], start = omp_get_wtime(), now;
    size_t runs = 0, count = 0;
    do run(context), runs++, now = omp_get_wtime();
    while (now - start < seconds / 10);
    runs = 1 + (size_t)(seconds / MOST / ((now - start) / (double)runs));
    start = now;
    while (count < MOST && (count < LEAST || now - start < seconds)) {
        double before = now;
        for (size_t i = 0; i < runs; i++) run(context);
        now = omp_get_wtime();
        sample[count++] = (now - before) / (double)runs;
    }
    qsort(sample, count, sizeof *sample, ascending);
    *fastest = sample[0];
    return (sample[(count - 1) / 2] + sample[count / 2]) / 2;
}

/* Independent chains of x = factor x + term that fill the registers but for a few; they tend to 1.
   The sum is returned so that none is left out. */
enum { CHAINS = SIMD_REGISTERS * 3 / 4 };

static real multiply_adds(size_t count, real factor, real term) {
    vec x[CHAINS], f = vec_splat(factor), t = vec_splat(term);
    real sum = 0;
    for (int i = 0; i < CHAINS; i++) x[i] = vec_splat((real)i);
    for (size_t n = 0; n < count; n++)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) x[i] = vec_mul_add(x[i], f, t);
    for (int i = 0; i < CHAINS; i++)
        for (int lane = 0; lane < LANES; lane++) sum += x[i][lane];
    return sum;
}

/* Floating-point operations a second, all threads together. */
static double peak_rate(void) {
    enum { REPETITIONS = 60, STEPS = 1 << 20 };
    static volatile real value[2] = {(real)0.5}; // nothing known before, nothing left out after
    double best = 0;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        int threads = 0;
        real sum = 0;
        double start = omp_get_wtime();
#pragma omp parallel reduction(+ : threads, sum)
        {
            threads++;
            sum += multiply_adds(STEPS, value[0], value[0]);
        }
        double rate = 2.0 * STEPS * CHAINS * LANES * threads / (omp_get_wtime() - start);
        value[1] = sum;
        if (rate > best) best = rate;
    }
    return best;
}

/* An update as ./train does it, without drawing a batch. */
static void training_step(void *context) {
    struct training *t = context;
    int64_t accum = t->config.grad_accum;
    model_zero_grad(&t->model);
    for (int64_t i = 0; i < accum; i++, t->count++) {
        model_forward(&t->model, &t->batch, true, t->count);
        t->loss = model_backward(&t->model, &t->batch, t->count, 1.0 / (double)accum);
    }
    double norm = adam_grad_norm(&t->adam, &t->model.lists.param);
    adam_step(&t->adam, &t->model.lists.param, t->config.schedule.rate, norm);
}

/* Parameters of matrix products; the token embedding is the head. */
static double matrix_parameters(const struct tensor_list *list) {
    double sum = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->tensor[i].dimensions == 2 &&
            strcmp(list->tensor[i].name, "transformer.wpe.weight") != 0)
            sum += (double)list->tensor[i].size;
    return sum;
}

static void measure_training(struct training *t, double seconds) {
    const struct model_config *m = &t->config.model;
    size_t B = t->config.batch_size, T = m->block_size;
    model_init(&t->model, m, t->V, B, t->config.seed);
    t->model.threads = (size_t)t->config.team;
    adam_init(&t->adam, &t->config.adam, &t->model.lists.param);
    t->adam.threads = model_team(&t->model);
    t->batch = batch_make(B, T);
    for (size_t n = 0; n < B * T; n++) {
        t->batch.ids[n] = (int32_t)random_below(random_key(1, "ids", 0), n, t->V);
        t->batch.targets[n] = (int32_t)random_below(random_key(1, "targets", 0), n, t->V);
    }
    printf("%-6s %lld layers, %lld heads, %lld channels, T %zu, B %zu, V %zu; %s, %s; %zu "
           "parameters\n",
           t->name, (long long)m->n_layer, (long long)m->n_head, (long long)m->n_embd, T, B, t->V,
           norm_kinds[m->norm]->name, placements[m->placement].name, model_parameters(&t->model));
    fflush(stdout);
    t->bytes = (double)(t->model.arena.bytes + t->adam.arena.bytes);
    t->step = measure(training_step, t, seconds, &t->fastest);
    t->speed = (double)(B * T) * (double)t->config.grad_accum / t->step;
    t->rate = t->speed * (6 * matrix_parameters(&t->model.lists.param) +
                          12 * (double)(t->model.L * t->model.C * T));

    size_t steps = 1 + (size_t)(seconds / 3 / t->step); // apart: the clock takes time too
    profile_start();
    for (size_t i = 0; i < steps; i++) {
        training_step(t);
        profile_lap(PROFILE_OTHER);
    }
    profile_stop();
    double sum = 0;
    for (int part = 0; part < PROFILE_PARTS; part++) sum += profile_seconds(part);
    for (int part = 0; part < PROFILE_PARTS; part++) t->share[part] = profile_seconds(part) / sum;
    t->profiled = sum / (double)steps;
    if (!isfinite(t->loss)) die(STATUS_DIVERGED, "bench: %s: the loss is %g", t->name, t->loss);
    batch_free(&t->batch);
    adam_free(&t->adam);
    model_free(&t->model);
}

/* `count` reals, uniform in [-0.5, 0.5). */
static real *random_reals(size_t count, uint64_t key) {
    real *x = aligned_alloc(64, (count * sizeof(real) + 63) / 64 * 64);
    if (!x) die(STATUS_MACHINE, "memory: no room for a matrix of %zu numbers", count);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) x[i] = (real)(random_uniform(key, i) - 0.5);
    return x;
}

/* The three matrix products of a linear layer. */
enum way { FORWARD, INPUT, WEIGHT };

/* One of them over N tokens, shared out as in training. */
struct product {
    enum way way;
    size_t N;
    struct linear linear;
    real *x, *y, *dx, *dy; // (N,in), (N,out), (N,in), (N,out)
    int threads;
};

static void run_product(void *context) {
    const struct product *p = context;
    const struct linear *l = &p->linear;
#pragma omp parallel num_threads(p->threads)
    {
        struct range own = team_part(p->N, ROWS);
        for (size_t n = own.begin; n < own.end && p->way != WEIGHT; n += ROWS) {
            size_t M = team_row_block(n, own).end - n;
            if (p->way == FORWARD)
                linear_forward(l, M, p->y + n * l->out, p->x + n * l->in);
            else
                linear_backward(l, n / ROWS, M, p->dx + n * l->in, p->dy + n * l->out);
        }
        if (p->way == WEIGHT) linear_weight_gradient(l, p->N, p->dy, l->out, p->x);
    }
}

/* The largest error of what one run made of zeros, on a few rows spread over all, relative to the
   largest element. */
static double product_error(const struct product *p) {
    const struct linear *l = &p->linear;
    size_t in = l->in, out = l->out;
    struct matrix w = matrix_of(l->weight.value, in), dw = matrix_of(l->weight.grad, in);
    struct matrix x = matrix_of(p->x, in), y = matrix_of(p->y, out);
    struct matrix dx = matrix_of(p->dx, in), dy = matrix_of(p->dy, out);
    const struct {
        size_t M, N, K;
        struct matrix a, b, c;
    } definition[] = {[FORWARD] = {p->N, out, in, x, matrix_transposed(w), y},
                      [INPUT] = {p->N, in, out, dy, w, dx},
                      [WEIGHT] = {out, in, p->N, matrix_transposed(dy), x, dw}},
      d = definition[p->way];
    enum { CHECKED = 5 };
    double apart = 0, largest = 0;
    for (size_t r = 0; r < CHECKED; r++) {
        size_t i = r * (d.M - 1) / (CHECKED - 1);
        struct matrix row = {d.a.data + i * d.a.row_stride, d.a.row_stride, d.a.column_stride};
        real *want = random_reals(d.N, 1);
        matmul_reference(1, d.N, d.K, row, d.b, matrix_of(want, d.N), matrix_zeros());
        for (size_t j = 0; j < d.N; j++) {
            double off = fabs((double)d.c.data[i * d.c.row_stride + j] - (double)want[j]);
            if (off > apart || isnan(off)) apart = off;
            largest = fmax(largest, fabs((double)want[j]));
        }
        free(want);
    }
    return apart / largest;
}

/* Floating-point operations a second of the product; raises *error to its error. */
static double time_product(struct product p, double seconds, double *error) {
    size_t in = p.linear.in, out = p.linear.out;
    struct linear *l = &p.linear;
    l->weight = (struct param){random_reals(in * out, 1), random_reals(in * out, 2)};
    l->padded = vec_padded(out);
    l->transposed = random_reals(in * l->padded, 3);
    matmul_transpose(out, in, l->transposed, l->padded, l->weight.value, in);
    memset(l->weight.grad, 0, in * out * sizeof(real));
    p.x = random_reals(p.N * in, 4), p.y = random_reals(p.N * out, 5);
    p.dx = random_reals(p.N * in, 6), p.dy = random_reals(p.N * out, 7);
    run_product(&p);
    double off = product_error(&p), fastest, median = measure(run_product, &p, seconds, &fastest);
    if (off > *error || isnan(off)) *error = off;
    real *taken[] = {l->weight.value, l->weight.grad, l->transposed, p.x, p.y, p.dx, p.dy};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) free(taken[i]);
    return 2.0 * (double)p.N * (double)in * (double)out / median;
}

/* Every linear layer of the model in the three directions of training. */
static void measure_kernels(const struct training *t, double peak, double seconds) {
    size_t C = t->config.model.n_embd, N = t->config.batch_size * t->config.model.block_size;
    const struct {
        const char *name;
        size_t in, out;
    } layer[] = {{"attn.c_attn", C, 3 * C},
                 {"attn.c_proj", C, C},
                 {"mlp.c_fc", C, 4 * C},
                 {"mlp.c_proj", 4 * C, C},
                 {"head", C, t->V}};
    printf("\n%-5s N =%6zu %17s %18s %18s %10s\n%-12s %5s %5s", t->name, N, "forward",
           "input gradient", "weight gradient", "largest", "layer", "in", "out");
    for (int way = 0; way < 3; way++) printf(" %10s %7s", "GFLOP/s", "share");
    printf(" %10s\n", "error");
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
        double error = 0;
        printf("%-12s %5zu %5zu", layer[i].name, layer[i].in, layer[i].out);
        for (enum way way = FORWARD; way <= WEIGHT; way++) {
            struct product product = {.way = way,
                                      .N = N,
                                      .linear = {.in = layer[i].in, .out = layer[i].out},
                                      .threads = (int)t->config.threads};
            double rate = time_product(product, seconds, &error);
            printf(" %10.1f %7.3f", rate / 1e9, rate / peak);
            fflush(stdout);
        }
        printf(" %10.1e\n", error);
    }
}

/* "5.210 us", in a buffer of the caller's. */
static const char *time_text(char text[16], double seconds) {
    bool micro = seconds < 1e-3;
    snprintf(text, 16, "%.3f %s", (micro ? 1e6 : 1e3) * seconds, micro ? "us" : "ms");
    return text;
}

static void print_results(struct training *const *list, size_t count, double peak, FILE *csv) {
    char median[16], fastest[16];
    printf("\n%-6s %12s %12s %13s %9s %6s %9s %10s\n", "", "step", "fastest", "characters/s",
           "GFLOP/s", "share", "MiB", "bytes/char");
    for (size_t i = 0; i < count; i++) {
        const struct training *t = list[i];
        const struct config *config = &t->config;
        double mib = t->bytes / 0x1p20, share = t->rate / peak;
        printf("%-6s %12s %12s %13.0f %9.1f %6.3f %9.2f %10.0f\n", t->name,
               time_text(median, t->step), time_text(fastest, t->fastest), t->speed, t->rate / 1e9,
               share, mib, t->bytes / (double)(config->batch_size * config->model.block_size));
        if (csv)
            fprintf(csv, "%s,%s,%s,%lld,%.6f,%.1f,%.3f,%.3f,%.4f,%.3f\n", t->name,
                    norm_kinds[config->model.norm]->name, placements[config->model.placement].name,
                    (long long)config->threads, 1e3 * t->step, t->speed, t->rate / 1e9, peak / 1e9,
                    share, mib);
    }

    printf("\n%-24s", "share of the step");
    for (size_t i = 0; i < count; i++) printf(" %12s", list[i]->name);
    for (int part = 0; part < PROFILE_PARTS; part++) {
        double most = 0;
        for (size_t i = 0; i < count; i++) most = fmax(most, list[i]->share[part]);
        if (most < 5e-4) continue; // nothing but zeros
        printf("\n%-24s", profile_name[part]);
        for (size_t i = 0; i < count; i++) printf(" %11.1f%%", 100 * list[i]->share[part]);
    }
    printf("\n%-24s", "step under this clock");
    for (size_t i = 0; i < count; i++) printf(" %12s", time_text(median, list[i]->profiled));
    putchar('\n');
}

/* The file to append rows to, with their header if it is new. */
static FILE *open_csv(const char *path) {
    FILE *csv = fopen(path, "a");
    if (!csv) die(STATUS_MACHINE, "csv: %s: %s", path, strerror(errno));
    if (fseek(csv, 0, SEEK_END) || ftell(csv) > 0) return csv;
    fputs("configuration,norm,placement,threads,step_ms,chars_per_second,gflops,peak_gflops,"
          "share,mib\n",
          csv);
    return csv;
}

/* What stands behind `name` if the argument starts with it, else NULL. */
static char *value_of(char *argument, const char *name) {
    size_t length = strlen(name);
    return strncmp(argument, name, length) ? NULL : argument + length;
}

static void select_parts(struct request *request, char *list) {
    memset(request->selected, 0, sizeof request->selected);
    char *name = strtok(list, ",");
    do {
        size_t i = 0;
        while (i <= KERNELS && strcmp(name ? name : "", configurations[i].name) != 0) i++;
        if (i > KERNELS)
            die(STATUS_USAGE, "--only=%s: must be some of cpu,baby,micro,kernels",
                name ? name : "");
        request->selected[i] = true;
    } while ((name = strtok(NULL, ",")));
}

static struct request read_arguments(int argc, char **argv) {
    struct request request = {
        .selected = {true, true, true, true}, .seconds = 3, .option = argv + 1};
    for (int i = 1; i < argc; i++) {
        char *value, *end;
        if ((value = value_of(argv[i], "--only="))) {
            select_parts(&request, value);
        } else if ((value = value_of(argv[i], "--csv="))) {
            request.csv = value;
        } else if ((value = value_of(argv[i], "--seconds="))) {
            request.seconds = strtod(value, &end);
            if (end == value || *end || !(request.seconds > 0 && request.seconds <= 3600))
                die(STATUS_USAGE, "--seconds=%s: must be a number above 0, up to 3600", value);
        } else {
            request.option[request.options++] = argv[i]; // they move up
        }
    }
    return request;
}

/* The configuration's own sizes, then the user's options. */
static struct training configure(const struct configuration *c, const struct request *request) {
    struct training t = {.name = c->name, .V = c->V};
    enum { SIZES = 5 };
    char sizes[128], **argv = calloc(1 + SIZES + request->options, sizeof *argv);
    int argc = 0;
    if (!argv) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    argv[argc++] = "bench";
    snprintf(sizes, sizeof sizes, "%s", c->sizes);
    for (char *word = strtok(sizes, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    for (size_t i = 0; i < request->options; i++) argv[argc++] = request->option[i];
    config_parse(&t.config, argc, argv);
    free(argv);
    return t;
}

static const char usage[] =
    "Usage: bench [--only=LIST] [--seconds=X] [--csv=FILE] [OPTION OF ./train]...\n"
    "Measures training against the processor's peak multiply-add rate.\n\n"
    "  --only=LIST    some of cpu,baby,micro (models) and kernels (their products alone)\n"
    "  --seconds=X    time for each model, default 3; a product gets a tenth of it\n"
    "  --csv=FILE     append a row for each model to FILE\n\n"
    "Other options, such as --norm=bn, --threads=1 or --n-embd=256, are those of\n"
    "./train --help and override the models' own. The characters are random.";

int main(int argc, char **argv) {
    static struct training training[KERNELS], *measured[KERNELS];
    struct request request = read_arguments(argc, argv);
    const bool *selected = request.selected;
    for (int i = 0; i < KERNELS; i++) {
        if (!selected[i] && !selected[KERNELS]) continue;
        training[i] = configure(&configurations[i], &request);
        if (training[i].config.help || training[i].config.version) {
            puts(usage);
            return STATUS_OK;
        }
    }
    FILE *csv = request.csv ? open_csv(request.csv) : NULL;
    int threads = omp_get_max_threads(); // as --threads says
    printf("normlab " VERSION ", compiler %s, vectors of %d bits, threads: %d, options:",
           __VERSION__, 8 * SIMD_BYTES, threads);
    for (size_t i = 0; i < request.options; i++) printf(" %s", request.option[i]);
    puts(request.options ? "" : " none");
    double before = peak_rate();
    size_t count = 0;
    for (int i = 0; i < KERNELS; i++) {
        if (!selected[i]) continue;
        measure_training(&training[i], request.seconds);
        measured[count++] = &training[i];
    }
    double after = peak_rate(), peak = fmax(before, after);
    printf("peak   %.1f GFLOP/s, %.1f a thread", peak / 1e9, peak / threads / 1e9);
    if (fmin(before, after) < 0.95 * peak)
        printf(" (noisy: %.1f before, %.1f after the models)", before / 1e9, after / 1e9);
    putchar('\n');
    if (count) print_results(measured, count, peak, csv);
    bool failed = csv && ferror(csv);
    if (csv && (fclose(csv) || failed))
        die(STATUS_MACHINE, "csv: %s: %s", request.csv, strerror(errno));
    for (int i = 0; i < KERNELS && selected[KERNELS]; i++)
        measure_kernels(&training[i], peak, request.seconds / 10);
    return STATUS_OK;
}

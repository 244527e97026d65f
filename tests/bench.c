/* `make bench`: how close training comes to the processor's peak.

   One run measures the peak multiply-add rate of the training's threads, a training step of some
   models, the time of each operation in it, and the matrix products alone (bench_products.c). With
   --items batches are sampled from random names, otherwise there is one, of random characters.
   Machines are noisy: only ratios within one run mean much. Times are medians, the peak a maximum.

   Floating-point operations per character = 6 P + 12 L C T. P is the number of parameters of
   matrices, with the head and without embeddings: a multiply and an add for each in the forward
   pass, twice that in the backward pass. The second term is attention, with its masked half. Of
   items, T is their mean length, and pads do not count. */
#include "tests/bench.h"
#include "data/clock.h"
#include "data/die.h"
#include "data/random.h"
#include "data/text/corpus.h"
#include "data/text/items.h"
#include "model/math/profile.h"
#include "model/math/simd.h"
#include "model/model_pass.h"
#include "model/optimizer/optimizer.h"
#include "model/options/config.h"
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define CPU  "--n-layer=4 --n-head=4 --n-embd=128 --block-size=64 --batch-size=12"
#define BABY "--n-layer=6 --n-head=6 --n-embd=384 --block-size=256 --batch-size=64"

static const struct configuration {
    const char *name, *sizes;
    size_t V;
    bool repeats; // the products of another configuration
} configurations[] = {
    {.name = "cpu", .sizes = CPU, .V = 65},
    {.name = "llama", .sizes = "--preset=llama " CPU, .V = 65},
    {.name = "xs", // xs and s are the report's sizes
     .sizes = "--n-layer=2 --n-head=4 --n-embd=32 --block-size=32 --batch-size=12",
     .V = 65},
    {.name = "s",
     .sizes = "--n-layer=4 --n-head=4 --n-embd=64 --block-size=64 --batch-size=12",
     .V = 65},
    {.name = "baby", .sizes = BABY, .V = 65},
    {.name = "muon", .sizes = "--optimizer=muon " CPU, .V = 65, .repeats = true},
    {.name = "b-muon", .sizes = "--optimizer=muon " BABY, .V = 65, .repeats = true},
    {.name = "micro",
     .sizes = "--n-layer=1 --n-head=4 --n-embd=16 --block-size=16 --batch-size=1",
     .V = 27},
    {.name = "names",
     .sizes = "--items --norm=rms --act=relu --bias=off --n-layer=1 --n-head=4 --n-embd=16 "
              "--block-size=16 --batch-size=16",
     .V = 27},
    {.name = "kernels"}, // the products of those above
};

enum { KERNELS = sizeof configurations / sizeof *configurations - 1 };

/* The bench's own arguments; `option` holds those of ./train. */
struct request {
    bool selected[KERNELS + 1];
    double seconds;
    const char *csv;
    char **option;
    size_t options;
};

/* One configuration in training, and its measurements. */
struct session {
    const char *name;
    size_t V;
    struct config config;
    size_t team; // as in struct plan
    struct model model;
    struct optimizer optimizer;
    struct corpus names; // with --items
    struct batch batch;
    uint64_t count;    // of batches so far
    double characters; // of a batch, the mean
    double loss;
    double step, fastest;                // seconds per step: the median, the minimum
    double speed, rate, bytes;           // characters and operations per second, memory
    double fraction[PROFILE_OPERATIONS]; // of a step under the profile, by operation
    double profiled;                     // seconds per step under the profile
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_time(void (*run)(void *), void *context, double seconds, double *fastest) {
    enum { SAMPLES_MIN = 3, SAMPLES_MAX = 300 };
    double sample[SAMPLES_MAX], start = clock_now(), now;
    size_t runs = 0, count = 0;
    do run(context), runs++, now = clock_now();
    while (now - start < seconds / 10);
    runs = 1 + (size_t)(seconds / SAMPLES_MAX / ((now - start) / (double)runs));
    start = now;
    while (count < SAMPLES_MAX && (count < SAMPLES_MIN || now - start < seconds)) {
        double before = now;
        for (size_t i = 0; i < runs; i++) run(context);
        now = clock_now();
        sample[count++] = (now - before) / (double)runs;
    }
    qsort(sample, count, sizeof *sample, ascending);
    *fastest = sample[0];
    return (sample[(count - 1) / 2] + sample[count / 2]) / 2;
}

/* A text of random letters, whose lines have the lengths of the 32,033 names on which makemore and
   microgpt train. */
static void make_names(struct corpus *corpus, const struct config *config) {
    enum { NAMES = 32033, LETTERS = 13 };
    static const unsigned permille[LETTERS + 1] = {[2] = 2, 18, 93, 223, 301, 213,
                                                   97,      35, 12, 4,   1,   1}; // by length
    const uint64_t lengths = random_key(1, "lengths", 0), letters = random_key(1, "letters", 0);
    char *text = memory_take(NAMES, LETTERS + 1, "the names");
    size_t bytes = 0;
    for (size_t n = 0; n < NAMES; n++) {
        size_t length = 0, place = random_below(lengths, n, 1000);
        while (place >= permille[length]) place -= permille[length++];
        for (; length > 0; length--, bytes++)
            text[bytes] = (char)('a' + random_below(letters, bytes, 26));
        text[bytes++] = '\n';
    }
    struct corpus_options options = {.kind = &corpus_items,
                                     .val_fraction = config->val_fraction,
                                     .batch_size = (size_t)config->batch_size,
                                     .pad_to_block = config->pad_to == PAD_TO_BLOCK,
                                     .bucket = config->bucket};
    corpus_make(corpus, "the names", text, bytes, &options);
    free(text);
}

/* The mean number of targets of a batch of names. */
static double mean_targets(struct session *t) {
    enum { BATCHES = 1000 };
    size_t sum = 0;
    for (uint64_t n = 0; n < BATCHES; n++) {
        corpus_sample(&t->names, 1, n, &t->batch);
        sum += batch_targets(&t->batch);
    }
    return (double)sum / BATCHES;
}

/* An update as in ./train. Only a batch of names is sampled for each. */
static void training_step(void *context) {
    struct session *t = context;
    if (t->config.items) corpus_sample(&t->names, 1, t->count, &t->batch);
    int64_t accum = t->config.grad_accum;
    model_zero_grad(&t->model);
    for (int64_t i = 0; i < accum; i++, t->count++)
        t->loss = model_gradient(&t->model, &t->batch, t->count, 1.0 / (double)accum);
    double norm = optimizer_grad_norm(&t->optimizer, &t->model.lists.param);
    optimizer_step(&t->optimizer, &t->model.lists.param, t->config.schedule.rate, norm);
}

/* Parameters in matrix products: all matrices but embeddings, one of which may be the head's. */
static double matrix_parameters(const struct model *m) {
    double sum = (double)(m->V * m->C);
    for (size_t i = 0; i < m->lists.param.count; i++)
        if (m->lists.param.tensor[i].matrix_rows[0]) // of a hidden layer
            sum += (double)m->lists.param.tensor[i].size;
    return sum;
}

static void measure_training(struct session *t, double seconds) {
    const struct model_config *m = &t->config.model;
    size_t B = t->config.batch_size, T = m->block_size;
    model_init(&t->model, m, t->V, B, t->config.seed);
    t->model.threads = t->team;
    optimizer_init(&t->optimizer, &t->config.optimizer, &t->model.lists.param,
                   model_team(&t->model));
    t->batch = batch_make(B, T);
    for (size_t n = 0; n < B * T; n++) {
        t->batch.ids[n] = (int32_t)random_below(random_key(1, "ids", 0), n, t->V);
        t->batch.targets[n] = (int32_t)random_below(random_key(1, "targets", 0), n, t->V);
    }
    t->characters = (double)(B * T);
    if (t->config.items) {
        make_names(&t->names, &t->config);
        t->characters = mean_targets(t);
    }
    printf("%-6s %lld layers, %lld heads, %lld channels, T %zu, B %zu, V %zu; %s, %s; %zu "
           "parameters\n",
           t->name, (long long)m->n_layer, (long long)m->n_head, (long long)m->n_embd, T, B, t->V,
           norm_kinds[m->norm]->name, placements[m->placement].name, model_parameters(&t->model));
    fflush(stdout);
    t->bytes = (double)(t->model.arena.bytes + t->optimizer.arena.bytes);
    t->step = bench_time(training_step, t, seconds, &t->fastest);
    t->speed = t->characters * (double)t->config.grad_accum / t->step;
    t->rate = t->speed * (6 * matrix_parameters(&t->model) +
                          12 * (double)(t->model.L * t->model.C) * t->characters / (double)B);

    size_t steps =
        1 + (size_t)(seconds / 3 / t->step); // separately, since the profile takes time too
    double sum = 0, before[PROFILE_OPERATIONS];
    for (int k = 0; k < PROFILE_OPERATIONS; k++) before[k] = profile_seconds(k);
    profile_start();
    for (size_t i = 0; i < steps; i++) {
        training_step(t);
        profile_lap(PROFILE_OTHER);
    }
    profile_stop();
    for (int k = 0; k < PROFILE_OPERATIONS; k++)
        sum += t->fraction[k] = profile_seconds(k) - before[k];
    for (int k = 0; k < PROFILE_OPERATIONS; k++) t->fraction[k] /= sum;
    t->profiled = sum / (double)steps;
    if (!isfinite(t->loss)) die(STATUS_DIVERGED, "bench: %s: the loss is %g", t->name, t->loss);
    corpus_free(&t->names);
    batch_free(&t->batch);
    optimizer_free(&t->optimizer);
    model_free(&t->model);
}

/* "5.210 us", in a buffer of the caller's. */
static const char *time_text(char text[16], double seconds) {
    bool micro = seconds < 1e-3;
    snprintf(text, 16, "%.3f %s", (micro ? 1e6 : 1e3) * seconds, micro ? "us" : "ms");
    return text;
}

static void print_results(struct session *const *list, size_t count, double peak, FILE *csv) {
    char median[16], fastest[16];
    printf("\n%-6s %12s %12s %13s %9s %6s %9s %10s\n", "", "step", "fastest", "characters/s",
           "GFLOP/s", "peak", "MiB", "bytes/char");
    for (size_t i = 0; i < count; i++) {
        const struct session *t = list[i];
        const struct config *config = &t->config;
        double mib = t->bytes / 0x1p20, fraction = t->rate / peak;
        printf("%-6s %12s %12s %13.0f %9.1f %6.3f %9.2f %10.0f\n", t->name,
               time_text(median, t->step), time_text(fastest, t->fastest), t->speed, t->rate / 1e9,
               fraction, mib, t->bytes / (double)(config->batch_size * config->model.block_size));
        if (csv)
            fprintf(csv, "%s,%s,%s,%lld,%.6f,%.1f,%.3f,%.3f,%.4f,%.3f\n", t->name,
                    norm_kinds[config->model.norm]->name, placements[config->model.placement].name,
                    (long long)config->threads, 1e3 * t->step, t->speed, t->rate / 1e9, peak / 1e9,
                    fraction, mib);
    }

    for (size_t i = 0; i < count; i++) {
        const struct session *t = list[i];
        double items = (double)(t->config.batch_size * t->config.grad_accum);
        if (t->config.items)
            printf("%-6s %.2f us an item of %.1f characters on average, its end included\n",
                   t->name, 1e6 * t->step / items, t->characters / (double)t->config.batch_size);
    }

    printf("\n%-24s", "fraction of the step");
    for (size_t i = 0; i < count; i++) printf(" %12s", list[i]->name);
    for (int k = 0; k < PROFILE_OPERATIONS; k++) {
        double largest = 0;
        for (size_t i = 0; i < count; i++) largest = fmax(largest, list[i]->fraction[k]);
        if (largest < 5e-4) continue; // would print as zeros
        printf("\n%-24s", profile_name[k]);
        for (size_t i = 0; i < count; i++) printf(" %11.1f%%", 100 * list[i]->fraction[k]);
    }
    printf("\n%-24s", "step under the profile");
    for (size_t i = 0; i < count; i++) printf(" %12s", time_text(median, list[i]->profiled));
    putchar('\n');
}

/* Opens the file to append rows to. A new file gets their header. */
static FILE *open_csv(const char *path) {
    FILE *csv = fopen(path, "a");
    if (!csv) die(STATUS_MACHINE, "csv: %s: %s", path, strerror(errno));
    if (fseek(csv, 0, SEEK_END) || ftell(csv) > 0) return csv;
    fputs("configuration,norm,placement,threads,step_ms,chars_per_second,gflops,peak_gflops,"
          "share,mib\n",
          csv);
    return csv;
}

/* The rest of the argument if it starts with `name`, otherwise NULL. */
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
            die(STATUS_USAGE,
                "--only=%s: must be some of cpu,llama,xs,s,baby,muon,b-muon,micro,names,kernels",
                name ? name : "");
        request->selected[i] = true;
    } while ((name = strtok(NULL, ",")));
}

static struct request read_arguments(int argc, char **argv) {
    struct request request = {.seconds = 3, .option = argv + 1};
    for (int i = 0; i <= KERNELS; i++) request.selected[i] = true;
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
            request.option[request.options++] = argv[i]; // in place: this index is at most i
        }
    }
    return request;
}

/* The configuration's own sizes, then the user's options. */
static struct session configure(const struct configuration *c, const struct request *request) {
    struct session t = {.name = c->name, .V = c->V};
    enum { SIZES = 9 };
    char sizes[128], **argv;
    int argc = 0;
    argv = memory_take(1 + SIZES + request->options, sizeof *argv, "the options");
    argv[argc++] = "bench";
    snprintf(sizes, sizeof sizes, "%s", c->sizes);
    for (char *word = strtok(sizes, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    for (size_t i = 0; i < request->options; i++) argv[argc++] = request->option[i];
    config_parse(&t.config, argc, argv);
    const struct plan plan = plan_of(&t.config);
    t.config = plan.config;
    t.team = plan.team;
    omp_set_num_threads((int)t.config.threads);
    free(argv);
    return t;
}

static const char usage[] =
    "Usage: bench [--only=LIST] [--seconds=X] [--csv=FILE] [OPTION OF ./train]...\n"
    "Measures training against the processor's peak multiply-add rate.\n\n"
    "  --only=LIST    some of cpu,llama,xs,s,baby,muon,b-muon (cpu, baby with Muon),micro,names\n"
    "                 (models), and kernels (their products)\n"
    "  --seconds=X    time for each model, default 3; a product gets a tenth of it\n"
    "  --csv=FILE     append a row for each model to FILE\n\n"
    "Other options, such as --norm=bn, --threads=1 or --n-embd=256, are those of\n"
    "./train --help and override the models' own. Characters and names are random.";

int main(int argc, char **argv) {
    static struct session training[KERNELS], *measured[KERNELS];
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
    double before = bench_peak();
    size_t count = 0;
    for (int i = 0; i < KERNELS; i++) {
        if (!selected[i]) continue;
        measure_training(&training[i], request.seconds);
        measured[count++] = &training[i];
    }
    double after = bench_peak(), peak = fmax(before, after);
    printf("peak   %.1f GFLOP/s, %.1f per thread", peak / 1e9, peak / threads / 1e9);
    if (fmin(before, after) < 0.95 * peak)
        printf(" (noisy: %.1f before, %.1f after the models)", before / 1e9, after / 1e9);
    putchar('\n');
    if (count) print_results(measured, count, peak, csv);
    bool failed = csv && ferror(csv);
    if (csv && (fclose(csv) || failed))
        die(STATUS_MACHINE, "csv: %s: %s", request.csv, strerror(errno));
    for (int i = 0; i < KERNELS && selected[KERNELS]; i++)
        if (!configurations[i].repeats)
            bench_products(training[i].name, &training[i].config, training[i].V, peak,
                           request.seconds / 10);
    return STATUS_OK;
}

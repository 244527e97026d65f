/* `make bench`: the processor's peak rate of multiply-adds, and the matrix products of linear
   layers alone, in the three directions of training. */
#include "data/clock.h"
#include "data/die.h"
#include "data/random.h"
#include "model/layer/linear.h"
#include "model/math/simd.h"
#include "tests/bench.h"
#include <omp.h>
#include <stdlib.h>

/* Independent chains of x = factor x + term, in all registers except for a few; each converges
   to 1. The sum is returned so that the compiler cannot leave any out. */
enum { CHAINS = SIMD_REGISTERS * 3 / 4 };

static real multiply_adds(size_t count, real factor, real term) {
    vec x[CHAINS], f = vec_splat(factor), t = vec_splat(term);
    real sum = 0;
    for (int i = 0; i < CHAINS; i++) x[i] = vec_splat((real)i);
    for (size_t n = 0; n < count; n++) {
        SIMD_UNROLL
        for (int i = 0; i < CHAINS; i++) x[i] = vec_mul_add(x[i], f, t);
    }
    for (int i = 0; i < CHAINS; i++)
        for (int lane = 0; lane < LANES; lane++) sum += x[i][lane];
    return sum;
}

double bench_peak(void) {
    enum { REPETITIONS = 60, STEPS = 1 << 20 };
    static volatile real value[2] = {
        (real)0.5}; // the compiler may not know the input or drop the result
    double best = 0;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        int threads = 0;
        real sum = 0;
        double start = clock_now();
#pragma omp parallel reduction(+ : threads, sum)
        {
            threads++;
            sum += multiply_adds(STEPS, value[0], value[0]);
        }
        double rate = 2.0 * STEPS * CHAINS * LANES * threads / (clock_now() - start);
        value[1] = sum;
        if (rate > best) best = rate;
    }
    return best;
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
enum way { OUTPUT, INPUT, WEIGHT };

/* One of them over N tokens, split between the threads as in training. */
struct product {
    enum way way;
    size_t N;
    struct linear linear;
    struct linear_operands kept;
    real *x, *y, *dx, *dy; // (N,in), (N,out), (N,in), (N,out)
    int threads;
};

enum { SLAB = 256 }; // tokens whose part is added to dW at a time

/* The weight gradient of the slab that starts at token `begin`. */
static void run_slab(const struct product *p, size_t begin) {
    const struct linear *l = &p->linear;
    struct range slab = {begin, size_min(begin + SLAB, p->N)}, rows = team_part_rows(slab);
    size_t row = begin % (2 * SLAB);
    for (size_t n = rows.begin; n < rows.end; n += ROWS)
        linear_keep(l, &p->kept, row + n - begin, team_row_block(n, rows).end - n,
                    p->dy + n * l->out, p->x + n * l->in);
    team_barrier();
    const struct parts parts = parts_one(p->N);
    const bool kept = p->kept.dy.data;
    const struct matrix dy = matrix_of(p->dy, l->out), x = matrix_of(p->x, l->in);
    linear_weight_gradient(l, &parts, slab,
                           kept ? matrix_from(p->kept.dy, row) : matrix_from(dy, begin),
                           kept ? matrix_from(p->kept.x, row) : matrix_from(x, begin));
}

static void run_product(void *context) {
    const struct product *p = context;
    const struct linear *l = &p->linear;
#pragma omp parallel num_threads(p->threads)
    {
        struct range rows = team_part(p->N, ROWS);
        for (size_t n = rows.begin; n < rows.end && p->way != WEIGHT; n += ROWS) {
            size_t M = team_row_block(n, rows).end - n;
            if (p->way == OUTPUT)
                linear_forward(l, M, p->y + n * l->out, p->x + n * l->in);
            else
                linear_backward(l, n / ROWS, M, p->dx + n * l->in, p->dy + n * l->out);
        }
        for (size_t n = 0; n < p->N && p->way == WEIGHT; n += SLAB) run_slab(p, n);
    }
}

/* Takes the layer's memory; called twice, see arena.h. */
static void attach(struct product *p, size_t in, size_t out, struct arena *arena) {
    struct param weight = p->linear.weight;
    linear_tie(&p->linear, weight, in, out, arena);
    linear_operands_attach(&p->kept, in, out, 2 * SLAB, arena);
}

/* Floating-point operations per second of the product. */
static double time_product(struct product p, double seconds) {
    size_t in = p.linear.in, out = p.linear.out;
    struct linear *l = &p.linear;
    struct arena arena = {0};
    l->weight =
        (struct param){.value = random_reals(in * out, 1), .grad = random_reals(in * out, 2)};
    attach(&p, in, out, &arena);
    arena_allocate(&arena, "a product");
    attach(&p, in, out, &arena);
    linear_prepare(l);
    p.x = random_reals(p.N * in, 4), p.y = random_reals(p.N * out, 5);
    p.dx = random_reals(p.N * in, 6), p.dy = random_reals(p.N * out, 7);
    double fastest, median = bench_time(run_product, &p, seconds, &fastest);
    real *taken[] = {l->weight.value, l->weight.grad, p.x, p.y, p.dx, p.dy};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) free(taken[i]);
    arena_free(&arena);
    return 2.0 * (double)p.N * (double)in * (double)out / median;
}

void bench_products(const char *name, const struct config *config, size_t V, double peak,
                    double seconds) {
    const struct model_config *model = &config->model;
    size_t C = (size_t)model->n_embd, N = (size_t)(config->batch_size * model->block_size);
    size_t kv = C / (size_t)model->n_head * model_kv_heads(model), H = model_ffn_width(model);
    const struct {
        const char *name;
        size_t in, out;
    } layer[] = {{"attn.c_attn", C, C + 2 * kv},
                 {"attn.c_proj", C, C},
                 {"mlp.c_fc", C, activation_inputs(&activations[model->activation], H)},
                 {"mlp.c_proj", H, C},
                 {"head", C, V}};
    printf("\n%-5s N =%6zu %17s %18s %18s\n%-12s %5s %5s", name, N, "forward", "input gradient",
           "weight gradient", "layer", "in", "out");
    for (int way = 0; way < 3; way++) printf(" %10s %7s", "GFLOP/s", "of peak");
    putchar('\n');
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
        printf("%-12s %5zu %5zu", layer[i].name, layer[i].in, layer[i].out);
        for (enum way way = OUTPUT; way <= WEIGHT; way++) {
            struct product product = {.way = way,
                                      .N = N,
                                      .linear = {.in = layer[i].in, .out = layer[i].out},
                                      .threads = (int)config->threads};
            double rate = time_product(product, seconds);
            printf(" %10.1f %7.3f", rate / 1e9, rate / peak);
            fflush(stdout);
        }
        putchar('\n');
    }
}

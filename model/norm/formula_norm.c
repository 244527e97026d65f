/* A norm that is computed by its formula. What it saves:

     constants of the program for training, and of that for evaluation
     means over the batch           (means,C)
     their sums over parts          (PARTS_HEIGHT - 1,means,C)
     their sums over row blocks     a level after another, (row blocks,means of the level,C)
     of each row block, for each group of channels, what the program saves of its rows (saved,rows)

   As with other norms that pool over the batch, in training a pad takes no part, and its y and dx are
   0. Sums over the batch are added as those of parameters' gradients are (parts.h), so they have the
   same bits for any number of threads and ranks. */
#include "data/die.h"
#include "model/math/ranks.h"
#include "model/norm/formula.h"
#include "model/norm/pool.h"
#include <string.h>

static const struct program *program_of(const struct norm *norm, bool training) {
    const struct formula *f = norm->formula;
    return training ? &f->training : &f->evaluation;
}

/* ---- memory ---- */

struct memory {
    real *numbers[2]; // in evaluation, in training
    real *means, *blocks, *rows;
    size_t stride; // of the stack of sums
};

static struct memory memory_of(const struct norm *norm, const struct program *p, size_t N) {
    const struct formula *f = norm->formula;
    struct memory m = {.stride = (size_t)p->means * norm->C};
    m.numbers[true] = norm->saved;
    m.numbers[false] = m.numbers[true] + f->training.numbers;
    m.means = m.numbers[false] + f->evaluation.numbers;
    m.blocks = m.means + PARTS_HEIGHT * m.stride;
    m.rows = m.blocks + team_row_blocks(N) * m.stride;
    return m;
}

size_t formula_saved_size(const struct norm *norm, size_t B, size_t T) {
    const struct formula *f = norm->formula;
    const size_t N = B * T, training = f->training.saved, evaluation = f->evaluation.saved;
    const struct memory m = memory_of(norm, &f->training, N);
    return (size_t)(m.rows - norm->saved) +
           size_max(training, evaluation) * formula_groups(norm) * N;
}

void formula_attached(const struct norm *norm) {
    const struct formula *f = norm->formula;
    const struct memory m = memory_of(norm, &f->training, 0);
    double value[GRAPH_NODES];
    for (int training = 0; training < 2; training++) {
        const struct program *p = program_of(norm, training);
        formula_constants(norm, &p->graph, value);
        for (int i = 0; i < p->graph.count; i++)
            if (p->number_at[i] >= 0) m.numbers[training][p->number_at[i]] = (real)value[i];
    }
}

void formula_check(const struct norm *norm) {
    const struct formula *f = norm->formula;
    if (f->groups) norm_check_groups(norm);
    if (!program_fits(&f->training, norm->C) || !program_fits(&f->evaluation, norm->C))
        die(STATUS_USAGE, "%s: the formula has too many values for %zu channels: %s", norm->name,
            norm->C, norm->kind->formula);
}

/* ---- a block of rows ---- */

/* Runs the pass on each group of channels of these rows, which are the same. */
static void run_groups(const struct norm *norm, struct pass_rows r, real *const *sum) {
    const size_t groups = formula_groups(norm), block = r.saved_stride;
    r.C = norm->C / groups;
    for (size_t i = 0; i < groups; i++) {
        pass_run(&r, sum);
        r.first += r.C, r.x += r.C, r.dy += r.C;
        if (r.out) r.out += r.C;
        r.saved += (size_t)r.program->saved * block;
    }
}

/* What a pass reads and writes, from the first row of a block on. */
struct arrays {
    real *out;
    const real *dy, *x;
    real *const *sum;
};

/* Runs the pass on the rows, of a norm that pools in training only on runs of valid ones. */
static void run_block(const struct norm *norm, const struct tokens *tokens,
                      const struct program_pass *pass, struct range rows, const struct arrays *w) {
    const struct program *p = program_of(norm, tokens->training);
    const struct memory m = memory_of(norm, p, tokens->B * tokens->T);
    const size_t C = norm->C, M = rows.end - rows.begin;
    const bool skips = p->means && tokens->valid;
    struct pass_rows r = {.norm = norm,
                          .program = p,
                          .pass = pass,
                          .stride = C,
                          .saved_stride = M,
                          .means = m.means,
                          .numbers = m.numbers[tokens->training]};
    real *saved = m.rows + (size_t)p->saved * formula_groups(norm) * rows.begin;
    for (size_t n = 0; n < M; n += r.N) {
        const bool valid = !skips || token_counts(tokens, rows.begin + n);
        r.N = 1;
        while (n + r.N < M && (!skips || token_counts(tokens, rows.begin + n + r.N) == valid))
            r.N++;
        r.x = w->x + n * C, r.dy = w->dy + n * C, r.saved = saved + n;
        r.out = w->out ? w->out + n * C : NULL;
        if (valid)
            run_groups(norm, r, w->sum);
        else if (r.out)
            memset(r.out, 0, r.N * C * sizeof(real));
    }
}

void formula_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                     real *y, const real *x) {
    const struct program *p = program_of(norm, tokens->training);
    run_block(norm, tokens, &p->forward[p->forward_levels], rows, &(struct arrays){y, x, x, NULL});
}

void formula_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                      real *dx, const real *dy, const real *x, real *const *sum) {
    const struct program *p = program_of(norm, tokens->training);
    run_block(norm, tokens, &p->backward[p->backward_levels], rows,
              &(struct arrays){dx, dy, x, sum});
}

size_t formula_saturated(const struct norm *norm, const real *x) {
    const struct program *p = program_of(norm, true);
    const struct memory m = memory_of(norm, p, 0);
    real f[PASS_MEMORY], saved[GRAPH_NODES];
    size_t count = 0;
    pass_run(&(struct pass_rows){.norm = norm,
                                 .program = p,
                                 .pass = &p->curve,
                                 .N = 1,
                                 .C = norm->C,
                                 .stride = norm->C,
                                 .x = x,
                                 .dy = x,
                                 .out = f,
                                 .saved = saved,
                                 .saved_stride = 1,
                                 .numbers = m.numbers[true]},
             NULL);
    for (size_t c = 0; c < norm->C; c++) count += f[c] > NORM_SATURATED || f[c] < -NORM_SATURATED;
    return count;
}

/* ---- means over the batch ---- */

/* Adds the sums over row blocks, as those of a gradient, and those of other ranks. */
static void add_blocks(const struct tokens *tokens, const struct param *sums) {
    const bool one = tokens->local || !tokens->parts.size;
    const struct parts parts = one ? parts_one(tokens->B * tokens->T) : tokens->parts;
    const struct range elements = team_part(sums->size, 64 / sizeof(real));
    memset(sums->grad + elements.begin, 0, (elements.end - elements.begin) * sizeof(real));
    parts_add_sums(&parts, sums);
    if (!parts.shared) return;
    const size_t count = parts_count(&parts), busy = ranks_busy(count);
    const real *entry = ranks_gather(count, sums->grad, sums->size);
    for (size_t rank = 0; rank < busy; rank++, entry += sums->size) {
        const struct parts_place place = parts_place_of(rank, rank + 1 == busy);
        memcpy(param_slot(sums, place.slot) + elements.begin, entry + elements.begin,
               (elements.end - elements.begin) * sizeof(real));
        parts_put(sums, place.slot, place, elements);
    }
}

/* The means of each level, which need those of the one before. `first`: of the first one. */
static void find_means(const struct norm *norm, const struct tokens *tokens,
                       const struct program_pass *pass, int levels, const real *dy, const real *x) {
    const struct program *p = program_of(norm, tokens->training);
    const size_t N = tokens->B * tokens->T, C = norm->C;
    const struct memory m = memory_of(norm, p, N);
    const struct pool batch = {.C = C, .sets = 1};
    const size_t valid = pool_count(&batch, tokens, 0);
    const struct range rows = team_part(N, ROWS);
    for (int l = 0; l < levels; l++, pass++) {
        const size_t first = (size_t)p->mean_at[pass->node[0]] * C;
        const struct param sums = {.grad = m.means + first,
                                   .stride = m.stride,
                                   .size = (size_t)pass->outputs * C,
                                   .sums = m.blocks + first * team_row_blocks(N)};
        const struct range elements = team_part(sums.size, 64 / sizeof(real));
        if (l) team_barrier();
        for (size_t n = rows.begin; n < rows.end; n += ROWS) {
            real *sum[PASS_OUTPUTS];
            for (int i = 0; i < pass->outputs; i++) sum[i] = param_sums(&sums, n) + (size_t)i * C;
            memset(sum[0], 0, sums.size * sizeof(real));
            run_block(norm, tokens, pass, team_row_block(n, rows),
                      &(struct arrays){NULL, dy + n * C, x + n * C, sum});
        }
        team_barrier();
        add_blocks(tokens, &sums);
        for (size_t i = elements.begin; i < elements.end; i++)
            sums.grad[i] /= (real)(valid ? valid : 1);
    }
}

/* Moves the running averages, of a variance by the unbiased one. */
static void track(const struct norm *norm, const struct tokens *tokens) {
    const struct formula *f = norm->formula;
    const struct memory m = memory_of(norm, &f->training, tokens->B * tokens->T);
    const struct pool batch = {.C = norm->C, .sets = 1};
    const size_t valid = pool_count(&batch, tokens, 0);
    const struct range channels = pool_channels(norm->C);
    const real momentum = pool_weight(tokens, norm_option(norm, &norm_momentum).real);
    for (int i = 0; i < f->states; i++) {
        const bool unbiased = f->state[i] == MEAN_OF_VARIANCE;
        const real *mean = m.means + (size_t)f->training.tracked[i] * norm->C;
        if (valid <= unbiased) continue;
        const real factor = unbiased ? (real)valid / (real)(valid - 1) : 1;
        for (size_t c = channels.begin; c < channels.end; c++)
            norm->state[i][c] += momentum * (mean[c] * factor - norm->state[i][c]);
    }
    pool_count_batch(norm, tokens);
}

void formula_statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    const struct program *p = program_of(norm, tokens->training);
    if (!p->forward_levels) return;
    find_means(norm, tokens, p->forward, p->forward_levels, x, x);
    team_barrier();
    track(norm, tokens);
}

void formula_gradient_statistics(const struct norm *norm, const struct tokens *tokens,
                                 const real *dy, const real *x) {
    const struct program *p = program_of(norm, tokens->training);
    find_means(norm, tokens, p->backward, p->backward_levels, dy, x);
}

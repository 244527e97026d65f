/* What optimizers are made of: matrices that keep unit length (tensor.h), by themselves and after updates
   of Adam; Newton-Schulz iterations against their definition in double, at awkward sizes, with NaN in
   the scratch memory and guard zones around it; the learning rate's schedules at known steps. */
#include "model/math/team.h"
#include "model/math/tensor.h"
#include "model/optimizer/newton_schulz.h"
#include "model/optimizer/optimizer.h"
#include "model/optimizer/schedule.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 17, TENSORS = 4, THREADS = 8, STEPS = 3 };
enum { BY_ROWS, BY_COLUMNS, FREE, VECTOR };

/* Two matrices that keep unit length, if `constrained`, and two tensors that do not. The test frees
   the memory. */
static struct tensor_list make_list(struct tensor *tensors, bool constrained) {
    struct tensor_list list = {
        .tensor = tensors, .value = random_reals(LARGE, 1), .grad = random_reals(LARGE, 2)};
    struct param by_rows = tensor_take(&list, "", "rows", 211, 101, 0, 1);
    struct param by_columns = tensor_take(&list, "", "columns", 103, 213, 0, 1);
    tensor_take(&list, "", "free", 97, 89, 0, 1);
    tensor_take(&list, "", "vector", 3001, 0, 0, 1);
    cr_assert(list.size < LARGE);
    if (!constrained) return list;
    tensor_keep_unit(&list, by_rows, UNIT_ROWS);
    tensor_keep_unit(&list, by_columns, UNIT_COLUMNS);
    return list;
}

/* The sum of squares of row or column i. */
static double squares(const struct tensor_list *list, const struct tensor *t, size_t i) {
    bool rows = t->unit == UNIT_ROWS;
    const real *w = list->value + t->offset;
    double sum = 0;
    for (size_t j = 0; j < t->shape[rows ? 1 : 0]; j++)
        sum += pow((double)w[rows ? i * t->shape[1] + j : j * t->shape[1] + i], 2);
    return sum;
}

static size_t vectors(const struct tensor *t) {
    return t->shape[t->unit == UNIT_ROWS ? 0 : 1];
}

/* Vector 5 is 0 and stays so; vector 7 keeps its direction; other tensors keep their bits. */
Test(unit, each_row_or_column_gets_length_1) {
    struct tensor tensors[TENSORS];
    struct tensor_list list = make_list(tensors, true);
    const double error = in_double() ? 1e-14 : 3e-6;
    const real *before = copy_values(&list);
    for (int k = BY_ROWS; k <= BY_COLUMNS; k++)
        for (size_t i = 0; i < tensors[k].size; i++)
            if ((k == BY_ROWS ? i / tensors[k].shape[1] : i % tensors[k].shape[1]) == 5)
                list.value[tensors[k].offset + i] = 0;
    unit_normalize(&list);
    for (int k = BY_ROWS; k <= BY_COLUMNS; k++)
        for (size_t i = 0; i < vectors(&tensors[k]); i++)
            cr_assert(fabs(squares(&list, &tensors[k], i) - (i != 5)) < error, "%s %zu",
                      tensors[k].name, i);
    const real *w = list.value + tensors[BY_COLUMNS].offset;
    const real *was = before + tensors[BY_COLUMNS].offset;
    for (size_t i = 0; i < 103; i++)
        cr_expect(fabs((double)(w[i * 213 + 7] * was[7] - w[7] * was[i * 213 + 7])) < error);
    size_t rest = tensors[FREE].offset;
    cr_expect(difference(list.size - rest, list.value + rest, before + rest) == 0);
}

/* The list after updates by a team. */
static struct tensor_list updated(struct tensor *tensors, bool constrained, int threads,
                                  int steps) {
    struct tensor_list list = make_list(tensors, constrained);
    omp_set_num_threads(threads);
    struct optimizer adam = held_adamw(fit_options, &list, threads);
    for (int step = 0; step < steps; step++)
        optimizer_step(&adam, &list, 0.1, optimizer_grad_norm(&adam, &list));
    return list;
}

Test(unit, adam_s_update_and_then_unit_length_for_any_number_of_threads) {
    struct tensor tensors[TENSORS], others[TENSORS];
    struct tensor_list one = updated(tensors, true, 1, STEPS);
    for (int k = BY_ROWS; k <= BY_COLUMNS; k++)
        for (size_t i = 0; i < vectors(&tensors[k]); i++)
            cr_assert(fabs(squares(&one, &tensors[k], i) - 1) < (in_double() ? 1e-14 : 3e-6));
    for (int threads = 2; threads <= THREADS; threads++) {
        struct tensor_list many = updated(others, true, threads, STEPS);
        cr_expect(difference(one.size, one.value, many.value) == 0, "%d threads", threads);
    }
    // One update is the unconstrained one, divided by the lengths.
    struct tensor_list unit = updated(tensors, true, 3, 1), plain = updated(others, false, 3, 1);
    struct tensor_list then = plain;
    then.tensor = tensors;
    unit_normalize(&then);
    cr_expect(difference(unit.size, unit.value, then.value) == 0);
}

/* ---- Newton-Schulz ---- */

enum { GUARD = 64 };

static const size_t shapes[][2] = {{1, 9}, {9, 1}, {7, 5}, {32, 32}, {33, 97}, {100, 49}};

/* to (rows,columns) = x p(x^T x) by the definition, steps times, from x / |x|. */
static double *definition(size_t rows, size_t columns, const real *x, int steps) {
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    size_t size = rows * columns;
    double *y = hold(size * sizeof *y), *q = hold(size * sizeof *q), *r = hold(size * sizeof *r),
           squares = 0;
    for (size_t i = 0; i < size; i++) squares += (double)x[i] * (double)x[i];
    for (size_t i = 0; i < size; i++) y[i] = (double)x[i] / (sqrt(squares) + 1e-7);
    for (int step = 0; step < steps; step++) {
        for (int power = 0; power < 2; power++) { // q = y y^T y, r = y y^T q
            const double *from = power ? q : y;
            double *to = power ? r : q;
            memset(to, 0, size * sizeof *to);
            for (size_t i = 0; i < rows; i++)
                for (size_t k = 0; k < rows; k++) {
                    double dot = 0;
                    for (size_t j = 0; j < columns; j++)
                        dot += y[i * columns + j] * y[k * columns + j];
                    for (size_t j = 0; j < columns; j++)
                        to[i * columns + j] += dot * from[k * columns + j];
                }
        }
        for (size_t i = 0; i < size; i++) y[i] = a * y[i] + b * q[i] + c * r[i];
    }
    return y;
}

/* Runs it with memory of exactly the size that it asks for. */
static const real *orthogonalized(size_t rows, size_t columns, const real *x, int64_t steps) {
    size_t size = rows * columns, scratch = newton_schulz_scratch(rows, columns);
    real *memory = hold((scratch + 2 * GUARD) * sizeof(real)), *copy = hold(size * sizeof(real));
    for (size_t i = 0; i < scratch + 2 * GUARD; i++) memory[i] = NAN;
    memcpy(copy, x, size * sizeof(real));
    const real *result = newton_schulz(rows, columns, copy, steps, memory + GUARD);
    for (size_t i = 0; i < GUARD; i++)
        cr_assert(isnan(memory[i]) && isnan(memory[GUARD + scratch + i]), "wrote outside");
    return result;
}

Test(newton_schulz, agrees_with_its_definition) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int steps = 1; steps <= 6; steps++) {
            size_t rows = shapes[s][0], columns = shapes[s][1], size = rows * columns;
            real *x = random_reals(size, s + 1);
            for (size_t i = 0; steps == 6 && i < size; i++) x[i] = 0; // which stays
            const real *got = orthogonalized(rows, columns, x, steps);
            double *want = definition(rows, columns, x, steps), error = 0;
            for (size_t i = 0; i < size; i++) error = worse(error, fabs((double)got[i] - want[i]));
            cr_expect(error <= (in_double() ? 1e-12 : 2e-5), "(%zu,%zu), %d steps: %g", rows,
                      columns, steps, error);
        }
}

/* ---- schedules ---- */

static struct schedule schedule_of(const char *name) {
    int64_t kind = 0;
    while (schedule_kinds[kind].name && strcmp(schedule_kinds[kind].name, name) != 0) kind++;
    cr_assert(schedule_kinds[kind].name, "no schedule %s", name);
    return (struct schedule){.kind = kind,
                             .warmup = 100,
                             .decay = 2000,
                             .rate = 1e-3,
                             .rate_min = 1e-4,
                             .fraction = 0.2};
}

Test(schedule, has_known_rates) {
    static const struct {
        const char *name;
        int64_t step;
        double rate, fraction;
        int64_t shape;
    } cases[] = {{"cosine", 0, 1e-3 / 101, 0, 0},
                 {"cosine", 99, 1e-3 * 100 / 101, 0, 0},
                 {"cosine", 100, 1e-3, 0, 0},
                 {"cosine", 1050, 5.5e-4, 0, 0},
                 {"cosine", 9999, 1e-4, 0, 0},
                 {"linear", 575, 7.75e-4, 0, 0},
                 {"constant", 9999, 1e-3, 0, 0},
                 {"wsd", 99, 1e-3 * 100 / 101, 0.2, 0},
                 {"wsd", 1600, 1e-3, 0.2, 0},
                 {"wsd", 1700, 1e-4 + 0.75 * 9e-4, 0.2, 0},
                 {"wsd", 1700, 1e-4 + 0.5 * 9e-4, 0.2, DECAY_SQRT},
                 {"wsd", 2000, 1e-4, 0.2, DECAY_SQRT},
                 {"wsd", 1050, 5.5e-4, 1, 0}, // from the end of warm-up
                 {"wsd", 1999, 1e-3, 0, 0},
                 {"wsd", 2000, 1e-4, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct schedule s = schedule_of(cases[i].name);
        s.fraction = cases[i].fraction;
        s.shape = cases[i].shape;
        double rate = schedule_rate(&s, cases[i].step);
        cr_expect(fabs(rate - cases[i].rate) < 1e-12, "%s at %d: %g, not %g", cases[i].name,
                  (int)cases[i].step, rate, cases[i].rate);
    }
}

/* What --resume relies on: as long as two schedules are stable, they have the same rates. */
Test(schedule, stable_schedules_agree) {
    struct schedule a = schedule_of("constant"), b = schedule_of("wsd");
    b.decay = 900, b.rate_min = 0;
    cr_expect(schedule_is_stable(&a, 1 << 30) && schedule_is_stable(&b, 720));
    cr_expect(!schedule_is_stable(&b, 721));
    for (int64_t step = 0; step < 720; step++)
        cr_assert_eq(schedule_rate(&a, step), schedule_rate(&b, step));
    a = schedule_of("cosine");
    cr_expect(!schedule_is_stable(&a, 0), "cosine has no stable phase");
}

/* Every schedule warms up, stays between both rates and never rises after that. */
Test(schedule, every_schedule_falls) {
    for (size_t kind = 0; schedule_kinds[kind].name; kind++) {
        struct schedule s = schedule_of(schedule_kinds[kind].name);
        for (int64_t step = 1; step < 2100; step++) {
            double before = schedule_rate(&s, step - 1), rate = schedule_rate(&s, step);
            cr_assert(rate <= s.rate && rate >= (step < s.warmup ? 0 : s.rate_min), "%s: %g",
                      schedule_kinds[kind].name, rate);
            cr_assert(step <= s.warmup ? rate > before : rate <= before, "%s at %d",
                      schedule_kinds[kind].name, (int)step);
        }
    }
}

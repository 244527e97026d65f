/* Matrices that keep unit length (unit.h), by themselves and after updates of Adam. */
#include "model/math/team.h"
#include "model/math/unit.h"
#include "model/optimizer/optimizer.h"
#include "tests/support.h"
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
    struct param by_rows = tensor_take(&list, "rows", 211, 101, 0, 1);
    struct param by_columns = tensor_take(&list, "columns", 103, 213, 0, 1);
    tensor_take(&list, "free", 97, 89, 0, 1);
    tensor_take(&list, "vector", 3001, 0, 0, 1);
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

Test(unit, each_row_or_column_gets_its_direction_and_zeros_stay) {
    struct tensor tensors[TENSORS];
    struct tensor_list list = make_list(tensors, true);
    real *before = copy_values(&list);
    double error = in_double() ? 1e-15 : 3e-7;
    for (int k = BY_ROWS; k <= BY_COLUMNS; k++) {
        const struct tensor *t = &tensors[k];
        size_t columns = t->shape[1];
        for (size_t j = 0; j < t->shape[k == BY_ROWS ? 1 : 0]; j++) // its vector 5
            list.value[t->offset + (k == BY_ROWS ? 5 * columns + j : j * columns + 5)] = 0;
    }
    unit_normalize(&list);
    for (int k = BY_ROWS; k <= BY_COLUMNS; k++)
        for (size_t i = 0; i < vectors(&tensors[k]); i++) {
            double want = i == 5 ? 0 : 1;
            cr_assert(fabs(squares(&list, &tensors[k], i) - want) < 10 * error, "%s %zu",
                      tensors[k].name, i);
        }
    const real *w = list.value + tensors[BY_COLUMNS].offset;
    const real *was = before + tensors[BY_COLUMNS].offset;
    for (size_t i = 0; i < 103; i++) // of column 7
        cr_expect(fabs((double)(w[i * 213 + 7] * was[7] - w[7] * was[i * 213 + 7])) < 10 * error);
    size_t rest = tensors[FREE].offset;
    cr_expect(difference(list.size - rest, list.value + rest, before + rest) == 0);
    free(before);
    free(list.value);
    free(list.grad);
}

/* The list after updates by a team. */
static struct tensor_list updated(struct tensor *tensors, bool constrained, int threads,
                                  int steps) {
    struct tensor_list list = make_list(tensors, constrained);
    struct optimizer adam;
    omp_set_num_threads(threads);
    adamw_init(&adam, (struct adamw_numbers){0.9, 0.99, 1e-8, 0.1, 1}, &list, threads);
    for (int step = 0; step < steps; step++)
        optimizer_step(&adam, &list, 0.1, optimizer_grad_norm(&adam, &list));
    optimizer_free(&adam);
    free(list.grad);
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
        free(many.value);
    }
    free(one.value);
    // One update is the unconstrained one, divided by the lengths.
    struct tensor_list unit = updated(tensors, true, 3, 1), plain = updated(others, false, 3, 1);
    struct tensor_list then = plain;
    then.tensor = tensors;
    unit_normalize(&then);
    cr_expect(difference(unit.size, unit.value, then.value) == 0);
    free(unit.value);
    free(plain.value);
}

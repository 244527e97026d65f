/* What optimizers are made of: matrices that keep unit length (tensor.h), and the learning rate's
   schedules at known steps. */
#include "model/math/tensor.h"
#include "model/optimizer/schedule.h"
#include "tests/support.h"
#include <string.h>

/* Rows, or columns. Vector 5 is 0 and stays so; vector 7 keeps its direction; what follows keeps
   its bits. */
Test(unit, each_row_or_column_gets_length_1) {
    enum { HEIGHT = 103, WIDTH = 213, SIZE = HEIGHT * WIDTH, REST = 100 };
    const double error = in_double() ? 1e-14 : 3e-6;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        struct tensor tensors[2];
        struct tensor_list list = {.tensor = tensors, .value = random_reals(2 * SIZE, 1)};
        struct param param = tensor_take(&list, "", "constrained", HEIGHT, WIDTH, 0, 1);
        tensor_take(&list, "", "free", REST, 0, 0, 1);
        tensor_keep_unit(&list, param, by_rows ? UNIT_ROWS : UNIT_COLUMNS);
        const size_t vectors = by_rows ? HEIGHT : WIDTH, length = SIZE / vectors;
        const size_t next = by_rows ? WIDTH : 1, step = by_rows ? 1 : WIDTH; // vector; element
        real *w = param.value;
        for (size_t j = 0; j < length; j++) w[5 * next + j * step] = 0;
        const real *was = copy_values(&list);
        tensor_normalize_units(&list);
        for (size_t i = 0; i < vectors; i++) {
            double squares = 0;
            for (size_t j = 0; j < length; j++) squares += pow((double)w[i * next + j * step], 2);
            cr_assert(fabs(squares - (i != 5)) < error, "vector %zu: %g", i, squares);
        }
        for (size_t j = 0, first = 7 * next; j < length; j++)
            cr_expect(fabs((double)(w[first + j * step] * was[first] -
                                    w[first] * was[first + j * step])) < error);
        cr_expect(difference(REST, w + SIZE, was + SIZE) == 0);
    }
}

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

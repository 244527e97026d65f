/* The learning rate's schedules at known steps. */
#include "model/optimizer/schedule.h"
#include <criterion/criterion.h>

#include <string.h>

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

Test(schedule, warms_up_and_decays) {
    struct schedule s = schedule_of("cosine");
    cr_expect_float_eq(schedule_rate(&s, 0), 1e-3 / 101, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 99), 1e-3 * 100 / 101, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 100), 1e-3, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 1050), 5.5e-4, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 2000), 1e-4, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 9999), 1e-4, 1e-12);
    s = schedule_of("linear");
    cr_expect_float_eq(schedule_rate(&s, 575), 7.75e-4, 1e-12);
    s = schedule_of("constant");
    cr_expect_float_eq(schedule_rate(&s, 9999), 1e-3, 1e-12);
}

Test(schedule, wsd_is_constant_up_to_its_last_fraction) {
    struct schedule s = schedule_of("wsd");
    cr_expect_eq(schedule_begin(&s), 1600);
    cr_expect_float_eq(schedule_rate(&s, 99), 1e-3 * 100 / 101, 1e-12);
    for (int64_t step = 100; step < 1600; step++) cr_assert_eq(schedule_rate(&s, step), 1e-3);
    cr_expect_float_eq(schedule_rate(&s, 1700), 1e-4 + 0.75 * 9e-4, 1e-12);
    s.shape = DECAY_SQRT;
    cr_expect_float_eq(schedule_rate(&s, 1700), 1e-4 + 0.5 * 9e-4, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 2000), 1e-4, 1e-12);
    s.fraction = 1;
    cr_expect_eq(schedule_begin(&s), 100, "not before the end of warm-up");
    s.fraction = 0;
    cr_expect_eq(schedule_rate(&s, 1999), 1e-3);
    cr_expect_eq(schedule_rate(&s, 2000), 1e-4);
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

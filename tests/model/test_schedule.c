/* The learning rate's schedules at known steps. */
#include "model/optimizer/schedule.h"
#include <criterion/criterion.h>

Test(schedule, warms_up_and_decays) {
    struct schedule s = {SCHEDULE_COSINE, 100, 2000, 1e-3, 1e-4};
    cr_expect_float_eq(schedule_rate(&s, 0), 1e-3 / 101, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 99), 1e-3 * 100 / 101, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 100), 1e-3, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 1050), 5.5e-4, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 2000), 1e-4, 1e-12);
    cr_expect_float_eq(schedule_rate(&s, 9999), 1e-4, 1e-12);
    s.kind = SCHEDULE_LINEAR;
    cr_expect_float_eq(schedule_rate(&s, 575), 7.75e-4, 1e-12);
    s.kind = SCHEDULE_CONSTANT;
    cr_expect_float_eq(schedule_rate(&s, 9999), 1e-3, 1e-12);
}

/* Memory that was given back is not in use. */
#include "data/die.h"
#include "model/math/arena.h"
#include "tests/command.h"
#include "tests/death.h"
#include <criterion/criterion.h>
#include <stdint.h>

static void take_too_much(void *unused) {
    struct arena arena = {.used = 1 << 26};
    arena_allocate(&arena, "what is given back");
    arena_free(&arena);
    arena.used = PTRDIFF_MAX;
    arena_allocate(&arena, "this");
}

Test(memory, what_was_given_back_is_not_in_use) {
    const struct death *death = caught(take_too_much, NULL);
    cr_expect(death->status == STATUS_MACHINE);
    expect_part(death->line, "beside 0.0 GiB in use");
}

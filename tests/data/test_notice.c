/* What a program notes. */
#include "data/die.h"
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>

/* Before the program knows whether notices are shown, and after. */
Test(notice, is_said_once) {
    cr_redirect_stderr();
    for (int i = 0; i < 2; i++) {
        notice("one");
        notice("one more");
        notice_start(!i);
    }
    fflush(stderr);
    cr_assert_stderr_eq_str("note: one\nnote: one more\n");
}

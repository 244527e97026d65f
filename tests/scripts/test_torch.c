/* Against PyTorch itself, where it is installed (scripts/deps.sh golden). scripts/check_normlab.py
   compares the losses of ./train with those of scripts/normlab.py, for every norm of --list-norms
   in every placement of --list-placements. scripts/make_golden.py --check computes the numbers of
   tests/golden/ again. The notebook runs, cell by cell. Where PyTorch is missing, these tests are
   skipped. */
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS = 4
}; // of the variants: each part takes less than a run's minute, even with sanitizers

/* Fails unless it succeeded; skips the test if the reason is that there is no PyTorch. */
static void expect_agreement(const struct ending *ending) {
    if (ending->status == 1 && strstr(ending->err, "No module named 'torch'")) {
        fputs("[SKIP] torch: PyTorch is not installed (scripts/deps.sh golden installs it)\n",
              stderr);
        cr_skip_test("PyTorch is not installed");
    }
    cr_expect(ending->status == 0, "status %d:\n%s%s", ending->status, ending->err, ending->out);
}

ParameterizedTestParameters(torch, every_norm_in_every_placement) {
    static int parts[PARTS];
    for (int i = 0; i < PARTS; i++) parts[i] = i + 1;
    return cr_make_param_array(int, parts, PARTS);
}

ParameterizedTest(int *part, torch, every_norm_in_every_placement, .init = folder_enter,
                  .fini = folder_leave) {
    struct ending ending = script("check_normlab.py --part=%d/%d", *part, PARTS);
    expect_agreement(&ending);
    if (ending.status == 0) expect_part(ending.out, "variants in 2 modes: 0 differ");
}

Test(torch, golden_numbers, .init = folder_enter, .fini = folder_leave) {
    struct ending ending = script("make_golden.py --check");
    expect_agreement(&ending);
    if (ending.status == 0) expect_part(ending.out, "files agree with PyTorch");
}

/* Its assertions compare LayerNorm and BatchNorm by hand with the model's. */
Test(torch, the_notebook_runs, .init = folder_enter, .fini = folder_leave) {
    struct ending ending = script("../tests/run_notebook.py %s/normlab.ipynb .", getenv("SCRIPTS"));
    expect_agreement(&ending);
    if (ending.status) return;
    expect_part(ending.out, "cells ran");
    expect_picture("1.png", "\x89PNG", "IEND");
    expect_picture("2.png", "\x89PNG", "IEND");
}

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
    if (ending->status == 1 && strstr(ending->err, "No module named 'torch'"))
        skip("torch", "no PyTorch (scripts/deps.sh golden installs it)");
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

/* A notebook continues after it: normlab.load() does not end Python. */
Test(torch, a_missing_or_damaged_run_is_an_exception, .init = folder_enter, .fini = folder_leave) {
    file_put("damaged", "no model", 8);
    text_put(".", "load.py",
             "import normlab\n"
             "for run in 'nosuch', 'damaged':\n"
             "    try:\n"
             "        normlab.load(run)\n"
             "    except (FileNotFoundError, ValueError) as error:\n"
             "        print(isinstance(error, OSError), error)\n");
    struct ending ending =
        bash("export PYTHONPATH=$SCRIPTS; for python in python3 /usr/bin/python3; do\n"
             "$python -c 'import torch' 2>error && exec $python load.py; done; cat error >&2; "
             "exit 1");
    expect_agreement(&ending);
    if (ending.status) return;
    expect_part(ending.out, "True [Errno 2] No such file or directory: 'nosuch'\n");
    expect_part(ending.out, "False damaged: not a valid safetensors file: ");
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

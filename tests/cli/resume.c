#include "tests/cli/resume.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <stdio.h>

void resume_expect_same(const char *one, const char *other) {
    expect_same_log(one, other);
    expect_same_file(one, other, "config.ini");
    expect_same_file(one, other, "model.safetensors");
    expect_same_file(one, other, "checkpoint.safetensors");
    expect_same_file(one, other, "sample.txt");
    char path[64];
    snprintf(path, sizeof path, "%s/probes.csv", one);
    size_t probed = file_there(path);
    if (probed) expect_same_file(one, other, "probes.csv");
    cr_expect(files_in(one) == 7 + probed && files_in(other) == 7 + probed,
              "temporary files remain");
}

/* --show-layer: what the planner decides, and that it prints every layer. */
#include "model/model_config.h"
#include "tests/command.h"
#include "tests/support.h"
#include <string.h>

static const struct {
    const char *name, *options;
} cases[] = {{"default", ""},
             {"peri", "--placement=peri --norm=bn"},
             {"llama", "--preset=llama --qk-norm=on"}};
enum { CASES = sizeof cases / sizeof *cases };
static const char *wanted[CASES];

/* The files of the project are read before the test enters its folder. */
static void enter(void) {
    size_t bytes;
    for (size_t i = 0; i < CASES; i++)
        wanted[i] = file_text(say("tests/golden/layers/%s.txt", cases[i].name), &bytes);
    folder_enter();
}

TestSuite(show_layer, .init = enter, .fini = folder_leave);

/* Written by ./train --show-layer OPTIONS and read by a person: a value that is stored longer than
   necessary, or a gradient that threads cannot find, is a difference here. */
Test(show_layer, places_of_values) {
    for (size_t i = 0; i < CASES; i++)
        cr_expect_str_eq(output_of("--show-layer %s", cases[i].options), wanted[i], "%s",
                         cases[i].name);
}

static void expect_layers(const char *options) {
    const char *out = output_of("--show-layer --n-layer=2 --n-embd=16 %s", options);
    cr_expect(strstr(out, "\n    inner = attention(q, k, v) ") && strstr(out, "\n    inner = gelu"),
              "%s: attention or MLP is missing:\n%s", options, out);
    cr_expect(strstr(out, "\n    sum = ") || strstr(out, "\n    streams = WRITE(streams, "),
              "%s: no residual connection:\n%s", options, out);
}

Test(show_layer, every_placement_and_connection) {
    for (const struct placement *row = placements; row->name; row++)
        expect_layers(say("--placement=%s", row->name));
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        if (!placement_refuses(placement_find("pre"), *kind))
            expect_layers(say("--connection=%s", (*kind)->name));
}

/* Layers that differ are shown one after another. */
Test(show_layer, layers_that_differ) {
    const char *out = output_of("--show-layer --placement=mix --mix-fraction=0.5");
    cr_expect(strstr(out, "layers 0 to 1 ") && strstr(out, "layers 2 to 3 "), "%s", out);
}

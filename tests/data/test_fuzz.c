/* The readers of tests/fuzz/ on files that broke a reader or could: what a fuzzer would find,
   without a fuzzer. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/fuzz/readers.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char regressions[4096];

static void enter(void) {
    cr_assert(realpath("tests/fuzz/regressions", regressions), "no tests/fuzz/regressions here");
    folder_enter();
}

TestSuite(fuzz, .init = enter, .fini = folder_leave);

static const struct reader *reader;

static void read_in_child(void *unused) {
    reader->read("input");
}

/* Gives one file to the reader. The reader may refuse it, in one line and with a status. */
static const struct ending *read_file(const char *name) {
    static struct ending ending;
    char path[8192];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s/%s", regressions, reader->name, name);
    const char *text = file_text(path, &bytes);
    cr_assert(text, "%s: cannot be read", path);
    file_put("input", text, bytes);
    ending = call(read_in_child, NULL);
    if (ending.status == STATUS_OK) {
        cr_expect(!*ending.err, "%s: says %s", path, ending.err);
    } else {
        cr_expect(ending.status == STATUS_MACHINE || ending.status == STATUS_USAGE,
                  "%s: status %d: %s", path, ending.status, ending.err);
        expect_refusal(&ending, ending.status, "train: ");
    }
    return &ending;
}

/* Gives all files to the reader; returns how many it accepted, and in *refused how many it did
   not. */
static int read_all(const char *name, int *refused) {
    char folder[8192];
    int taken = *refused = 0;
    for (reader = readers; reader->name && strcmp(reader->name, name) != 0;) reader++;
    cr_assert(reader->name, "no reader of %s", name);
    snprintf(folder, sizeof folder, "%s/%s", regressions, name);
    DIR *listing = opendir(folder);
    cr_assert(listing, "%s: cannot be listed", folder);
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.') continue;
        if (read_file(entry->d_name)->status)
            ++*refused;
        else
            taken++;
    }
    closedir(listing);
    return taken;
}

/* What is wrong with each safetensors file; NULL: nothing. */
static const struct {
    const char *file, *problem;
} safetensors[] = {
    {"a_list", "its header does not start with {"},
    {"array_null", "byte 5 of the header: expected {"},
    {"backslash_at_the_end", "byte 23 of the header: an unterminated string"},
    {"control_in_a_name", "a??[31m: lacks its dtype, shape or data_offsets"},
    {"data_cut_short", "it is cut short"},
    {"dtype_empty", "a: has an unknown type"},
    {"escape_cut", "byte 26 of the header: an invalid escape"},
    {"escape_cut_by_the_end", "byte 26 of the header: an invalid escape"},
    {"escape_unknown", "byte 24 of the header: an invalid escape"},
    {"escapes", NULL},
    {"every_type", NULL},
    {"hugging_face_index", "metadata: has a member that is unknown or occurs twice"},
    {"left_over_without_arrays", "bytes follow the last array"},
    {"length_and_nothing", "it is cut short"},
    {"member_missing", "a: lacks its dtype, shape or data_offsets"},
    {"member_twice", "a: has a member that is unknown or occurs twice"},
    {"metadata_open", "byte 24 of the header: neither a comma nor the end of a list"},
    {"metadata_twice", "__metadata__ occurs twice"},
    {"nine_dimensions", "a: has more than 8 dimensions"},
    {"no_arrays", NULL},
    {"no_comma", "byte 20 of the header: neither a comma nor the end of a list"},
    {"no_utf_8", "byte 22 of the header: not UTF-8"},
    {"nul_behind_the_end", "its header continues after the last }"},
    {"number_with_a_0_before", "byte 31 of the header: a number that starts with 0"},
    {"offsets_0", "byte 48 of the header: expected a whole number"},
    {"offsets_1", "a: has only one offset"},
    {"offsets_2_53", "byte 65 of the header: a number that is too large"},
    {"offsets_end_before_begin", "b: has offsets that do not match its shape"},
    {"offsets_too_few_bytes", "a: has offsets that do not match its shape"},
    {"offsets_turned", "a: does not start where the previous array ends"},
    {"only_a_brace", "byte 1 of the header: expected \""},
    {"pickle", "its header would have more than 100000000 bytes"},
    {"seal_and_the_end", "its header was changed"},
    {"sealed", NULL},
    {"seven_bytes", "it is shorter than 8 bytes"},
    {"shape_overflow_by_size", "a: is larger than any file"},
    {"surrogate_and_letter", "byte 34 of the header: an invalid escape"},
    {"surrogate_and_the_end", "byte 28 of the header: an invalid escape"},
    {"surrogate_low", "byte 28 of the header: an invalid escape"},
    {"text_twice", "x: occurs twice"},
    {"utf_8_cut_by_the_end", "byte 22 of the header: not UTF-8"},
    {"utf_8_overlong", "byte 22 of the header: not UTF-8"},
    {"utf_8_surrogate", "byte 22 of the header: not UTF-8"},
    {"zero_sized", NULL},
};
enum { SAFETENSORS = sizeof safetensors / sizeof *safetensors };

Test(fuzz, safetensors) {
    int refused, taken = read_all("safetensors", &refused);
    cr_expect(taken + refused == SAFETENSORS, "%d files, %d of them in the table of %s",
              taken + refused, SAFETENSORS, __FILE__);
    for (int i = 0; i < SAFETENSORS; i++) {
        const struct ending *ending = read_file(safetensors[i].file);
        char line[256] = "";
        if (safetensors[i].problem)
            snprintf(line, sizeof line, "train: input: not a valid safetensors file: %s\n",
                     safetensors[i].problem);
        cr_expect_str_eq(ending->err, line, "%s: %s, not %s", safetensors[i].file, ending->err,
                         line);
    }
}

/* How many files of each reader are accepted; the rest must be refused. */
static void expect_taken(const char *name, int want) {
    int refused, taken = read_all(name, &refused);
    cr_expect(taken == want && refused, "%s: %d taken, %d refused", name, taken, refused);
}

Test(fuzz, configs) {
    expect_taken("config", 5);
}

Test(fuzz, corpora) {
    expect_taken("corpus", 3);
}

Test(fuzz, items) {
    expect_taken("items", 2);
}

Test(fuzz, logs) {
    expect_taken("log", 4);
}

Test(fuzz, vocabularies) { // a text is a vocabulary or it is not: nothing is refused here
    int refused, taken = read_all("vocabulary", &refused);
    cr_expect(taken == 8 && !refused, "%d taken, %d refused", taken, refused);
}

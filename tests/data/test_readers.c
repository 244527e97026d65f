/* The readers of tests/fuzz/ on files that broke a reader or could break one. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/fuzz/fuzz.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(fuzz, .init = folder_enter, .fini = folder_leave);

static const struct reader *reader;

static void read_in_child(void *unused) {
    reader->read("input");
}

/* The reader accepts a file without a word, or refuses it in one line and with a status. */
static void expect_case(const struct file_case *one) {
    FILE *file = fopen("input", "wb");
    file_case_write(one, file);
    fclose(file);
    struct ending ending = call(read_in_child, NULL);
    if (!one->problem) {
        cr_expect(!ending.status && !*ending.err, "%s: %s: %s", one->reader, one->content,
                  ending.err);
        return;
    }
    cr_expect(ending.status == STATUS_MACHINE || ending.status == STATUS_USAGE, "%s: %s: %d",
              one->reader, one->content, ending.status);
    expect_refusal(ending, ending.status, one->problem);
}

Test(fuzz, every_reader_knows_its_cases) {
    for (reader = readers; reader->name; reader++) {
        int taken = 0, refused = 0;
        for (const struct file_case *one = file_cases; one->reader; one++) {
            if (strcmp(one->reader, reader->name) != 0) continue;
            expect_case(one);
            one->problem ? refused++ : taken++;
        }
        cr_expect(taken && (refused || !strcmp(reader->name, "vocabulary")), "%s", reader->name);
    }
}

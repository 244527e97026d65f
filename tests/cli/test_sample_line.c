/* --sample-interval: lines in samples.txt, and that writing them does not change the run. */
#include "model/norm/kind.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(sample_line, .init = corpora_enter, .fini = folder_leave);

#define LINES TINY "--quiet --force --max-iters=6 --learning-rate=0.02 --sample=90 "

/* The row of `step`: its text and a newline. */
static char *row_of(const char *folder, int step) {
    char *start = say("\n%d\t", step),
         *row = strstr(file_text(say("%s/samples.txt", folder), NULL), start);
    cr_assert(row, "%s: no row of step %d", folder, step);
    row += strlen(start);
    row[strcspn(row, "\n") + 1] = 0;
    return row;
}

Test(sample_line, each_interval_has_a_row_from_the_start_to_the_end) {
    output_of(LINES "--out=out --sample-interval=2 text.txt");
    const char *text = file_text("out/samples.txt", NULL);
    int rows = -1, step;
    cr_expect(!strncmp(text, "step\ttext\n0\t", 12), "%s", text);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1, rows++)
        if (rows >= 0) cr_expect(sscanf(line, "%d\t", &step) == 1 && step == 2 * rows, "%s", text);
    cr_expect(rows == 4, "%s", text);
}

/* The last line starts as sample.txt does: by the same model and the same random numbers. */
Test(sample_line, the_last_line_is_the_start_of_the_sample) {
    output_of(LINES "--out=out --sample-interval=3 --max-iters=60 text.txt");
    const char *line = row_of("out", 60), *sample = file_text("out/sample.txt", NULL);
    int characters = 0;
    for (; *line != '\n'; line++, sample++, characters++) {
        const bool escaped = *line == '\\' && line[1] == 'n';
        cr_expect(*sample == (escaped ? '\n' : *line), "character %d", characters);
        line += escaped;
    }
    cr_expect(characters == 72);
}

/* Of norms that have a state too: running statistics are read, and not changed. */
Test(sample_line, lines_change_no_bit_of_a_run) {
    for (size_t i = 0; norm_kinds[i]; i++) {
        char *options = say("--norm=%s --dropout=0.1 text.txt", norm_kinds[i]->name);
        output_of(LINES "--out=without %s", options);
        output_of(LINES "--out=with --sample-interval=1 %s", options);
        expect_same_file("with", "without", "sample.txt");
        expect_same_arrays("with/model.safetensors", "without/model.safetensors");
    }
}

Test(sample_line, an_item_ends_before_its_end_marker) {
    items_put("items.txt", 60);
    output_of(LINES "--out=out --items --sample-interval=6 --max-iters=120 items.txt");
    const char *item = row_of("out", 120);
    cr_expect(strlen(item) <= 8 + 1 && !strchr(item, '\\'), "%s", item);
}

Test(sample_line, what_could_end_a_row_or_move_a_cursor_is_escaped) {
    static const char text[] = "a\tb\\c\033[2J\r\302\233 d\n";
    char corpus[40 * sizeof text] = "";
    for (int i = 0; i < 40; i++) strcat(corpus, text);
    file_put("odd.txt", corpus, strlen(corpus));
    output_of(LINES "--out=out --sample-interval=10 --max-iters=50 --temperature=3 odd.txt");
    const char *lines = file_text("out/samples.txt", NULL);
    cr_expect(strstr(lines, "\\n") && strstr(lines, "\\t") && strstr(lines, "\\\\") &&
              strchr(lines, '?'));
    cr_expect(!strchr(lines, '\033') && !strchr(lines, '\r') && !strstr(lines, "\302\233"));
}

/* Every option of the table that is stored with a run changes the run's files, or is named here as
   an option that must not change them. */
#include "data/die.h"
#include "model/math/profile.h"
#include "model/options/config.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cli_effects, .init = corpora_enter, .fini = folder_leave);

/* A run in which every option has an effect. */
#define BUSY                                                                                       \
    TINY "--quiet --force --norm=bn --dropout=0.1 --max-iters=6 --warmup-iters=2 --grad-accum=2 "  \
         "--eval-interval=2 --eval-iters=2 --sample=30 --grad-clip=0.5 --learning-rate=0.02 "

/* What a run with these options leaves, except for its times: the log's other columns and the
   sample; NULL if the options are refused. */
static char *traces(const char *options) {
    static int number;
    char *folder = say("run%d", number++), *text = "";
    if (train(BUSY "--out=%s %s", folder, options).status) return NULL;
    struct log log = log_of(folder);
    for (int row = 0; row < log.rows; row++)
        for (int column = STEP; column <= GRAD_NORM; column++)
            if (column != SECONDS) text = say("%s%s,", text, log.cell[row][column]);
    const char *sample = say("%s/sample.txt", folder);
    return say("%s%s", text, file_there(sample) ? file_text(sample, NULL) : "");
}

/* Options that must change nothing, and those that other tests give a longer run. */
static const char inert[] =
    " level max-tokens max-seconds micro-batch-tokens eval-train probe-interval sample-interval "
    "checkpoint-interval keep-best local-stats ";

/* What some options need beside what their rows say. */
static const char *const beside[][2] = {
    {"pad-to", "--norm=bn --pad-stats=include"},
    {"qk-norm-over", "--v-norm=rms"},
    {"mix-fraction", "--n-layer=2"},
    {"batch-parts", "--batch-size=64 --block-size=16"},
    {"decay-shape", "--decay-fraction=1"},
    {"brn-r-max", "--brn-warmup=0 --brn-relax=0"},
    {"brn-d-max", "--brn-warmup=0 --brn-relax=0"},
    {"brn-relax", "--brn-warmup=1"},
    {"pn-alpha-bkw", "--pn-warmup=2"},
    {"pn-group-scaling", "--pn-warmup=2"},
    {"pn-divisor", "--pn-warmup=2"},
};

/* Options with which this one has an effect: of a condition such as "only with --norm=gn|ts", the
   first value. */
static char *needed(const struct option *option) {
    static const char only[] = "only with ";
    const char *corpus = "text.txt";
    char *options = "";
    for (int i = 0; option->needs[i]; i++) {
        const char *text = option->needs[i]->text;
        if (!strcmp(text, "not with --corpus")) corpus = "";
        if (strncmp(text, only, strlen(only)) != 0) continue;
        text += strlen(only);
        if (!strcmp(text, "--corpus=random")) corpus = "";
        if (!strcmp(text, "--items")) corpus = "items.txt";
        if (!strncmp(text, "--", 2) && !strchr(text, ' '))
            options = say("%s%.*s ", options, (int)strcspn(text, "|"), text);
    }
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (!strcmp(beside[i][0], option->name)) options = say("%s%s ", options, beside[i][1]);
    return say("%s%s", options, corpus);
}

/* The values to try, in this order; NULL after the last. */
static const char *value_of(const struct option *option, size_t i) {
    static const char *const numbers[] = {"2", "0.5", "1", "0.1", "3", "0", "9", "100", "3000"};
    static const char *const switches[] = {"on", "off"};
    if (option->kind == OPTION_CHOICE) return option_choice_of(option, (int64_t)i).name;
    if (option->kind == OPTION_SWITCH) return i < 2 ? switches[i] : NULL;
    return i < sizeof numbers / sizeof *numbers ? numbers[i] : NULL;
}

Test(cli_effects, every_option_acts_or_is_inert) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        bool listed = o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH;
        if (!(listed || o->kind == OPTION_INT || o->kind == OPTION_REAL) ||
            o->scope == OPTION_OF_CALL || strstr(inert, say(" %s ", o->name)))
            continue;
        const char *others = needed(o), *usual = traces(others), *value, *changed = NULL;
        cr_assert(usual, "--%s: %s is refused", o->name, others);
        for (size_t i = 0; (value = value_of(o, i)); i++) {
            changed = traces(say("%s --%s=%s", others, o->name, value));
            if (changed && strcmp(usual, changed) != 0) break;
        }
        cr_expect(value,
                  "--%s changes nothing beside %s (name what else it needs in `beside`, or the "
                  "option in `inert`)",
                  o->name, others);
    }
    const char *usual = traces("text.txt");
    cr_expect_str_eq(usual, traces("--threads=3 --preln --profile text.txt"));
    cr_expect_str_eq(usual, traces("--probe-interval=2 text.txt"));
    cr_expect_str_eq(usual, traces("--sample-interval=2 text.txt"));
}

/* The table and summary.json have the same numbers, of the updates that the program made itself. */
Test(cli_effects, profile_says_where_the_time_went) {
    static const char *const runs[] = {TINY "--quiet --profile --out=out text.txt",
                                       "--quiet --profile --resume=out --max-iters=9"};
    for (int i = 0; i < 2; i++) {
        char *table = output_of("%s", runs[i]);
        const char *profile = json_member(summary_of("out"), "profile");
        cr_assert(profile, "no profile");
        double sum = 0, total = strtod(json_member(profile, "all"), NULL);
        for (int k = 0; k < PROFILE_OPERATIONS; k++) {
            const char *part = json_member(profile, profile_name[k]);
            cr_assert(part, "no %s", profile_name[k]);
            sum += strtod(part, NULL);
        }
        expect_part(table, "operation ");
        expect_part(table, "\nlinear, weight gradient ");
        expect_part(table, say("all                      %10.4f\n", total));
        cr_expect(total > 0 && fabs(sum - total) < 1e-6 * total, "%g is not %g", sum, total);
    }
    cr_expect_str_eq(output_of("--quiet --profile --resume=out"), "", "no time, no table");
    cr_expect(!json_member(summary_of("out"), "profile"), "no update, no profile");
    cr_expect_str_eq(output_of(TINY "--quiet --out=usual text.txt"), "", "not asked for");
    cr_expect(!json_member(summary_of("usual"), "profile"), "not asked for");
}

/* The cell in column `column` of the log's row of `step`. */
static double cell(const char *folder, int step, int column) {
    struct log log = log_of(folder);
    for (int row = 0; row < log.rows; row++)
        if (atoi(log.cell[row][STEP]) == step) return log_number(&log, row, column);
    cr_assert_fail("%s: no row of step %d", folder, step);
    return NAN;
}

static void run(const char *options) {
    expect_done(train(TINY "--quiet %s text.txt", options));
}

Test(cli_effects, evaluation_does_not_touch_training_and_drops_nothing) {
    run("--norm=bn --dropout=0.3 --max-iters=6 --eval-interval=1 --out=often");
    run("--norm=bn --dropout=0.3 --max-iters=6 --eval-interval=100 --out=seldom");
    for (int step = 0; step < 6; step++)
        cr_expect(cell("often", step, TRAIN_LOSS) == cell("seldom", step, TRAIN_LOSS));
    cr_expect(cell("often", 6, VAL_LOSS) == cell("seldom", 6, VAL_LOSS), "running statistics");
    run("--norm=bn --dropout=0.3 --max-iters=6 --eval-interval=0 --out=last");
    cr_expect_str_empty(log_of("last").cell[0][VAL_LOSS], "evaluated before the first update");
    cr_expect(cell("last", 6, VAL_LOSS) == cell("seldom", 6, VAL_LOSS), "the last loss");
    run("--norm=bn --dropout=0 --max-iters=0 --out=without");
    cr_expect(cell("often", 0, VAL_LOSS) == cell("without", 0, VAL_LOSS), "dropout");
}

Test(cli_effects, micro_batches_may_change_when_a_run_is_resumed) {
    run("--norm=ln --batch-size=70 --dropout=0.1 --max-iters=6 --out=whole");
    run("--norm=ln --batch-size=70 --dropout=0.1 --max-iters=3 --lr-decay-iters=6 --out=parts");
    expect_done(train("--quiet --max-iters=6 --micro-batch-tokens=1 --resume=parts"));
    cr_expect(cell("parts", 5, TRAIN_LOSS) == cell("whole", 5, TRAIN_LOSS));
    cr_expect(cell("parts", 6, VAL_LOSS) == cell("whole", 6, VAL_LOSS));
    cr_expect(strstr(file_text("parts/config.ini", NULL), "\nmicro-batch-tokens = 1\n"));
}

Test(cli_effects, closed_streams_keep_messages_out_of_files) {
    expect_done(bash("\"$TRAIN\" " TINY "--sample=20 --out=closed text.txt >&- 2>&-"));
    char *log = file_text("closed/log.csv", NULL), *line;
    strsep(&log, "\n");
    while ((line = strsep(&log, "\n")) && *line)
        cr_expect(*line >= '0' && *line <= '9', "in the log: %s", line);
}

Test(cli_effects, what_only_prints_needs_standard_output) {
    static const char *const options[] = {
        "--evaluate=out",    "--generate=out",    "--version",       "--help",
        "--help=json",       "--help=man",        "--list-norms",    "--list-connections",
        "--list-optimizers", "--list-placements", "--list-schedules"};
    run("--out=out");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect_refusal(bash(say("\"$TRAIN\" %s >&-", options[i])), STATUS_MACHINE,
                       "train: standard output: is closed");
}

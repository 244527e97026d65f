/* Every option of the table either changes the files of a run, or is named here as an option that
   must not change them. */
#include "model/lab/config.h"
#include "model/math/profile.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    corpus_put_tiny("other.txt", 1500);
    items_put("items.txt", 60);
}

TestSuite(cli_effects, .init = enter, .fini = folder_leave);

/* A run in which every option has an effect. */
#define BUSY                                                                                       \
    TINY "--quiet --force --norm=bn --dropout=0.1 --max-iters=6 --warmup-iters=2 --grad-accum=2 "  \
         "--eval-interval=2 --eval-iters=2 --sample=30 --grad-clip=0.5 --learning-rate=0.02 "

/* What a run with these options leaves, except for its times: the log's other columns and the
   sample. */
static char *traces(const char *options) {
    static int number;
    char *folder = say("run%d", number++), *text = "";
    expect_done(train(BUSY "--out=%s %s", folder, options));
    struct log log = log_of(folder);
    for (int row = 0; row < log.rows; row++)
        for (int column = STEP; column <= GRAD_NORM; column++)
            if (column != SECONDS) text = say("%s%s,", text, log.cell[row][column]);
    const char *sample = file_text(say("%s/sample.txt", folder), NULL);
    return say("%s%s", text, sample ? sample : "no sample");
}

static const struct {
    const char *name, *options;
} acting[] = {
    {"corpus", "--corpus=other.txt"},
    {"level", "--level=byte --val-fraction=0.2"},
    {"val-fraction", "--val-fraction=0.2 text.txt"},
    {"hold-out", "--hold-out=0.2 text.txt"},
    {"items", "--items text.txt"},
    {"grammar-chars", "--grammar-chars=3000"},
    {"random-chars", "--corpus=random --random-chars=9"},
    {"norm", "--norm=ln text.txt"},
    {"norm-attn", "--norm-attn=ln text.txt"},
    {"norm-ffn", "--norm-ffn=ln text.txt"},
    {"norm-final", "--norm-final=ln text.txt"},
    {"init", "--init=xavier text.txt"},
    {"init-std", "--init-std=0.3 text.txt"},
    {"init-embd-std", "--init-embd-std=0.3 text.txt"},
    {"embd-scale", "--embd-scale=learned text.txt"},
    {"qk-norm", "--qk-norm=on text.txt"},
    {"v-norm", "--v-norm=on text.txt"},
    {"qk-scale", "--qk-scale=learned text.txt"},
    {"ffn-norm", "--ffn-norm=on text.txt"},
    {"mix-fraction", "--n-layer=2 --placement=mix --mix-fraction=0.5 text.txt"},
    {"lambda-start", "--placement=layerscale --lambda-start=0.5 text.txt"},
    {"placement", "--placement=post text.txt"},
    {"connection", "--connection=layerscale text.txt"},
    {"postln", "--postln text.txt"},
    {"placement-attn", "--placement-attn=sandwich text.txt"},
    {"placement-ffn", "--placement-ffn=postln text.txt"},
    {"lr", "--lr=0.01 text.txt"},
    {"final-norm", "--final-norm=off text.txt"},
    {"n-layer", "--n-layer=2 text.txt"},
    {"n-head", "--n-head=4 text.txt"},
    {"n-embd", "--n-embd=12 text.txt"},
    {"block-size", "--block-size=6 text.txt"},
    {"act", "--act=relu text.txt"},
    {"recipe", "--recipe=best --norm=bn text.txt"},
    {"preset", "--preset=llama --norm=bn text.txt"},
    {"position", "--position=rope text.txt"},
    {"n-kv-head", "--n-kv-head=1 text.txt"},
    {"ffn-width", "--ffn-width=24 text.txt"},
    {"head", "--head=untied text.txt"},
    {"attn-gate", "--attn-gate=head text.txt"},
    {"attn-softcap", "--attn-softcap=0.1 text.txt"},
    {"logit-softcap", "--logit-softcap=0.1 text.txt"},
    {"z-loss", "--z-loss=0.1 text.txt"},
    {"dropout", "--dropout=0.3 text.txt"},
    {"bias", "--bias=off text.txt"},
    {"affine", "--affine=off text.txt"},
    {"norm-eps", "--norm-eps=0.1 text.txt"},
    {"bn-momentum", "--bn-momentum=0.5 text.txt"},
    {"start", "--start=trained text.txt"},
    {"max-iters", "--max-iters=5 text.txt"},
    {"max-tokens", "--max-iters=auto --max-tokens=80 text.txt"},
    {"max-seconds", "--max-seconds=1e-9 text.txt"},
    {"stop-at", "--stop-at=100 text.txt"},
    {"batch-size", "--batch-size=3 text.txt"},
    {"grad-accum", "--grad-accum=1 text.txt"},
    {"learning-rate", "--learning-rate=0.01 text.txt"},
    {"min-lr", "--min-lr=0.001 text.txt"},
    {"warmup-iters", "--warmup-iters=1 text.txt"},
    {"lr-decay-iters", "--lr-decay-iters=9 text.txt"},
    {"schedule", "--schedule=linear text.txt"},
    {"beta1", "--beta1=0.8 text.txt"},
    {"beta2", "--beta2=0.9 text.txt"},
    {"adam-eps", "--adam-eps=0.1 text.txt"},
    {"optimizer", "--optimizer=sgd text.txt"},
    {"weight-decay", "--weight-decay=1 text.txt"},
    {"decay-gamma", "--decay-gamma=zero text.txt"},
    {"grad-clip", "--grad-clip=0.01 text.txt"},
    {"seed", "--seed=2 text.txt"},
    {"log-interval", "--log-interval=3 text.txt"},
    {"eval-interval", "--eval-interval=3 text.txt"},
    {"eval-iters", "--eval-iters=1 text.txt"},
    {"sample", "--sample=20 text.txt"},
    {"temperature", "--temperature=0 text.txt"},
    {"top-k", "--top-k=1 text.txt"},
    {"top-p", "--top-p=0.3 text.txt"},
    {"min-p", "--min-p=0.9 text.txt"},
};

/* Options of some norms or of items only: with and without them, beside the options that make them
   effective. */
static const struct {
    const char *name, *value, *beside;
} of_some[] = {
    {"bn-axis", "batch", "--norm=bn text.txt"},
    {"bn-shards", "2", "--norm=bn text.txt"},
    {"rbn-mean", "0.1", "--norm=bn text.txt"},
    {"rbn-var", "0.1", "--norm=bn text.txt"},
    {"brn-r-max", "1", "--norm=brn --brn-warmup=0 --brn-relax=0 text.txt"},
    {"brn-d-max", "0", "--norm=brn --brn-warmup=0 --brn-relax=0 text.txt"},
    {"brn-warmup", "1", "--norm=brn text.txt"},
    {"brn-relax", "1", "--norm=brn --brn-warmup=1 text.txt"},
    {"grammar-seed", "2", "--grammar-chars=3000"},
    {"prepbn-steps", "3", "--norm=prepbn text.txt"},
    {"prepbn-eta", "1", "--norm=prepbn text.txt"},
    {"rms-fraction", "0.5", "--norm=rms text.txt"},
    {"dyt-alpha", "1", "--norm=dyt text.txt"},
    {"dyt-alpha-attn", "1", "--norm=derf text.txt"},
    {"embd-scale-start", "3", "--embd-scale=learned text.txt"},
    {"bhyt-lambda", "3", "--norm=bhyt text.txt"},
    {"bhyt-kappa", "5", "--norm=bhyt text.txt"},
    {"gated-rank", "3", "--norm=gated text.txt"},
    {"norm-groups", "4", "--norm=gn text.txt"},
    {"ts-prior-count", "3", "--norm=ts text.txt"},
    {"pn-alpha-fwd", "0.5", "--norm=pn-v text.txt"},
    {"pn-alpha-bkw", "0.5", "--norm=pn --pn-warmup=2 text.txt"},
    {"pn-warmup", "3", "--norm=pn text.txt"},
    {"pn-group-scaling", "off", "--norm=pn --pn-warmup=2 text.txt"},
    {"pn-divisor", "batch", "--norm=pn --pn-warmup=2 text.txt"},
    {"rope-theta", "5", "--position=rope text.txt"},
    {"qk-scale-start", "2", "--qk-scale=learned text.txt"},
    {"qk-norm-over", "width", "--v-norm=rms text.txt"},
    {"pad-to", "block", "--items --norm=bn --pad-stats=include items.txt"},
    {"pad-stats", "include", "--items --norm=bn items.txt"},
    {"bucket", "on", "--items items.txt"},
    {"num-items", "3", "--items items.txt"},
    {"decay-fraction", "0.8", "--schedule=wsd text.txt"},
    {"decay-shape", "1-sqrt", "--schedule=wsd --decay-fraction=1 text.txt"},
    {"sgd-momentum", "0.5", "--optimizer=sgd text.txt"},
    {"sgd-nesterov", "off", "--optimizer=sgd text.txt"},
    {"muon-lr", "0.01", "--optimizer=muon text.txt"},
    {"muon-momentum", "0.5", "--optimizer=muon text.txt"},
    {"muon-nesterov", "off", "--optimizer=muon text.txt"},
    {"muon-steps", "4", "--optimizer=muon text.txt"},
    {"beta1", "0.8", "--optimizer=muon text.txt"},
    {"batch-parts", "1", "--batch-size=64 --block-size=16 text.txt"},
};

/* Options that must change nothing or that end the program before a run, and options that are
   tested elsewhere. */
static const char inert[] =
    " preln threads out force quiet profile plot plot-scale plot-beside config resume generate "
    "prompt num-chars num-samples stop evaluate vocabulary list-norms list-placements help version "
    "list-optimizers list-schedules list-connections checkpoint-interval probe-interval "
    "sample-interval stats leak dump micro-batch-tokens keep-best local-stats eval-train ";

Test(cli_effects, every_option_of_the_table_is_here) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        int found = o->kind == OPTION_HEADING;
        for (size_t i = 0; !found && i < sizeof acting / sizeof *acting; i++)
            found = !strcmp(acting[i].name, o->name);
        for (size_t i = 0; !found && i < sizeof of_some / sizeof *of_some; i++)
            found = !strcmp(of_some[i].name, o->name);
        found = found || strstr(inert, say(" %s ", o->name));
        cr_expect(found, "--%s: add a row to `of_some` (or `acting`, `inert`) of this file",
                  o->name);
    }
}

Test(cli_effects, every_acting_option_acts) {
    char *usual = traces("text.txt");
    struct ending ending = train(BUSY "--seed=2 --out=trained text.txt"); // for --start
    cr_assert(ending.status == 0, "%s", ending.err);
    for (size_t i = 0; i < sizeof acting / sizeof *acting; i++) {
        char *changed = traces(acting[i].options);
        cr_expect(strcmp(usual, changed) != 0, "%s changes nothing", acting[i].options);
    }
    char *threads = traces("--threads=3 --preln --profile text.txt");
    cr_expect_str_eq(usual, threads);
    char *probed = traces("--probe-interval=2 text.txt");
    cr_expect_str_eq(usual, probed);
    char *sampled = traces("--sample-interval=2 text.txt");
    cr_expect_str_eq(usual, sampled);
}

Test(cli_effects, every_option_of_some_acts) {
    for (size_t i = 0; i < sizeof of_some / sizeof *of_some; i++) {
        char *without = traces(of_some[i].beside);
        char *options = say("%s --%s=%s", of_some[i].beside, of_some[i].name, of_some[i].value);
        char *with = traces(options);
        cr_expect(strcmp(without, with) != 0, "%s changes nothing", options);
    }
}

Test(cli_effects, profile_says_where_the_time_went) {
    const char *const parts[] = {"operation", "linear, weight gradient", "attention", "all"};
    struct ending usual = train(TINY "text.txt"), ending = train(TINY "--profile text.txt");
    cr_assert(usual.status == 0 && ending.status == 0, "%s", ending.err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *line = say("\n%s ", parts[i]);
        cr_expect(strstr(ending.out, line + (i == 0)) && !strstr(usual.out, line + (i == 0)), "%s",
                  parts[i]);
    }
    ending = train(TINY "--profile --max-iters=0 text.txt");
    cr_expect(ending.status == 0 && !strstr(ending.out, "operation"), "no time, no table");
}

/* summary.json has the same numbers, of the updates that the program made itself. */
Test(cli_effects, profile_is_in_the_summary) {
    struct ending ending = train(TINY "--quiet --profile --out=out text.txt");
    for (int resumed = 0; resumed < 2; resumed++) {
        cr_assert(ending.status == 0, "%s", ending.err);
        const char *profile = json_member(file_text("out/summary.json", NULL), "profile");
        cr_assert(profile, "no profile");
        double sum = 0;
        for (int i = 0; i < PROFILE_OPERATIONS; i++) {
            const char *part = json_member(profile, profile_name[i]);
            cr_assert(part, "no %s", profile_name[i]);
            sum += strtod(part, NULL);
        }
        double all = strtod(json_member(profile, "all"), NULL);
        char *line = say("all                      %10.4f\n", all);
        cr_expect(strstr(ending.out, line), "%s is not in %s", line, ending.out);
        cr_expect(all > 0 && fabs(sum - all) < 1e-6 * all, "%g is not %g", sum, all);
        ending = train("--quiet --profile --resume=out --max-iters=9");
    }
    ending = train("--quiet --profile --resume=out");
    cr_expect(!json_member(file_text("out/summary.json", NULL), "profile"),
              "no update, no profile");
    ending = train(TINY "--quiet --out=usual text.txt");
    cr_expect(!json_member(file_text("usual/summary.json", NULL), "profile"), "not asked for");
}

/* The full batch at once, and as few of its sequences as there may be. */
Test(cli_effects, micro_batches_change_nothing) {
    static const char *const cases[] = {
        "--norm=ln --batch-size=70 text.txt",
        "--norm=rms --placement=rezero --final-norm=on --batch-size=70 text.txt",
        "--norm=cln --placement=siamese --batch-size=70 --eval-train=on text.txt",
        "--norm=bn --batch-size=70 text.txt",
        "--norm=ln --items --pad-to=block --batch-size=70 items.txt",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *options = say("--micro-batch-tokens=0 %s", cases[i]);
        char *whole = traces(options);
        options = say("--micro-batch-tokens=1 %s", cases[i]);
        char *parts = traces(options);
        cr_expect_str_eq(whole, parts);
    }
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

Test(cli_effects, rates_left_to_auto_end_at_a_tenth_with_the_last_update) {
    run("--max-iters=10 --learning-rate=0.01 --out=a");
    cr_expect_float_eq(cell("a", 0, LR), 0.01, 1e-9);
    cr_expect_float_eq(cell("a", 5, LR), 0.0055, 1e-9);
    cr_expect_float_eq(cell("a", 10, LR), 0.001, 1e-9);
}

Test(cli_effects, closed_streams_keep_messages_out_of_files) {
    char *command = say("%s " TINY "--sample=20 --out=closed text.txt >&- 2>&-", getenv("TRAIN"));
    cr_expect(system(command) == 0);
    char *log = file_text("closed/log.csv", NULL), *line;
    cr_assert(log != NULL);
    strsep(&log, "\n");
    while ((line = strsep(&log, "\n")) && *line)
        cr_expect(*line >= '0' && *line <= '9', "in the log: %s", line);
}

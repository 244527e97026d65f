/* Every option of the program's table with bad values, and with `make check-all` with every kind of them,
   on the command line of the real program: status 2, one line that names the option, and nothing
   written. Presets and recipes: the numbers that the models' authors publish; that each learns with every
   usual norm: the loss of 60 updates is finite and falls; that other options override what they set, in
   any order. */
#include "data/die.h"
#include "model/lab/config.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(cli_options, .init = folder_enter, .fini = folder_leave);

/* If a bad value is accepted after all, these options make the run short. */
static const char *const before[] = {
    "--max-iters=0",  "--sample=0",     "--n-layer=1",         "--n-head=1",     "--n-embd=8",
    "--batch-size=2", "--block-size=8", "--grammar-chars=200", "--eval-iters=1", NULL};
enum { BEFORE = sizeof before / sizeof *before };

/* Runs the program with one or two further arguments. */
static struct ending train_also(const char *one, const char *two) {
    const char *arguments[BEFORE + 2];
    memcpy(arguments, before, sizeof before);
    arguments[BEFORE - 1] = one;
    arguments[BEFORE] = two;
    arguments[BEFORE + 1] = NULL;
    return train_with(arguments);
}

static struct ending expect_wrong(const struct option *o, const char *one, const char *two) {
    struct ending ending = train_also(one, two);
    expect_refusal(&ending, STATUS_USAGE, say("train: --%s", o->name));
    cr_assert(files_in(".") == 0, "%s: was accepted", one);
    return ending;
}

/* Gives "--name=value"; fails unless the message repeats the value and says which values are
   allowed. */
static void expect_wrong_value(const struct option *o, const char *value) {
    char *argument = say("--%s=%s", o->name, value);
    struct ending ending = expect_wrong(o, argument, NULL);
    cr_expect(strstr(ending.err, argument), "%s: the message does not repeat it: %s", argument,
              ending.err);
    cr_expect(strstr(ending.err, "must be "), "%s: no rule: %s", argument, ending.err);
}

static void expect_wrong_number(const struct option *o) {
    static const char *const words[] = {"",         "x",
                                        "-",        "--",
                                        ".",        "1x",
                                        "1 ",       " 1",
                                        "1,5",      "1;2",
                                        "one",      "nan",
                                        "NaN",      "-nan",
                                        "inf",      "-inf",
                                        "infinity", "1e999",
                                        "on",       "+",
                                        "1e",       "99999999999999999999999"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i += sweep() ? 1 : 6)
        expect_wrong_value(o, words[i]);
    if (strcmp(o->start, "auto") != 0) expect_wrong_value(o, "auto");
    char *value;
    for (int above = 0; above < 2; above++) {
        double end = above ? o->max : o->min;
        if (o->kind == OPTION_INT)
            value = say("%lld", (long long)end + (above ? 1 : -1));
        else
            value = say("%.17g", nextafter(end, above ? INFINITY : -INFINITY));
        expect_wrong_value(o, value);
        value = say("%.17g", above ? 10 * end + 10 : -10 * end - 10);
        expect_wrong_value(o, value);
    }
    if (o->kind == OPTION_INT) {
        expect_wrong_value(o, "1.5");
        expect_wrong_value(o, "1e-1");
        expect_wrong_value(o, "0x10");
        expect_wrong_value(o, "-9223372036854775809");
        expect_wrong_value(o, "9223372036854775808");
    }
}

static void expect_wrong_word(const struct option *o) {
    static const char *const words[] = {"", "unknown", "0", "1", "ON", "yes", "true", "o", " on"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i += sweep() ? 1 : 6)
        expect_wrong_value(o, words[i]);
    for (int64_t i = 0; o->kind == OPTION_CHOICE && option_choice(o, i).name; i++) {
        if (i % 4 && !sweep()) continue;
        char *longer = say("%sx", option_choice(o, i).name);
        expect_wrong_value(o, longer);
        longer = say("%.*s", (int)strlen(option_choice(o, i).name) - 1, option_choice(o, i).name);
        if (option_index(o, longer) < 0) expect_wrong_value(o, longer); // relu2 and relu
    }
}

static void expect_bad_values(const struct option *o) {
    char *argument = say("--%s", o->name);
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_STOP:
    case OPTION_HELP:
        for (int i = 0; i < 4; i++) {
            argument = say("--%s=%s", o->name, (const char *[]){"", "1", "on", "x"}[i]);
            expect_wrong(o, argument, NULL);
        }
        return;
    case OPTION_ALIAS:
        if (!strchr(o->start, '=')) break; // as the option that it abbreviates
        argument = say("--%s=pre", o->name);
        expect_wrong(o, argument, NULL);
        return;
    case OPTION_INT:
    case OPTION_REAL: expect_wrong_number(o); break;
    case OPTION_SWITCH: expect_wrong_word(o); return; // alone it is on
    case OPTION_CHOICE: expect_wrong_word(o); break;
    default: // texts: any but the empty one
        expect_wrong(o, argument, "");
        argument = say("--%s=", o->name);
        expect_wrong(o, argument, NULL);
        *strchr(argument, '=') = 0;
    }
    expect_wrong(o, argument, NULL); // the value is missing
}

Test(cli_options, every_bad_value) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING) expect_bad_values(o);
}

Test(cli_options, bad_values_in_a_config_file) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) continue;
        char *text = say("%s = \"\"\n", o->name);
        file_put("bad.ini", text, strlen(text));
        struct ending ending = train_also("--config=bad.ini", NULL);
        bool other_name = o->kind == OPTION_ALIAS && !strchr(o->start, '=');
        char *where = say("train: bad.ini:1: %s", other_name ? o->start : o->name);
        expect_refusal(&ending, STATUS_USAGE, where);
        cr_expect(files_in(".") == 1, "%s: something was written", o->name);
    }
}

Test(cli_options, a_message_is_one_line_whatever_was_typed) {
    static const char *const strange[] = {"--norm=a\nb", "--a\nb=1", "--seed=\n", "no\nfile",
                                          "-a\n\nb"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        struct ending ending = train_also(strange[i], NULL);
        int status = strchr(strange[i], '-') ? STATUS_USAGE : STATUS_MACHINE;
        expect_refusal(&ending, status, "train: ");
    }
}

Test(cli_options, values_that_contradict_each_other) {
    static const struct {
        const char *one, *two, *part;
    } wrong[] = {
        {"--n-embd=10", "--n-head=4", "--n-embd=10: must be a multiple of --n-head=4"},
        {"--n-embd=8", "--n-head=16", "--n-embd=8: must be a multiple of --n-head=16"},
        {"--norm=gn", "--norm-groups=3", "its 8 channels cannot be split into 3 equal groups"},
        {"--logit-softcap=1e-300", NULL, "--logit-softcap=1e-300: must be at least 1e-06"},
        {"--attn-softcap=1e-7", NULL, "--attn-softcap=1e-07: must be at least 1e-06, or 0"},
        {"--min-lr=0.1", "--learning-rate=0.01", "--min-lr=0.1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = train_also(wrong[i].one, wrong[i].two);
        expect_refusal(&ending, STATUS_USAGE, wrong[i].part);
    }
    train_refuses(STATUS_USAGE, "--rbn-var: cannot be combined with --bn-axis=batch",
                  "--norm=bn --bn-axis=batch --rbn-var=1");
    train_refuses(STATUS_USAGE, "--muon-lr=0.1: follows the schedule of --learning-rate",
                  "--optimizer=muon --muon-lr=0.1 --learning-rate=0 --min-lr=0");
    train_refuses(STATUS_USAGE,
                  "needs an even number of channels per head, --n-embd=6 / --n-head=2",
                  "--position=rope --n-embd=6 --n-head=2");
    train_refuses(STATUS_USAGE, "--muon-momentum=1: must be a number from 0 to 0.999999",
                  "--optimizer=muon --muon-momentum=1");
    train_refuses(STATUS_USAGE, "--rbn-var: cannot be combined with --bn-shards",
                  "--norm=bn --bn-shards=2 --rbn-mean=1");
    train_refuses(STATUS_USAGE, "--bn-shards: cannot be combined with --bn-axis=batch",
                  "--norm=bn --bn-shards=2 --bn-axis=batch");
    train_refuses(STATUS_USAGE, "mlp.norm: its 16 channels cannot be split into 6 equal groups",
                  "--ffn-norm=gn --n-head=6 --n-embd=12 --ffn-width=16");
    cr_expect(files_in(".") == 0);
}

Test(cli_options, help_and_version) {
    struct ending ending = train("--norm=rms --help --nonsense");
    cr_expect(ending.status == 0 && *ending.out && !*ending.err);
    ending = train("--version");
    cr_expect(ending.status == 0 && !*ending.err);
    cr_expect_str_eq(ending.out, "normlab " VERSION "\n");
    cr_expect(files_in(".") == 0);
}

Test(cli_options, help_that_cannot_be_written) {
    if (!file_there("/dev/full")) skip("cli_options", "this system has no /dev/full");
    struct surroundings full = {.output = "/dev/full"};
    struct ending ending = train_in(full, "--help");
    expect_refusal(&ending, STATUS_MACHINE, "No space left on device");
    ending = train_in(full, "--version");
    expect_refusal(&ending, STATUS_MACHINE, "No space left on device");
}

TestSuite(presets, .init = folder_enter, .fini = folder_leave);

static void check_learns(const char *option, const char *name, const char *norm) {
    expect_done(train(TINY
                      "--%s=%s --norm=%s --max-iters=60 --learning-rate=0.01 --eval-interval=20 "
                      "--eval-iters=4 --force --quiet --out=out text.txt",
                      option, name, norm));
    struct log log = log_of("out");
    cr_assert(log.rows > 1);
    for (int row = 0; row < log.rows; row++)
        for (int column = TRAIN_LOSS; column <= GRAD_NORM; column++)
            cr_expect(!*log.cell[row][column] || isfinite(log_number(&log, row, column)),
                      "%s %s: row %d, column %d", name, norm, row, column);
    double first = log_number(&log, 0, VAL_LOSS), last = log_number(&log, log.rows - 1, VAL_LOSS);
    cr_expect(last < first, "%s %s: from %g to %g", name, norm, first, last);
}

Test(presets, learn_with_every_usual_norm) {
    static const char *const norms[] = {"ln", "bn", "rms"};
    corpus_put_tiny("text.txt", 2000);
    static const char *const options[] = {"preset", "recipe"};
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        const struct option *option = options_find(config_options, options[o]);
        const char *name;
        for (int64_t i = 0; (name = option_choice(option, i).name); i++)
            for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
                check_learns(option->name, name, norms[k]);
    }
}

/* Fails unless the options one leave the same configuration as the options other. */
static void expect_same(const char *one, const char *other) {
    const char *const words[] = {one, other};
    char *text[2];
    for (int i = 0; i < 2; i++) {
        expect_done(train(TINY "%s --max-iters=0 --quiet --force --out=out text.txt", words[i]));
        text[i] = file_text("out/config.ini", NULL);
    }
    cr_expect_str_eq(text[0], text[1], "%s, %s", one, other);
}

Test(presets, other_options_override_them_anywhere) {
    corpus_put_tiny("text.txt", 2000);
    expect_same("--recipe=nanogpt", "");
    expect_same("--preset=llama --norm=ln", "--norm=ln --preset=llama");
    expect_same("--recipe=best --norm=ln --lr=0.1", "--lr=0.1 --norm=ln --recipe=best");
    expect_same("--recipe=best --preset=gpt2", "--preset=gpt2 --recipe=best");
    // gpt2's block: of the recipe's, only what no preset sets is left
    expect_same("--recipe=best --preset=gpt2 --placement=post",
                "--recipe=best --preset=gpt2 --postln --head=tied --position=learned --norm=ln");
    struct ending made = train(TINY "--recipe=best --max-iters=0 --quiet --out=best text.txt");
    cr_assert(made.status == 0, "%s", made.err);
    expect_same("--config=best/config.ini", "--recipe=best");
    expect_same("--recipe=best --config=best/config.ini --norm=bn", "--recipe=best --norm=bn");
    expect_same("--preset=gpt2 --config=best/config.ini", "--recipe=best --preset=gpt2");
}

/* config.json of the authors' models: rope_theta, and the epsilon of the norms. */
Test(presets, have_the_numbers_of_their_models) {
    static const char *const published[][3] = {
        {"gpt2", "norm-eps = 1e-05"},                         // openai-community/gpt2
        {"llama", "norm-eps = 1e-05", "rope-theta = 10000"},  // meta-llama/Llama-2-7b
        {"gemma2", "norm-eps = 1e-06", "rope-theta = 10000"}, // google/gemma-2-2b
        {"olmo2", "norm-eps = 1e-06", "rope-theta = 500000"}, // allenai/OLMo-2-1124-7B
        {"qwen3", "norm-eps = 1e-06", "rope-theta = 1e+06"}}; // Qwen/Qwen3-8B
    corpus_put_tiny("text.txt", 2000);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        expect_done(train(TINY "--preset=%s --max-iters=0 --force --quiet --out=out text.txt",
                          published[i][0]));
        const char *config = file_text("out/config.ini", NULL);
        for (size_t k = 1; k < 3 && published[i][k]; k++) {
            char *line = say("\n%s\n", published[i][k]);
            cr_expect(strstr(config, line), "%s: no %s", published[i][0], published[i][k]);
        }
    }
}

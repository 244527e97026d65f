/* Every option of the program's table with bad values, and with `make check-all` with every kind of
   them, on the command line of the real program: status 2, one line that names the option, and
   nothing written. Presets and recipes: the numbers that the models' authors publish; that each
   learns with every usual norm: the loss of 60 updates is finite and falls; that other options
   override what they set, in any order. */
#include "data/die.h"
#include "model/options/config.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <string.h>

TestSuite(cli_options, .init = folder_enter, .fini = folder_leave);

/* If a bad value is accepted after all, these options make the run short. */
static const char *const before[] = {
    "--max-iters=0",  "--sample=0",     "--n-layer=1",         "--n-head=1",     "--n-embd=8",
    "--batch-size=2", "--block-size=8", "--grammar-chars=200", "--eval-iters=1", NULL};
enum { BEFORE = sizeof before / sizeof *before };

/* Runs the program with one further argument. */
static struct ending train_also(const char *argument) {
    const char *arguments[BEFORE + 1] = {NULL};
    memcpy(arguments, before, sizeof before);
    arguments[BEFORE - 1] = argument;
    return train_with(arguments);
}

static const char *expect_wrong(const struct option *o, const char *argument) {
    const char *said =
        expect_refusal(train_also(argument), STATUS_USAGE, say("train: --%s", o->name));
    cr_assert(files_in(".") == 0, "%s: was accepted", argument);
    return said;
}

/* Gives "--name=value"; fails unless the message repeats the value and says which values are
   allowed. */
static void expect_wrong_value(const struct option *o, const char *value) {
    char *argument = say("--%s=%s", o->name, value);
    const char *said = expect_wrong(o, argument);
    expect_part(said, argument);
    expect_part(said, "must be ");
}

/* Every one of the values in `make check-all`, otherwise some. */
static void expect_wrong_values(const struct option *o, const char *const *values) {
    for (; *values; values++) {
        expect_wrong_value(o, *values);
        for (int i = 0; i < 5 && values[1] && !sweep(); i++) values++;
    }
}

static void expect_wrong_number(const struct option *o) {
    static const char *const words[] = {
        "",    "x",   "-",    "--",  ".",    "1x",    "1 ", " 1", "1,5", "1;2",
        "nan", "NaN", "-nan", "inf", "-inf", "1e999", "on", "+",  "1e",  "99999999999999999999999",
        NULL};
    static const char *const no_integers[] = {
        "1.5", "1e-1", "0x10", "-9223372036854775809", "9223372036854775808", NULL};
    bool integer = o->kind == OPTION_INT;
    expect_wrong_values(o, words);
    if (integer) expect_wrong_values(o, no_integers);
    if (strcmp(o->start, "auto") != 0) expect_wrong_value(o, "auto");
    for (int sign = -1; sign < 2; sign += 2) {
        double end = sign > 0 ? o->max : o->min;
        expect_wrong_value(o, integer ? say("%lld", (long long)end + sign)
                                      : say("%.17g", nextafter(end, (double)sign * INFINITY)));
        expect_wrong_value(o, say("%.17g", sign * 10 * end + sign * 10));
    }
}

static void expect_wrong_word(const struct option *o) {
    static const char *const words[] = {"",    "unknown", "0", "1",   "ON",
                                        "yes", "true",    "o", " on", NULL};
    expect_wrong_values(o, words);
    for (int64_t i = 0; o->kind == OPTION_CHOICE && option_choice_of(o, i).name; i++) {
        const char *name = option_choice_of(o, i).name;
        char *shorter = say("%.*s", (int)strlen(name) - 1, name);
        if (i % 4 && !sweep()) continue;
        expect_wrong_value(o, say("%sx", name));
        if (option_index(o, shorter) < 0) expect_wrong_value(o, shorter); // relu2 and relu
    }
}

static void expect_bad_values(const struct option *o) {
    bool number = o->kind == OPTION_INT || o->kind == OPTION_REAL;
    bool flag = o->kind == OPTION_FLAG || o->role == OPTION_HELP;
    if (number) expect_wrong_number(o);
    if (o->kind == OPTION_SWITCH || o->kind == OPTION_CHOICE) expect_wrong_word(o);
    if (flag) expect_wrong(o, say("--%s=on", o->name));
    if (!number && o->kind != OPTION_ALIAS) expect_wrong(o, say("--%s=", o->name));
    if (o->kind == OPTION_ALIAS && strchr(o->start, '=')) // it has a value of its own
        expect_wrong(o, say("--%s=pre", o->name));
    else if (!flag && o->kind != OPTION_SWITCH && o->role != OPTION_BARE) // these may stand alone
        expect_wrong(o, say("--%s", o->name));
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
        bool other_name = o->kind == OPTION_ALIAS && !strchr(o->start, '=');
        char *where = say("train: bad.ini:1: %s", other_name ? o->start : o->name);
        expect_refusal(train_also("--config=bad.ini"), STATUS_USAGE, where);
        cr_expect(files_in(".") == 1, "%s: something was written", o->name);
    }
}

Test(cli_options, a_message_is_one_line_whatever_was_typed) {
    static const char *const strange[] = {"--norm=a\nb", "--a\nb=1", "-a\n\nb", "no\nfile"};
    for (int i = 0; i < 4; i++)
        expect_refusal(train_also(strange[i]), i < 3 ? STATUS_USAGE : STATUS_MACHINE, "train: ");
}

Test(cli_options, values_that_contradict_each_other) {
    static const char *const wrong[][2] = {
        {"--n-embd=10 --n-head=4", "--n-embd=10: must be a multiple of --n-head=4"},
        {"--n-embd=8 --n-head=16", "--n-embd=8: must be a multiple of --n-head=16"},
        {"--n-embd=8 --norm=gn --norm-groups=3",
         "its 8 channels cannot be split into 3 equal groups"},
        {"--logit-softcap=1e-300", "--logit-softcap=1e-300: must be at least 1e-06"},
        {"--attn-softcap=1e-7", "--attn-softcap=1e-07: must be at least 1e-06, or 0"},
        {"--min-lr=0.1 --learning-rate=0.01", "--min-lr=0.1"},
        {"--norm=bn --bn-axis=batch --rbn-var=1",
         "--rbn-var: cannot be combined with --bn-axis=batch"},
        {"--optimizer=muon --muon-lr=0.1 --learning-rate=0 --min-lr=0",
         "--muon-lr=0.1: follows the schedule of --learning-rate"},
        {"--position=rope --n-embd=6 --n-head=2",
         "needs an even number of channels per head, --n-embd=6 / --n-head=2"},
        {"--norm=bn --bn-shards=2 --rbn-mean=1", "--rbn-var: cannot be combined with --bn-shards"},
        {"--norm=bn --bn-shards=2 --bn-axis=batch",
         "--bn-shards: cannot be combined with --bn-axis=batch"},
        {"--ffn-norm=gn --n-head=6 --n-embd=12 --ffn-width=16",
         "mlp.norm: its 16 channels cannot be split into 6 equal groups"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        train_refuses(STATUS_USAGE, wrong[i][1], "%s", wrong[i][0]);
    cr_expect(files_in(".") == 0);
}

Test(cli_options, help_and_version) {
    expect_part(output_of("--norm=rms --help --nonsense"), "Usage");
    cr_expect_str_eq(output_of("--version"), "normlab " VERSION "\n");
    cr_expect(files_in(".") == 0);
    if (!file_there("/dev/full")) skip("cli_options", "no /dev/full");
    static const char *const options[] = {"--help", "--version"};
    for (int i = 0; i < 2; i++)
        expect_refusal(train_in((struct surroundings){.output = "/dev/full"}, "%s", options[i]),
                       STATUS_MACHINE, "No space left on device");
}

TestSuite(presets, .init = text_enter, .fini = folder_leave);

Test(presets, learn_with_every_usual_norm) {
    static const char *const norms[] = {"ln", "bn", "rms"}, *const options[] = {"preset", "recipe"};
    for (int run = 0; run < 6; run++) {
        const struct option *option = options_find(config_options, options[run / 3]);
        for (int64_t i = 0; option_choice_of(option, i).name; i++) {
            const char *name = option_choice_of(option, i).name, *norm = norms[run % 3];
            output_of(TINY "--%s=%s --norm=%s --max-iters=60 --learning-rate=0.01 --eval-iters=4 "
                           "--force --quiet --out=out text.txt",
                      option->name, name, norm);
            struct log log = log_of("out");
            double first = log_number(&log, 0, VAL_LOSS), last = summary_number("out", "val_loss");
            cr_expect(last < first, "%s %s: from %g to %g", name, norm, first, last);
        }
    }
}

/* The configuration that a run with these options has. */
static char *config_of(const char *options) {
    output_of(TINY "%s --max-iters=0 --quiet --force --out=out text.txt", options);
    return file_text("out/config.ini", NULL);
}

Test(presets, other_options_override_them_anywhere) {
    static const char *const same[][2] = {
        {"--recipe=nanogpt", ""},
        {"--preset=llama --norm=ln", "--norm=ln --preset=llama"},
        {"--recipe=best --norm=ln --lr=0.1", "--lr=0.1 --norm=ln --recipe=best"},
        {"--recipe=best --preset=gpt2", "--preset=gpt2 --recipe=best"},
        // gpt2's block: of the recipe's, only what no preset sets is left
        {"--recipe=best --preset=gpt2 --placement=post",
         "--recipe=best --preset=gpt2 --postln --head=tied --position=learned --norm=ln"},
        {"--config=best.ini", "--recipe=best"},
        {"--recipe=best --config=best.ini --norm=bn", "--recipe=best --norm=bn"},
        {"--preset=gpt2 --config=best.ini", "--recipe=best --preset=gpt2"}};
    char *best = config_of("--recipe=best");
    file_put("best.ini", best, strlen(best));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        cr_expect_str_eq(config_of(same[i][0]), config_of(same[i][1]), "%s", same[i][0]);
}

/* config.json of the authors' models: rope_theta, and the epsilon of the norms. */
Test(presets, have_the_numbers_of_their_models) {
    static const char *const published[][3] = {
        {"gpt2", "norm-eps = 1e-05"},                         // openai-community/gpt2
        {"llama", "norm-eps = 1e-05", "rope-theta = 10000"},  // meta-llama/Llama-2-7b
        {"gemma2", "norm-eps = 1e-06", "rope-theta = 10000"}, // google/gemma-2-2b
        {"olmo2", "norm-eps = 1e-06", "rope-theta = 500000"}, // allenai/OLMo-2-1124-7B
        {"qwen3", "norm-eps = 1e-06", "rope-theta = 1e+06"}}; // Qwen/Qwen3-8B
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const char *config = config_of(say("--preset=%s", published[i][0]));
        for (int k = 1; k < 3 && published[i][k]; k++)
            expect_part(config, say("\n%s\n", published[i][k]));
    }
}

/* Presets and recipes: the numbers that the models' authors publish; that each learns with every usual
   norm: the loss of 60 updates is finite and falls; that other options override what they set, in any
   order. */
#include "model/lab/config.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

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
        for (int64_t i = 0; option->choice(i); i++)
            for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
                check_learns(option->name, option->choice(i), norms[k]);
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
            char line[64];
            snprintf(line, sizeof line, "\n%s\n", published[i][k]);
            cr_expect(strstr(config, line), "%s: no %s", published[i][0], published[i][k]);
        }
    }
}

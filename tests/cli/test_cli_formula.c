/* Norms that are formulas, on the command line: what is refused and how, the run's folder, and a run
   that stops and continues. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <string.h>

TestSuite(cli_formula, .init = folder_enter, .fini = folder_leave);

/* Runs the program with a norm, whose text has blanks, and with further words. */
static struct ending train_norm(const char *option, const char *norm, const char *words) {
    static const char start[] =
        "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=4 "
        "--sample=0 --grammar-chars=2000 --eval-interval=2 --log-interval=1";
    char line[512], *word[40];
    snprintf(line, sizeof line, "%s %s", start, words);
    const int count = split(line, word, 38);
    word[count] = say("--%s=%s", option, norm), word[count + 1] = NULL;
    return train_with((const char *const *)word);
}

/* A message says what is wrong, where, and what there is instead. */
Test(cli_formula, faults_are_shown_where_they_are) {
    static const char *const cases[][2] = {
        {"gamma * maen_c(x)",
         "no function maen_c (did you mean mean_c?): character 9, \"maen_c(x)\""},
        {"gama * x", "no value gama (did you mean gamma?): character 1"},
        {"q * x", "declared as in alpha * x; alpha = 1"},
        {"x +", "expected a value, such as x, 2 or mean_c(x): after x +"},
        {"(x", "expected ) or an operator"},
        {"x)", "this ) closes nothing: character 2"},
        {"2x + 1", "a product is written 2 * x"},
        {"x ^ y", "expected a number: character 5"},
        {"tanh(x, x)", "tanh takes one value"},
        {"max(x)", "expected , and a second value"},
        {"sqrt x + 1", "expected ( after the function sqrt"},
        {"mean_c(x) + 1", "one number for each token"},
        {"gamma + beta", "does not depend on x"},
        {"x / 0 + 1", "no finite value"},
        {"x * x; a = 1", "a is not used"},
        {"x * a; a = b", "numbers, options and C"},
        {"x * a; a = 1; a = 2", "declared twice"},
        {"mean_n(x) * x; groups", "groups cannot be combined"},
        {"((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((x",
         "too many parentheses"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *said =
            expect_refusal(train_norm("norm", cases[i][0], ""), STATUS_USAGE, "train: --norm: ");
        expect_part(said, cases[i][1]);
    }
    expect_part(
        expect_refusal(train_norm("qk-norm", "x *", ""), STATUS_USAGE, "train: --qk-norm: "),
        "expected a value");
    expect_part(train_refuses(STATUS_USAGE, "train: --norm=dty", "--norm=dty"),
                "did you mean dyt?");
}

Test(cli_formula, a_run_stops_and_continues) {
    const char *norm = "gamma * (x - mean_n(x)) /  rms_c(x - mean_n(x)) + beta";
    expect_done(train_norm("norm", norm, "--max-iters=6 --out=one --threads=1"));
    expect_done(train_norm("norm", norm, "--max-iters=3 --out=two --threads=2"));
    expect_done(train("--resume=two --max-iters=6"));
    expect_same_log("one", "two");
    expect_same_arrays("one/model.safetensors", "two/model.safetensors");
    expect_part(file_text("two/config.ini", NULL),
                "\nnorm = gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta\n");
    output_of("--evaluate=two --stats=other");
    output_of("--generate=two --num-chars=5");
}

/* A run without --out has a folder of a short name. */
Test(cli_formula, a_folder_is_not_named_by_a_formula) {
    expect_done(train_norm("norm", "gamma * x / (1 + abs(x))", "--max-iters=1"));
    cr_expect(file_text("runs/f029c69c0-pre-s1/log.csv", NULL));
}

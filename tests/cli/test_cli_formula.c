/* Norms that are formulas, on the command line: what is refused and how, the run's folder, and a run
   that stops and continues. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <math.h>
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
        {"gama * x", "no value gama (did you mean gamma?; "},
        {"q * x", "declared as in alpha * x; alpha = 1"},
        {"x +", "expected a value, such as x, 2 or mean_c(x): after x +"},
        {"(x", "expected ) or an operator"},
        {"x)", "this ) closes nothing: character 2"},
        {"2x + 1", "a product is written 2 * x"},
        {"x**2", "expected a value, such as x, 2 or mean_c(x) (a power is x^2): character 3"},
        {"x + |x|", "(an absolute value is abs(x)): character 5"},
        {"delta * abs(x)", "(did you mean beta?; \"; delta = 1\" at the end declares it)"},
        {"x ^ y", "expected a number, such as 0.5: character 5"},
        {"tanh(x, x)", "tanh takes one value"},
        {"max(x)", "expected , and a second value"},
        {"sqrt x + 1", "expected ( after the function sqrt"},
        {"mean_c(x) + 1", "one number for each token"},
        {"gamma + beta", "does not depend on x"},
        {"x / 0 + 1", "no finite value"},
        {"x * x; a = 1", "a is not used"},
        {"x * weight; weight = 1", "weight is the name of another tensor in a model's file"},
        {"x * running_var; running_var = 1", "running_var is the name of another tensor"},
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

/* What --show-norm prints of a norm. */
static const char *shown(const char *norm) {
    struct ending ending = train_with(
        (const char *const[]){say("--show-norm=%s", norm), "--n-embd=8", "--n-head=2", NULL});
    expect_done(ending);
    return say("%s", ending.out);
}

/* Numbers added to and factors of a token, and of a channel, change what these words say. */
static void expect_effects(const char *norm, const char *others, const char *const effect[4]) {
    static const char *const of[] = {"a number added to a token's channels        ",
                                     "a token multiplied by a positive number     ",
                                     "a number added to a channel of all tokens   ",
                                     "a channel multiplied by a positive number   "};
    const char *text = shown(norm);
    expect_part(text, say("a token's output depends on                 %s", others));
    for (int i = 0; i < 4; i++) expect_part(text, say("\n  %s%s\n", of[i], effect[i]));
}

Test(cli_formula, a_norm_is_known_by_what_changes_nothing) {
    static const char none[] = "changes nothing", eps[] = "changes nothing, up to eps",
                      some[] = "changes the output";
    static const char alone[] = "no other token\n", all[] = "every token of the batch: later ones";
    expect_effects("ln", alone, (const char *const[]){none, eps, some, some});
    expect_effects("gn", alone, (const char *const[]){none, eps, some, some});
    expect_effects("rms", alone, (const char *const[]){some, eps, some, some});
    expect_effects("l2", alone, (const char *const[]){some, none, some, some});
    expect_effects("dyt", alone, (const char *const[]){some, some, some, some});
    expect_effects("bn", all, (const char *const[]){some, some, none, eps});
    expect_effects("x - mean_n(x)", all, (const char *const[]){some, some, none, some});
    expect_part(shown("log(x)"), "a token multiplied by a positive number     unknown");
}

Test(cli_formula, a_gradient_is_shown_step_by_step) {
    expect_part(shown("ln"), "\n  gamma: 8 numbers, learned, initially 1\n"
                             "  beta: 8 numbers, learned, initially 0\n"
                             "  --norm-eps=1e-05\n"
                             "  16 learned numbers in each norm of 8 channels (--n-embd)\n"
                             "\nforward\n"
                             "  t1 = mean_c(x)\n"
                             "  t2 = x - t1\n"
                             "  t3 = x - stop(t1)\n"
                             "  t4 = mean_c(t3^2)\n"
                             "  t5 = 1 / sqrt(t4 + eps)\n"
                             "  y = t2 * gamma * t5 + beta\n"
                             "\nbackward, from dy; sum_n is over the tokens of the batch\n"
                             "  dbeta = sum_n(dy)\n"
                             "  t6 = t2 * dy\n"
                             "  t7 = mean_c(t6 * gamma)\n"
                             "  t8 = dy * gamma\n"
                             "  dgamma = sum_n(t6 * t5)\n"
                             "  t9 = mean_c(t8)\n"
                             "  dx = t8 * t5 - t3 * t5^3 * t7 - t5 * t9\n");
    expect_part(shown("l2"), "t4 = sum_c(x * dy)\n");
    expect_part(shown("bn"), "3 forward, 2 backward\n");
    expect_part(shown("dyt"), "alpha: 1 number, learned, initially 0.5\n");
    expect_part(shown("none"), "\n  y = x\n");
    expect_part(shown("none"), "\n  dx = dy\n");
    expect_part(shown("x * stop(gamma)"), "\n  dgamma = 0\n");
    cr_expect_str_eq(output_of("--show-norm --norm=rms"), output_of("--show-norm=rms"));
    expect_part(shown("gated"), "gated: has no formula whose gradient could be shown: y = n sig");
    expect_refusal(train("--show-norm=gn --norm-groups=3"), STATUS_USAGE,
                   "train: --show-norm: its");
    expect_refusal(train_norm("show-norm", "gama * x", ""), STATUS_USAGE,
                   "train: --show-norm: there is no value gama");
}

/* A run without --out has a folder of a short name. */
Test(cli_formula, a_folder_is_not_named_by_a_formula) {
    expect_done(train_norm("norm", "gamma * x / (1 + abs(x))", "--max-iters=1"));
    cr_expect(file_text("runs/f029c69c0-pre-s1/log.csv", NULL));
}

/* A run that diverges in a formula names the norm and the operation, of its gradient too. */
Test(cli_formula, nan_and_infinity_are_found_in_the_formula) {
    static const char *const cases[][2] = {
        {"gamma * log(x - 100)", "; the formula of the norm transformer.h.0.ln_1 computes log(-"},
        {"x / (gamma - 1)", "; the formula of the norm transformer.h.0.ln_1 computes 1 / 0 ("},
        {"exp(99 + x)", "; the formula of the norm transformer.h.0.ln_1 computes exp(9"},
        {"x + relu(x) ^ 0.3", "; the gradient of the norm transformer.ln_f computes log(0) ("},
        {"x / (gamma - mean_n(1 + 0 * x))", "computes 1 / 0 ("},
        {"gamma * log(x - 100); groups", "the norm transformer.h.0.ln_1 computes log(-"},
        {"gamma * (x + relu(x) ^ 0.3); groups", "the norm transformer.ln_f computes log(0) ("}};
    static const char *const elsewhere[][3] = {
        {"qk-norm", "gamma * log(x - 100)", "the formula of the norm transformer.h.0.attn.q_norm"},
        {"v-norm", "x + relu(x) ^ 0.3", "the gradient of the norm transformer.h.0.attn.v_norm"},
        {"norm-attn", "gamma * log(x - 100)",
         "the norm transformer.h.0.ln_1_second computes log("}};
    const char *words = "--max-iters=3 --quiet";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_part(expect_refusal(train_norm("norm", cases[i][0], words), STATUS_DIVERGED,
                                   "train: diverged at step "),
                    cases[i][1]);
    for (int i = 0; i < 3; i++) {
        words = i < 2 ? "--max-iters=3 --quiet" : "--max-iters=3 --quiet --placement=siamese";
        expect_part(expect_refusal(train_norm(elsewhere[i][0], elsewhere[i][1], words),
                                   STATUS_DIVERGED, "train: diverged at step "),
                    elsewhere[i][2]);
    }
}

Test(cli_formula, the_same_bits_for_any_number_of_threads) {
    static const char *const norms[] = {
        "gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta * var_n(x)",
        "gamma * tanh(s * x) * max_c(x) + beta; s[1] = 0.5"};
    static const int threads[] = {2, 3, 8};
    for (int i = 0; i < 2; i++) {
        const char *words = "--max-iters=4 --batch-size=25 --force --out=%s --threads=%d";
        expect_done(train_norm("norm", norms[i], say(words, "one", 1)));
        for (int k = 0; k < 3; k++) {
            expect_done(train_norm("norm", norms[i], say(words, "more", threads[k])));
            expect_same_log("one", "more");
            expect_same_arrays("one/model.safetensors", "more/model.safetensors");
        }
    }
}

/* Over 200 updates of models of three sizes. Kinds that are only a formula are written in another way
   than in their row. */
Test(cli_formula, a_formula_trains_as_its_kind_does) {
    static const char *const norms[][2] = {
        {"ln", "gamma * (x - mean_c(x)) / sqrt(var_c(x) + eps) + beta"},
        {"rms", "gamma * x / rms_c(x)"},
        {"bn", "gamma * (x - mean_n(x)) / sqrt(var_n(x) + eps) + beta"},
        {"gn", "gamma * (x - mean_c(x)) / sqrt(var_c(x) + eps) + beta; groups"},
        {"dyt", "gamma * tanh(alpha * x) + beta; alpha[1] = dyt_alpha"},
        {"derf", "beta - erf(-(shift + x * a)) * gamma; a[1] = dyt_alpha; shift[1] = 0"},
        {"bhyt", "tanh(x / rms_c(x) * a / bhyt_kappa) * gamma; a[1] = bhyt_lambda"},
        {"seednorm",
         "x * (a * tanh(sum_c(b * x)) + gamma) / (mean_c(x * x) + eps)^0.5; b = 0; a = 1"},
        {"scale", "x / max(eps, sum_c(x * x)^0.5) * gamma; gamma[1] = sqrt(C)"},
        {"l2", "x / max(eps, sum_c(x * x)^0.5)"}};
    static const char *const sizes[] = {"", "--batch-size=7 --block-size=5 --qk-norm=on",
                                        "--n-layer=2 --n-embd=24 --n-head=3 --placement=post"};
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 3; k++) {
            const char *words = "--max-iters=200 --warmup-iters=20 --bias=off --force --out=%s %s";
            expect_done(train_norm("norm", norms[i][0], say(words, "kind", sizes[k])));
            expect_done(train_norm("norm", norms[i][1], say(words, "typed", sizes[k])));
            const struct log kind = log_of("kind"), typed = log_of("typed");
            cr_expect(kind.rows > 200 && typed.rows == kind.rows);
            for (int row = 0; row < kind.rows; row++)
                if (*kind.cell[row][TRAIN_LOSS]) {
                    const double want = log_number(&kind, row, TRAIN_LOSS);
                    const double got = log_number(&typed, row, TRAIN_LOSS);
                    cr_expect(fabs(got - want) < 1e-4, "%s, size %d, row %d: %.6f, not %.6f",
                              norms[i][0], k, row, got, want);
                }
        }
}

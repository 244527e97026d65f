/* Stored models in use: --generate and --evaluate. */
#include "data/die.h"
#include "data/text/utf8.h"
#include "model/model.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(generate, .init = text_enter, .fini = folder_leave);
TestSuite(evaluate, .init = text_enter, .fini = folder_leave);

#define LEARNED                                                                                    \
    TINY "--quiet --max-iters=30 --learning-rate=0.02 --eval-iters=0 --eval-interval=1000 "        \
         "--log-interval=1000 "

static void learn(const char *options) {
    expect_done(train(LEARNED "%s", options));
}

/* What the command line prints; fails unless it succeeds and reports nothing else. */
static char *written(const char *options) {
    struct ending ending = train("%s", options);
    cr_assert(ending.status == 0 && !*ending.err, "%s: %s", options, ending.err);
    return say("%s", ending.out);
}

static size_t characters(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    size_t bytes = strlen(text), count = 0;
    for (size_t at = 0; at < bytes; count++)
        cr_assert(utf8_decode(c, bytes, &at) >= 0, "not UTF-8: %s", text);
    return count;
}

/* A model that was read from its file generates what it generated in memory. */
static void check_sample(const char *model) {
    learn(say("%s --sample=60 --out=out --force text.txt", model));
    char *sample = file_text("out/sample.txt", NULL),
         *text = written("--generate=out --num-chars=60");
    cr_expect(strlen(text) == 61 && !strncmp(text, sample, 60) && text[60] == '\n', "%s, not %s",
              text, sample);
    cr_expect_str_eq(written("--generate=out/model.safetensors --num-chars=60 --threads=3"), text);
}

static void check_equals_the_sample_of_the_run(const struct pair *pair) {
    check_sample(pair_options(pair));
}

Test(generate, equals_the_sample_of_the_run) {
    every_row(check_equals_the_sample_of_the_run);
}

Test(generate, equals_the_sample_of_a_run_by_position) {
    check_sample("--norm=bn --bn-axis=batch");
}

Test(generate, what_the_options_say) {
    learn("--out=out text.txt");
    char *text = written("--generate=out --prompt=the --num-chars=40 --seed=1");
    cr_expect(strlen(text) == 44 && !strncmp(text, "the", 3));
    cr_expect_str_eq(written("--generate=out --prompt the --num-chars 40"), text);
    cr_expect_str_neq(written("--generate=out --prompt=the --num-chars=40 --seed=2"), text);
    char *likeliest = written("--generate=out --prompt=the --num-chars=40 --temperature=0");
    cr_expect_str_eq(written("--generate=out --prompt=the --num-chars=40 --top-k=1"), likeliest);
    cr_expect_str_eq(written("--generate=out --prompt=the --num-chars=40 --temperature=0 --seed=9"),
                     likeliest);
    cr_expect_str_eq(written("--generate=out --prompt=the --num-chars=0"), "the\n");
    cr_expect_str_eq(written("--generate=out --num-chars=0"), "\n");
    cr_expect(strlen(written("--generate=out")) == 501, "500 by default");
    cr_expect(files_in("out") == 6, "something was written");
    struct ending ending = train("--generate=out --sample=20");
    cr_expect(strlen(ending.out) == 501);
    cr_expect(strstr(ending.err, "no effect: --sample (only in training)"), "%s", ending.err);
}

/* Fails if --stop ends a text of "the" by a character that is not new, and the first one that is. */
static void expect_not_stopped(const char *text, char before) {
    char stop[] = {'-', '-', 's', 't', 'o', 'p', '=', before, text[3], 0};
    const char *const words[] = {
        getenv("TRAIN"), "--generate=out", "--prompt=the", "--num-chars=200", stop, NULL};
    const char *found = strstr(text + 3, stop + 7);
    size_t length = found ? (size_t)(found - text) + 2 : strlen(text) - 1;
    struct ending ending = train_with(words + 1);
    cr_expect(ending.status == 0 && strlen(ending.out) == length + 1, "%s: %s", stop, ending.out);
}

/* --stop ends a text after the first of its kind, in what is new; --num-samples continues the same
   random stream. */
Test(generate, stop_and_samples) {
    learn("--out=out text.txt");
    char *text = written("--generate=out --prompt=the --num-chars=200");
    int tried = 0;
    for (size_t at = 5; at < 60; at += 3) {
        char stop[3] = {text[at], text[at + 1], 0};
        if (strpbrk(stop, " \n-")) continue; // not part of a word of the command line
        tried++;
        const char *first = strstr(text + 3, stop);
        char *stopped = written(say("--generate=out --prompt=the --num-chars=200 --stop=%s", stop));
        size_t length = (size_t)(first - text) + 2;
        cr_expect(strlen(stopped) == length + 1 && !strncmp(stopped, text, length), "%s: %s", stop,
                  stopped);
    }
    cr_expect(tried > 3, "%s", text);
    cr_expect_str_eq(written("--generate=out --prompt=the --num-chars=200 --stop=ggggg"), text);
    expect_not_stopped(text, text[2]); // the prompt's last character
    expect_not_stopped(text, '\n');    // the first of the vocabulary
    char *three = written("--generate=out --prompt=the --num-chars=20 --num-samples=3");
    char *one = written("--generate=out --prompt=the --num-chars=20");
    one[strlen(one) - 1] = 0;
    cr_expect(!strncmp(three, one, strlen(one)) && strlen(three) == 3 * 23 + 2 * 5 + 1, "%s",
              three);
    cr_expect(!strncmp(three + 23, "\n---\nthe", 8) && !strncmp(three + 51, "\n---\nthe", 8), "%s",
              three);
    cr_expect(strncmp(three + 28, three + 56, 23) != 0, "the same twice: %s", three);
    train_refuses(STATUS_USAGE, "--stop: has U+00E9", "--generate=out --stop=\xc3\xa9");
}

/* Texts longer than the block, and prompts longer than it: a long text and the same text given its
   own beginning as a prompt continue alike, since the window depends on the text alone. */
Test(generate, any_length) {
    learn("--norm=bn --out=out text.txt");
    char *text = written("--generate=out --prompt=a --num-chars=300 --temperature=0");
    cr_expect(strlen(text) == 302);
    for (int given = 1; given < 60; given += 7) {
        char *options = say("%.*s", given, text);
        const char *arguments[] = {"--generate=out", "--temperature=0", "--num-chars=100",
                                   "--prompt",       options,           NULL};
        struct ending ending = train_with(arguments);
        cr_expect(ending.status == 0 && !strncmp(ending.out, text, (size_t)given + 100), "%d: %s",
                  given, ending.out);
    }
}

Test(generate, prompts_that_cannot_be) {
    learn("--out=out text.txt");
    static const struct {
        const char *prompt, *why;
    } bad[] = {{"the Cat", "--prompt: has U+0043 (C), which the model's vocabulary lacks"},
               {"a\xc3\xa9", "has U+00E9 (\xc3\xa9), "},
               {"a\tb", "has U+0009, "},
               {"the \xff", "--prompt: not UTF-8 at byte 4, 0xff"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *arguments[] = {"--generate=out", "--prompt", bad[i].prompt, NULL};
        struct ending ending = train_with(arguments);
        expect_refusal(&ending, STATUS_USAGE, bad[i].why);
    }
}

Test(generate, texts_of_bytes_are_written_as_utf_8) {
    FILE *file = fopen("bytes.txt", "wb");
    for (int i = 0; i < 400; i++) fputs("\xe4\xb8\xad\xff\xf0\x9f\x98\x81 a\xc3", file);
    fclose(file);
    learn("--level=byte --max-iters=3 --out=out bytes.txt");
    cr_expect(characters(written("--generate=out --num-chars=400 --temperature=2")) > 100);
    const char *arguments[] = {"--generate=out", "--num-chars=0", "--prompt", "a\xff\xe4\xb8",
                               NULL};
    struct ending ending = train_with(arguments);
    cr_expect_str_eq(ending.out, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n");
}

Test(generate, what_contradicts_the_model_is_refused) {
    learn("--out=out text.txt");
    train_refuses(STATUS_USAGE, "--norm=bn: contradicts --norm=ln of out/model.safetensors",
                  "--generate=out --norm=bn");
    train_refuses(STATUS_USAGE, "--block-size=16: contradicts --block-size=8",
                  "--generate=out --block-size=16");
    train_refuses(STATUS_USAGE, "--generate needs no corpus", "--generate=out text.txt");
    train_refuses(STATUS_USAGE, "contradict each other (give one of them)",
                  "--generate=out --evaluate=out");
    train_refuses(STATUS_MACHINE, "nowhere: No such file or directory", "--generate=nowhere");
    train_refuses(STATUS_MACHINE, "text.txt: not a valid safetensors file", "--generate=text.txt");
}

/* The number after "loss ". */
static double loss_of(const char *line) {
    double loss = NAN;
    cr_assert(sscanf(line, "loss %lf nats per character", &loss) == 1, "%s", line);
    return loss;
}

/* The fraction of characters that the model found likeliest, as the run's summary has it. */
Test(evaluate, gives_the_accuracy_of_the_summary) {
    learn("--out=out text.txt");
    char *member = strstr(file_text("out/summary.json", NULL), "\"val_accuracy\": ");
    cr_assert(member != NULL);
    double accuracy = atof(strchr(member, ':') + 1);
    cr_expect(accuracy > 0.05 && accuracy < 1);
    char *want = say("; accuracy %.4f: ", accuracy);
    cr_expect(strstr(written("--evaluate=out"), want), "no%s", want);
}

static void check_last_loss(const struct pair *pair) {
    learn(say("%s --out=out --force text.txt", pair_options(pair)));
    struct log log = log_of("out");
    char *want = say("loss %s nats per character, ", log.cell[log.rows - 1][VAL_LOSS]);
    char *text = written("--evaluate=out");
    cr_expect(!strncmp(text, want, strlen(want)), "%s, not %s", text, want);
    cr_expect(strstr(text, ": the validation split of text.txt, 199 characters\n"), "%s", text);
    cr_expect_str_eq(written("--evaluate=out text.txt --threads=3"), text);
}

Test(evaluate, gives_the_last_loss_of_the_log) {
    every_row(check_last_loss);
}

Test(evaluate, another_corpus_is_measured_as_a_whole) {
    learn("--eval-iters=1 --out=out text.txt");
    corpus_put_tiny("other.txt", 801); // full blocks of 8, and the character before them
    char *text = written("--evaluate=out other.txt");
    cr_expect(strstr(text, ": other.txt, 800 characters\n"), "%s", text);
    cr_expect(loss_of(text) < log(14) && loss_of(text) > 0.01);
    double usual = loss_of(text);
    cr_expect_float_eq(loss_of(written("--evaluate=out other.txt --batch-size=7")), usual, 1e-5);
    file_put("two.txt", "at", 2);
    cr_expect(strstr(written("--evaluate=out two.txt"), ": two.txt, 1 characters\n"));
    struct ending ending =
        train_in((struct surroundings){.input = "other.txt"}, "--evaluate=out -");
    cr_expect(ending.status == 0 && fabs(loss_of(ending.out) - usual) < 1e-12, "%s", ending.err);
}

Test(evaluate, what_cannot_be_measured) {
    learn("--out=out text.txt");
    file_put("one.txt", "a", 1);
    train_refuses(STATUS_USAGE, "one.txt: needs at least two characters to be measured",
                  "--evaluate=out one.txt");
    file_put("other.txt", "a Cat", 5);
    train_refuses(STATUS_MACHINE, "other.txt: has U+0043 (C), which the model's vocabulary lacks",
                  "--evaluate=out other.txt");
    train_refuses(STATUS_USAGE, "--n-layer=2: contradicts --n-layer=1",
                  "--evaluate=out --n-layer=2");
    cr_assert(!remove("text.txt"));
    train_refuses(STATUS_MACHINE, "text.txt: No such file or directory", "--evaluate=out");
}

Test(evaluate, the_grammar) {
    learn("--grammar-chars=3000 --out=out");
    struct log log = log_of("out");
    char *text = written("--evaluate=out");
    cr_expect_float_eq(loss_of(text), log_number(&log, log.rows - 1, VAL_LOSS), 1e-7);
    cr_expect(strstr(text, "the validation split of the built-in grammar"));
}

/* The loss in the line that begins with the source's name. */
static double loss_by(const char *table, const char *source) {
    for (const char *line = table; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, source, strlen(source)) && line[strlen(source)] == ' ')
            return strtod(line + strlen(source), NULL);
    }
    cr_assert(false, "no %s in %s", source, table);
    return NAN;
}

Test(evaluate, by_every_source_of_statistics) {
    learn("--norm=bn --out=out text.txt");
    char *table = written("--evaluate=out --stats=all");
    static const char *const sources[] = {"running", "own", "other", "single", "position"};
    for (int i = 0; i < 5; i++) {
        double loss = loss_by(table, sources[i]);
        char *options = say("--evaluate=out --stats=%s", sources[i]);
        char *want = say("loss %.9g nats", loss);
        char *alone = written(options);
        cr_expect(loss > 0.1 && !strncmp(alone, want, strlen(want)), "%s: %s", sources[i], alone);
        cr_expect((loss == loss_by(table, "running")) == !i, "%s: %g", sources[i], loss);
    }
    learn("--norm=ln --out=ln text.txt");
    table = written("--evaluate=ln --stats=all");
    cr_expect(strstr(table, "\nposition   -\n"), "%s", table);
    cr_expect(fabs(loss_by(table, "single") - loss_by(table, "running")) < 1e-6, "%s", table);
    struct ending ending = train("--evaluate=ln --stats=position");
    cr_expect(ending.status == STATUS_USAGE && strstr(ending.err, "--stats=position"), "%s",
              ending.err);
}

/* With pn-v, --stats=other with the measured batch itself would give the loss of --stats=own. */
Test(evaluate, statistics_of_another_batch_are_not_its_own) {
    learn("--norm=pn-v --out=out text.txt");
    char *table = written("--evaluate=out --stats=all");
    cr_expect(fabs(loss_by(table, "other") - loss_by(table, "own")) > 1e-4, "%s", table);
}

/* Its penalty does not belong to a forward pass. */
Test(evaluate, regularized_batchnorm_by_every_source) {
    learn("--norm=bn --rbn-mean=1 --rbn-var=1 --out=out text.txt");
    cr_expect(loss_by(written("--evaluate=out --stats=all"), "position") > 0.1);
}

/* A single batch has no other batch to take statistics from. */
Test(evaluate, one_batch_has_no_other) {
    learn("--norm=bn --batch-size=2 --out=out text.txt");
    const char *texts[] = {"a cat", "a cat a cat a cat"}; // a part of a batch; exactly one
    for (int i = 0; i < 2; i++) {
        file_put("short.txt", texts[i], strlen(texts[i]));
        char *table = written("--evaluate=out --stats=all short.txt");
        cr_expect(strstr(table, "\nother      -\n"), "%s", table);
        struct ending ending = train("--evaluate=out --stats=other short.txt");
        cr_expect(ending.status == STATUS_USAGE &&
                      strstr(ending.err, "short.txt is only one batch"),
                  "%s", ending.err);
    }
}

Test(evaluate, how_far_the_future_is_seen) {
    static const char *const norms[] = {"ln", "rms", "bn", "in"};
    for (int i = 0; i < 4; i++) {
        char *options = say("--norm=%s --out=%s text.txt", norms[i], norms[i]);
        learn(options);
        options = say("--evaluate=%s --leak", norms[i]);
        const char *line = strstr(written(options), "\n     t ");
        cr_assert(line != NULL);
        int rows = 0, position;
        double change[4];
        while ((line = strchr(line + 1, '\n')) &&
               sscanf(line, "%d %lf %lf %lf %lf", &position, &change[0], &change[1], &change[2],
                      &change[3]) == 5) {
            rows++;
            cr_expect(change[0] == 0 && change[1] == 0, "%s in evaluation: %g", norms[i],
                      change[0]);
            cr_expect((change[2] > 1e-4 && change[3] > 0) == (i >= 2) &&
                          (change[2] == 0) == (i < 2),
                      "%s in training: %g", norms[i], change[2]);
        }
        cr_expect(rows >= 5, "%d rows", rows);
    }
}

Test(evaluate, what_measures_belong_to) {
    static const char *const refused[][2] = {{"--items --corpus=random", "--items"},
                                             {"--stats=mine --evaluate=out", "--stats"}};
    for (int i = 0; i < 2; i++) {
        struct ending ending = train("%s", refused[i][0]);
        cr_expect(ending.status == STATUS_USAGE && strstr(ending.err, refused[i][1]), "%d: %s",
                  ending.status, ending.err);
    }
    struct ending ending = train(TINY "--max-iters=1 --stats=own --leak --force text.txt");
    cr_expect(ending.status == 0 && strstr(ending.err, "no effect: --stats") &&
                  strstr(ending.err, "--leak (only with --evaluate)"),
              "%d: %s", ending.status, ending.err);
}

/* Stored models in use: --generate and --evaluate. */
#include "data/die.h"
#include "data/text/utf8.h"
#include "model/model.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
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

/* A model that was read from its file generates what it generated in memory, and its loss is the
   last one of the log. */
static void check_use(const char *model) {
    learn(say("%s --sample=60 --out=out --force text.txt", model));
    char *text = output_of("--generate=out --num-chars=60"), *loss = output_of("--evaluate=out");
    cr_expect_str_eq(text, say("%s\n", file_text("out/sample.txt", NULL)));
    cr_expect_str_eq(output_of("--generate=out/model.safetensors --num-chars=60 --threads=3"),
                     text);
    struct log log = log_of("out");
    expect_part(loss, say("loss: %s nats per character\n", log.cell[log.rows - 1][VAL_LOSS]));
    expect_part(loss, ": the validation split of text.txt, 199 characters\n");
    cr_expect_str_eq(output_of("--evaluate=out --threads=3"), loss);
}

static void check_use_of_pair(const struct pair *pair) {
    check_use(pair_options(pair));
}

Test(generate, a_stored_model_is_the_model_in_memory) {
    every_row(check_use_of_pair);
    check_use("--norm=bn --bn-axis=batch");
    check_use("--norm=ln --attn-gate=element"); // the widest weight that attention has
}

#define GENERATE "--generate=out --prompt=the --num-chars=40 "

Test(generate, what_the_options_say) {
    learn("--out=out text.txt");
    char *text = output_of(GENERATE "--seed=1"), *likeliest = output_of(GENERATE "--temperature=0");
    cr_expect(strlen(text) == 44 && !strncmp(text, "the", 3));
    cr_expect_str_eq(output_of("--generate=out --prompt the --num-chars 40"), text);
    cr_expect_str_neq(output_of(GENERATE "--seed=2"), text);
    cr_expect_str_eq(output_of(GENERATE "--top-k=1"), likeliest);
    cr_expect_str_eq(output_of(GENERATE "--temperature=0 --seed=9"), likeliest);
    cr_expect_str_eq(output_of(GENERATE "--num-chars=0"), "the\n");
    cr_expect_str_eq(output_of("--generate=out --num-chars=0"), "\n");
    cr_expect(strlen(output_of("--generate=out")) == 501, "500 by default");
    cr_expect(files_in("out") == 6, "something was written");
}

/* --stop ends a text after the first of its kind, in what is new; --num-samples continues the same
   random stream. */
Test(generate, stop_and_samples) {
    learn("--out=out text.txt");
    char *text = output_of("--generate=out --prompt=the --num-chars=200");
    char stops[22][3] = {{text[2], text[3]}, {'\n', text[3]}}; // begin in the prompt, or nowhere
    for (int i = 2; i < 22; i++) memcpy(stops[i], text + 3 * i, 2);
    for (int i = 0; i < 22; i++) {
        const char *found = strstr(text + 3, stops[i]);
        size_t length = found ? (size_t)(found - text) + 2 : strlen(text) - 1;
        const char *const words[] = {"--generate=out", "--prompt=the", "--num-chars=200",
                                     "--stop",         stops[i],       NULL};
        cr_expect_str_eq(train_with(words).out, say("%.*s\n", (int)length, text), "%s", stops[i]);
    }
    char *three = output_of("--generate=out --prompt=the --num-chars=20 --num-samples=3");
    char *one = output_of("--generate=out --prompt=the --num-chars=20");
    cr_expect(!strncmp(three, one, 23) && strlen(three) == 3 * 23 + 2 * 5 + 1, "%s", three);
    cr_expect(!strncmp(three + 23, "\n---\nthe", 8) && !strncmp(three + 51, "\n---\nthe", 8), "%s",
              three);
    cr_expect(strncmp(three + 28, three + 56, 23) != 0, "the same twice: %s", three);
    train_refuses(STATUS_USAGE, "--stop: has U+00E9", "--generate=out --stop=\xc3\xa9");
}

/* Texts longer than the block, and prompts longer than it: a long text and the same text given its
   own beginning as a prompt continue alike, since the window depends on the text alone. */
Test(generate, any_length) {
    learn("--norm=bn --out=out text.txt");
    char *text = output_of("--generate=out --prompt=a --num-chars=300 --temperature=0");
    cr_expect(strlen(text) == 302);
    for (int given = 1; given < 60; given += 7) {
        const char *prompt = say("--prompt=%.*s", given, text);
        const char *words[] = {"--generate=out", "--temperature=0", "--num-chars=100", prompt,
                               NULL};
        cr_expect_str_eq(train_with(words).out, say("%.*s\n", given + 100, text), "%d", given);
    }
}

Test(generate, prompts_that_cannot_be) {
    learn("--out=out text.txt");
    static const char *const bad[][2] = {
        {"--prompt=the Cat", "--prompt: has U+0043 (C), which the model's vocabulary lacks"},
        {"--prompt=a\xc3\xa9", "has U+00E9 (\xc3\xa9), "},
        {"--prompt=a\tb", "has U+0009, "},
        {"--prompt=the \xff", "--prompt: not UTF-8 at byte 4, 0xff"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_refusal(train_with((const char *[]){"--generate=out", bad[i][0], NULL}),
                       STATUS_USAGE, bad[i][1]);
    }
}

/* Puts a model of bytes into out/. */
#define BYTES "--generate=out --num-chars=400 --temperature=2 "
static void learn_bytes(void) {
    FILE *file = fopen("bytes.txt", "wb");
    for (int i = 0; i < 400; i++) fputs("\xe4\xb8\xad\xff\xf0\x9f\x98\x81 a\xc3", file);
    fclose(file);
    learn("--level=byte --max-iters=3 --out=out bytes.txt");
}

Test(generate, bytes_are_written_as_they_are) {
    learn_bytes();
    size_t bytes;
    const char *text = output_of(BYTES);
    cr_expect(strlen(text) == 401 && strchr(text, '\xff') && !strstr(text, "\xef\xbf\xbd"));
    cr_expect_str_eq(output_of("--generate=out --num-chars=0 --prompt=a\xff\xe4\xb8"),
                     "a\xff\xe4\xb8\n");
    learn("--level=byte --max-iters=3 --sample=400 --out=sampled bytes.txt");
    const char *sample = file_text("sampled/sample.txt", &bytes);
    cr_expect(bytes == 400 && strchr(sample, '\xff') && !strstr(sample, "\xef\xbf\xbd"));
}

/* Only a terminal, for which script(1) stands, gets U+FFFD for bytes that are not UTF-8. */
Test(generate, a_terminal_gets_characters) {
    if (bash("command -v script").status) skip("generate", "no script (apt-get install bsdutils)");
    learn_bytes();
    size_t offset = 0;
    struct ending shown = bash("script -qec \"'$TRAIN' " BYTES "\" /dev/null");
    while (offset < strlen(shown.out))
        cr_assert(utf8_decode((unsigned char *)shown.out, strlen(shown.out), &offset) >= 0);
    expect_part(shown.out, "\xef\xbf\xbd");
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

/* The fraction of characters that the model found likeliest, as the run's summary has it. A cap so
   low that nearly half of all characters are equally likely makes it a guess. */
Test(evaluate, gives_the_accuracy_of_the_summary) {
    learn("--out=out text.txt");
    learn("--logit-softcap=1e-6 --out=capped text.txt");
    const double accuracy[] = {summary_number("out", "val_accuracy"),
                               summary_number("capped", "val_accuracy")};
    cr_expect(accuracy[0] > 0.05 && accuracy[0] < 1);
    cr_expect(accuracy[1] > 0 && accuracy[1] < 0.2, "%g", accuracy[1]);
    expect_part(output_of("--evaluate=out"), say("\naccuracy: %.4f\n", accuracy[0]));
    expect_part(output_of("--evaluate=capped"), say("\naccuracy: %.4f\n", accuracy[1]));
}

Test(evaluate, another_corpus_is_measured_as_a_whole) {
    learn("--eval-iters=1 --out=out text.txt");
    corpus_put_tiny("other.txt", 801); // full blocks of 8, and the character before them
    char *text = output_of("--evaluate=out other.txt");
    double usual = loss_in(text);
    expect_part(text, ": other.txt, 800 characters\n");
    cr_expect(usual < log(14) && usual > 0.01);
    cr_expect_float_eq(loss_in(output_of("--evaluate=out other.txt --batch-size=7")), usual, 1e-5);
    file_put("two.txt", "at", 2);
    expect_part(output_of("--evaluate=out two.txt"), ": two.txt, 1 characters\n");
    struct ending ending =
        train_in((struct surroundings){.input = "other.txt"}, "--evaluate=out -");
    cr_expect_float_eq(loss_in(ending.out), usual, 1e-12);
}

/* Also if it is the text that the model was trained on, whose split is measured if none is named. */
Test(evaluate, all_of_a_text_that_is_named_is_measured) {
#define NO_EFFECT(option) "no effect: --" option " (not with a corpus for --evaluate)"
    size_t bytes;
    learn("--hold-out=0.2 --out=out text.txt");
    char *text = file_text("text.txt", &bytes);
    file_put("copy.txt", text, bytes);
    file_put("longer.txt", say("%sa", text), bytes + 1);
    const char *unchanged = output_of("--evaluate=out text.txt");
    expect_part(unchanged, ": text.txt, 1999 characters\n");
    expect_part(output_of("--evaluate=out --corpus=copy.txt"),
                say("loss: %.9g nats", loss_in(unchanged)));
    expect_part(output_of("--evaluate=out longer.txt"), ": longer.txt, 2000 characters\n");
    cr_expect(fabs(loss_in(output_of("--evaluate=out longer.txt")) - loss_in(unchanged)) < 0.02);
    expect_part(train("--evaluate=out --val-fraction=0.5 text.txt").err, NO_EFFECT("val-fraction"));
    expect_part(train("--evaluate=out text.txt --hold-out=0").err, NO_EFFECT("hold-out"));
    expect_part(output_of("--evaluate=out --hold-out=0 --val-fraction=0.5"),
                ": the validation split of text.txt, 999 characters\n");
    file_put("text.txt", text, bytes - 1); // the run's own text has changed
    struct ending ending = train("--evaluate=out");
    expect_part(ending.out, ": text.txt, 1998 characters\n");
    expect_part(ending.err, "note: text.txt has changed since the model was trained");
    items_put("items.txt", 100);
    learn("--items --out=items items.txt");
    expect_part(output_of("--evaluate=items items.txt"), " and ends of 100 items\n");
    expect_part(output_of("--evaluate=items"), " and ends of 10 items\n");
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
    char *text = output_of("--evaluate=out");
    cr_expect_float_eq(loss_in(text), summary_number("out", "val_loss"), 1e-7);
    expect_part(text, "the validation split of the built-in grammar");
}

/* The loss in the line that begins with the source's name. */
static double loss_by(const char *table, const char *source) {
    const char *line = strstr(say("\n%s", table), say("\n%s ", source));
    cr_assert(line, "no %s in %s", source, table);
    return strtod(line + 1 + strlen(source), NULL);
}

Test(evaluate, by_every_source_of_statistics) {
    learn("--norm=bn --out=out text.txt");
    char *table = output_of("--evaluate=out --stats=all");
    static const char *const sources[] = {"running", "own", "other", "single", "position"};
    for (int i = 0; i < 5; i++) {
        double loss = loss_by(table, sources[i]);
        expect_part(output_of("--evaluate=out --stats=%s", sources[i]),
                    say("loss: %.9g nats", loss));
        cr_expect(loss > 0.1 && (loss == loss_by(table, "running")) == !i, "%s: %g", sources[i],
                  loss);
    }
    learn("--norm=ln --out=ln text.txt");
    table = output_of("--evaluate=ln --stats=all");
    expect_part(table, "\nposition   -\n");
    cr_expect_float_eq(loss_by(table, "single"), loss_by(table, "running"), 1e-6, "%s", table);
    train_refuses(STATUS_USAGE, "--stats=position", "--evaluate=ln --stats=position");
    // with pn-v, the measured batch itself as the other one would give the loss of --stats=own
    learn("--norm=pn-v --out=pn text.txt");
    table = output_of("--evaluate=pn --stats=all");
    cr_expect(fabs(loss_by(table, "other") - loss_by(table, "own")) > 1e-4, "%s", table);
    // a penalty does not belong to a forward pass
    learn("--norm=bn --rbn-mean=1 --rbn-var=1 --out=rbn text.txt");
    cr_expect(loss_by(output_of("--evaluate=rbn --stats=all"), "position") > 0.1);
}

/* A single batch has no other batch to take statistics from. */
Test(evaluate, one_batch_has_no_other) {
    learn("--norm=bn --batch-size=2 --out=out text.txt");
    const char *texts[] = {"a cat", "a cat a cat a cat"}; // a part of a batch; exactly one
    for (int i = 0; i < 2; i++) {
        file_put("short.txt", texts[i], strlen(texts[i]));
        expect_part(output_of("--evaluate=out --stats=all short.txt"), "\nother      -\n");
        train_refuses(STATUS_USAGE, "short.txt is only one batch",
                      "--evaluate=out --stats=other short.txt");
    }
}

Test(evaluate, how_far_the_future_is_seen) {
    static const char *const norms[] = {"ln", "rms", "bn", "in"};
    for (int i = 0; i < 4; i++) {
        learn(say("--norm=%s --out=%s text.txt", norms[i], norms[i]));
        const char *line = strstr(output_of("--evaluate=%s --leak", norms[i]), "\n     t ");
        int rows = 0, position;
        double change[4];
        while (line && (line = strchr(line + 1, '\n')) &&
               sscanf(line, "%d %lf %lf %lf %lf", &position, &change[0], &change[1], &change[2],
                      &change[3]) == 5) {
            rows++;
            cr_expect(change[0] == 0 && change[1] == 0, "%s in evaluation: %g", norms[i],
                      change[0]);
            cr_expect(i < 2 ? change[2] == 0 : change[2] > 1e-4 && change[3] > 0,
                      "%s in training: %g", norms[i], change[2]);
        }
        cr_expect(rows >= 5, "%d rows", rows);
    }
}

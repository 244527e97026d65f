/* Runs of the real program, from the command line to the files that they leave. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <stdio.h>
#include <string.h>

TestSuite(cli, .init = text_enter, .fini = folder_leave);

/* Runs the program, which must print nothing. */
#define run(...) cr_expect_str_eq(output_of(TINY "--quiet " __VA_ARGS__), "")

Test(cli, the_run_s_folder) {
    run("--sample=30 --out=out text.txt");
    cr_expect(files_in("out") == 7, "%zu files", files_in("out"));
    expect_part(file_text("out/config.ini", NULL), "norm = ln\n");
    expect_part(file_text("out/config.ini", NULL), "corpus = \"text.txt\"\n");
    cr_expect(strlen(file_text("out/sample.txt", NULL)) == 30);
    static const char *const members[][2] = {
        {"exit_reason", "done"},  {"steps", "4"},
        {"tokens", "64"},         {"corpus", "text.txt"},
        {"vocabulary", "14"},     {"corpus_characters", "2000"},
        {"corpus_bytes", "2000"}, {"grammar_entropy", "null"}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        expect_member("out", members[i][0], members[i][1]);
    const char *options = json_member(summary_of("out"), "options");
    cr_expect(options && json_is(json_member(options, "n-embd"), "8"));
    static const char *const numbers[] = {"train_loss", "val_loss", "best_val_loss",
                                          "parameters", "seconds",  "tokens_per_second"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cr_expect(summary_number("out", numbers[i]) > 0, "%s", numbers[i]);
}

Test(cli, the_log) {
    run("--max-iters=25 --log-interval=10 --eval-interval=8 --out=out text.txt");
    static const int steps[] = {0, 8, 10, 16, 20, 24, 25};
    struct log log = log_of("out");
    cr_assert(log.rows == 7, "%d rows", log.rows);
    for (int row = 0; row < 7; row++) {
        int step = steps[row];
        const char **cell = log.cell[row];
        cr_expect(log_number(&log, row, STEP) == step &&
                  log_number(&log, row, TOKENS) == 16 * step);
        cr_expect((*cell[VAL_LOSS] != 0) == (step % 8 == 0 || step == 25), "step %d", step);
        cr_expect((*cell[TRAIN_LOSS] != 0) == (step < 25), "step %d", step);
        cr_expect((*cell[GRAD_NORM] != 0) == (step < 25), "step %d", step);
        cr_expect((*cell[SPEED] != 0) == (step > 0), "step %d: no speed", step);
    }
}

Test(cli, an_untrained_model_knows_nothing) {
    run("--max-iters=0 --out=out text.txt");
    struct log rows = log_of("out");
    double loss = log_number(&rows, 0, VAL_LOSS);
    cr_expect(rows.rows == 1 && fabs(loss - log(14)) < 0.05, "%g, but ln V is %g", loss, log(14));
}

#define FEW "--n-layer=2 --n-embd=12 --n-head=3 --block-size=37 --batch-size=9 --sample=20 "
#define WIDE                                                                                       \
    "--n-head=4 --block-size=40 --batch-size=6 --max-iters=3 --probe-interval=2 --n-embd=256 "

/* Wide models take several row blocks at once through a sub-layer, if a thread has as many. One
   thread has here, and of eight each has one row block. */
Test(cli, the_same_bits_for_any_number_of_threads) {
    static const char *const kinds[] = {
        FEW "--norm=ln --dropout=0.1",
        FEW "--norm=bn --dropout=0.1",
        WIDE "--norm=ln --postln --dropout=0.1",
        WIDE "--norm=bn --qk-norm=bn --act=relu",
        WIDE "--norm=rms --placement=ngpt",
        WIDE "--norm=prepbn --placement=siamese --ffn-norm=gn",
        WIDE "--norm=ln --placement=layerscale --dropout=0.1 --qk-norm=ln --qk-scale=learned",
        WIDE "--norm=rms --placement=rezero --preset=llama",
        WIDE "--norm=ln --placement=hybrid --n-embd=1024",
    };
    static const int threads[] = {8, 2, 3, 16};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds;
         kind += sweep() || kind < 2 ? 1 : 3) {
        run("--threads=1 %s --force --out=one text.txt", kinds[kind]);
        for (int i = 0; i < (kind < 2 ? 4 : 1); i++) {
            run("--threads=%d %s --force --out=other text.txt", threads[i], kinds[kind]);
            expect_same_folder("one", "other");
        }
    }
}

Test(cli, a_run_s_config_makes_the_run_again) {
    run("--norm=rms --postln --dropout=0.2 --seed=5 --learning-rate=0.02 --schedule=linear "
        "--act=relu --bias=off --out=a text.txt");
    expect_done(train("--quiet --config=a/config.ini --out=b"));
    expect_same_log("a", "b");
    expect_same_file("a", "b", "config.ini");
    expect_same_file("a", "b", "model.safetensors");
    corpus_put_tiny("other.txt", 900);
    expect_done(train("--quiet --config=a/config.ini --max-iters=2 --norm=ln --out=c other.txt"));
    expect_member("c", "steps", "2");
    expect_member("c", "corpus", "other.txt");
}

Test(cli, a_folder_by_name) {
    run("text.txt");
    run("text.txt");
    run("--norm=bn --postln --seed=7 text.txt");
    run("--connection=hyper text.txt");
    cr_expect(files_in("runs") == 4);
    cr_expect(file_there("runs/ln-pre-hyper-s1/summary.json"));
    cr_expect(file_there("runs/ln-pre-s1/summary.json"));
    cr_expect(file_there("runs/ln-pre-s1-2/summary.json"));
    cr_expect(file_there("runs/bn-post-s7/summary.json"));
}

Test(cli, standard_input_equals_the_file) {
    const struct surroundings text = {.input = "text.txt"};
    run("--out=a text.txt");
    expect_done(train_in(text, TINY "--quiet --out=b -"));
    expect_same_log("a", "b");
    expect_done(train_in(text, TINY "--quiet --out=c --corpus=-"));
    expect_same_log("a", "c");
    expect_member("b", "corpus", "standard input");
}

/* A run that learns only frequencies says so, and resumed or with the vocabulary of another text it
   says the same. */
Test(cli, a_run_that_learned_nothing_is_stuck) {
    const char *said = messages_of(TINY "--learning-rate=1e-9 --min-lr=0 --out=a text.txt");
    const double entropy = summary_number("a", "unigram_entropy");
    expect_part(said, say("stuck: the model has learned nothing beyond how frequent each character "
                          "is, a loss of %.4f ",
                          fmin(entropy, summary_number("a", "unigram_val_loss"))));
    expect_member("a", "stuck", "true");
    said = messages_of(TINY "--max-iters=400 --learning-rate=0.03 --out=b text.txt");
    cr_expect(!strstr(said, "stuck") && summary_number("b", "val_loss") < entropy - 0.05);
    expect_member("b", "stuck", "false");
    output_of("--resume=a --quiet --max-iters=5");
    run("--start=b --max-iters=1 --learning-rate=1e-9 --min-lr=0 --out=c text.txt");
    cr_expect(summary_number("a", "unigram_entropy") == entropy);
    cr_expect(summary_number("b", "unigram_entropy") == entropy);
    cr_expect(summary_number("c", "unigram_entropy") == entropy);
    expect_member("c", "stuck", "false");
    // where the validation split is easier, its loss decides
    char text[2000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i < 1800 ? (char)('a' + i * i % 17 % 8) : "aab"[i % 3];
    file_put("easy.txt", text, sizeof text);
    run("--max-iters=100 --learning-rate=1e-3 --out=e easy.txt");
    cr_expect(summary_number("e", "val_loss") < summary_number("e", "unigram_entropy") - 0.05);
    cr_expect(summary_number("e", "val_loss") > summary_number("e", "unigram_val_loss"));
    expect_member("e", "stuck", "true");
    run("--corpus=random --out=d"); // has nothing else to learn
    expect_member("d", "unigram_entropy", "null");
    expect_member("d", "stuck", "false");
}

Test(cli, the_built_in_grammar) {
    run("--grammar-chars=3000 --out=a");
    expect_member("a", "corpus_characters", "3000");
    double entropy = summary_number("a", "grammar_entropy");
    cr_expect(entropy > 0.1 && entropy < log(100), "%g", entropy);
    run("--grammar-chars=3000 --items --out=b");
    expect_member("b", "grammar_entropy", "null"); // it is that of the text, not of its lines
}

Test(cli, texts_of_all_sorts) {
    static const struct {
        const char *piece, *options, *vocabulary;
        size_t bytes;
    } texts[] = {{"one two\r\nthree\r\n", "", "10", 16}, // with \r
                 {"no final newline, ", "", "10", 18},
                 {"\xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82", "", "3", 9},
                 {"\xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82", "--level=byte", "9", 9},
                 {"\xff\xfe"
                  "a\0b\0",
                  "--level=byte", "5", 6},
                 {"a", "", "1", 1}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen("sort.txt", "wb");
        for (int n = 0; n < 100; n++) fwrite(texts[i].piece, 1, texts[i].bytes, file);
        fclose(file);
        run("%s --force --sample=10 --out=out sort.txt", texts[i].options);
        expect_member("out", "vocabulary", texts[i].vocabulary);
        size_t bytes = 0;
        cr_expect(file_text("out/sample.txt", &bytes) && bytes >= 10 && bytes <= 40);
    }
}

/* Before a batch has changed them, the initial running statistics let a deep model's residual
   stream grow by a factor in each sub-layer. Then no loss is measured, and it is no divergence. */
Test(cli, running_statistics_that_have_met_no_batch) {
    expect_part(
        messages_of(TINY "--norm=bn --placement=keel --n-layer=20 --warmup-iters=50 --max-iters=50 "
                         "--eval-interval=50 --out=out text.txt"),
        "no val loss");
    struct log log = log_of("out");
    cr_expect(!*log.cell[0][VAL_LOSS] && *log.cell[0][TRAIN_LOSS]);
    cr_expect(log_number(&log, log.rows - 1, VAL_LOSS) < 10);
    train_refuses(
        STATUS_DIVERGED, "diverged at step 0",
        TINY "--quiet --norm=none --init=xavier --placement=keel --n-layer=60 --eval-interval=1 "
             "--out=none text.txt");
    train_refuses(STATUS_DIVERGED, "diverged at step 1: the validation loss",
                  TINY "--quiet --norm=bn --bn-momentum=0 --placement=keel --n-layer=20 "
                       "--eval-interval=1 --out=fixed text.txt");
}

/* The summary of a run whose model is measured nowhere, and gives no numbers in its sample, says so. */
Test(cli, a_run_that_diverges_in_its_last_sample) {
#define FAR TINY "--quiet --norm=bn --placement=keel --n-layer=40 --max-iters=0 "
    items_put("items.txt", 60);
    for (int i = 0; i < 2; i++) {
        const char *corpus = i ? "--items items.txt" : "text.txt";
        output_of(FAR "--force --out=start %s", corpus);
        cr_expect(!file_there("start/sample.txt"), "random weights have written");
        train_refuses(STATUS_DIVERGED, "sample: the model's logits are nan or infinite",
                      FAR "--start=start --sample=20 --out=far%d %s", i, corpus);
        expect_member(say("far%d", i), "exit_reason", "diverged");
        cr_expect(!file_there(say("far%d/sample.txt", i)));
    }
}

Test(cli, what_is_said) {
    struct ending ending = train(TINY "--sample=25 --out=out text.txt");
    expect_done(ending);
    const char *sample = file_text("out/sample.txt", NULL);
    cr_expect(strlen(sample) == 25);
    expect_part(ending.out, sample);
    expect_part(ending.err, "text.txt: 2000 characters, 14 different; ln, pre: ");
    expect_part(ending.err, "done after 4 steps");
    cr_expect(!strchr(ending.err, '\r') && !strchr(ending.err, '\033'), "not plain lines");
    const char *untrained = messages_of(TINY "--max-iters=0 --out=untrained text.txt");
    cr_expect(!strstr(untrained, "-1") && !strstr(untrained, "nan"), "%s", untrained);
}

/* --start: a run that starts from the weights of a file. */
#include "data/die.h"
#include "tests/cli/foreign.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(start_from, .init = foreign_enter, .fini = folder_leave);

#define BRIEF TINY "--quiet --dropout=0.1 --learning-rate=0.02 --eval-interval=2 --sample=20 "

static void check_from_its_own_initial_weights_nothing_changes(const struct pair *pair) {
    const char *options = pair_options(pair);
    expect_done(train(BRIEF "--max-iters=0 --force --out=initial %s text.txt", options));
    expect_done(train(BRIEF "--max-iters=6 --force --out=usual %s text.txt", options));
    expect_done(train(BRIEF "--max-iters=6 --start=initial --seed=1 --force --out=out %s text.txt",
                      options));
    expect_same_log("usual", "out");
    expect_same_file("usual", "out", "sample.txt");
    expect_same_arrays("usual/model.safetensors", "out/model.safetensors");
    expect_same_arrays("usual/checkpoint.safetensors", "out/checkpoint.safetensors");
}

Test(start_from, from_its_own_initial_weights_nothing_changes) {
    every_row(check_from_its_own_initial_weights_nothing_changes);
}

static void check_from_a_trained_model_it_starts_at_its_loss(const struct pair *pair) {
    const char *options = pair_options(pair);
    expect_done(train(TINY "--quiet --max-iters=30 --learning-rate=0.02 --eval-interval=1000 "
                           "--force --out=model %s text.txt",
                      options));
    expect_done(
        train(TINY "--quiet --start=model/model.safetensors --seed=7 --force --out=out %s text.txt",
              options));
    struct log before = log_of("model"), after = log_of("out");
    cr_expect_str_eq(after.cell[0][VAL_LOSS], before.cell[30][VAL_LOSS]);
    cr_expect(strtod(after.cell[4][VAL_LOSS], NULL) != strtod(after.cell[0][VAL_LOSS], NULL));
}

Test(start_from, from_a_trained_model_it_starts_at_its_loss) {
    every_row(check_from_a_trained_model_it_starts_at_its_loss);
}

Test(start_from, is_recorded_and_not_read_again) {
    expect_done(train(TINY "--quiet --max-iters=9 --out=model text.txt"));
    expect_done(train(TINY "--quiet --max-iters=8 --start=model --out=whole text.txt"));
    expect_done(train(TINY "--quiet --max-iters=4 --lr-decay-iters=8 --start=model --out=out "
                           "text.txt"));
    cr_assert(strstr(file_text("out/config.ini", NULL), "start = \"model\"\n"));
    cr_expect(strstr(file_text("out/summary.json", NULL), "\"start\": \"model\""));
    cr_assert(!rename("model", "away"));
    train_refuses(STATUS_USAGE, "--start=away: contradicts --start=model of out/",
                  "--resume=out --start=away");
    expect_done(train("--quiet --resume=out --max-iters=8"));
    expect_same_arrays("whole/model.safetensors", "out/model.safetensors");
    train_refuses(STATUS_USAGE,
                  "--start=whole: contradicts away/checkpoint.safetensors, which has no --start",
                  "--resume=away --start=whole");
    // without a checkpoint there are no weights but those of the file
    cr_assert(!remove("out/checkpoint.safetensors") && !remove("out/model.safetensors"));
    train_refuses(STATUS_MACHINE, "model: No such file or directory", "--resume=out");
    cr_assert(!rename("away", "model"));
    expect_done(train("--quiet --resume=out"));
    expect_same_arrays("whole/model.safetensors", "out/model.safetensors");
    expect_done(train("--quiet --config=out/config.ini --out=again"));
    expect_same_arrays("whole/model.safetensors", "again/model.safetensors");
}

/* The characters of a model keep their embeddings in a text that lacks some of them. */
Test(start_from, the_vocabulary_is_that_of_the_file) {
    char few[400];
    for (size_t i = 0; i < sizeof few; i++) few[i] = "the "[i % 4];
    file_put("few.txt", few, sizeof few);
    expect_done(train(TINY "--quiet --max-iters=40 --learning-rate=0.02 --out=model text.txt"));
    expect_done(train(TINY "--quiet --start=model --max-iters=3 --eval-iters=0 --val-fraction=0.5 "
                           "--sample=20 --out=out few.txt"));
    expect_member("out", "vocabulary", "14");
    file_put("half.txt", few + sizeof few / 2, sizeof few / 2);
    struct ending ending = train("--evaluate=model half.txt");
    expect_done(ending);
    struct log log = log_of("out");
    cr_expect_float_eq(strtod(ending.out + strlen("loss "), NULL), log_number(&log, 0, VAL_LOSS),
                       1e-6, "%s", ending.out);
    expect_done(train("--quiet --resume=out --max-iters=5"));
    expect_member("out", "vocabulary", "14");
    file_put("more.txt", "quite other characters, over and over again, on and on and on", 61);
    train_refuses(STATUS_MACHINE, "more.txt: has U+0069 (i), which the model's vocabulary",
                  TINY "--start=model more.txt");
}

Test(start_from, the_optimizer_s_state_is_reset) {
    for (size_t kind = 0; optimizer_kinds[kind]; kind++) {
        const char *name = optimizer_kinds[kind]->name;
        struct safetensors file;
        size_t arrays = 0;
        expect_done(train(TINY "--quiet --force --optimizer=%s --out=model text.txt", name));
        expect_done(train(TINY "--quiet --force --optimizer=%s --start=model --max-iters=0 "
                               "--checkpoint-interval=1 --out=out text.txt",
                          name));
        safetensors_open(&file, "out/checkpoint.safetensors");
        for (size_t i = 0; i < file.array_count; i++) {
            if (strncmp(file.arrays[i].name, "optimizer.", 10) != 0) continue;
            size_t count = stored_count(&file.arrays[i]);
            double *values = hold(count * sizeof *values);
            safetensors_read(&file, &file.arrays[i], STORED_F64, values);
            for (size_t k = 0; k < count; k++)
                cr_assert(values[k] == 0, "%s: %s", name, file.arrays[i].name);
            arrays++;
        }
        cr_expect(arrays > 0, "%s: the checkpoint holds no state", name);
        safetensors_close(&file);
    }
}

static void expect_refused(int status, const char *options, const char *part) {
    struct ending ending = train(TINY "--quiet --out=new %s text.txt", options);
    expect_refusal(&ending, status, part);
    cr_expect(!file_there("new/config.ini"), "%s: a run was started", options);
}

Test(start_from, a_bad_file_is_one_line) {
    foreign_learn("");
    expect_refused(STATUS_MACHINE, "--start=nosuch.st", "nosuch.st: No such file or directory");
    cr_assert(!mkdir("empty", 0777));
    expect_refused(STATUS_MACHINE, "--start=empty", "empty/model.safetensors: No such file");
    expect_refused(STATUS_MACHINE, "--start=text.txt", "text.txt: not a valid safetensors file");
    expect_refused(STATUS_MACHINE, "--start=out --n-embd=12", "its shape differs from that");
    expect_refused(STATUS_MACHINE, "--start=out --n-layer=2", "transformer.h.1.ln_1.weight: is mi");
    expect_refused(STATUS_MACHINE, "--start=out --norm=none", "ln_1.bias: is not part of this");
    file_put("short.txt", "the cat sat, the cat sat, the cat sat on the mat, the mat", 57);
    foreign_put("other.st");
    struct ending ending = train(TINY "--quiet --start=other.st --out=new short.txt");
    expect_refusal(
        &ending, STATUS_MACHINE,
        "other.st: its embedding has 14 characters, but the vocabulary of short.txt has");
    expect_done(train(TINY "--quiet --start=other.st --out=new text.txt"));
}

/* Running statistics come from the file if it has any; otherwise they are the initial ones. */
Test(start_from, running_statistics_are_read_if_there_are_any) {
    foreign_learn("--norm=bn");
    size_t kept = 0;
    expect_done(train(TINY "--quiet --norm=bn --max-iters=0 --start=out --out=with text.txt"));
    expect_same_arrays("out/model.safetensors", "with/model.safetensors");
    for (size_t i = 0; i < foreign.count; i++)
        if (!strstr(foreign.name[i], "running_") && !strstr(foreign.name[i], "num_batches")) {
            memmove(foreign.name[kept], foreign.name[i], sizeof *foreign.name);
            memmove(foreign.value[kept], foreign.value[i], sizeof *foreign.value);
            foreign.array[kept] = foreign.array[i];
            foreign.array[kept].name = foreign.name[kept];
            foreign.array[kept].data = foreign.value[kept];
            kept++;
        }
    cr_assert(kept < foreign.count);
    foreign.count = kept;
    foreign_put("other.st");
    expect_done(train(TINY "--quiet --norm=bn --max-iters=0 --start=other.st --out=new text.txt"));
    struct safetensors file;
    float mean[8], weight[8];
    safetensors_open(&file, "new/model.safetensors");
    const struct stored *found = safetensors_find(&file, "transformer.h.0.ln_1.running_mean");
    cr_assert(found);
    safetensors_read(&file, found, STORED_F32, mean);
    found = safetensors_find(&file, "transformer.h.0.ln_1.weight");
    safetensors_read(&file, found, STORED_F32, weight);
    safetensors_close(&file);
    for (int c = 0; c < 8; c++) cr_expect(mean[c] == 0);
    cr_expect(!memcmp(weight, foreign.value[foreign_place("transformer.h.0.ln_1.weight")],
                      sizeof weight));
    const size_t shape[] = {8};
    foreign_add("transformer.h.0.ln_1.running_mean", STORED_F32, 1, shape);
    foreign_put("other.st");
    train_refuses(STATUS_MACHINE, "ln_1.running_var: is missing",
                  TINY "--quiet --norm=bn --start=other.st --out=no text.txt");
}

/* Shapes do not show every option of a model. */
Test(start_from, options_that_differ_are_noted) {
    expect_done(train(TINY "--quiet --out=model text.txt"));
    struct ending same = train(TINY "--start=model --out=same text.txt");
    cr_expect(same.status == 0 && !strstr(same.err, "note: "), "%s", same.err);
    struct ending ending = train(TINY "--start=model --n-head=4 --act=relu --out=new text.txt");
    expect_done(ending);
    cr_expect(strstr(ending.err,
                     "note: model/model.safetensors comes from a model with --n-head=2, "
                     "but this model has 4\n"),
              "%s", ending.err);
    cr_expect(strstr(ending.err, "--act=gelu, but this model has relu\n"), "%s", ending.err);
    cr_expect(!strstr(ending.err, "--norm-groups"), "an option without effect");
}

/* The vocabulary of the model has ids that its corpus alone would not have. */
Test(start_from, items_are_known_in_a_larger_vocabulary) {
    file_put("letters.txt", "aa\nbb\ncc\n", 9);
    file_put("one.txt", "cc\ncc\ncc\ncc\n", 12);
    expect_done(train(TINY "--items --quiet --val-fraction=0.4 --out=model letters.txt"));
    expect_done(train(TINY "--items --quiet --val-fraction=0.4 --start=model --max-iters=40 "
                           "--learning-rate=0.02 --out=out one.txt"));
    struct ending ending = train("--generate=out --num-items=1 --temperature=0");
    cr_expect_str_eq(ending.out, "known  cc\n", "%s%s", ending.out, ending.err);
}

/* --start: a run that starts from the weights of a file. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <string.h>
#include <sys/stat.h>

TestSuite(start_from, .init = text_enter, .fini = folder_leave);

#define BRIEF TINY "--quiet --dropout=0.1 --learning-rate=0.02 --eval-interval=2 --sample=20 "

static void check_start(const struct pair *pair) {
    const char *options = say("--force %s text.txt", pair_options(pair));
    output_of(BRIEF "--max-iters=0 --out=initial %s", options);
    output_of(BRIEF "--max-iters=6 --out=usual %s", options);
    output_of(BRIEF "--max-iters=6 --start=initial --seed=1 --out=out %s", options);
    expect_same_log("usual", "out");
    expect_same_file("usual", "out", "sample.txt");
    expect_same_arrays("usual/model.safetensors", "out/model.safetensors");
    expect_same_arrays("usual/checkpoint.safetensors", "out/checkpoint.safetensors");
    // from the trained model, under another seed, it starts at its loss
    output_of(BRIEF "--start=usual/model.safetensors --seed=7 --out=out %s", options);
    struct log before = log_of("usual"), after = log_of("out");
    cr_expect_str_eq(after.cell[0][VAL_LOSS], before.cell[before.rows - 1][VAL_LOSS]);
    cr_expect_str_neq(after.cell[4][VAL_LOSS], after.cell[0][VAL_LOSS]);
}

Test(start_from, a_run_starts_with_the_weights_of_the_file) {
    every_row(check_start);
}

Test(start_from, is_recorded_and_not_read_again) {
    output_of(TINY "--quiet --max-iters=9 --out=model text.txt");
    output_of(TINY "--quiet --max-iters=8 --start=model --out=whole text.txt");
    output_of(TINY "--quiet --max-iters=4 --lr-decay-iters=8 --start=model --out=out "
                   "text.txt");
    cr_assert(strstr(file_text("out/config.ini", NULL), "start = \"model\"\n"));
    cr_expect(strstr(file_text("out/summary.json", NULL), "\"start\": \"model\""));
    cr_assert(!rename("model", "away"));
    train_refuses(STATUS_USAGE, "--start=away: contradicts --start=model of out/",
                  "--resume=out --start=away");
    output_of("--quiet --resume=out --max-iters=8");
    expect_same_arrays("whole/model.safetensors", "out/model.safetensors");
    train_refuses(STATUS_USAGE,
                  "--start=whole: contradicts away/checkpoint.safetensors, which has no --start",
                  "--resume=away --start=whole");
    // without a checkpoint there are no weights but those of the file
    cr_assert(!remove("out/checkpoint.safetensors") && !remove("out/model.safetensors"));
    train_refuses(STATUS_MACHINE, "model: No such file or directory", "--resume=out");
    cr_assert(!rename("away", "model"));
    output_of("--quiet --resume=out");
    expect_same_arrays("whole/model.safetensors", "out/model.safetensors");
    output_of("--quiet --config=out/config.ini --out=again");
    expect_same_arrays("whole/model.safetensors", "again/model.safetensors");
}

/* The characters of a model keep their embeddings in a text that lacks some of them. */
Test(start_from, the_vocabulary_is_that_of_the_file) {
    char few[400];
    for (size_t i = 0; i < sizeof few; i++) few[i] = "the "[i % 4];
    file_put("few.txt", few, sizeof few);
    output_of(TINY "--quiet --max-iters=40 --learning-rate=0.02 --out=model text.txt");
    output_of(TINY "--quiet --start=model --max-iters=3 --eval-iters=0 --val-fraction=0.5 "
                   "--sample=20 --out=out few.txt");
    expect_member("out", "vocabulary", "14");
    file_put("half.txt", few + sizeof few / 2, sizeof few / 2);
    struct log log = log_of("out");
    cr_expect_float_eq(loss_in(output_of("--evaluate=model half.txt")),
                       log_number(&log, 0, VAL_LOSS), 1e-6);
    output_of("--quiet --resume=out --max-iters=5");
    expect_member("out", "vocabulary", "14");
    file_put("more.txt", "quite other characters, over and over again, on and on and on", 61);
    train_refuses(STATUS_MACHINE, "more.txt: has U+0069 (i), which the model's vocabulary",
                  TINY "--start=model more.txt");
}

Test(start_from, the_optimizer_s_state_is_reset) {
    for (size_t kind = 0; optimizer_kinds[kind]; kind++) {
        const char *options =
            say("--quiet --force --optimizer=%s text.txt", optimizer_kinds[kind]->name);
        size_t arrays = 0;
        output_of(TINY "--out=model %s", options);
        output_of(TINY "--start=model --max-iters=0 --checkpoint-interval=1 --out=out %s", options);
        edited_load("out/checkpoint.safetensors");
        for (size_t i = 0; i < edited.array_count; i++) {
            const struct stored *array = &edited.arrays[i];
            if (strncmp(array->name, "optimizer.", 10) != 0) continue;
            for (size_t k = 0; k < array->end - array->begin; k++)
                cr_assert(((const char *)array->data)[k] == 0, "%s: %s", options, array->name);
            arrays++;
        }
        cr_expect(arrays > 0, "%s: the checkpoint holds no state", options);
    }
}

static void expect_refused(int status, const char *options, const char *part) {
    train_refuses(status, part, TINY "--quiet --out=new %s text.txt", options);
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
    edited_save("other.st");
    train_refuses(STATUS_MACHINE,
                  "other.st: its embedding has 14 characters, but the vocabulary of short.txt has",
                  TINY "--quiet --start=other.st --out=new short.txt");
    output_of(TINY "--quiet --start=other.st --out=new text.txt");
}

/* Running statistics come from the file if it has any; otherwise they are the initial ones. */
Test(start_from, running_statistics_are_read_if_there_are_any) {
    static const char mean[] = "transformer.h.0.ln_1.running_mean",
                      weight[] = "transformer.h.0.ln_1.weight";
    foreign_learn("--norm=bn");
    size_t kept = 0;
    output_of(TINY "--quiet --norm=bn --max-iters=0 --start=out --out=with text.txt");
    expect_same_arrays("out/model.safetensors", "with/model.safetensors");
    for (size_t i = 0; i < edited.array_count; i++)
        if (!strstr(edited.arrays[i].name, "running_") && !strstr(edited.arrays[i].name, "batches"))
            edited.arrays[kept++] = edited.arrays[i];
    cr_assert(kept < edited.array_count);
    edited.array_count = kept;
    edited_save("other.st");
    const float *learned = stored_floats(edited_find(weight));
    output_of(TINY "--quiet --norm=bn --max-iters=0 --start=other.st --out=new text.txt");
    edited_load("new/model.safetensors");
    for (int c = 0; c < 8; c++) {
        cr_expect(stored_floats(edited_find(mean))[c] == 0);
        cr_expect(stored_floats(edited_find(weight))[c] == learned[c]);
    }
    foreign_put_without(edited_find("transformer.h.0.ln_1.running_var"));
    train_refuses(STATUS_MACHINE, "ln_1.running_var: is missing",
                  TINY "--quiet --norm=bn --start=other.st --out=no text.txt");
}

/* Shapes do not show every option of a model. */
Test(start_from, options_that_differ_are_noted) {
    output_of(TINY "--quiet --out=model text.txt");
    cr_expect(!strstr(messages_of(TINY "--start=model --out=same text.txt"), "note: "));
    const char *said = messages_of(TINY "--start=model --n-head=4 --act=relu --out=new text.txt");
    expect_part(said, "note: model/model.safetensors comes from a model with --n-head=2, but this "
                      "model has 4\n");
    expect_part(said, "--act=gelu, but this model has relu\n");
    cr_expect(!strstr(said, "--norm-groups"), "an option without effect");
}

/* The vocabulary of the model has ids that its corpus alone would not have. */
Test(start_from, items_are_known_in_a_larger_vocabulary) {
    file_put("letters.txt", "aa\nbb\ncc\n", 9);
    file_put("one.txt", "cc\ncc\ncc\ncc\n", 12);
    expect_done(train(TINY "--items --quiet --val-fraction=0.4 --out=model letters.txt"));
    expect_done(train(TINY "--items --quiet --val-fraction=0.4 --start=model --max-iters=40 "
                           "--learning-rate=0.02 --out=out one.txt"));
    cr_expect_str_eq(train("--generate=out --num-items=1 --temperature=0").out, "known  cc\n");
}

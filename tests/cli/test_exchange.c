/* Models of other programs in use: what their files lack, what must fit, and what is refused; the
   types of their numbers, and files as other writers lay them out. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <string.h>

static void enter(void) {
    text_enter();
    corpus_put_tiny("other.txt", 300);
    foreign_learn("");
}

TestSuite(exchange, .init = enter, .fini = folder_leave);

static const char wte[] = "transformer.wte.weight", head[] = "lm_head.weight";

#define MEASURE  "--quiet other.txt --batch-size=2 --evaluate="
#define GENERATE "--quiet --prompt=the --num-chars=40 --generate="

/* Adds an array of zeros, or a text. */
static struct stored *add_array(const char *name, int dimensions, const size_t *shape) {
    struct stored *array = &edited.arrays[edited.array_count++];
    *array = (struct stored){.name = name, .type = STORED_F32, .dimensions = dimensions};
    memcpy(array->shape, shape, (size_t)dimensions * sizeof *shape);
    array->data = hold(stored_count(array) * sizeof(float));
    return array;
}

static void add_text(const char *name, const char *text) {
    edited.texts[edited.text_count++] = (struct stored_text){name, text};
}

/* Fails unless other.st gives the same measurement and the same generated text as the run. */
static void expect_same_use(const char *options) {
    cr_expect_str_eq(output_of(MEASURE "other.st %s", options), output_of(MEASURE "out"));
    cr_expect_str_eq(output_of(GENERATE "other.st %s", options), output_of(GENERATE "out"));
}

static void expect_same(const char *options) {
    edited_save("other.st");
    expect_same_use(options);
}

/* Writes other.st. Fails unless it is refused with this status and a message that contains `part`,
   both for generation and for evaluation. */
static void expect_refused(int status, const char *options, const char *part) {
    edited_save("other.st");
    train_refuses(status, part, "--generate=other.st %s", options);
    train_refuses(status, part, "--evaluate=other.st %s other.txt", options);
}

Test(exchange, what_a_file_does_not_say_is_asked_for) {
    expect_refused(STATUS_USAGE, "",
                   "other.st: does not say how many heads it has (give --n-head=N");
    expect_refused(STATUS_USAGE, "--n-head=2",
                   "other.st: has no vocabulary (give --vocabulary=FILE, the text that it was");
    expect_same_use(SAID);
    const char *usual = output_of(MEASURE "out");
    cr_expect_str_eq(output_of(MEASURE "other.st --config=out/config.ini --vocabulary=text.txt"),
                     usual);
    cr_expect_str_neq(output_of(MEASURE "other.st " SAID "--n-head=4"), usual,
                      "the heads make no difference");
    expect_refused(STATUS_USAGE, SAID "--n-head=3", "--n-embd=8: must be a multiple");
}

Test(exchange, what_a_file_says_need_not_be_asked_for) {
    add_text("format", "pt");
    add_text("n-head", "2");
    add_text("vocabulary", "10 32 44 46 97 99 100 101 103 104 110 111 115 116");
    expect_same("");
    expect_refused(STATUS_USAGE, "--n-head=4", "--n-head=4: contradicts --n-head=2 of other.st");
}

Test(exchange, a_head_of_its_own_or_none) {
    foreign_put_without(edited_find(head));
    expect_same_use(SAID);
    foreign_put_without(edited_find(wte));
    train_refuses(STATUS_MACHINE, "other.st: holds no model with nanoGPT's names",
                  "--generate=other.st " SAID);
    stored_floats(edited_find(head))[3] += 0.001F;
    expect_refused(STATUS_MACHINE, SAID, "lm_head.weight: is not transformer.wte.weight");
    edited_find(head)->name = "embedding";
    edited_find(wte)->name = "weight";
    expect_refused(STATUS_MACHINE, SAID, "other.st: holds no model with nanoGPT's names");
}

Test(exchange, no_array_may_be_missing_or_have_another_shape) {
    for (size_t i = 0; i < edited.array_count; i++) {
        struct stored *array = &edited.arrays[i], before = *array;
        if (strcmp(array->name, wte) != 0 && strcmp(array->name, head) != 0) {
            foreign_put_without(array);
            train_refuses(STATUS_MACHINE, "other.st: ", "--generate=other.st " SAID);
        }
        array->shape[0]--;
        if (strcmp(array->name, "transformer.wpe.weight") != 0) // a shorter context is valid too
            expect_refused(STATUS_MACHINE, SAID, "other.st: ");
        array->shape[0] = 1;
        array->dimensions++;
        memcpy(array->shape + 1, before.shape, sizeof before.shape - sizeof *before.shape);
        expect_refused(STATUS_MACHINE, SAID, "other.st: ");
        *array = before;
    }
    struct stored *array = edited_find("transformer.h.0.mlp.c_fc.weight");
    foreign_put_without(array);
    train_refuses(STATUS_MACHINE, "transformer.h.0.mlp.c_fc.weight: is missing",
                  "--generate=other.st " SAID);
    array->shape[0] = 8; // transposed, as in GPT-2's own files
    array->shape[1] = 32;
    expect_refused(STATUS_MACHINE, SAID, "mlp.c_fc.weight: its shape differs from that");
}

Test(exchange, no_array_may_be_too_many) {
    static const char *const names[] = {"transformer.h.1.ln_1.weight", "transformer.h.0.ln_3.bias",
                                        "transformer.ln_f.running_mean", "classifier.weight"};
    struct stored *array = add_array("", 1, (const size_t[]){8});
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        array->name = names[i];
        expect_refused(STATUS_MACHINE, SAID,
                       say("other.st: %s: is not part of this model", names[i]));
    }
}

Test(exchange, every_array_holds_numbers) {
    struct stored *array = edited_find("transformer.h.0.ln_2.bias");
    stored_floats(array)[7] = NAN;
    expect_refused(STATUS_MACHINE, SAID, "transformer.h.0.ln_2.bias: holds nan or infinity");
}

Test(exchange, the_vocabulary_must_fit) {
    file_put("short.txt", "the cat", 7);
    expect_refused(STATUS_MACHINE, "--n-head=2 --vocabulary=short.txt",
                   "other.st: its embedding has 14 characters, but its vocabulary has 6");
    add_text("vocabulary", "10 32 44");
    expect_refused(STATUS_MACHINE, "--n-head=2",
                   "its embedding has 14 characters, but its vocabulary has 3");
    expect_same_use(SAID); // the command line's vocabulary overrides the file's
    edited.texts[0].text = "32 10";
    expect_refused(STATUS_MACHINE, "--n-head=2", "its vocabulary is not a list of ascending");
}

Test(exchange, what_no_array_shows_the_command_line_may_say) {
    expect_refused(STATUS_USAGE, SAID "--n-layer=2", "--n-layer=2: contradicts --n-layer=1 of");
    expect_refused(STATUS_USAGE, SAID "--bias=off", "--bias=off: contradicts --bias=on of");
    const char *usual = output_of(MEASURE "other.st " SAID);
    static const char *const options[] = {"--act=relu", "--act=gelu-tanh", "--norm-eps=0.1"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        cr_expect_str_neq(output_of(MEASURE "other.st " SAID "%s", options[i]), usual, "%s",
                          options[i]);
    add_text("act", "gelu");
    expect_refused(STATUS_USAGE, SAID "--act=relu", "--act=relu: contradicts --act=gelu of other");
}

Test(exchange, texts_must_not_contradict_the_arrays) {
    static const struct stored_text wrong[] = {
        {"n-layer", "2"}, {"n-embd", "16"}, {"block-size", "16"}, {"bias", "off"}};
    edited.text_count = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        edited.texts[0] = wrong[i];
        expect_refused(STATUS_MACHINE, SAID, "other.st: n-layer, n-embd,");
    }
    edited.texts[0] = (struct stored_text){"n-head", "many"};
    expect_refused(STATUS_USAGE, SAID, "other.st: n-head=many: must be a whole number");
}

static void check_every_model_without_its_texts(const struct pair *pair) {
    const char *options = say("%s " SAID, pair_options(pair));
    foreign_learn(options);
    if (pair_config(pair).position != POSITION_LEARNED) {
        expect_refused(STATUS_USAGE, options, "other.st: does not say how long its context is");
        options = say("%s --block-size=8", options);
    }
    expect_same(options);
}

Test(exchange, every_model_without_its_texts) {
    every_norm_and_placement(check_every_model_without_its_texts);
}

/* Weights of +-1/4 give the same results, whether the file holds them in 32 or 64 bits. */
Test(exchange, single_and_double_precision) {
    const char *usual = NULL;
    for (int type = STORED_F32; type <= STORED_F64; type++) {
        edited_load("out/model.safetensors");
        edited.text_count = 0;
        for (size_t i = 0; i < edited.array_count; i++) {
            struct stored *array = &edited.arrays[i];
            const size_t count = stored_count(array);
            const float *value = stored_floats(array);
            float *single = hold(4 * count);
            double *wide = hold(8 * count);
            for (size_t k = 0; k < count; k++) wide[k] = single[k] = copysignf(0.25F, value[k]);
            array->type = type;
            array->data = type == STORED_F32 ? (void *)single : (void *)wide;
        }
        edited_save("other.st");
        const char *measured = output_of(MEASURE "other.st " SAID);
        if (!usual) usual = measured;
        cr_expect_str_eq(measured, usual, "%d", type);
    }
}

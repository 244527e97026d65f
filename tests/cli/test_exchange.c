/* Models of other programs in use: what their files lack, what must fit, and what is refused; the types
   of their numbers, and files as other writers lay them out. */
#include "data/die.h"
#include "model/model.h"
#include "tests/cli/foreign.h"
#include "tests/command.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(exchange, .init = foreign_enter_and_learn, .fini = folder_leave);
TestSuite(exchange_norms, .init = foreign_enter, .fini = folder_leave);

static const char wte[] = "transformer.wte.weight", head[] = "lm_head.weight";

Test(exchange, what_a_file_does_not_say_is_asked_for) {
    foreign_put("other.st");
    foreign_expect_refused(STATUS_USAGE, "",
                           "other.st: does not say how many heads it has (give --n-head=N");
    foreign_expect_refused(
        STATUS_USAGE, "--n-head=2",
        "other.st: has no vocabulary (give --vocabulary=FILE, the text that it was");
    foreign_expect_same(SAID);
    cr_expect_str_neq(foreign_output("--evaluate=other.st" MEASURE, SAID "--n-head=4"),
                      foreign_output("--evaluate=out" MEASURE, ""), "the heads make no difference");
    foreign_expect_refused(STATUS_USAGE, SAID "--n-head=3", "--n-embd=8: must be a multiple");
}

Test(exchange, what_a_file_says_need_not_be_asked_for) {
    foreign_say("format", "pt");
    foreign_say("n-head", "2");
    foreign_say("vocabulary", "10 32 44 46 97 99 100 101 103 104 110 111 115 116");
    foreign_put("other.st");
    foreign_expect_same("");
    foreign_expect_refused(STATUS_USAGE, "--n-head=4",
                           "--n-head=4: contradicts --n-head=2 of other.st");
}

Test(exchange, a_config_file_says_what_the_file_does_not) {
    foreign_put("other.st");
    cr_expect_str_eq(foreign_output("--evaluate=other.st" MEASURE,
                                    "--config=out/config.ini --vocabulary=text.txt"),
                     foreign_output("--evaluate=out" MEASURE, ""));
}

Test(exchange, either_name_of_the_tied_head) {
    foreign_put_without("other.st", foreign_place(head));
    foreign_expect_same(SAID);
    foreign_put_without("other.st", foreign_place(wte));
    foreign_expect_same(SAID);
    foreign.array[foreign_place(head)].name = "embedding";
    foreign_put_without("other.st", foreign_place(wte));
    foreign_expect_refused(STATUS_MACHINE, SAID, "other.st: holds no model with nanoGPT's names");
}

Test(exchange, a_head_of_its_own_is_refused) {
    foreign.value[foreign_place(head)][3] += 0.001F;
    foreign_put("other.st");
    foreign_expect_refused(STATUS_MACHINE, SAID, "lm_head.weight: is not transformer.wte.weight");
}

/* nanoGPT's state dicts contain them where PyTorch 2's own attention is not used. */
Test(exchange, causal_masks_are_no_weights) {
    const size_t shape[] = {1, 1, 8, 8};
    struct stored *mask = foreign_add("transformer.h.0.attn.bias", STORED_F32, 4, shape);
    foreign_put("other.st");
    foreign_expect_same(SAID);
    mask->type = STORED_OTHER; // BOOL
    foreign_put("other.st");
    foreign_expect_same(SAID);
}

Test(exchange, the_prefix_of_a_compiled_model) {
    for (size_t i = 0; i < foreign.count; i++) {
        char name[FOREIGN_NAME];
        strcpy(name, foreign.name[i]);
        cr_assert(snprintf(foreign.name[i], FOREIGN_NAME, "_orig_mod.%s", name) < FOREIGN_NAME);
    }
    foreign_put("other.st");
    foreign_expect_same(SAID);
}

Test(exchange, no_array_may_be_missing) {
    for (size_t i = 0; i < foreign.count; i++) {
        if (!strcmp(foreign.name[i], wte) || !strcmp(foreign.name[i], head)) continue;
        foreign_put_without("other.st", i);
        foreign_expect_refused(STATUS_MACHINE, SAID, "other.st: ");
    }
    foreign_put_without("other.st", foreign_place("transformer.h.0.mlp.c_fc.weight"));
    foreign_expect_refused(STATUS_MACHINE, SAID, "transformer.h.0.mlp.c_fc.weight: is missing");
}

Test(exchange, no_array_may_be_too_many) {
    static const char *const names[] = {"transformer.h.1.ln_1.weight", "transformer.h.0.ln_3.bias",
                                        "transformer.ln_f.running_mean", "classifier.weight"};
    const size_t shape[] = {8};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        foreign_add(names[i], STORED_F32, 1, shape);
        foreign_put("other.st");
        char *why = say("other.st: %s: is not part of this model", names[i]);
        foreign_expect_refused(STATUS_MACHINE, SAID, why);
        foreign.count--;
    }
}

Test(exchange, every_array_has_its_shape) {
    for (size_t i = 0; i < foreign.count; i++) {
        struct stored *array = &foreign.array[i], before = *array;
        array->shape[0]--;
        foreign_put("other.st");
        if (strcmp(array->name, "transformer.wpe.weight") != 0) // a shorter context is valid too
            foreign_expect_refused(STATUS_MACHINE, SAID, "other.st: ");
        array->shape[0] = 1;
        array->dimensions++;
        memcpy(array->shape + 1, before.shape, sizeof before.shape - sizeof *before.shape);
        foreign_put("other.st");
        foreign_expect_refused(STATUS_MACHINE, SAID, "other.st: ");
        *array = before;
    }
    struct stored *array = &foreign.array[foreign_place("transformer.h.0.mlp.c_fc.weight")];
    array->shape[0] = 8; // transposed, as in GPT-2's own files
    array->shape[1] = 32;
    foreign_put("other.st");
    foreign_expect_refused(STATUS_MACHINE, SAID, "mlp.c_fc.weight: its shape differs from that");
}

Test(exchange, every_array_holds_numbers) {
    size_t i = foreign_place("transformer.h.0.ln_2.bias");
    foreign.array[i].type = STORED_OTHER;
    foreign_put("other.st");
    foreign_expect_refused(STATUS_MACHINE, SAID, "transformer.h.0.ln_2.bias: is of type BOOL");
    foreign.array[i].type = STORED_F32;
    foreign.value[i][7] = NAN;
    foreign_put("other.st");
    foreign_expect_refused(STATUS_MACHINE, SAID,
                           "transformer.h.0.ln_2.bias: holds nan or infinity");
}

Test(exchange, the_vocabulary_must_fit) {
    file_put("short.txt", "the cat", 7);
    foreign_put("other.st");
    foreign_expect_refused(STATUS_MACHINE, "--n-head=2 --vocabulary=short.txt",
                           "other.st: its embedding has 14 characters, but its vocabulary has 6");
    foreign_say("vocabulary", "10 32 44");
    foreign_put("other.st");
    foreign_expect_refused(STATUS_MACHINE, "--n-head=2",
                           "its embedding has 14 characters, but its vocabulary has 3");
    foreign_expect_same(SAID); // the command line's vocabulary overrides the file's
    foreign.text[0].text = "32 10";
    foreign_put("other.st");
    foreign_expect_refused(STATUS_MACHINE, "--n-head=2",
                           "its vocabulary is not a list of ascending");
}

Test(exchange, what_no_array_shows_the_command_line_may_say) {
    foreign_put("other.st");
    char *usual = foreign_output("--evaluate=other.st" MEASURE, SAID);
    static const char *const options[] = {"--act=relu", "--act=gelu-tanh", "--norm-eps=0.1"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        cr_expect_str_neq(foreign_output("--evaluate=other.st" MEASURE, say(SAID "%s", options[i])),
                          usual, "%s", options[i]);
    }
    foreign_expect_refused(STATUS_USAGE, SAID "--n-layer=2",
                           "--n-layer=2: contradicts --n-layer=1 of");
    foreign_expect_refused(STATUS_USAGE, SAID "--bias=off", "--bias=off: contradicts --bias=on of");
    foreign_say("act", "gelu");
    foreign_put("other.st");
    foreign_expect_refused(STATUS_USAGE, SAID "--act=relu",
                           "--act=relu: contradicts --act=gelu of other");
}

Test(exchange, texts_must_not_contradict_the_arrays) {
    static const struct stored_text wrong[] = {
        {"n-layer", "2"}, {"n-embd", "16"}, {"block-size", "16"}, {"bias", "off"}};
    foreign.texts = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        foreign.text[0] = wrong[i];
        foreign_put("other.st");
        foreign_expect_refused(STATUS_MACHINE, SAID, "other.st: n-layer, n-embd,");
    }
    foreign.text[0] = (struct stored_text){"n-head", "many"};
    foreign_put("other.st");
    foreign_expect_refused(STATUS_USAGE, SAID, "other.st: n-head=many: must be a whole number");
}

static void check_every_model_without_its_texts(const struct pair *pair) {
    const struct model_config config = pair_config(pair);
    const char *given = pair_options(pair);
    char options[512];
    // a norm that the placement has nowhere would be said to have no effect
    if (!model_has_norm(&config, norm_kinds[pair->norm])) given = strstr(given, "--placement");
    snprintf(options, sizeof options, "%s ", given);
    foreign_learn(options);
    foreign_put("other.st");
    strcat(options, SAID);
    if (config.position != POSITION_LEARNED) {
        foreign_expect_refused(STATUS_USAGE, options,
                               "other.st: does not say how long its context is");
        strcat(options, " --block-size=8");
    }
    foreign_expect_same(options);
}

Test(exchange_norms, every_model_without_its_texts) {
    every_norm_and_placement(check_every_model_without_its_texts);
}

/* Weights of +-1/4 give the same results, whether the file holds them in 16, 32 or 64 bits. */
Test(exchange, half_and_double_precision) {
    static const struct {
        int type;
        uint16_t quarter;
    } halves[] = {{STORED_F16, 0x3400}, {STORED_BF16, 0x3e80}};
    static uint16_t half[2][FOREIGN_ARRAYS][FOREIGN_VALUES];
    static double wide[FOREIGN_ARRAYS][FOREIGN_VALUES];
    for (size_t i = 0; i < foreign.count; i++)
        for (size_t k = 0; k < stored_count(&foreign.array[i]); k++) {
            float *value = &foreign.value[i][k];
            *value = copysignf(0.25F, *value);
            for (int h = 0; h < 2; h++)
                half[h][i][k] = halves[h].quarter | (signbit(*value) ? 0x8000 : 0);
            wide[i][k] = (double)*value;
        }
    foreign_put("other.st");
    char *want = foreign_output("--evaluate=other.st" MEASURE, SAID);
    for (int h = 0; h < 3; h++) {
        for (size_t i = 0; i < foreign.count; i++) {
            foreign.array[i].type = h < 2 ? halves[h].type : STORED_F64;
            foreign.array[i].data = h < 2 ? (void *)half[h][i] : (void *)wide[i];
        }
        foreign_put("other.st");
        cr_expect_str_eq(foreign_output("--evaluate=other.st" MEASURE, SAID), want, "%d", h);
    }
}

/* A file as the format allows it but safetensors_write() never writes it: blanks, escapes, members
   and arrays in another order than the numbers, the texts last, no padding, no checksum. */
static void put_otherwise(const char *path) {
    size_t length, at = 0, begin[FOREIGN_ARRAYS];
    char *header;
    FILE *json = open_memstream(&header, &length), *file = fopen(path, "wb");
    for (size_t i = foreign.count; i-- > 0;) {
        begin[i] = at;
        at += 4 * stored_count(&foreign.array[i]);
    }
    fputc('{', json);
    for (size_t i = 0; i < foreign.count; i++) {
        const struct stored *array = &foreign.array[i];
        fprintf(json, "\n \"\\u00%02x%s\" : { \"data_offsets\": [%zu , %zu], \"shape\": [",
                *array->name, array->name + 1, begin[i], begin[i] + 4 * stored_count(array));
        for (int d = 0; d < array->dimensions; d++)
            fprintf(json, "%s %zu", d ? "," : "", array->shape[d]);
        fprintf(json, "]\t, \"dtype\":\"F32\"},");
    }
    fprintf(json, "\"__metadata__\": {\"n-head\": \"\\u0032\", \"made by\": \"\\ud83d\\ude01\"}}");
    fclose(json);
    while (length % 8 == 0) header[length - 1] = ' ', header[length++] = '}';
    for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 255), file);
    fwrite(header, 1, length, file);
    for (size_t i = foreign.count; i-- > 0;)
        fwrite(foreign.value[i], 4, stored_count(&foreign.array[i]), file);
    cr_assert(!fclose(file));
    free(header);
}

Test(exchange, a_file_of_another_writer) {
    put_otherwise("other.st");
    foreign_expect_same("--vocabulary=text.txt");
}

/* In a run's folder, a header without a checksum could be a damaged header of the run. */
Test(exchange, a_folder_holds_runs) {
    cr_assert(!mkdir("folder", 0777));
    put_otherwise("folder/model.safetensors");
    train_refuses(STATUS_MACHINE, "its header has no checksum, so a run did not write it",
                  "--generate=folder --vocabulary=text.txt");
    struct ending ending =
        train("--generate=folder/model.safetensors --vocabulary=text.txt --num-chars=3");
    cr_expect(ending.status == 0 && strlen(ending.out) == 4, "%s", ending.err);
}

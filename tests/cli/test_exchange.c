/* Models of other programs in use: files with nanoGPT's names that lack what ./train writes beside
   the weights. They are made from a run's model, so that the run says what must come out. */
#include "data/die.h"
#include "data/files/safetensors.h"
#include "model/model.h"
#include "tests/command.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ARRAYS = 64, VALUES = 1024, NAME = 64, HEADS = 2 };

/* The file that a test is about to write: at first the run's weights, and no texts. */
static struct {
    struct stored array[ARRAYS];
    char name[ARRAYS][NAME];
    float value[ARRAYS][VALUES];
    size_t count;
    struct stored_text text[4];
    size_t texts;
} given;

static const char wte[] = "transformer.wte.weight", head[] = "lm_head.weight";

#define SAY      "--n-head=2 --vocabulary=text.txt "
#define MEASURE  " other.txt --batch-size=2"
#define GENERATE " --prompt=the --num-chars=40"

static struct stored *add(const char *name, int type, int dimensions, const size_t *shape) {
    cr_assert(given.count < ARRAYS && strlen(name) < NAME);
    size_t i = given.count++;
    strcpy(given.name[i], name);
    given.array[i] = (struct stored){
        .name = given.name[i], .type = type, .dimensions = dimensions, .data = given.value[i]};
    memcpy(given.array[i].shape, shape, (size_t)dimensions * sizeof *shape);
    memset(given.value[i], 0, sizeof given.value[i]);
    cr_assert(stored_count(&given.array[i]) <= VALUES);
    return &given.array[i];
}

static void take_weights(const char *path) {
    struct safetensors file;
    safetensors_open(&file, path);
    for (size_t i = 0; i < file.array_count; i++) {
        const struct stored *array = &file.arrays[i];
        add(array->name, STORED_F32, array->dimensions, array->shape);
        safetensors_read(&file, array, STORED_F32, given.value[i]);
    }
    safetensors_close(&file);
    cr_assert(given.count > 3);
}

static void learn(const char *options) {
    struct ending ending =
        train(TINY "--quiet --max-iters=30 --learning-rate=0.02 --eval-interval=1000 "
                   "--log-interval=1000 --out=out %s text.txt",
              options);
    cr_assert(ending.status == 0, "%s: %s", options, ending.err);
    take_weights("out/model.safetensors");
}

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    corpus_put_tiny("other.txt", 300);
}

/* Most begin with a run of the model that nanoGPT has. */
static void enter_and_learn(void) {
    enter();
    learn("");
}

TestSuite(exchange, .init = enter_and_learn, .fini = folder_leave);
TestSuite(exchange_norms, .init = enter, .fini = folder_leave);

static size_t place_of(const char *name) {
    for (size_t i = 0; i < given.count; i++)
        if (!strcmp(given.name[i], name)) return i;
    cr_assert_fail("no %s", name);
    return 0;
}

static void say(const char *name, const char *text) {
    given.text[given.texts++] = (struct stored_text){name, text};
}

/* Without the array in this place; SIZE_MAX: with all. */
static void put_without(const char *path, size_t left_out) {
    struct stored arrays[ARRAYS];
    size_t count = 0;
    for (size_t i = 0; i < given.count; i++)
        if (i != left_out) arrays[count++] = given.array[i];
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    safetensors_write(file, given.text, given.texts, arrays, count);
    cr_assert(!fclose(file));
}

static void put(const char *path) {
    put_without(path, SIZE_MAX);
}

#define NOTE "note: other.st has no checksum: damage in it would not be found\n"

static char *written(const char *format, const char *options) {
    static char text[4][32768];
    static int turn;
    char line[512];
    snprintf(line, sizeof line, "%s %s", format, options);
    struct ending ending = train("%s", line);
    // a file that safetensors_write() did not make has no checksum
    cr_assert(ending.status == 0 && (!*ending.err || !strcmp(ending.err, NOTE)), "%s: %s", line,
              ending.err);
    turn = (turn + 1) % 4;
    return strcpy(text[turn], ending.out);
}

/* The file measures and writes what the run does. */
static void expect_the_run(const char *options) {
    cr_expect_str_eq(written("--evaluate=other.st" MEASURE, options),
                     written("--evaluate=out" MEASURE, ""));
    cr_expect_str_eq(written("--generate=other.st" GENERATE, options),
                     written("--generate=out" GENERATE, ""));
}

static void expect_refused(int status, const char *options, const char *part) {
    struct ending ending = train("--generate=other.st %s", options);
    expect_refusal(&ending, status, part);
    ending = train("--evaluate=other.st %s other.txt", options);
    expect_refusal(&ending, status, part);
}

Test(exchange, what_a_file_does_not_say_is_asked_for) {
    put("other.st");
    expect_refused(STATUS_USAGE, "",
                   "other.st: does not say how many heads it has (give --n-head=N");
    expect_refused(STATUS_USAGE, "--n-head=2",
                   "other.st: has no vocabulary (give --vocabulary=FILE, the text that it was");
    expect_the_run(SAY);
    cr_expect_str_neq(written("--evaluate=other.st" MEASURE, SAY "--n-head=4"),
                      written("--evaluate=out" MEASURE, ""), "the heads make no difference");
    expect_refused(STATUS_USAGE, SAY "--n-head=3", "--n-embd=8: cannot be split");
}

Test(exchange, what_a_file_says_need_not_be_asked_for) {
    say("format", "pt");
    say("n-head", "2");
    say("vocabulary", "10 32 44 46 97 99 100 101 103 104 110 111 115 116");
    put("other.st");
    expect_the_run("");
    expect_refused(STATUS_USAGE, "--n-head=4", "--n-head=4: contradicts --n-head=2 of other.st");
}

Test(exchange, a_config_file_says_what_the_file_does_not) {
    put("other.st");
    cr_expect_str_eq(
        written("--evaluate=other.st" MEASURE, "--config=out/config.ini --vocabulary=text.txt"),
        written("--evaluate=out" MEASURE, ""));
}

Test(exchange, either_name_of_the_tied_head) {
    put_without("other.st", place_of(head));
    expect_the_run(SAY);
    put_without("other.st", place_of(wte));
    expect_the_run(SAY);
    given.array[place_of(head)].name = "embedding";
    put_without("other.st", place_of(wte));
    expect_refused(STATUS_MACHINE, SAY, "other.st: holds no model with nanoGPT's names");
}

Test(exchange, a_head_of_its_own_is_refused) {
    given.value[place_of(head)][3] += 0.001F;
    put("other.st");
    expect_refused(STATUS_MACHINE, SAY, "lm_head.weight: is not transformer.wte.weight");
}

/* As nanoGPT's state dicts have them without PyTorch 2's own attention. */
Test(exchange, causal_masks_are_no_weights) {
    const size_t shape[] = {1, 1, 8, 8};
    struct stored *mask = add("transformer.h.0.attn.bias", STORED_F32, 4, shape);
    put("other.st");
    expect_the_run(SAY);
    mask->type = STORED_OTHER; // BOOL
    put("other.st");
    expect_the_run(SAY);
}

Test(exchange, the_prefix_of_a_compiled_model) {
    for (size_t i = 0; i < given.count; i++) {
        char name[NAME];
        strcpy(name, given.name[i]);
        cr_assert(snprintf(given.name[i], NAME, "_orig_mod.%s", name) < NAME);
    }
    put("other.st");
    expect_the_run(SAY);
}

Test(exchange, no_array_may_be_missing) {
    for (size_t i = 0; i < given.count; i++) {
        if (!strcmp(given.name[i], wte) || !strcmp(given.name[i], head)) continue;
        put_without("other.st", i);
        expect_refused(STATUS_MACHINE, SAY, "other.st: ");
    }
    put_without("other.st", place_of("transformer.h.0.mlp.c_fc.weight"));
    expect_refused(STATUS_MACHINE, SAY, "transformer.h.0.mlp.c_fc.weight: is missing");
}

Test(exchange, no_array_may_be_too_many) {
    static const char *const names[] = {"transformer.h.1.ln_1.weight", "transformer.h.0.ln_3.bias",
                                        "transformer.ln_f.running_mean", "classifier.weight"};
    const size_t shape[] = {8};
    char why[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i], STORED_F32, 1, shape);
        put("other.st");
        snprintf(why, sizeof why, "other.st: %s: is not part of this model", names[i]);
        expect_refused(STATUS_MACHINE, SAY, why);
        given.count--;
    }
}

Test(exchange, every_array_has_its_shape) {
    for (size_t i = 0; i < given.count; i++) {
        struct stored *array = &given.array[i], before = *array;
        array->shape[0]--;
        put("other.st");
        if (strcmp(array->name, "transformer.wpe.weight") != 0) // a shorter context is one too
            expect_refused(STATUS_MACHINE, SAY, "other.st: ");
        array->shape[0] = 1;
        array->dimensions++;
        memcpy(array->shape + 1, before.shape, sizeof before.shape - sizeof *before.shape);
        put("other.st");
        expect_refused(STATUS_MACHINE, SAY, "other.st: ");
        *array = before;
    }
    struct stored *array = &given.array[place_of("transformer.h.0.mlp.c_fc.weight")];
    array->shape[0] = 8; // transposed, as GPT-2's own files are
    array->shape[1] = 32;
    put("other.st");
    expect_refused(STATUS_MACHINE, SAY, "mlp.c_fc.weight: has another shape than the model's");
}

Test(exchange, every_array_holds_numbers) {
    size_t i = place_of("transformer.h.0.ln_2.bias");
    given.array[i].type = STORED_OTHER;
    put("other.st");
    expect_refused(STATUS_MACHINE, SAY, "transformer.h.0.ln_2.bias: is of type BOOL");
    given.array[i].type = STORED_F32;
    given.value[i][7] = NAN;
    put("other.st");
    expect_refused(STATUS_MACHINE, SAY, "transformer.h.0.ln_2.bias: holds nan or infinity");
}

Test(exchange, the_vocabulary_must_fit) {
    file_put("short.txt", "the cat", 7);
    put("other.st");
    expect_refused(STATUS_MACHINE, "--n-head=2 --vocabulary=short.txt",
                   "other.st: its embedding has 14 characters, but its vocabulary has 6");
    say("vocabulary", "10 32 44");
    put("other.st");
    expect_refused(STATUS_MACHINE, "--n-head=2",
                   "its embedding has 14 characters, but its vocabulary has 3");
    expect_the_run(SAY); // the command line's goes before the file's
    given.text[0].text = "32 10";
    put("other.st");
    expect_refused(STATUS_MACHINE, "--n-head=2", "its vocabulary is not a list of ascending");
}

Test(exchange, what_no_array_shows_the_command_line_may_say) {
    put("other.st");
    char *usual = written("--evaluate=other.st" MEASURE, SAY);
    static const char *const options[] = {"--act=relu", "--act=gelu-tanh", "--norm-eps=0.1"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char line[128];
        snprintf(line, sizeof line, SAY "%s", options[i]);
        cr_expect_str_neq(written("--evaluate=other.st" MEASURE, line), usual, "%s", options[i]);
    }
    expect_refused(STATUS_USAGE, SAY "--n-layer=2", "--n-layer=2: contradicts --n-layer=1 of");
    expect_refused(STATUS_USAGE, SAY "--bias=off", "--bias=off: contradicts --bias=on of");
    say("act", "gelu");
    put("other.st");
    expect_refused(STATUS_USAGE, SAY "--act=relu", "--act=relu: contradicts --act=gelu of other");
}

Test(exchange, texts_must_not_contradict_the_arrays) {
    static const struct stored_text wrong[] = {
        {"n-layer", "2"}, {"n-embd", "16"}, {"block-size", "16"}, {"bias", "off"}};
    given.texts = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        given.text[0] = wrong[i];
        put("other.st");
        expect_refused(STATUS_MACHINE, SAY, "other.st: n-layer, n-embd,");
    }
    given.text[0] = (struct stored_text){"n-head", "many"};
    put("other.st");
    expect_refused(STATUS_USAGE, SAY, "other.st: n-head=many: must be a whole number");
}

ParameterizedTestParameters(exchange_norms, every_model_without_its_texts) {
    return every_pair();
}

ParameterizedTest(struct pair *pair, exchange_norms, every_model_without_its_texts) {
    char options[256];
    snprintf(options, sizeof options, "%s ", pair_options(pair));
    learn(options);
    put("other.st");
    strcat(options, SAY);
    expect_the_run(options);
}

/* --- types of numbers --------------------------------------------------------------------------
 */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Half precision by its bits: its exponent means 2^-15 where a float's means 2^-127. */
static float half_of(uint32_t bits) {
    uint32_t sign = bits >> 15 << 31, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    return (sign ? -1.0F : 1.0F) * (float)fraction * 0x1p-24F;
}

Test(exchange, every_number_of_16_bits) {
    enum { COUNT = 1 << 16 };
    uint16_t *bits = malloc(COUNT * sizeof *bits);
    float *got = malloc(COUNT * sizeof *got);
    double *wide = malloc(COUNT * sizeof *wide);
    for (uint32_t i = 0; i < COUNT; i++) bits[i] = (uint16_t)i;
    for (int type = STORED_F16; type <= STORED_BF16; type++) {
        struct stored array = {
            .name = "all", .type = type, .dimensions = 1, .shape = {COUNT}, .data = bits};
        FILE *stream = fopen("all.st", "wb");
        safetensors_write(stream, NULL, 0, &array, 1);
        fclose(stream);
        struct safetensors file;
        safetensors_open(&file, "all.st");
        safetensors_read(&file, &file.arrays[0], STORED_F32, got);
        safetensors_read(&file, &file.arrays[0], STORED_F64, wide);
        safetensors_close(&file);
        size_t wrong = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            float want = type == STORED_F16 ? half_of(i) : float_of(i << 16);
            bool same = isnan(want) ? isnan(got[i]) && isnan(wide[i])
                                    : bits_of(got[i]) == bits_of(want) && wide[i] == (double)want;
            wrong += !same;
        }
        cr_expect(wrong == 0, "%zu of type %d", wrong, type);
    }
    free(bits);
    free(got);
    free(wide);
}

/* The nearest number of half precision towards 0. */
static uint16_t half_below(float value) {
    uint32_t bits = bits_of(value), exponent = bits >> 23 & 255, sign = bits >> 31 << 15;
    cr_assert(exponent < 127 + 15, "too large a weight for the test");
    if (exponent < 127 - 14) return (uint16_t)(sign | (uint32_t)(fabsf(value) * 0x1p24F));
    return (uint16_t)(sign | (exponent - 127 + 15) << 10 | (bits >> 13 & 1023));
}

/* Weights that have been rounded give the same whether they stand there in 16, 32 or 64 bits. */
Test(exchange, half_and_double_precision) {
    static uint16_t half[ARRAYS][VALUES];
    static double wide[ARRAYS][VALUES];
    char rounded[2][256], *before;
    for (int type = STORED_F16; type <= STORED_BF16; type++) {
        for (size_t i = 0; i < given.count; i++)
            for (size_t k = 0; k < stored_count(&given.array[i]); k++) {
                float *value = &given.value[i][k];
                half[i][k] =
                    type == STORED_F16 ? half_below(*value) : (uint16_t)(bits_of(*value) >> 16);
                *value =
                    type == STORED_F16 ? half_of(half[i][k]) : float_of((uint32_t)half[i][k] << 16);
                wide[i][k] = (double)*value;
            }
        put("other.st");
        char *want =
            strcpy(rounded[type - STORED_F16], written("--evaluate=other.st" MEASURE, SAY));
        for (size_t i = 0; i < given.count; i++) {
            given.array[i].type = type;
            given.array[i].data = half[i];
        }
        put("half.st");
        cr_expect_str_eq(written("--evaluate=half.st" MEASURE, SAY), want);
        for (size_t i = 0; i < given.count; i++) {
            given.array[i].type = STORED_F64;
            given.array[i].data = wide[i];
        }
        put("wide.st");
        cr_expect_str_eq(written("--evaluate=wide.st" MEASURE, SAY), want);
        for (size_t i = 0; i < given.count; i++) {
            given.array[i].type = STORED_F32;
            given.array[i].data = given.value[i];
        }
    }
    before = written("--evaluate=out" MEASURE, "");
    cr_expect_str_neq(rounded[0], before, "rounding makes no difference");
    cr_expect_str_neq(rounded[1], rounded[0], "rounding makes no difference");
}

/* --- files of other writers --------------------------------------------------------------------
 */

/* As the format allows and safetensors_write() never does it: blanks, escapes, members and arrays
   in another order than the numbers, the texts last, no padding, no checksum. */
static void put_otherwise(const char *path) {
    size_t length, at = 0, begin[ARRAYS];
    char *header;
    FILE *json = open_memstream(&header, &length), *file = fopen(path, "wb");
    for (size_t i = given.count; i-- > 0;) {
        begin[i] = at;
        at += 4 * stored_count(&given.array[i]);
    }
    fputc('{', json);
    for (size_t i = 0; i < given.count; i++) {
        const struct stored *array = &given.array[i];
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
    for (size_t i = given.count; i-- > 0;)
        fwrite(given.value[i], 4, stored_count(&given.array[i]), file);
    cr_assert(!fclose(file));
    free(header);
}

Test(exchange, a_file_of_another_writer) {
    put_otherwise("other.st");
    expect_the_run("--vocabulary=text.txt");
}

/* In a run's folder a header without checksum could be a run's, changed. */
Test(exchange, a_folder_holds_runs) {
    cr_assert(!mkdir("folder", 0777));
    put_otherwise("folder/model.safetensors");
    struct ending ending = train("--generate=folder --vocabulary=text.txt");
    expect_refusal(&ending, STATUS_MACHINE,
                   "its header has no checksum, so a run did not write it");
    ending = train("--generate=folder/model.safetensors --vocabulary=text.txt --num-chars=3");
    cr_expect(ending.status == 0 && strlen(ending.out) == 4, "%s", ending.err);
}

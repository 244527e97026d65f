/* Files that were changed after ./train wrote them. scripts/load_pytorch.py refuses a model's file
   with a flipped bit, so scripts/normlab.py never loads damaged weights. A changed log.csv or
   probes.csv is read, with a warning. */
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(load, .init = folder_enter, .fini = folder_leave);

static void run_make(void) {
    struct ending ending = train("--n-layer=1 --n-head=1 --n-embd=4 --block-size=4 --max-iters=4 "
                                 "--eval-iters=1 --sample=0 --log-interval=1 --probe-interval=1 "
                                 "--out=out");
    cr_assert(ending.status == 0, "%s", ending.err);
}

Test(load, a_flipped_bit_is_refused) {
    size_t bytes;
    run_make();
    struct ending ending = script("load_pytorch.py out");
    cr_assert(ending.status == 0, "%s", ending.err);
    char *model = file_text("out/model.safetensors", &bytes);
    const size_t places[] = {9, 40, bytes / 3, bytes / 2, bytes - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        model[places[i]] ^= 1;
        file_put("out/model.safetensors", model, bytes);
        ending = script("load_pytorch.py out");
        cr_expect(ending.status == 1, "byte %zu: status %d", places[i], ending.status);
        expect_part(ending.err, "model.safetensors: not a valid safetensors file");
        model[places[i]] ^= 1;
    }
}

Test(load, a_missing_run_is_one_line) {
    struct ending ending = script("load_pytorch.py nosuch");
    cr_expect(ending.status == 1 && !*ending.out);
    cr_expect_str_eq(ending.err, "load_pytorch: nosuch: No such file or directory\n");
}

/* Commands that read out/NAME, with and without the warning that it was changed. */
static void expect_warnings(const char *name, const char *const *commands, bool changed) {
    for (; *commands; commands++) {
        char warning[256];
        const char *command = *commands;
        snprintf(warning, sizeof warning,
                 "%.*s: out/%s: was changed or damaged after the last checkpoint (its checksum "
                 "differs from log.crc32)\n",
                 (int)strcspn(command, "."), command, name);
        struct ending ending = script("%s", command);
        cr_expect(ending.status == 0, "%s: status %d", command, ending.status);
        cr_expect_str_eq(ending.err, changed ? warning : "", "%s: %s", command, ending.err);
    }
}

/* Changes a byte of a table, cuts it short, and adds a row, which no checksum covers yet. */
static void check_table(const char *name, const char *row, const char *const *commands) {
    char path[64];
    size_t bytes;
    snprintf(path, sizeof path, "out/%s", name);
    char *text = file_text(path, &bytes);
    cr_assert(text);
    char *digit = strchr(strchr(text, '\n'), '.') + 1;
    expect_warnings(name, commands, false);
    *digit ^= 1;
    file_put(path, text, bytes);
    expect_warnings(name, commands, true);
    *digit ^= 1;
    file_put(path, text, (size_t)(strchr(strchr(text, '\n') + 1, '\n') + 1 - text));
    expect_warnings(name, commands, true);
    FILE *file = fopen(path, "w");
    cr_assert(file && fprintf(file, "%s%s", text, row) > 0 && !fclose(file));
    expect_warnings(name, commands, false);
}

Test(load, a_changed_log_is_read_with_a_warning) {
    run_make();
    check_table("log.csv", "9,9,9,0.001,4,,1,9\n",
                (const char *const[]){"plot.py out -o a.svg", "table.py out", NULL});
}

Test(load, changed_probes_are_read_with_a_warning) {
    run_make();
    check_table("probes.csv", "9,0,attn,stream_rms,1\n",
                (const char *const[]){"plot.py --probes=layers out -o a.svg", NULL});
}

Test(load, a_damaged_list_of_checksums_is_said) {
    run_make();
    text_put("out", "log.crc32", "log.csv 17");
    struct ending ending = script("plot.py out -o a.svg");
    cr_expect(ending.status == 0);
    cr_expect_str_eq(ending.err,
                     "plot: out/log.crc32: is damaged: a change of log.csv would not be "
                     "found\n");
}

/* The weights of attention from a dump, as PROBES.md computes them, give attention's output. */
Test(load, numpy_reads_a_dump) {
    run_make();
    struct ending ending = train("--evaluate=out --stats=own --dump=d.st");
    cr_assert(ending.status == 0, "%s", ending.err);
    text_put(".", "weights.py",
             "import numpy as np\n"
             "import model_file\n"
             "path, texts, arrays = model_file.read('d.st')\n"
             "qkv = arrays['transformer.h.0.attn.qkv']\n"
             "T = qkv.shape[1]\n"
             "q, k, v = np.split(qkv.astype(float), 3, axis=2)\n"
             "scores = q @ k.swapaxes(1, 2) / q.shape[2] ** 0.5\n"
             "weights = np.exp(scores + np.triu(np.full((T, T), -np.inf), 1))\n"
             "weights /= weights.sum(2, keepdims=True)\n"
             "output = arrays['transformer.h.0.attn.output']\n"
             "print(texts['statistics'], float(texts['loss']) > 0)\n"
             "print(arrays['ids'].dtype, np.abs(weights @ v - output).max() < 1e-6)\n"
             "print(arrays['grad.transformer.wpe.weight'].shape)\n");
    ending = bash("export PYTHONPATH=$SCRIPTS; for python in python3 /usr/bin/python3; do\n"
                  "$python -c 'import numpy' 2>error && exec $python weights.py; done; "
                  "cat error >&2; exit 1");
    cr_assert(ending.status == 0, "%s", ending.err);
    cr_expect_str_eq(ending.out, "own True\nint64 True\n(4, 4)\n");
}

/* Folders of Hugging Face transformers, which scripts/load_pytorch.py writes (--to-hf) and reads
   (--from-hf). What needs numpy only is tested here: the files, the way there and back, and what is
   refused. Where transformers is installed, tests/check_hf.py compares its logits, its text and its
   tokens with those of ./train; otherwise that test is skipped. */
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(hf, .init = folder_enter, .fini = folder_leave);

static void learn(const char *options) {
    text_put(".", "text.txt",
             "the cat \"sat\"\ton l'\xc3\xa9t\xc3\xa9 \\ \xe6\x97\xa5\n"
             "the mat, the cat, the \xe6\x97\xa5 and the mat\nthe end\n");
    struct ending ending = train(TINY "--max-iters=20 --learning-rate=0.02 --force --quiet "
                                      "--val-fraction=0.3 --out=out %s text.txt",
                                 options);
    cr_assert(ending.status == 0, "%s: %s", options, ending.err);
}

/* Runs lines of Python with numpy, and with scripts/ on its path. */
static struct ending python(const char *lines) {
    text_put(".", "lines.py", lines);
    return bash("export PYTHONPATH=$SCRIPTS; for python in python3 /usr/bin/python3; do\n"
                "$python -c 'import numpy' 2>error && exec $python lines.py; done; "
                "cat error >&2; exit 1");
}

static void expect_printed(const char *lines, const char *printed) {
    struct ending ending = python(lines);
    cr_assert(ending.status == 0, "%s", ending.err);
    cr_expect_str_eq(ending.out, printed);
}

static void to_hf(void) {
    struct ending ending = script("load_pytorch.py out --to-hf=hf");
    expect_success(&ending);
}

/* Fails unless load_pytorch.py ends with this status and one line that contains `part`. */
static void expect_refused(int status, const char *arguments, const char *part) {
    struct ending ending = script("load_pytorch.py %s", arguments);
    cr_expect(ending.status == status, "%s: status %d: %s", arguments, ending.status, ending.err);
    cr_expect(!strncmp(ending.err, "load_pytorch: ", 14), "%s", ending.err);
    cr_expect(strchr(ending.err, '\n') == ending.err + strlen(ending.err) - 1, "%s", ending.err);
    expect_part(ending.err, part);
}

static const char compare[] =
    "import model_file\n"
    "(_, said, before), (_, says, after) = map(model_file.read, ('out', 'back.st'))\n"
    "wrong = [name for name in before.keys() | after.keys() if not (\n"
    "    name in before and name in after and before[name].tobytes() == after[name].tobytes())]\n"
    "wrong += [name for name in ('head', 'act', 'placement', 'items') if name in says\n"
    "          and said[name] != says[name]]\n"
    "print(len(before) > 8, [name for name in wrong if name in after or name in says\n"
    "                        or before[name].any()])\n";

struct variant {
    char options[80], class[24];
};

ParameterizedTestParameters(hf, there_and_back) {
    static struct variant variants[] = {
        {"--preset=gpt2", "GPT2LMHeadModel"},
        {"--preset=gpt2 --act=gelu --bias=off", "GPT2LMHeadModel"},
        {"--preset=gpt2 --act=relu2 --head=untied --level=byte --ffn-width=12", "GPT2LMHeadModel"},
        {"--preset=gpt2 --items", "GPT2LMHeadModel"},
        {"--preset=llama", "LlamaForCausalLM"},
        {"--preset=llama --n-kv-head=1 --head=tied --rope-theta=300 --norm-eps=1e-3",
         "LlamaForCausalLM"},
        {"--preset=llama --bias=on --act=geglu", "LlamaForCausalLM"},
        {"--preset=qwen3 --n-kv-head=1", "Qwen3ForCausalLM"},
        {"--preset=olmo2 --n-kv-head=1 --head=tied", "Olmo2ForCausalLM"},
        {"--preset=gemma2 --n-kv-head=1 --attn-softcap=2 --n-embd=24", "Gemma2ForCausalLM"},
        {"--preset=gemma2 --logit-softcap=0 --head=untied --n-embd=16", "Gemma2ForCausalLM"},
    };
    return cr_make_param_array(struct variant, variants, sizeof variants / sizeof *variants);
}

/* A model that has been there and back has the same weights to the bit, loss and text. */
ParameterizedTest(struct variant *variant, hf, there_and_back) {
    learn(variant->options);
    struct ending ending = script("load_pytorch.py out --to-hf=hf");
    cr_assert(ending.status == 0, "%s: %s", variant->options, ending.err);
    expect_part(ending.out, variant->class);
    ending = script("load_pytorch.py --from-hf=hf -o back.st");
    cr_assert(ending.status == 0, "%s: %s", variant->options, ending.err);
    expect_part(ending.out, variant->class);
    expect_printed(compare, "True []\n");
    text_put(".", "other.txt", "the mat \"sat\" on the cat\nthe mat and the cat\n");
    struct ending before = train("--evaluate=out --batch-size=2 --quiet other.txt");
    ending = train("--evaluate=back.st --batch-size=2 --quiet other.txt");
    cr_expect(ending.status == 0, "%s: %s", variant->options, ending.err);
    cr_expect_str_eq(ending.out, before.out, "%s", variant->options);
    if (strstr(variant->options, "--items")) return; // the run knows the items of its corpus
    before = train("--generate=out --prompt=the --num-chars=30");
    ending = train("--generate=back.st --prompt=the --num-chars=30");
    cr_expect(ending.status == 0, "%s: %s", variant->options, ending.err);
    cr_expect_str_eq(ending.out, before.out, "%s", variant->options);
}

Test(hf, what_is_in_the_folder) {
    learn("--preset=llama --n-kv-head=1");
    to_hf();
    cr_expect(files_in("hf") == 4);
    expect_printed(
        "import json, model_file\n"
        "config, tokenizer, shown = (json.load(open(f'hf/{name}.json', encoding='utf-8'))\n"
        "    for name in ('config', 'tokenizer', 'tokenizer_config'))\n"
        "texts, arrays = model_file.read('hf')[1:]\n"
        "print(texts['format'], config['architectures'], config['model_type'])\n"
        "print(config['num_key_value_heads'], config['rope_parameters'], config['hidden_act'])\n"
        "print(config['vocab_size'], config['bos_token_id'], config['eos_token_id'])\n"
        "print(arrays['model.layers.0.self_attn.k_proj.weight'].shape, len(arrays))\n"
        "vocab = tokenizer['model']['vocab']\n"
        "ids = model_file.symbols_of(model_file.read('out')[1])\n"
        "print([ord(c) for c in vocab] == ids, list(vocab.values()) == list(range(len(ids))))\n"
        "print(vocab.keys() >= {'\\n', ' ', '\"', '\\\\', '\\t', '\\u00e9', '\\u65e5'})\n"
        "print(shown['tokenizer_class'], tokenizer['added_tokens'])\n",
        "pt ['LlamaForCausalLM'] llama\n"
        "1 {'rope_type': 'default', 'rope_theta': 10000.0} silu\n"
        "20 None None\n(4, 8) 12\nTrue True\nTrue\nPreTrainedTokenizerFast []\n");
}

Test(hf, what_has_no_class_is_refused) {
    static const struct {
        const char *options, *part;
    } rows[] = {
        {"--preset=gpt2 --norm=bn", "fits: GPT2LMHeadModel needs norm=ln, not bn"},
        {"--preset=llama --norm=ln", "fits: LlamaForCausalLM needs norm=rms, not ln"},
        {"--preset=gpt2 --postln", "fits: GPT2LMHeadModel needs placement=pre, not post"},
        {"--preset=llama --norm-ffn=ln", "fits: LlamaForCausalLM needs norm-ffn=rms, not ln"},
        {"--preset=gpt2 --n-kv-head=1", "fits: GPT2LMHeadModel needs n-kv-head=2, not 1"},
        {"--preset=llama --act=gelu", "needs act=swiglu|geglu|geglu-tanh|reglu, not gelu"},
        {"--preset=olmo2 --qk-norm-over=head",
         "; Olmo2ForCausalLM needs qk-norm-over=width, not h"},
        {"--preset=qwen3 --bias=on", "fits: LlamaForCausalLM needs qk-norm=none, not rms; Qwen3F"},
        {"--preset=llama --attn-softcap=5", "LlamaForCausalLM needs attn-softcap=0, not 5"},
        {"--preset=llama --affine=off", "LlamaForCausalLM needs affine=on, not off"},
        {"--preset=gpt2 --embd-scale=learned",
         "GPT2LMHeadModel needs embd-scale=none, not learned"},
        {"--preset=gpt2 --norm=dyt --postln --qk-norm=ln",
         "fits: GPT2LMHeadModel needs norm=ln, not dyt, placement=pre, not post, qk-norm=none, "
         "not"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        learn(rows[i].options);
        expect_refused(2, "out --to-hf=hf", rows[i].part);
        cr_expect(!file_there("hf"), "%s", rows[i].options);
    }
}

Test(hf, a_folder_of_something_else_is_kept) {
    learn("--preset=llama");
    cr_assert(!mkdir("other", 0777));
    text_put("other", "notes", "mine");
    expect_refused(2, "out --to-hf=other", "other: holds something that --to-hf did not write");
    text_put("other", "config.json", "{\"model_type\": \"llama\"}");
    expect_refused(2, "out --to-hf=other", "other: holds something that --to-hf did not write");
    expect_refused(2, "out --to-hf=text.txt", "text.txt: is no folder");
    cr_expect(files_in("other") == 2);
    to_hf(); // an own folder may be replaced, and an empty one filled
    to_hf();
    cr_assert(!mkdir("empty", 0777));
    struct ending ending = script("load_pytorch.py out --to-hf=empty");
    expect_success(&ending);
}

/* Replaces `from` by `to` in hf/config.json. */
static void change_config(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    char changed[4096];
    cr_assert(at, "no %s", from);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    text_put("hf", "config.json", changed);
}

Test(hf, a_config_that_does_not_fit_is_refused) {
    static const struct {
        const char *from, *to, *part;
    } rows[] = {
        {"\"llama\"", "\"mamba\"", "model_type=mamba: ./train can be gpt2, llama, qwen3, olmo2, "},
        {"\"hidden_size\"", "\"size\"", "hf/config.json: has no hidden_size"},
        {"\"hidden_size\": 8", "\"hidden_size\": \"a\"", "hidden_size=\"a\": ./train cannot be so"},
        {"\"hidden_size\": 8", "\"hidden_size\": 16", "its heads have another size than 16/2"},
        {"\"intermediate_size\": 32", "\"intermediate_size\": 999999999999",
         "gate_proj.weight: has shape (32, 8), but (999999999999, 8) in a LlamaForCausalLM"},
        {"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2",
         "model.layers.1.input_layernorm.weight: is missing"},
        {"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 0", "is not part of a LlamaForC"},
        {"\"silu\"", "\"mish\"", "hidden_act=\"mish\": ./train cannot be so"},
        {"\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"",
         "\"yarn\", \"rope_theta\": 10000.0}: "},
        {"\"rope_theta\": 10000.0,", "\"rope_theta\": 5.0,", "rope_theta=5.0: contradicts"},
        {"\"made_by\": ", "\"quantization_config\": {\"bits\": 4}, \"made_by\": ",
         "quantization_config={\"bits\": 4}: ./train has only null"},
        {"{", "", "hf/config.json: is not the config.json of a model"},
    };
    learn("--preset=llama");
    to_hf();
    char *text = file_text("hf/config.json", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        change_config(text, rows[i].from, rows[i].to);
        expect_refused(1, "--from-hf=hf -o back.st", rows[i].part);
    }
    cr_expect(!file_there("back.st"));
}

Test(hf, missing_and_damaged_files_are_refused) {
    expect_refused(1, "--from-hf=nosuch -o back.st",
                   "nosuch/config.json: No such file or directory");
    learn("--preset=gpt2");
    to_hf();
    char *tokenizer = file_text("hf/tokenizer.json", NULL);
    text_put("hf", "tokenizer.json", "{\"model\": 1}");
    expect_refused(1, "--from-hf=hf -o back.st", "hf/tokenizer.json: is not a tokenizer");
    unlink("hf/tokenizer.json");
    struct ending ending = script("load_pytorch.py --from-hf=hf -o back.st");
    cr_expect(ending.status == 0);
    expect_part(ending.out, "; ./train will need --vocabulary");
    text_put("hf", "tokenizer.json", tokenizer);
    text_put("hf", "model.safetensors.index.json", "{\"weight_map\": {\"a\": 1}}");
    unlink("hf/model.safetensors");
    expect_refused(1, "--from-hf=hf -o back.st", "index.json: is no list of files");
    unlink("hf/model.safetensors.index.json");
    expect_refused(1, "--from-hf=hf -o back.st", "hf/model.safetensors: No such file or directory");
    text_put("hf", "model.safetensors", "no model");
    expect_refused(1, "--from-hf=hf -o back.st", "hf/model.safetensors: not a valid safetensors");
}

Test(hf, options_that_do_not_belong_together_are_refused) {
    expect_refused(2, "out --to-hf=hf --nanogpt=model.py", "--to-hf, --nanogpt: one of them");
    expect_refused(2, "--from-hf=hf", "--from-hf: needs -o FILE");
    expect_refused(2, "out --from-hf=hf -o back.st", "--from-hf: needs -o FILE, and takes no RUN");
    expect_refused(2, "--from-hf=hf --from-nanogpt=a -o b",
                   "--from-nanogpt, --from-hf: one of them");
    expect_refused(2, "out --encode=text.txt", "--encode, --decode, --block-size: only with");
    expect_refused(2, "--from-hf=hf -o b --meta=a", "--meta: only with --from-nanogpt");
}

/* Files as other programs write them: 16 bits, in parts, without the first component of the names,
   with buffers among the weights; and a shorter context. */
Test(hf, files_of_other_programs) {
    learn("--preset=gpt2 --bias=off");
    to_hf();
    expect_printed(
        "import json, os, numpy, model_file\n"
        "path, texts, arrays = model_file.read('hf')\n"
        "arrays = {name.removeprefix('transformer.'): array for name, array in arrays.items()}\n"
        "arrays['h.0.attn.bias'] = numpy.ones((1, 1, 8, 8), 'f4')\n"
        "names = sorted(arrays)\n"
        "for part in range(2):\n"
        "    header, data = {}, b''\n"
        "    for name in names[part::2]:\n"
        "        bits = arrays[name].astype('f4').view('u4') >> 16\n"
        "        values = (bits.astype('u2') if part else arrays[name].astype('f2')).tobytes()\n"
        "        header[name] = {'dtype': ['F16', 'BF16'][part], 'shape': arrays[name].shape,\n"
        "                        'data_offsets': [len(data), len(data) + len(values)]}\n"
        "        data += values\n"
        "    header = json.dumps(header).encode()\n"
        "    open(f'hf/{part}.safetensors', 'wb').write(len(header).to_bytes(8, 'little') + "
        "header\n"
        "                                              + data)\n"
        "json.dump({'weight_map': {name: f'{i % 2}.safetensors' for i, name in "
        "enumerate(names)}},\n"
        "          open('hf/model.safetensors.index.json', 'w'))\n"
        "os.remove('hf/model.safetensors')\n",
        "");
    struct ending ending = script("load_pytorch.py --from-hf=hf -o back.st --block-size=5");
    expect_success(&ending);
    expect_printed(
        "import numpy, model_file\n"
        "before, (_, texts, after) = model_file.read('out')[2], model_file.read('back.st')\n"
        "before['transformer.wpe.weight'] = before['transformer.wpe.weight'][:5]\n"
        "print(texts['block-size'], texts['bias'], before.keys() == after.keys())\n"
        "print(all(numpy.allclose(before[name], after[name], rtol=0.01, atol=1e-4)\n"
        "          for name in before))\n",
        "5 off True\nTrue\n");
    ending = train("--evaluate=back.st --batch-size=2 text.txt");
    cr_expect(ending.status == 0, "%s", ending.err);
    expect_refused(2, "--from-hf=hf -o back.st --block-size=9",
                   "--block-size=9: must be from 1 to 8");
}

/* A vocabulary in another order than ./train's is sorted, with the rows of the embedding. */
Test(hf, a_vocabulary_in_another_order) {
    learn("--preset=llama");
    to_hf();
    expect_printed(
        "import json, model_file\n"
        "path, texts, arrays = model_file.read('hf')\n"
        "with open('hf/tokenizer.json', encoding='utf-8') as file:\n"
        "    tokenizer = json.load(file)\n"
        "vocab = tokenizer['model']['vocab']\n"
        "tokenizer['model']['vocab'] = {c: len(vocab) - 1 - i for c, i in vocab.items()}\n"
        "json.dump(tokenizer, open('hf/tokenizer.json', 'w'))\n"
        "for name in 'model.embed_tokens.weight', 'lm_head.weight':\n"
        "    arrays[name] = arrays[name][::-1]\n"
        "model_file.write(path, texts, arrays)\n",
        "");
    struct ending ending = script("load_pytorch.py --from-hf=hf -o back.st");
    expect_success(&ending);
    expect_printed(compare, "True []\n");
}

/* ---- with transformers ---- */

ParameterizedTestParameters(hf, agrees_with_transformers) {
    static const char words[][8] = {"gpt2", "llama", "qwen3", "olmo2", "gemma2", "pieces"};
    return cr_make_param_array(char[8], (void *)words, sizeof words / sizeof *words);
}

ParameterizedTest(const char *word, hf, agrees_with_transformers) {
    struct ending ending = script("../tests/check_hf.py %s", word);
    if (ending.status == 1 && strstr(ending.err, "No module named"))
        skip("hf", "no transformers (pip install torch transformers)");
    cr_expect(ending.status == 0, "status %d:\n%s%s", ending.status, ending.err, ending.out);
    if (ending.status == 0) expect_part(ending.out, ": 0 differences");
}

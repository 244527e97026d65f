"""Folders of Hugging Face transformers, which load_pytorch.py writes (--to-hf) and reads (--from-hf): the files,
conversion in both directions, and what is refused. Where transformers is installed, its logits, its text and its tokens
are those of ./train."""
import json
import shutil

import numpy
import pytest

from conftest import TINY, needs
from pytorch import model_file
from pytorch.hf_classes import CLASSES, class_of
from pytorch.options import MODEL, Config

TEXT = ('the cat "sat"\ton l\'été \\ 日\nthe mat, the cat, [UNK] 日 and the mat\nthe <s> end\n') * 20
VARIANTS = {  # options of ./train, and the class of the model
    "--preset=gpt2": "GPT2LMHeadModel",
    "--preset=gpt2 --act=gelu --bias=off": "GPT2LMHeadModel",
    "--preset=gpt2 --act=relu2 --head=untied --level=byte --ffn-width=12": "GPT2LMHeadModel",
    "--preset=gpt2 --act=silu --items": "GPT2LMHeadModel",
    "--preset=llama": "LlamaForCausalLM",
    "--preset=llama --n-kv-head=1 --head=tied --rope-theta=300 --norm-eps=1e-3": "LlamaForCausalLM",
    "--preset=llama --bias=on --act=geglu": "LlamaForCausalLM",
    "--preset=qwen3 --n-kv-head=1": "Qwen3ForCausalLM",
    "--preset=olmo2 --n-kv-head=1 --head=tied": "Olmo2ForCausalLM",
    "--preset=gemma2 --n-kv-head=1 --attn-softcap=2 --n-embd=24": "Gemma2ForCausalLM",
    "--preset=gemma2 --logit-softcap=0 --head=untied --n-embd=16": "Gemma2ForCausalLM"}


@pytest.fixture
def learn(run, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")

    def trained(options):
        ending = run("train", *TINY, "--max-iters=20", "--learning-rate=0.02", "--force", "--quiet", "--eval-interval=250",
                     "--val-fraction=0.3", "--out=out", *options.split(), "text.txt")
        assert ending.status == 0, ending.err
    return trained


@pytest.fixture
def load(run):
    """load_pytorch.py with these options, which must succeed; what it prints."""
    def loaded(options):
        ending = run("load_pytorch.py", *options.split())
        assert ending.status == 0, ending.err
        return ending.out
    return loaded


@pytest.fixture
def refused(run):
    """Fails unless load_pytorch.py ends with this status and one line that contains `part`."""
    def check(status, options, part):
        ending = run("load_pytorch.py", *options.split())
        assert ending.status == status and part in ending.err, ending.err
        assert ending.err.startswith("load_pytorch: ") and ending.err.count("\n") == 1
    return check


def expect_the_same_model():
    """The weights of back.st are those of the run to the bit; biases that it lacks were 0."""
    (_, said, before), (_, says, after) = map(model_file.read, ("out", "back.st"))
    assert len(before) > 8 and after.keys() <= before.keys()
    for name in before:
        if name in after or name in says:
            assert before[name].tobytes() == after[name].tobytes(), name
        else:
            assert not before[name].any(), name
    for name in "head", "act", "placement", "items":
        assert name not in says or said[name] == says[name]


@pytest.mark.parametrize("options, kind", VARIANTS.items())
def test_there_and_back(run, learn, load, tmp_path, options, kind):
    """The same weights to the bit, the same loss and the same text."""
    learn(options)
    assert kind in load("out --to-hf=hf") and kind in load("--from-hf=hf -o back.st")
    expect_the_same_model()
    (tmp_path / "other.txt").write_text('the mat "sat" on the cat\nthe mat and the cat\n')
    uses = ["--evaluate={} --batch-size=2 --quiet other.txt"]
    if "--items" not in options:  # the run knows the items of its corpus
        uses.append("--generate={} --prompt=the --num-chars=30")
    for use in uses:
        before, after = (run("train", *use.format(model).split()) for model in ("out", "back.st"))
        assert (after.status, after.out) == (0, before.out), after.err


def test_what_is_in_the_folder(learn, load, tmp_path):
    learn("--preset=llama --n-kv-head=1")
    load("out --to-hf=hf")
    assert len(list((tmp_path / "hf").iterdir())) == 4
    config, tokenizer = (json.loads((tmp_path / f"hf/{name}.json").read_text(encoding="utf-8"))
                         for name in ("config", "tokenizer"))
    assert (config["model_type"], config["num_key_value_heads"], config["hidden_act"]) == ("llama", 1, "silu")
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 10000.0}
    assert (config["vocab_size"], config["bos_token_id"]) == (len(set(TEXT)), None)
    arrays = model_file.read("hf")[2]
    assert arrays["model.layers.0.self_attn.k_proj.weight"].shape == (4, 8) and len(arrays) == 12
    vocab, ids = tokenizer["model"]["vocab"], model_file.symbols_of(model_file.read("out")[1])
    assert [ord(c) for c in vocab] == ids and list(vocab.values()) == list(range(len(ids)))


@pytest.mark.parametrize("options, part", [
    ("--preset=gpt2 --connection=mhc", "GPT2LMHeadModel needs connection=auto|plain, not mhc"),
    ("--preset=gpt2 --n-kv-head=1", "fits: GPT2LMHeadModel needs n-kv-head=2, not 1"),
    ("--preset=llama --act=gelu", "needs act=swiglu|geglu|geglu-tanh|reglu, not gelu"),
    ("--preset=olmo2 --qk-norm-over=head", "; Olmo2ForCausalLM needs qk-norm-over=width, not h"),
    ("--preset=qwen3 --bias=on", "fits: LlamaForCausalLM needs qk-norm=none, not rms; Qwen3F"),
    ("--preset=llama --affine=off", "LlamaForCausalLM needs affine=on, not off"),
    ("--preset=gpt2 --norm=dyt --postln --qk-norm=ln",
     "fits: GPT2LMHeadModel needs norm=ln, not dyt, qk-norm=none, not ln, placement=pre, not post")])
def test_what_has_no_class_is_refused(learn, refused, tmp_path, options, part):
    learn(options)
    refused(2, "out --to-hf=hf", part)
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("row", CLASSES, ids=lambda row: row.model_type)
def test_an_option_that_a_class_does_not_name_must_have_its_default(row):
    fitting = {name: values[0] for name, values in row.needs.items() if values}
    assert class_of("file", {}, Config(**fitting)) is row
    for name in MODEL.keys() - row.needs - {member.option for member in row.members}:
        other, option = type(MODEL[name])(not MODEL[name]), name.replace("_", "-")
        with pytest.raises(model_file.ModelError, match=f"{row.architecture} needs {option}="):
            class_of("file", {option: "given"}, Config(**fitting, **{name: other}))


@pytest.mark.parametrize("options", [
    "--preset=gpt2 --rms-fraction=0.5 --gated-rank=8 --norm-groups=2",
    "--preset=llama --mix-fraction=0.5 --bn-axis=batch --ts-prior-count=1 --bhyt-kappa=2 --pn-group-scaling=off"])
def test_an_option_without_an_effect_may_have_any_value(learn, load, tmp_path, options):
    learn(options)
    load("out --to-hf=hf")
    assert (tmp_path / "hf" / "config.json").exists()


def test_a_folder_of_something_else_is_kept(learn, load, refused, tmp_path):
    learn("--preset=llama")
    other = tmp_path / "other"
    other.mkdir()
    for name, text in ("notes", "mine"), ("config.json", '{"model_type": "llama"}'):
        (other / name).write_text(text)
        refused(2, "out --to-hf=other", "other: holds something that --to-hf did not write")
    refused(2, "out --to-hf=text.txt", "text.txt: holds something that --to-hf did not write")
    assert len(list(other.iterdir())) == 2
    (tmp_path / "empty").mkdir()
    for folder in "hf", "hf", "empty":  # an own folder may be replaced, and an empty one filled
        load(f"out --to-hf={folder}")


@pytest.mark.parametrize("preset", ("gpt2", "llama"))
def test_the_way_back_is_said(run, learn, load, tmp_path, preset):
    """Each use of such a folder, and of a file from it, names the program that converts it."""
    learn(f"--preset={preset}")
    load("out --to-hf=hf")
    shutil.copy(tmp_path / "hf/model.safetensors", tmp_path / "other.st")
    for use in "generate", "evaluate":
        for place in "hf", "other.st":
            ending = run("train", *TINY, f"--{use}={place}")
            assert ending.status == 1 and "scripts/load_pytorch.py --help shows how to convert others)" in ending.err, ending.err
    ending = run("train", *TINY, "--start=hf", "--out=new", "text.txt")
    assert ending.status == 1 and "hf/model.safetensors: " in ending.err, ending.err


def test_a_head_that_differs_from_the_embedding_is_not_tied_to_it(learn, load, refused, tmp_path):
    learn("--preset=gpt2")
    load("out --to-hf=hf")
    path, texts, arrays = model_file.read("hf")
    head = numpy.array(arrays["transformer.wte.weight"])
    for more in 0, 1:
        model_file.write(path, texts, {**arrays, "lm_head.weight": head + more})
        if not more:
            load("--from-hf=hf -o back.st")
    refused(1, "--from-hf=hf -o back.st", "lm_head.weight: differs from transformer.wte.weight, but "
            "tie_word_embeddings says that they are one")
    config = tmp_path / "hf/config.json"
    config.write_text(config.read_text().replace('"tie_word_embeddings": true', '"tie_word_embeddings": false'))
    load("--from-hf=hf -o back.st")


def test_a_config_that_does_not_fit_is_refused(learn, load, refused, tmp_path):
    learn("--preset=llama")
    load("out --to-hf=hf")
    path = tmp_path / "hf/config.json"
    text = path.read_text()
    for before, after, part in (
            ('"llama"', '"mamba"', "model_type=mamba: ./train can be gpt2, llama, qwen3, olmo2, "),
            ('"hidden_size"', '"size"', "hf/config.json: has no hidden_size"),
            ('"hidden_size": 8', '"hidden_size": "a"', 'hidden_size="a": ./train cannot be so'),
            ('"hidden_size": 8', '"hidden_size": 16', "its heads have another size than 16/2"),
            ('"intermediate_size": 32', '"intermediate_size": 16', "gate_proj.weight: has shape (32, 8), but (16, 8) in a Ll"),
            ('"num_hidden_layers": 1', '"num_hidden_layers": 2', "model.layers.1.input_layernorm.weight: is missing"),
            ('"num_hidden_layers": 1', '"num_hidden_layers": 0', "is not part of a LlamaForC"),
            ('"rope_type": "default"', '"rope_type": "yarn"', '"yarn", "rope_theta": 10000.0}: '),
            ('"rope_theta": 10000.0,', '"rope_theta": 5.0,', "rope_theta=5.0: contradicts"),
            ('"made_by": ', '"quantization_config": {"bits": 4}, "made_by": ',
             'quantization_config={"bits": 4}: ./train has only null'),
            ("{", "", "hf/config.json: is not the config.json of a model")):
        assert before in text
        path.write_text(text.replace(before, after, 1))
        refused(1, "--from-hf=hf -o back.st", part)
    assert not (tmp_path / "back.st").exists()


def test_missing_and_damaged_files_are_refused(learn, load, refused, tmp_path):
    refused(1, "--from-hf=nosuch -o back.st", "nosuch/config.json: No such file or directory")
    learn("--preset=gpt2")
    load("out --to-hf=hf")
    deep = b"[" * 100000
    for name, damaged, part in (
            ("config.json", deep, "hf/config.json: is not the config.json of a model"),
            ("tokenizer.json", b'{"model": 1}', "hf/tokenizer.json: is not a tokenizer"),
            ("model.safetensors", len(deep).to_bytes(8, "little") + deep, "hf/model.safetensors: not a valid safetensors")):
        path = tmp_path / "hf" / name
        before = path.read_bytes()
        path.write_bytes(damaged)
        refused(1, "--from-hf=hf -o back.st", part)
        path.write_bytes(before)
    (tmp_path / "hf/tokenizer.json").unlink()
    assert "; ./train will need --vocabulary" in load("--from-hf=hf -o back.st")
    (tmp_path / "hf/model.safetensors").unlink()
    refused(1, "--from-hf=hf -o back.st", "hf/model.safetensors: No such file or directory")
    (tmp_path / "hf/model.safetensors.index.json").write_text('{"weight_map": {"a": 1}}')
    refused(1, "--from-hf=hf -o back.st", "index.json: is no list of files")


@pytest.mark.parametrize("options, part", [
    ("out --to-hf=hf --nanogpt=model.py", "--nanogpt: not allowed with argument --to-hf"),
    ("--from-hf=hf", "--from-hf: needs -o FILE, --encode=TEXT or --decode=TEXT"),
    ("out --encode=text.txt", "--encode: only with --from-hf"),
    ("--from-hf=hf --to-hf=b -o c", "--to-hf: only with RUN")])
def test_options_that_do_not_belong_together_are_refused(refused, options, part):
    refused(2, options, part)


def test_files_of_other_programs(learn, load, refused, tmp_path):
    """In 16 bits, in two files, names without their first component, buffers among the weights; a shorter context."""
    learn("--preset=gpt2 --bias=off")
    load("out --to-hf=hf")
    arrays = {name.removeprefix("transformer."): array for name, array in model_file.read("hf")[2].items()}
    arrays["h.0.attn.bias"] = numpy.ones((1, 1, 8, 8), "f4")
    names = sorted(arrays)
    for part, kind in enumerate(("F16", "BF16")):
        header, data = {}, b""
        for name in names[part::2]:
            bits = (arrays[name].astype("f4").view("u4") >> 16).astype("u2")
            values = (bits if part else arrays[name].astype("f2")).tobytes()
            header[name] = {"dtype": kind, "shape": arrays[name].shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        header = json.dumps(header).encode()
        (tmp_path / f"hf/{part}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    weight_map = {name: f"{i % 2}.safetensors" for i, name in enumerate(names)}
    (tmp_path / "hf/model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "hf/model.safetensors").unlink()
    load("--from-hf=hf -o back.st --block-size=5")
    before, (_, texts, after) = model_file.read("out")[2], model_file.read("back.st")
    before["transformer.wpe.weight"] = before["transformer.wpe.weight"][:5]
    assert (texts["block-size"], texts["bias"]) == ("5", "off") and before.keys() == after.keys()
    for name, array in before.items():
        assert numpy.allclose(array, after[name], rtol=0.01, atol=1e-4), name
    refused(2, "--from-hf=hf -o back.st --block-size=9", "--block-size=9: must be from 1 to 8")


def test_a_vocabulary_in_another_order(learn, load, tmp_path):
    """It is sorted, with the rows of the embedding."""
    learn("--preset=llama")
    load("out --to-hf=hf")
    file = tmp_path / "hf/tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    vocab = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = dict(zip(vocab, reversed(vocab.values())))
    file.write_text(json.dumps(tokenizer))
    path, texts, arrays = model_file.read("hf")
    model_file.write(path, texts, {name: array[::-1] if name in ("model.embed_tokens.weight", "lm_head.weight") else array
                                   for name, array in arrays.items()})
    load("--from-hf=hf -o back.st")
    expect_the_same_model()


# ---- with Hugging Face transformers ----

@pytest.fixture
def transformers(monkeypatch):
    for name in "HF_HUB_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS":
        monkeypatch.setenv(name, "1")
    module = needs("transformers")
    if not module.utils.is_torch_available():
        pytest.skip("no PyTorch that transformers can use (scripts/deps.sh pytorch)")
    return module


@pytest.mark.parametrize("options, kind", VARIANTS.items())
def test_transformers_computes_and_writes_the_same(transformers, run, learn, load, tmp_path, options, kind):
    """The logits of a batch, greedy text, tokens; and what transformers saves in 16 bits and several files is read."""
    import torch
    learn(options + " --block-size=32")
    load("out --to-hf=hf")
    run("train", "--evaluate=out", "--batch-size=2", "--dump=d.st", "--quiet", "text.txt")
    arrays, (_, texts, before) = model_file.read("d.st")[2], model_file.read("out")
    model = transformers.AutoModelForCausalLM.from_pretrained("hf")
    assert type(model).__name__ == kind
    with torch.no_grad():
        logits = model(torch.tensor(arrays["ids"])).logits.numpy()
    assert abs(logits - arrays["logits"])[arrays["valid"].astype(bool)].max() < 1e-5

    items = "--items" in options  # a newline starts an item, and ends it
    prompt = "\nthe " if items else "the "
    theirs = transformers.pipeline("text-generation", model="hf")(prompt, do_sample=False, max_new_tokens=32 - len(prompt))
    ours = run("train", "--generate=out", "--prompt=the ", "--temperature=0", "--quiet",
               "--num-items=1" if items else "--num-chars=28").out
    assert theirs[0]["generated_text"][1:] in ours if items else theirs[0]["generated_text"] == ours[:-1]

    tokenizer, symbols = transformers.AutoTokenizer.from_pretrained("hf"), model_file.symbols_of(texts)
    ids = tokenizer(TEXT)["input_ids"]
    assert ids == [symbols.index(symbol) for symbol in (TEXT.encode() if "byte" in options else map(ord, TEXT))]
    assert tokenizer.decode(ids) == TEXT
    with pytest.raises(Exception, match="UNK"):
        tokenizer("\x02")

    model.to(torch.bfloat16).save_pretrained("saved", max_shard_size="20KB")
    shutil.copy("hf/tokenizer.json", "saved")
    load("--from-hf=saved -o back.st")
    for name, array in model_file.read("back.st")[2].items():
        assert numpy.allclose(array, before.get(name, before["transformer.wte.weight"]), rtol=0.01, atol=0.01), name


def test_pieces_of_words_are_translated(transformers, run, load, tmp_path):
    """A model that transformers made, with a tokenizer of pieces of words: its loss of a text."""
    import tokenizers
    import torch
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>"]))
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=2, intermediate_size=24,
        num_attention_heads=2, max_position_embeddings=32))
    model.save_pretrained("hf")
    tokenizer.save("hf/tokenizer.json")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    load("--from-hf=hf -o back.st --block-size=16")
    load("--from-hf=hf --encode=text.txt -o ids")
    assert load("--from-hf=hf --decode=ids") == TEXT
    tokens, losses = torch.tensor(tokenizer.encode(TEXT, add_special_tokens=False).ids), []
    with torch.no_grad():
        for at in range(0, len(tokens) - 1, 16):
            block = tokens[at:at + 17]
            losses += torch.nn.functional.cross_entropy(model(block[None, :-1]).logits[0], block[1:],
                                                        reduction="none").tolist()
    printed = run("train", "--evaluate=back.st", "--quiet", "ids").out.split()[1]
    assert float(printed) == pytest.approx(numpy.mean(losses), abs=1e-5)

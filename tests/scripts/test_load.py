"""Files that were changed after ./train wrote them: load_pytorch.py refuses a model with a flipped bit, and folders of
Hugging Face transformers that contradict themselves; a changed log.csv or probes.csv is read, with a warning. And a dump."""
import json
import shutil

import numpy as np
import pytest

from pytorch import model_file

MODEL = ("--n-layer=1 --n-head=1 --n-embd=4 --block-size=4 --max-iters=4 --eval-iters=1 --sample=0 --log-interval=1 "
         "--probe-interval=1 --quiet --out=out").split()


@pytest.fixture
def made(run, tmp_path):
    """The folder of a run, in which the test may change files."""
    ending = run("train", *MODEL)
    assert ending.status == 0, ending.err
    return tmp_path / "out"


def test_a_flipped_bit_is_refused(run, made):
    assert run("load_pytorch.py", "out").status == 0
    path = made / "model.safetensors"
    model = path.read_bytes()
    for place in 9, 40, len(model) // 3, len(model) // 2, len(model) - 1:
        path.write_bytes(model[:place] + bytes([model[place] ^ 1]) + model[place + 1:])
        ending = run("load_pytorch.py", "out")
        assert ending.status == 1, place
        assert "model.safetensors: not a valid safetensors file" in ending.err


def test_a_missing_run_is_one_line(run):
    ending = run("load_pytorch.py", "nosuch")
    assert (ending.status, ending.out) == (1, "")
    assert ending.err == "load_pytorch: nosuch: No such file or directory\n"


@pytest.mark.parametrize("command, name, row", [
    ("plot.py out -o a.svg", "log.csv", "9,9,9,0.001,4,,1,9\n"),
    ("table.py out", "log.csv", "9,9,9,0.001,4,,1,9\n"),
    ("plot.py --probes=layers out -o a.svg", "probes.csv", "9,0,attn,stream_rms,1\n")])
def test_a_changed_table_is_read_with_a_warning(run, made, command, name, row):
    """A byte is changed; the table is cut short. A row that was added later is covered by no checksum yet."""
    path, text = made / name, (made / name).read_text()
    digit = text.index(".", text.index("\n")) + 1
    changed = text[:digit] + chr(ord(text[digit]) ^ 1) + text[digit + 1:]
    cut = "".join(text.splitlines(keepends=True)[:2])
    warning = (f"{command.partition('.')[0]}: out/{name}: was changed or damaged after the last checkpoint (its "
               "checksum differs from log.crc32)\n")
    for content, said in (text, ""), (changed, warning), (cut, warning), (text + row, ""):
        path.write_text(content)
        ending = run(*command.split())
        assert (ending.status, ending.err) == (0, said)


def test_a_damaged_list_of_checksums_is_said(run, made):
    (made / "log.crc32").write_text("log.csv 17")
    ending = run("plot.py", "out", "-o", "a.svg")
    assert ending.status == 0
    assert ending.err == "plot: out/log.crc32: is damaged: a change of log.csv would not be found\n"


def test_numpy_reads_a_dump(run, made):
    """The weights of attention, as PROBES.md computes them, give attention's output."""
    ending = run("train", "--evaluate=out", "--stats=own", "--dump=d.st")
    assert ending.status == 0, ending.err
    _, texts, arrays = model_file.read("d.st")
    q, k, v = np.split(arrays["transformer.h.0.attn.qkv"].astype(float), 3, axis=2)
    scores = q @ k.swapaxes(1, 2) / q.shape[2] ** 0.5
    weights = np.exp(scores + np.triu(np.full(scores.shape[1:], -np.inf), 1))
    weights /= weights.sum(2, keepdims=True)
    assert np.abs(weights @ v - arrays["transformer.h.0.attn.output"]).max() < 1e-6
    assert (arrays["stream.1"] == arrays["transformer.h.0.ln_2.input"]).all()
    assert texts["statistics"] == "own" and float(texts["loss"]) > 0
    assert arrays["ids"].dtype == np.int64
    assert arrays["grad.transformer.wpe.weight"].shape == (4, 4)


# ---- folders of Hugging Face ----

@pytest.fixture
def folder(run, tiny_run, tmp_path):
    """A folder that --to-hf wrote, with a tied head."""
    ending = run("load_pytorch.py", tiny_run, "--to-hf=hf")
    assert ending.status == 0, ending.err
    return tmp_path / "hf"


@pytest.fixture
def refused(run):
    """Fails unless --from-hf refuses the folder in one line with this part."""
    def check(part):
        ending = run("load_pytorch.py", "--from-hf=hf", "-o", "back.st")
        assert ending.status == 1 and part in ending.err, ending.err
        assert ending.err.startswith("load_pytorch: ") and ending.err.count("\n") == 1
    return check


def change(folder, **members):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_a_head_that_differs_from_the_embedding_is_not_tied_to_it(run, folder, refused):
    path = folder / "model.safetensors"
    _, texts, arrays = model_file.read(str(path))
    head = np.array(arrays["transformer.wte.weight"])
    model_file.write(str(path), texts, {**arrays, "lm_head.weight": head})
    assert run("load_pytorch.py", "--from-hf=hf", "-o", "back.st").status == 0
    head[0, 0] += 1
    model_file.write(str(path), texts, {**arrays, "lm_head.weight": head})
    refused("lm_head.weight: differs from transformer.wte.weight, but tie_word_embeddings says that they are one")
    change(folder, tie_word_embeddings=False)
    assert run("load_pytorch.py", "--from-hf=hf", "-o", "back.st").status == 0


@pytest.mark.parametrize("value", ["no", 1, [True]])
def test_what_is_neither_true_nor_false_is_refused(folder, refused, value):
    change(folder, tie_word_embeddings=value)
    refused(f"tie_word_embeddings={json.dumps(value)}: ./train cannot be so")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors.index.json", "model.safetensors"])
def test_deeply_nested_files_are_refused(folder, refused, name):
    deep = b"[" * 100000
    if name.endswith("index.json"):
        shutil.move(folder / "model.safetensors", folder / "other.safetensors")
    (folder / name).write_bytes(len(deep).to_bytes(8, "little") + deep if name.endswith("tensors") else deep)
    refused(name)

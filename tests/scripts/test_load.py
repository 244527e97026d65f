"""Files that were changed after ./train wrote them: load_pytorch.py refuses a model with a flipped bit; a changed log.csv
or probes.csv is read, with a warning. And a dump."""
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
    assert run("load_pytorch.py", "nosuch").err == "load_pytorch: nosuch: No such file or directory\n"
    path = made / "model.safetensors"
    model = path.read_bytes()
    for place in 9, 40, len(model) // 3, len(model) // 2, len(model) - 1:
        path.write_bytes(model[:place] + bytes([model[place] ^ 1]) + model[place + 1:])
        ending = run("load_pytorch.py", "out")
        assert ending.status == 1 and "model.safetensors: not a valid safetensors file" in ending.err, place


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
    (made / "log.crc32").write_text("log.csv 17")
    assert f": out/log.crc32: is damaged: a change of {name} would not be found\n" in run(*command.split()).err


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

"""Files that were changed after ./train wrote them: load_pytorch.py refuses a model with a flipped bit; a changed log.csv
or probes.csv is read, with a warning."""
import pytest

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

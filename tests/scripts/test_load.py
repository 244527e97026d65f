"""Files that were changed after ./train wrote them: load_pytorch.py refuses a model with a flipped bit; a changed table of a
run under way is read, with a warning; a damaged run that has ended is refused."""
import contextlib
import itertools

import pytest

from written import HEADER

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
    ("plot.py --probes=layers out -o a.svg", "probes.csv", "9,0,attn,stream_rms,1\n")])
def test_a_changed_table_is_read_with_a_warning(run, made, command, name, row):
    """Of a run that has not ended: a byte is changed; the table is cut short. A row that was added later is covered by no
    checksum yet."""
    (made / "summary.json").unlink()
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


READERS = ("table.py out", "plot.py out -o a.svg", "page.py out -o a.html", "compare.py out --baseline norm=ln",
           "to_tensorboard.py out --out=events")


def last_loss(text):
    """Where the validation loss of the last row starts, which log.crc32 does not cover."""
    return text.rindex(",", 0, text.rindex(",", 0, text.rindex(","))) + 1


@pytest.mark.parametrize("command", READERS)
def test_no_number_of_a_damaged_run_is_shown(run, made, command):
    """A digit of a loss, or a letter of a checksum's name, differs by a bit."""
    (made.parent / "tensorboardX").mkdir()  # a package in its place: nothing is written
    for name, text in (("__init__", "SummaryWriter = None\n"), ("summary", "hparams = None\n")):
        (made.parent / "tensorboardX" / f"{name}.py").write_text(text)
    files = {name: (made / name).read_text() for name in ("summary.json", "log.csv")}
    summary, log = files.values()
    for name, at in (("summary.json", summary.index('"val_loss": ') + 12), ("summary.json", summary.index("crc32")),
                     ("summary.json", summary.index("log_crc32")), ("log.csv", last_loss(log))):
        for path, text in files.items():
            (made / path).write_text(text)
        text = files[name]
        assert text[at].isalnum()
        (made / name).write_text(text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1:])
        ending = run(*command.split(), env={"PYTHONPATH": "."} if "tensorboard" in command else None)
        assert ending.status == 1 and not ending.out, ending.out
        assert f": out/{name}: was changed or damaged after the run ended (its checksum differs" in ending.err, ending.err


def test_every_flipped_bit_of_a_summary_and_its_log_is_found(made):
    """And so is every place where the summary may have been cut."""
    from common.runs import RunError, check_summary
    def is_refused(text):
        with contextlib.suppress(RunError):
            check_summary(str(made / "summary.json"), text)
            return False
        return True
    summary, log = (made / "summary.json").read_text(), (made / "log.csv").read_bytes()
    assert not is_refused(summary)
    for at, bit in itertools.product(range(len(summary)), range(7)):
        assert is_refused(summary[:at] + chr(ord(summary[at]) ^ 1 << bit) + summary[at + 1:]), f"bit {bit} of byte {at}"
    for length in range(summary.index('"crc32": "') + len('"crc32": "'), len(summary)):
        assert is_refused(summary[:length]), f"{length} bytes"
    for at in range(0, len(log), 3):
        (made / "log.csv").write_bytes(log[:at] + bytes([log[at] ^ 1 << at % 8]) + log[at + 1:])
        assert is_refused(summary), f"byte {at} of the log"


def test_a_run_of_an_older_version_is_read(run, made):
    """Its summary has no checksums."""
    path = made / "summary.json"
    before = run("table.py", "out")
    path.write_text("{\n" + "".join(line for line in path.read_text().splitlines(keepends=True)[3:]))
    assert "log_crc32" not in path.read_text() and run("table.py", "out") == before and not before.err


def test_times_never_fall_where_a_clock_was_put_back(tmp_path):
    """As an older version wrote them: a negative time is an empty cell. A resumed run repeats steps at later times."""
    import common.runs
    rows = ((0, 1), (1, 5), (2, ""), (3, 2), (4, 9), (3, 6), (4, 8))
    (tmp_path / "log.csv").write_text(HEADER + "".join(f"{step},{seconds},0,0.01,4,,1,9\n" for step, seconds in rows))
    columns = common.runs.read_log(str(tmp_path / "log.csv"))
    assert (columns["step"], columns["seconds"]) == ([0, 1, 2, 3, 4], [1, 5, 5, 6, 8])

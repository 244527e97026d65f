"""The program with unusable input or a failing machine: an exit status, one line, and no half-written file."""
import os
from pathlib import Path

import pytest

from conftest import MACHINE, OK, TINY, USAGE, full_disk, refusal, same_arrays
from signals import Started


@pytest.fixture
def refused_at_once(train):
    """A refusal before the run's folder is made."""
    def before_a_run(status, said, *words, **how):
        line = refusal(train(TINY, "--out=out", *words, **how), status, said)
        assert not Path("out").exists(), "a folder was made"
        return line
    return before_a_run


@pytest.fixture
def bash(run, text):
    """./train in a command of bash."""
    return lambda words: run("bash", "-c", f'"$TRAIN" {" ".join(TINY)} {words}')


@pytest.mark.parametrize("content, status, said", [
    (b"", MACHINE, "is empty"),
    (b"x", USAGE, "--block-size"),
    ("中".encode(), USAGE, "--block-size"),
    (b"\xef\xbb\xbf", USAGE, "--block-size"),
    (b"12345678", USAGE, "--block-size"),
    (b"abcdefghij", USAGE, "--val-fraction"),  # 9 train, 1 validates
    (b"good, then \xff", MACHINE, "not UTF-8 at byte 11, 0xff"),
    (b"caf\xe9 in Latin-1", MACHINE, "--level=byte"),
    (b"a\0b", MACHINE, "NUL byte at byte 1"),
    (b"\xef\xbb\xbf*\xff", MACHINE, "not UTF-8 at byte 4, 0xff"),
    (b"\0\0\0\0", MACHINE, "--level=byte"),
    (b"\xff\xfe*\0*\0", MACHINE, "not UTF-8 at byte 0")])  # UTF-16
def test_texts_that_cannot_be_trained_on(refused_at_once, content, status, said):
    Path("text.txt").write_bytes(content)
    assert "corpus: text.txt: " in refused_at_once(status, said, "text.txt")
    with open("text.txt", "rb") as file:
        assert "corpus: standard input: " in refused_at_once(status, said, "-", stdin=file)


def test_the_shortest_text_that_trains(done):
    Path("text.txt").write_text("abcdefghijk")
    done(TINY, "--out=out text.txt")


# Permissions do not bind root: for root, a file whose reading fails takes the place.
UNREADABLE = "file.txt" if os.getuid() else "/proc/self/mem"


@pytest.mark.parametrize("word, said", [
    ("missing.txt", "missing.txt: No such file or directory"),
    ("folder", "folder: Is a directory"),
    ("file.txt/below", "Not a directory"),
    ("--config=missing.ini", "config: missing.ini: No such file or directory"),
    ("two words.txt", "corpus: two words.txt: No such file"),
    ("/dev/null", "corpus: /dev/null: is empty"),
    pytest.param(UNREADABLE, UNREADABLE, marks=pytest.mark.skipif(not os.getuid() and not os.path.exists(UNREADABLE), reason="no /proc"))])
def test_files_that_cannot_be_read(refused_at_once, word, said):
    Path("file.txt").write_text("text")
    Path("file.txt").chmod(0)
    Path("folder").mkdir()
    refused_at_once(MACHINE, said, [word])


@pytest.mark.parametrize("words", ["--n-embd=1000000 --n-layer=100", "--n-embd=1000000 --n-layer=10000", "--batch-size=1000000000",
                                   "--batch-size=1000000000 --block-size=1000 --n-embd=65536", "--n-layer=10000 --n-embd=65536"])
def test_more_memory_than_there_is(refused_at_once, words):
    assert "(try a smaller " in refused_at_once(MACHINE, "train: memory: ", words, "text.txt")


def test_a_block_that_is_longer_than_the_text(refused_at_once):
    refused_at_once(USAGE, "--block-size", "--block-size=1000000000 text.txt")


@pytest.mark.parametrize("folder, said", [
    ("text.txt", "run: text.txt: cannot be created"),
    ("text.txt/out", "Not a directory"),
    ("/proc/out", "run: /proc/out: cannot be created"),
    pytest.param("locked", "Permission denied", marks=pytest.mark.skipif(not os.getuid(), reason="root may write everywhere"))])
def test_folders_that_cannot_be_written(refused, folder, said):
    Path("locked").mkdir(0o555)
    refused(MACHINE, said, TINY, f"--out={folder} text.txt")


# The limit, of a model of m bytes, a checkpoint of k and a configuration of c. None is below 2000, because OpenMP libraries write
# files of their own. A long corpus name makes the configuration longer than that.
LONG = f"--corpus={'./' * 1000}text.txt"


@pytest.mark.parametrize("limit, name, words", [
    (lambda m, k, c: 2000, "config.ini", LONG),
    (lambda m, k, c: c + 1999, "config.ini", LONG),
    (lambda m, k, c: c + 100, "log.csv", "--max-iters=100 text.txt"),
    (lambda m, k, c: m - 1, "model.safetensors", "--checkpoint-interval=0 text.txt"),
    (lambda m, k, c: m / 2, "model.safetensors", "--checkpoint-interval=0 text.txt"),
    (lambda m, k, c: m - 1, "best.safetensors", "--checkpoint-interval=0 --keep-best text.txt"),
    (lambda m, k, c: k - 1, "checkpoint.safetensors", "text.txt"),
    (lambda m, k, c: 2 * k, "sample.txt", "--sample=50000 text.txt")])
def test_a_full_disk(out, train, limit, name, words):
    """The message names the file that failed. Neither a part of that file nor a temporary file is left."""
    out(TINY, "--quiet --out=whole text.txt")
    out(TINY, "--quiet --checkpoint-interval=0 --out=alone text.txt")
    m, k, c = map(os.path.getsize, ("alone/model.safetensors", "whole/checkpoint.safetensors", "whole/config.ini"))
    assert 100 < c < m / 2 - 100
    refusal(train(TINY, "--quiet --out=out", words, **full_disk(int(limit(m, k, c)))), MACHINE, f"{name}: File too large")
    left = os.listdir("out")
    assert f"{name}.tmp" not in left and (name not in left or name == "log.csv")
    assert "summary.json" not in left or name == "sample.txt", "a run that failed has a summary"  # a sample is written last


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_sample_that_cannot_be_shown(bash):
    ended = bash("--sample=20 --out=out text.txt >/dev/full")
    assert ended.status == MACHINE and "No space left on device" in ended.err
    assert len(Path("out/sample.txt").read_bytes()) == 20, "the file is not whole"
    assert Path("out/model.safetensors").exists() and not Path("out/sample.txt.tmp").exists()


def test_a_closed_standard_input_is_no_text(bash):
    refusal(bash("--out=out - <&-"), MACHINE, "train: corpus: standard input: Bad file descriptor\n")


def test_a_dump_replaces_a_fifo_of_its_temporary_name(out):
    os.mkfifo("dump.tmp")
    reader = os.open("dump.tmp", os.O_RDWR)  # what opens it need not wait
    out(TINY, "--quiet --out=whole text.txt")
    out("--evaluate=whole --dump=dump")
    os.close(reader)
    assert Path("dump").is_file()


# ---- a FIFO is as good as a file, if somebody writes to it sooner or later ----

@pytest.mark.parametrize("words", ["<(cat text.txt)", "fifo & cat text.txt >fifo; wait $!", "- < <(cat text.txt)",
                                   "- <fifo & cat text.txt >fifo; wait $!", "--config=<(echo seed = 1) text.txt"])
def test_a_fifo_with_a_writer(out, bash, words):
    os.mkfifo("fifo")
    out(TINY, "--quiet --out=file text.txt")
    ended = bash(f"--quiet --out=out {words}")
    assert (ended.status, ended.err) == (OK, "")
    same_arrays("file/model.safetensors", "out/model.safetensors")


@pytest.mark.parametrize("opened", [True, False])
def test_a_writer_that_comes_late_or_writes_late(out, opened):
    os.mkfifo("fifo")
    out(TINY, "--quiet --out=file text.txt")
    early = os.open("fifo", os.O_RDWR) if opened else None
    with Started(TINY, "--quiet --out=out fifo") as process:
        process.sleep()  # until there is a writer, or text
        writer = early or os.open("fifo", os.O_RDWR)
        os.write(writer, Path("text.txt").read_bytes())
        os.close(writer)
        assert process.end().status == OK
    same_arrays("file/model.safetensors", "out/model.safetensors")

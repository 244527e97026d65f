"""Damage in a run's files is noticed. Files without checksums, from older versions or other programs, are read with a notice; so
are options that a person changed. Missing rows are refused."""
from pathlib import Path
import re
import zlib

import pytest

from conftest import MACHINE, TINY, same_log, summary_of

MODEL, CHECKPOINT = Path("run/model.safetensors"), Path("run/checkpoint.safetensors")
USE = "--num-chars=9 --generate="


@pytest.fixture(autouse=True)
def run_of(done):
    """Trains a run of this name; here there is one, run."""
    def trained(name):
        done(TINY, "--quiet --norm=bn --probe-interval=2 --force text.txt", f"--out={name}")
    trained("run")
    return trained


@pytest.fixture
def noted(done):
    """What ./train says must be these notes first, and no others; with --quiet, nothing."""
    def check(notes, *words):
        said = done(*words).err
        assert said.startswith(notes) and "note:" not in said.removeprefix(notes), said
        done(*words, "--quiet")
    return check


def unseal(path, sealed):
    """Removes a checksum from a file's header; with `sealed` the header keeps its own, as in files of version 0.1."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    head, rest = data[8:end], data[end:]
    def blank(head, pattern):
        blanked, count = re.subn(pattern, lambda found: b" " * len(found[0]), head)
        assert count == 1
        return blanked
    head = blank(head, rb',"data_crc32":"\w{8}"')
    if sealed:
        head = re.sub(rb'(?<=header_crc32":")\w{8}', b"0" * 8, head)
        head = head.replace(b'crc32":"00000000', b'crc32":"%08x' % zlib.crc32(head), 1)
    else:
        head = blank(head, rb'"header_crc32":"\w{8}" *,')
    path.write_bytes(data[:8] + head + rest)


NO_DATA = "note: run/model.safetensors has no checksum of its data: damage there would not be found\n"
NONE = "note: run/model.safetensors has no checksum: damage in it would not be found\n"


def test_a_model_without_checksums(done, noted, refused, run_of):
    noted("", USE + "run")
    measured = done("--evaluate=run").out
    unseal(MODEL, True)
    for words in USE + "run", "--evaluate=run", "--evaluate=run/model.safetensors":
        noted(NO_DATA, words)
    assert done("--evaluate=run").out == measured
    run_of("run")
    for path in MODEL, CHECKPOINT:
        unseal(path, False)
    noted(NONE, f"{USE}{MODEL}")
    refused(MACHINE, "its header has no checksum, so a run did not write it", USE + "run")
    refused(MACHINE, f"{CHECKPOINT}: its header has no checksum", "--resume=run")


def test_a_run_of_an_older_version_goes_on(done, noted, run_of):
    """Version 0.1 wrote no checksums of data, tables and options."""
    run_of("whole")
    done("--quiet --resume=whole --max-iters=8")
    unseal(CHECKPOINT, True)
    Path("run/log.crc32").unlink()
    *options, checksum = Path("run/config.ini").read_text().splitlines(keepends=True)
    assert checksum.startswith("# crc32")
    Path("run/config.ini").write_text("".join(options))
    noted(f"note: {CHECKPOINT} has no checksum of its data: damage there would not be found\n"
          "note: run/log.crc32 is missing: damage in log.csv, probes.csv and samples.txt would not be found\n",
          "--resume=run --max-iters=8")
    same_log("run", "whole")
    for name in CHECKPOINT.name, "probes.csv":
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes() != b""
    assert Path("run/log.crc32").exists(), "the checksum was not added"
    noted("", "--resume=run --max-iters=9")


def test_options_that_a_person_changed(done, noted):
    noted("", "--config=run/config.ini --force --out=again")
    config = Path("run/config.ini").read_text()
    assert "max-iters = 4\n" in config
    Path("run/config.ini").write_text(config.replace("max-iters = 4\n", "max-iters = 6\n"))
    changed = "note: run/config.ini was changed after the program wrote it: its checksum differs\n"
    noted(changed, "--config=run/config.ini --force --out=again")
    assert summary_of("again")["steps"] == 6
    assert done("--resume=run").err.startswith(changed) and summary_of("run")["steps"] == 6
    noted("", "--resume=run")  # the file was written again
    Path("mine.ini").write_text("norm = rms\nmax-iters = 2\n")
    noted("", "--config=mine.ini --force --out=again text.txt --sample=0")


@pytest.mark.parametrize("name", ["log.csv", "probes.csv"])
def test_rows_that_are_missing(done, refused, name):
    """Changed values are found by every flipped bit (tests/data/test_flips.c)."""
    path = Path("run", name)
    rows = path.read_bytes()
    half = rows[:len(rows) // 2]
    path.write_bytes(half)
    refused(MACHINE, f"{path}: was changed or damaged after the last checkpoint (delete run/log.crc32", "--resume=run --max-iters=8")
    assert Path("run/summary.json").exists() and path.read_bytes() == half, "the refusal changed something"
    path.unlink()
    refused(MACHINE, "No such file", "--resume=run --max-iters=8")
    assert not path.exists(), "the refusal created it"
    path.write_bytes(rows)
    Path("run/log.crc32").write_text("log.csv 10\n")
    refused(MACHINE, "run/log.crc32: is damaged (delete it to continue", "--resume=run --max-iters=8")
    Path("run/log.crc32").unlink()
    done("--quiet --resume=run --max-iters=8")

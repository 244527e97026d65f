#!/usr/bin/env python3
"""Whether two builds of ./train compute the same bits: same_bits.py OLD NEW, where each is a path of ./train.

Both make the same tiny runs: every value of each choice (norm, placement, connection, optimizer, preset, ...), every
placement with bn too, another value of each number of the model or optimizer, on 1 to 3 threads in turn.
The variants are those of OLD's table of options. Compared are exit status, messages, the model's arrays, probes, and the
log without times. Each run that differs is printed. Exit status 0 only if none does. All of them take half a minute of CPU time;
--part=K/N makes every N-th only.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common.command_line import share  # noqa: E402

TINY = ("--n-layer=2 --n-head=2 --n-embd=16 --block-size=16 --batch-size=4 --max-iters=4 --sample=0 --log-interval=1 "
        "--eval-interval=2 --eval-iters=2 --probe-interval=2 --grammar-chars=20000 --quiet --warmup-iters=1").split()
TOPICS = ("data", "model", "norm", "placement", "training", "optimizer")
TIMES = ("seconds", "tokens_per_second")
SIZES = {"n-layer", "n-embd", "block-size", "max-iters", "max-tokens", "max-seconds", "stop-at", "threads"}  # stay tiny


def other_number(option):
    """A value of a number that is not its default."""
    start = 2 if option["default"] in ("auto", "0", "1") else float(option["default"]) * 0.75
    if option["kind"] == "integer":
        start = int(start)
    return min(max(start, option["min"]), option["max"])


def settings(option):
    """Options under which this one has an effect, a list for each kind of norm that has it."""
    each = [[]]
    for name, values in re.findall(r"^with (--[a-z-]+)(=\S+)?$", "\n".join(option.get("needs", [])), re.MULTILINE):
        each = [[*words, f"{name}={value}" if value else name] for words in each for value in values[1:].split("|")]
    return each


def variants(options):
    """The options of each run."""
    for option in options:
        if option.get("topic") not in TOPICS or option["name"] in SIZES or option["kind"] in ("text", "alias"):
            continue
        values = {"choice": option.get("values"), "switch": ["on", "off"]}.get(option["kind"]) or [other_number(option)]
        for words in settings(option):
            yield from ([*words, f"--{option['name']}={value}"] for value in values)
    values = {option["name"]: option.get("values", []) for option in options}
    yield from (["--norm=bn", f"--placement={row}"] for row in values["placement"])
    yield from (["--items", f"--norm={norm}"] for norm in values["norm"])


def log_without_times(path):
    with open(path, encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if name not in TIMES} for row in csv.DictReader(file)]


def arrays(path):
    """The arrays of a safetensors file, without its texts: {name: (type, shape, bytes)}."""
    data = path.read_bytes()
    first = 8 + int.from_bytes(data[:8], "little")
    return {name: (array["dtype"], array["shape"], data[first + array["data_offsets"][0]:first + array["data_offsets"][1]])
            for name, array in json.loads(data[8:first]).items() if name != "__metadata__"}


def result(train, words, folder):
    """What is compared of a run, by name."""
    ended = subprocess.run([train, *TINY, *words, "--out=run", "--force"], cwd=folder, capture_output=True, text=True,
                           check=False, stdin=subprocess.DEVNULL, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    found = {"exit status": ended.returncode, "messages": ended.stderr}
    if ended.returncode == 0:
        run = Path(folder, "run")
        for name, read in ("model.safetensors", arrays), ("probes.csv", Path.read_bytes), ("log.csv", log_without_times):
            found[name] = read(run / name) if (run / name).exists() else None
    return found


def main():
    parser = argparse.ArgumentParser(description="Compares the bits of runs of two builds of ./train.")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--part", type=share, default=(1, 1), metavar="K/N", help="every N-th variant, from variant K on")
    arguments = parser.parse_args()
    old, new = map(os.path.abspath, (arguments.old, arguments.new))
    for path in old, new:
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            parser.error(f"{path}: is not a program (make builds ./train)")
    table = json.loads(subprocess.run([old, "--help=json"], capture_output=True, text=True, check=True).stdout)
    runs = trained = differing = 0
    chosen = [[*words, f"--threads={number % 3 + 1}"] for number, words in enumerate(variants(table["options"]))]
    with tempfile.TemporaryDirectory() as folder:
        for words in chosen[arguments.part[0] - 1::arguments.part[1]]:
            first, second = (result(train, words, folder) for train in (old, new))
            runs += 1
            trained += first["exit status"] == 0
            names = [name for name in first if name in second and first[name] != second[name]]
            if names:
                differing += 1
                print(f"{' '.join(words)}: {', '.join(names)}")
    print(f"{runs} runs, of which {trained} trained and {runs - trained} were refused: {differing} differ")
    sys.exit(differing > 0 or not trained)


if __name__ == "__main__":
    main()

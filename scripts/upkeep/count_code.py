#!/usr/bin/env python3
"""How much of the program runs in one loss and in one update of the default model: count_code.py TRAIN FOLDER.

TRAIN is ./train compiled with --coverage, and FOLDER has its object files. Lines that run more often if one more batch
is evaluated belong to a loss, and lines that run more often if there is one more update to an update. So what comes
before and after training does not count, nor does writing files, which depends on the digits of numbers. `make count`
builds TRAIN and prints how much code a reader has to follow; --files lists it. With gdb, it also prints how many calls
lie between main() and a matrix product.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

RUN = ("--quiet --threads=1 --sample=0 --checkpoint-interval=1000 --log-interval=1000 --eval-interval=1000 "
       "--grammar-chars=20000 --force").split()
READ = ("train.c", "model/", "data/text/", "data/random.h")
PAIRS = {"loss": ("--max-iters=1 --eval-iters=1", "--max-iters=1 --eval-iters=2"),
         "update": ("--max-iters=2 --eval-iters=1", "--max-iters=3 --eval-iters=1")}
WITHIN = {"loss": "evaluate_model", "update": "update_model"}


def line_counts(train, folder, words):
    """How often each (file, line) runs."""
    for path in folder.rglob("*.gcda"):
        path.unlink()
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([train, *RUN, *words.split(), f"--out={out}/run"], check=True)
    counts = Counter()
    written = sorted(map(str, folder.rglob("*.gcda")))
    printed = subprocess.run(["gcov", "--json-format", "--stdout", *written], capture_output=True, text=True, check=True)
    for text in printed.stdout.splitlines():
        for file in json.loads(text)["files"]:
            for line in file["lines"]:
                counts[file["file"].removeprefix("./"), line["line_number"]] += line["count"]
    return counts


def frames(train, words, within):
    """The largest number of frames from main() to matmul() below a function; 0 where gdb may not trace, as in some containers."""
    script = "set debuginfod enabled off\nbreak matmul\ncommands\nsilent\nbt\ncontinue\nend\nrun\n"
    with tempfile.TemporaryDirectory() as out:
        Path(out, "script").write_text(script, encoding="utf-8")
        shown = subprocess.run(["gdb", "-q", "-batch", "-x", f"{out}/script", "--args", train, *RUN, *words.split(), f"--out={out}/run"],
                               capture_output=True, text=True, check=False).stdout
    traces = re.split(r"^(?=#0 )", shown, flags=re.M)
    return max((len(re.findall(r"^#\d+ ", trace, re.M)) for trace in traces if f" {within} " in trace), default=0)


def main():
    train, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    for name, (few, more) in PAIRS.items():
        before, after = (line_counts(train, folder, words) for words in (few, more))
        ran = [place for place in after if after[place] > before[place] and place[0].startswith(READ)]
        files = sorted({file for file, _ in ran})
        total = sum(Path(file).read_text(encoding="utf-8").count("\n") for file in files)
        print(f"one {name}: {len(ran)} lines run, in {len(files)} files of {total} lines")
        if shutil.which("gdb") and (count := frames(train, few, WITHIN[name])):
            print(f"  {count} frames from main() to a matrix product")
        if "--files" in sys.argv:
            print("\n".join(f"  {sum(file == other for other, _ in ran):4} {file}" for file in files))


if __name__ == "__main__":
    main()

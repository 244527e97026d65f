#!/usr/bin/env python3
"""How many small models an ablation trains in an hour on all cores, and what its time goes to.

The models have the report's size XS and 400 updates. "Updates" is the runs' own measurement; "evaluations" is what else
they do until their summary, which includes files; "start" is what is left of the cores' time: starting programs, reading
the text, and ablate.sh itself.
"""
import glob
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from common.run_options import cores_here  # noqa: E402
from common.runs import read_summary  # noqa: E402

RUNS = 25  # per core
XS = "--n-layer=2 --n-head=4 --n-embd=32 --block-size=32 --batch-size=12 --max-iters=400 --eval-interval=200 --sample=0".split()


def main():
    cores = cores_here()
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        subprocess.run([os.path.join(HERE, "..", "ablate.sh"), "--norm=ln", f"--seeds={RUNS * cores}", f"--out={folder}/xs", "--", *XS],
                       check=True, capture_output=True)
        wall = time.monotonic() - start
        summaries = [read_summary(path) for path in glob.glob(f"{folder}/xs/runs/*/summary.json")]
    updates = sum(one["tokens"] / one["tokens_per_second"] for one in summaries)
    until_summary = sum(one["seconds"] for one in summaries)
    shares = {"updates": updates, "evaluations": until_summary - updates, "start": cores * wall - until_summary}
    print(f"ablation: {3600 * len(summaries) / wall:.0f} models of 400 updates in an hour on {cores} cores; "
          + ", ".join(f"{name} {100 * seconds / (cores * wall):.0f} %" for name, seconds in shares.items()))


if __name__ == "__main__":
    main()

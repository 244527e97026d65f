#!/usr/bin/env python3
"""The process that bench_pytorch.py times. For each line on standard input it trains for a while;
each answer is a line of JSON: {"ready": true} once, then {"times": [ms], "mib": N, "cpu": seconds}, or
{"error": why}."""
import argparse
import json
import resource
import sys
import time

import torch

import bench_model
from bench_recipe import NORMS, PLACEMENTS, SIZES


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(**values):
    print(json.dumps(values), flush=True)


class Trainer:
    """Trains one model. The batches are random ids."""

    def __init__(self, options):
        torch.set_num_threads(options.threads)
        torch.manual_seed(1)
        sizes = SIZES[options.only]
        self.batches = [torch.randint(sizes.V, (2, sizes.B * sizes.T)) for _ in range(16)]
        self.mib_before = peak_mib()
        model = bench_model.Model(bench_model.Config(sizes, options.norm, options.placement,
                                                     options.bias == "on", options.onednn))
        self.step = bench_model.make_step(model, torch.compile(model) if options.compile else model)
        self.steps = 0

    def train(self, seconds):
        """The times, in ms, of the steps that fit in; at least one step."""
        times, end = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            ids, targets = self.batches[self.steps % len(self.batches)]
            start = time.perf_counter()
            self.step(ids, targets)
            times.append(1e3 * (time.perf_counter() - start))
            self.steps += 1
        return times


def read_command():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(SIZES), required=True)
    parser.add_argument("--norm", choices=NORMS, required=True)
    parser.add_argument("--placement", choices=PLACEMENTS, required=True)
    parser.add_argument("--bias", choices=("on", "off"), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--onednn", action="store_true")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    options = read_command()
    if options.compile and not hasattr(torch, "compile"):
        return answer(error="it has no torch.compile")
    if options.onednn and not torch.backends.mkldnn.is_available():
        return answer(error="it was built without oneDNN")
    trainer = Trainer(options)
    trainer.train(min(1, options.seconds))  # fills caches, pages and Adam's moments, and compiles
    answer(ready=True)
    for _ in sys.stdin:
        cpu = time.process_time()
        times = trainer.train(options.seconds)
        answer(times=times, mib=peak_mib() - trainer.mib_before, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times normlab's training step in PyTorch and in normlab, and prints the ratio:

  scripts/bench_pytorch.py                        cpu, baby, micro; tuned PyTorch; all cores
  scripts/bench_pytorch.py --all --only=cpu       every way to run PyTorch that this machine has
  scripts/bench_pytorch.py --check                compare the timed model with scripts/pytorch/make_golden.py

It works with PyTorch 1.13 (Debian's python3-torch) and 2.x. The Python that runs it decides which.
A step is forward, backward, clipping at 1.0 and AdamW in 32-bit floats, on the model of ./train
(pytorch/bench_model.py).

"Tuned" is the best that was found; the default is two or three times slower:
  - one thread per core; ATen's AVX-512 loops where the processor has them (by itself 1.13 uses AVX2);
  - a malloc that keeps its pages, and huge pages: otherwise every step faults all activations in again;
  - OpenBLAS in its OpenMP build, if PyTorch calls a shared BLAS and Debian's libopenblas0-openmp is
    installed (or is in LD_LIBRARY_PATH): it uses the same threads as ATen. OpenBLAS chooses its
    kernels itself, whatever the environment says;
  - denormal numbers flushed to zero: each tuned PyTorch is measured with and without;
  - MKL (in 2.x from PyPI) uses only AVX2 on processors that are not Intel's. A small library, compiled
    on the spot and preloaded, tells MKL that the processor is Intel's, and MKL uses AVX-512
    (--mkl=own leaves it alone).
--onednn computes the layers' linear maps and their input gradients with oneDNN, as 1x1 convolutions
over the tokens. The weights' gradients stay with BLAS. PyTorch's own oneDNN linear map copies its
input and output to oneDNN's tensors and back, and was slower. --compile is torch.compile. --avx2 keeps
a PyTorch from PyPI from AVX-512 (OpenBLAS does not follow), and --bench names a bench built for AVX2.

PyTorch and normlab's bench take turns, --repeat times. The numbers are medians over steps (PyTorch)
and over turns (normlab). MiB is the peak memory: for PyTorch, of the process, minus what it had before
the model was made.
"""
import argparse
from collections import namedtuple
import csv
import glob
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from pytorch.bench_variants import chosen_variants, describe, make_environment, mkl_library_for, read_text

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


class Failed(Exception):
    """Why there is no measurement, in words."""


# ---- what is timed -------------------------------------------------------------------------------

# L layers, NH heads, C channels, T positions, B sequences, V characters.
Sizes = namedtuple("Sizes", "L NH C T B V")
SIZES = {"cpu": Sizes(4, 4, 128, 64, 12, 65),
         "baby": Sizes(6, 6, 384, 256, 64, 65),
         "micro": Sizes(1, 4, 16, 16, 1, 27)}
NORMS, PLACEMENTS = ("none", "ln", "bn", "rms"), ("pre", "post")
EPS, BN_MOMENTUM = 1e-5, 0.1
LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


def gflop(sizes):
    """Of a step: 6 per token and matrix parameter (the head's included), 12 L C T for attention."""
    L, _, C, T, B, V = sizes
    return 1e-9 * B * T * (6 * (12 * L * C * C + V * C) + 12 * L * C * T)


# ---- PyTorch's turn -----------------------------------------------------------------------------

def last_line(file):
    file.seek(0)
    return (file.read().strip().splitlines() or ["it printed nothing"])[-1]


class PyTorch:
    """The timed process (pytorch/bench_model.py) of one configuration."""

    def __init__(self, configuration, variant, options, folder):
        command = [sys.executable, os.path.join(HERE, "pytorch", "bench_model.py"), f"--only={configuration}",
                   f"--threads={options.threads}", f"--norm={options.norm}",
                   f"--placement={options.placement}", f"--bias={options.bias}",
                   f"--seconds={options.seconds}"]
        command += ["--onednn"] * variant.onednn + ["--compile"] * variant.compile
        command += ["--flush-denormals"] * variant.flush
        self.errors = tempfile.TemporaryFile("w+", dir=folder)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=make_environment(variant, options.threads, options.avx2))
        try:
            self.listen()
        except Failed:
            self.close()
            raise

    def listen(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise Failed(f"PyTorch ended: {last_line(self.errors)}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def turn(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # listen() says what happened
        return self.listen()

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


# ---- normlab's turn -----------------------------------------------------------------------------

def find_bench():
    """The bench program that was built last, or None."""
    found = [path for path in glob.glob(os.path.join(ROOT, "build", "*", "bench"))
             if "sanitize" not in path and os.path.isfile(path) and os.access(path, os.X_OK)]
    return max(found, key=os.path.getmtime, default=None)


def normlab_turn(bench, configuration, options, folder):
    """The row of normlab's bench for the configuration."""
    path = os.path.join(tempfile.mkdtemp(dir=folder), "bench.csv")  # bench appends: one file per turn
    command = [bench, f"--only={configuration}", f"--threads={options.threads}",
               f"--norm={options.norm}", f"--placement={options.placement}", f"--csv={path}"]
    if options.bias == "off":
        command.append("--bias=off")
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise Failed(f"{bench}: {error.strerror}") from None
    if done.returncode:
        raise Failed(f"{bench}: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
    try:
        with open(path, encoding="ascii") as file:
            rows = [row for row in csv.DictReader(file)
                    if row["configuration"].lower() == configuration]
        return {name: float(rows[-1][name]) for name in ("step_ms", "peak_gflops", "mib")}
    except (OSError, KeyError, IndexError, ValueError, TypeError) as error:
        raise Failed(f"{bench}: its CSV has no row for {configuration} ({error!r})") from None


# ---- the measurement ----------------------------------------------------------------------------

def busy_seconds():
    """Processor time of all programs since the machine started; 0 where the system does not say."""
    ticks = [int(word) for word in read_text("/proc/stat").split("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") if ticks else 0


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(configuration, variant, bench, options, folder):
    """The table's row, PyTorch and normlab alternately; and how much of a core other programs used
    meanwhile, which slows a team of spinning threads down by a multiple of that."""
    pytorch = PyTorch(configuration, variant, options, folder)
    try:
        times, rows, mib, others = [], [], 0, 0
        started = time.perf_counter()
        for _ in range(options.repeat):
            busy = busy_seconds()
            answer = pytorch.turn()
            times += answer["times"]
            mib = answer["mib"]
            children = children_seconds()
            if bench:
                rows.append(normlab_turn(bench, configuration, options, folder))
            others += busy_seconds() - busy - answer["cpu"] - (children_seconds() - children)
        others /= time.perf_counter() - started
    finally:
        pytorch.close()
    ms = statistics.median(times)
    sizes = SIZES[configuration]
    row = [configuration, describe(variant), f"{ms:.3f}", f"{len(times)}",
           f"{1e3 * sizes.B * sizes.T / ms:.0f}", f"{1e3 * gflop(sizes) / ms:.1f}", f"{mib:.0f}"]
    if rows:
        own, own_mib, peak = (statistics.median(r[name] for r in rows)
                              for name in ("step_ms", "mib", "peak_gflops"))
        row += [f"{1e3 * gflop(sizes) / ms / peak:.2f}", f"{own:.4g}", f"{own_mib:.1f}",
                f"{1e3 * gflop(sizes) / own / peak:.2f}", f"{ms / own:.2f}",
                f"{own_mib / mib:.2f}" if mib > 0 else "-"]
    return row, others


def measure_all(variants, bench, options, folder):
    """(rows of the table, remarks)"""
    rows, remarks = [], []
    for configuration in options.only.split(","):
        for variant in variants:
            name = f"{configuration}, {describe(variant)}"
            try:
                row, others = measure(configuration, variant, bench, options, folder)
            except Failed as error:
                remarks.append(f"{name}: {error}")
                continue
            rows.append(row)
            if others > 0.1:
                remarks.append(f"{name}: disturbed, other programs used {100 * others:.0f} % of a "
                               "core meanwhile")
    return rows, remarks


HEADER = ["configuration", "PyTorch", "ms/step", "steps", "chars/s", "GFLOP/s", "MiB"]
HEADER_BOTH = HEADER + ["of peak", "normlab ms", "normlab MiB", "of peak", "times as fast",
                        "MiB ratio"]


def print_table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def print_fastest(rows):
    """For each configuration that was measured in several ways: in which of them PyTorch was fastest."""
    for configuration in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == configuration]
        if len(own) > 1:
            fastest = min(own, key=lambda row: float(row[2]))
            print(f"{configuration}: PyTorch was fastest {fastest[1]}, at {fastest[2]} ms per step")


# ---- the command --------------------------------------------------------------------------------

def number(kind, low):
    def parse(text):
        value = kind(text)
        if not value >= low:
            raise argparse.ArgumentTypeError(f"{text} is less than {low}")
        return value
    return parse


def read_command():
    parser = argparse.ArgumentParser(
        description="Times normlab's training step in PyTorch and in normlab, alternately.")
    add = parser.add_argument
    add("--only", default=",".join(SIZES), help=f"some of {','.join(SIZES)}")
    add("--norm", choices=NORMS, default="ln")
    add("--placement", choices=PLACEMENTS, default="pre")
    add("--bias", choices=("on", "off"), default="on")
    add("--dtype", choices=("float32",), default="float32", help="number type of normlab")
    add("--threads", type=number(int, 1), default=os.cpu_count(), help="number of threads (default: all cores)")
    add("--repeat", type=number(int, 1), default=3, help="number of alternations (default 3)")
    add("--seconds", type=number(float, 0), default=2,
        help="length of a turn of PyTorch in seconds; it finishes its last step (default 2)")
    add("--as-installed", action="store_true", help="do not change PyTorch's environment")
    add("--mkl", choices=("avx512", "own"), default="avx512",
        help="instruction set of MKL on processors that are not Intel's (default avx512)")
    add("--avx2", action="store_true", help="PyTorch without AVX-512, to compare with "
        "make bench ARCH=x86-64-v3")
    add("--onednn", action="store_true", help="use oneDNN for linear layers")
    add("--compile", action="store_true", help="use torch.compile")
    add("--all", action="store_true", help="run every variant, one after another")
    add("--bench", help="normlab's bench program (default: the newest build/*/bench)")
    add("--check", action="store_true", help="compare the timed model with that of make_golden.py")
    options = parser.parse_args()
    for configuration in options.only.split(","):
        if configuration not in SIZES:
            parser.error(f"--only={options.only}: not some of {','.join(SIZES)}")
    return options


def check(onednn):
    """--check; returns the exit status."""
    from pytorch.bench_model import largest_gradient_difference
    largest = largest_gradient_difference(onednn)
    print(f"largest difference of a gradient from make_golden.py's: {largest:.1e}")
    return 0 if largest < 1e-12 else 1


def find_pytorch():
    """(version, whether it has MKL)"""
    ask = "import torch; print(torch.__version__, torch.backends.mkl.is_available())"
    done = subprocess.run([sys.executable, "-c", ask], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_pytorch: {(done.stderr.strip().splitlines() or ['no PyTorch'])[-1]} "
                 "(scripts/deps.sh golden installs Debian's, for /usr/bin/python3)")
    version, mkl = done.stdout.split()
    return version, mkl == "True"


def main():
    options = read_command()
    version, has_mkl = find_pytorch()
    if options.check:
        return check(options.onednn)
    bench = options.bench or find_bench()
    with tempfile.TemporaryDirectory() as folder:
        library = None if options.avx2 else mkl_library_for(has_mkl, folder)
        variants = chosen_variants(options, library)
        rows, remarks = measure_all(variants, bench, options, folder)
    if rows:
        print(f"PyTorch {version}, {options.norm}/{options.placement}, "
              f"bias {options.bias}, float32, {options.threads} threads"
              f"{', PyTorch on AVX2' if options.avx2 else ''}\n")
        print_table(HEADER_BOTH if bench else HEADER, rows)
        print()
        print_fastest(rows)
    if not bench:
        remarks.append("no build/*/bench, so only PyTorch's numbers (`make bench` builds it, "
                       "--bench=PATH names it)")
    for remark in remarks:
        print(f"bench_pytorch: {remark}", file=sys.stderr)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())

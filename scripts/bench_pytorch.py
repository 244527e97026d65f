#!/usr/bin/env python3
"""Times normlab's training step in PyTorch and in normlab, and prints the ratio:

  scripts/bench_pytorch.py                        cpu, s, xs, baby, micro; tuned PyTorch; all cores
  scripts/bench_pytorch.py --all --only=cpu       every way to run PyTorch that this machine has

It works with PyTorch 1.13 (Debian's python3-torch) and 2.x. The Python that runs it decides which. A step is forward,
backward, clipping at 1.0 and AdamW in 32-bit floats, on the model of ./train
(pytorch/bench_model.py).

"Tuned" is the best that was found; the default is two or three times slower:
  - one thread per core; ATen's AVX-512 loops where the processor has them (by itself 1.13 uses AVX2);
  - a malloc that keeps its pages, and huge pages: otherwise every step faults all activations in again;
  - OpenBLAS in its OpenMP build, if PyTorch calls a shared BLAS and Debian's libopenblas0-openmp is
    installed (or is in LD_LIBRARY_PATH): it uses the same threads as ATen. OpenBLAS chooses its
    kernels itself, whatever the environment says;
  - denormal numbers flushed to zero: each tuned PyTorch is measured with and without;
  - MKL (in 2.x from PyPI) uses only AVX2 on processors that are not Intel's. A small library, compiled
    on the spot and preloaded, tells MKL that the processor is Intel's, and MKL uses AVX-512.
--all also measures PyTorch as installed, torch.compile, and eight models with different seeds at once by torch.func.vmap,
whose time is given for one of them. --avx2 keeps a PyTorch from PyPI from AVX-512 (OpenBLAS does
not follow), and --bench names a bench built for AVX2.

PyTorch and normlab's bench take turns, --repeat times, each in a process of its own. The numbers are medians over steps
(PyTorch) and over turns (normlab). MiB is the peak memory: for PyTorch, of the process, minus what it had before the
model was made.
"""
import argparse
import csv
import glob
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

from common import command_line

command_line.require("bench_pytorch", "pytorch", "torch")

import torch  # noqa: E402
from common.run_options import cores_here  # noqa: E402
from common.runs import read_text  # noqa: E402
from pytorch.bench_model import NORMS, PLACEMENTS, SIZES, Variant, train  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = 8  # models that vmap trains at once

def gflop(sizes):
    """GFLOP of a step: 6 per token and matrix parameter (the head's included), and 12 L C T for attention."""
    L, _, C, T, B, V = sizes
    return 1e-9 * B * T * (6 * (12 * L * C * C + V * C) + 12 * L * C * T)


# ---- PyTorch's turn ------------------------------------------------------------------------------

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


class Failed(Exception):
    """Why there is no measurement, in words."""


def describe(variant):
    names = {"MKL on AVX-512": variant.mkl, "compiled": variant.compile, "denormals flushed": variant.flush,
             f"{variant.seeds} seeds at once": variant.seeds > 1}
    return ", ".join(["tuned" if variant.tuned else "as installed", *(name for name, there in names.items() if there)])



def has_avx512():
    return {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= set((read_text("/proc/cpuinfo") or "").split())


def mkl_library(folder):
    """A shared object that tells MKL that the processor is Intel's. None where that does not help, or without a compiler."""
    if not torch.backends.mkl.is_available() or not has_avx512() or "GenuineIntel" in (read_text("/proc/cpuinfo") or ""):
        return None
    library = os.path.join(folder, "vendor.so")
    source = b"int mkl_serv_intel_cpu(void) { return 1; }\nint mkl_serv_intel_cpu_true(void) { return 1; }\n"
    done = subprocess.run(["sh", "-c", 'cc -shared -fPIC -o "$1" -x c -', "sh", library], input=source, capture_output=True,
                          check=False)
    return library if done.returncode == 0 else None


def chosen_variants(everything, library):
    """The variants to measure. Tuned ones run with and without denormal numbers."""
    if not everything:
        return [Variant(True, library, False, flush) for flush in (False, True)]
    libraries = (None, library) if library else (None,)
    return [Variant(False, None, False, False),
            *(Variant(True, *way) for way in itertools.product(libraries, (False, True), (False, True))),
            *(Variant(True, libraries[-1], compiled, True, SEEDS) for compiled in (False, True))]


def make_environment(variant, threads, avx2):
    """The environment variables of the timed process; `avx2`: it has no AVX-512."""
    environment = dict(os.environ)

    def append(name, value):
        environment[name] = ":".join(filter(None, (environment.get(name), value)))
    if variant.tuned:
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ATEN_CPU_CAPABILITY"):
            environment.pop(name, None)
        environment.update({"ATEN_CPU_CAPABILITY": "avx512"} if has_avx512() else {}, OMP_NUM_THREADS=str(threads),
                           MALLOC_TRIM_THRESHOLD_=str(1 << 40), MALLOC_MMAP_MAX_="0", MALLOC_ARENA_MAX="1")
        append("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        for path in glob.glob(f"/usr/lib/{platform.machine()}-*/openblas-openmp/libblas.so.3")[:1]:
            append("LD_LIBRARY_PATH", os.path.dirname(path))
        if variant.mkl:
            append("LD_PRELOAD", variant.mkl)
    return {**environment, **(AVX2 if avx2 else {})}


def last_line(text):
    return (text.strip().splitlines() or ["the program ended without a message"])[-1]


def pytorch_turn(configuration, variant, options):
    """The result of train() in a process with the variant's environment."""
    done = subprocess.run([sys.executable, __file__, *sys.argv[1:], f"--train={json.dumps([configuration, *variant])}"],
                          env=make_environment(variant, options.threads, options.avx2), capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise Failed(last_line(done.stderr))
    return json.loads(done.stdout)


# ---- the measurement -----------------------------------------------------------------------------

def find_bench():
    """The bench program that was built last, or None."""
    found = [path for path in glob.glob(os.path.join(HERE, "..", "build", "*", "bench"))
             if "sanitize" not in path and os.path.isfile(path) and os.access(path, os.X_OK)]
    return max(found, key=os.path.getmtime, default=None)


def normlab_turn(bench, configuration, options, folder):
    """The row of normlab's bench for the configuration."""
    path = os.path.join(tempfile.mkdtemp(dir=folder), "bench.csv")  # bench appends: one file per turn
    command = [bench, f"--only={configuration}", f"--threads={options.threads}", f"--norm={options.norm}",
               f"--placement={options.placement}", f"--csv={path}", *["--bias=off"] * (options.bias == "off")]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{bench}: {last_line(done.stderr)}")
        with open(path, encoding="ascii") as file:
            row = [row for row in csv.DictReader(file) if row["configuration"].lower() == configuration][-1]
        return {name: float(row[name]) for name in ("step_ms", "peak_gflops", "mib")}
    except (OSError, KeyError, IndexError, ValueError, TypeError) as error:
        raise Failed(f"{bench}: no row for {configuration} ({error!r})") from None


def busy_seconds():
    """Processor time of all programs since the machine started; 0 where the system does not say."""
    ticks = [int(word) for word in (read_text("/proc/stat") or "").split("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") if ticks else 0


def own_seconds():
    return sum(os.times()[:4])


def measure(configuration, variant, bench, options, folder):
    """The table's row of (column, text), PyTorch and normlab alternately; and how much of a core other programs used meanwhile, which slows
    a team of spinning threads down by a multiple of that."""
    times, rows, mib = [], [], 0
    started, others = time.perf_counter(), busy_seconds() - own_seconds()
    for _ in range(options.repeat):
        answer = pytorch_turn(configuration, variant, options)
        times += answer["times"]
        mib = max(mib, answer["mib"])
        if bench:
            rows.append(normlab_turn(bench, configuration, options, folder))
    others = (busy_seconds() - own_seconds() - others) / (time.perf_counter() - started)
    ms, sizes = statistics.median(times), SIZES[configuration]
    row = [("configuration", configuration), ("PyTorch", describe(variant)), ("ms/step", f"{ms:.3f}"),
           ("steps", f"{len(times)}"), ("chars/s", f"{1e3 * sizes.B * sizes.T / ms:.0f}"),
           ("GFLOP/s", f"{1e3 * gflop(sizes) / ms:.1f}"), ("MiB", f"{mib:.0f}")]
    if rows:
        own, own_mib, peak = (statistics.median(r[name] for r in rows) for name in ("step_ms", "mib", "peak_gflops"))
        row += [("of peak", f"{1e3 * gflop(sizes) / ms / peak:.2f}"), ("normlab ms", f"{own:.4g}"),
                ("normlab MiB", f"{own_mib:.1f}"), ("of peak", f"{1e3 * gflop(sizes) / own / peak:.2f}"),
                ("times as fast", f"{ms / own:.2f}"), ("MiB ratio", f"{own_mib / mib:.2f}" if mib > 0 else "-")]
    return row, others


def measure_all(variants, bench, options, folder):
    """(rows of the table, remarks)"""
    rows, remarks = [], []
    for configuration, variant in itertools.product(options.only, variants):
        name = f"{configuration}, {describe(variant)}"
        try:
            row, others = measure(configuration, variant, bench, options, folder)
            rows.append(row)
            if others > 0.1:
                remarks.append(f"{name}: disturbed, other programs used {100 * others:.0f} % of a core meanwhile")
        except Failed as error:
            remarks.append(f"{name}: {error}")
    return rows, remarks


def print_table(rows):
    """And for each configuration that was measured in several ways, in which of them PyTorch was fastest."""
    header, rows = [name for name, _ in rows[0]], [[text for _, text in row] for row in rows]
    print("\n".join(command_line.markdown([header, *rows])), end="\n\n")
    for configuration, own in itertools.groupby(rows, key=lambda row: row[0]):
        own = list(own)
        fastest = min(own, key=lambda row: float(row[2]))
        if len(own) > 1:
            print(f"{configuration}: PyTorch was fastest {fastest[1]}, at {fastest[2]} ms per step")


# ---- the command ---------------------------------------------------------------------------------

def least(kind, low):
    return command_line.number(kind, lambda value: value >= low, f"a number from {low} on")


def read_command():
    parser = argparse.ArgumentParser(description="Times normlab's training step in PyTorch and in normlab, alternately.")
    add = parser.add_argument
    add("--only", type=command_line.some_of(*SIZES), default=list(SIZES), metavar="NAME,...",
        help=f"models to time (default: {','.join(SIZES)})")
    add("--norm", choices=NORMS, default="ln", help="norm of both models (default: ln)")
    add("--placement", choices=PLACEMENTS, default="pre", help="placement of both models' norms (default: pre)")
    add("--bias", choices=("on", "off"), default="on", help="biases of both models (default: on)")
    add("--threads", type=least(int, 1), metavar="N", help="number of threads (default: one per core)")
    add("--repeat", type=least(int, 1), default=3, metavar="N", help="number of turns of each program (default: 3)")
    add("--seconds", type=least(float, 0), default=2, metavar="X",
        help="seconds after which a turn of PyTorch ends with its current step (default: 2)")
    add("--avx2", action="store_true", help="run PyTorch without AVX-512, to compare with make bench ARCH=x86-64-v3")
    add("--all", action="store_true", help="measure every way to run PyTorch, one after another")
    add("--bench", metavar="FILE", help="normlab's bench program (default: the newest build/*/bench)")
    add("--train", type=json.loads, help=argparse.SUPPRESS)  # a turn: [configuration, a Variant's fields]
    options = parser.parse_args()
    options.threads = options.threads or cores_here()
    return options


def main():
    options = read_command()
    if options.train:
        print(json.dumps(train(options.train[0], options, Variant(*options.train[1:]))))
        return 0
    bench = options.bench or find_bench()
    with tempfile.TemporaryDirectory() as folder:
        variants = chosen_variants(options.all, None if options.avx2 else mkl_library(folder))
        rows, remarks = measure_all(variants, bench, options, folder)
    if rows:
        print(f"PyTorch {torch.__version__}, {options.norm}/{options.placement}, bias {options.bias}, float32, "
              f"{options.threads} threads{', PyTorch on AVX2' if options.avx2 else ''}"
              f"{f'; normlab is {os.path.relpath(bench)}' if bench else ''}\n")
        print_table(rows)
    if not bench:
        remarks.append("no build/*/bench, so only PyTorch's numbers (`make bench` builds it, --bench=PATH names it)")
    for remark in remarks:
        print(f"bench_pytorch: {remark}", file=sys.stderr)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())

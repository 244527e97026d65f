"""The ways to run PyTorch that bench_pytorch.py times, and the environment of each."""
from collections import namedtuple
import glob
import itertools
import os
import platform
import shutil
import subprocess

# `mkl`: the library that makes MKL use AVX-512, or None. `flush`: denormal numbers become zero.
Variant = namedtuple("Variant", "tuned mkl onednn compile flush")


def describe(variant):
    words = ["tuned" if variant.tuned else "as installed"]
    names = {"MKL on AVX-512": variant.mkl, "oneDNN": variant.onednn, "compiled": variant.compile,
             "denormals flushed": variant.flush}
    return ", ".join(words + [name for name, there in names.items() if there])


def read_text(path):
    """The file's text, "" if it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def has_avx512():
    return {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= set(read_text("/proc/cpuinfo").split())


def make_mkl_library(folder):
    """A shared object that tells MKL that the processor is Intel's, or None if there is no compiler."""
    source, library = os.path.join(folder, "vendor.c"), os.path.join(folder, "vendor.so")
    with open(source, "w", encoding="ascii") as file:
        file.write("int mkl_serv_intel_cpu(void) { return 1; }\nint mkl_serv_intel_cpu_true(void) { return 1; }\n")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    done = compiler and subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source],
                                       check=False, capture_output=True).returncode == 0
    return library if done else None


def mkl_library_for(torch_has_mkl, folder):
    """make_mkl_library() where it helps: MKL, AVX-512 and a processor that is not Intel's."""
    if torch_has_mkl and has_avx512() and "GenuineIntel" not in read_text("/proc/cpuinfo"):
        return make_mkl_library(folder)
    return None


def chosen_variants(options, library):
    """The variants that the command line asks for. Tuned ones run with and without denormal numbers."""
    if options.as_installed and not options.all:
        return [Variant(False, None, options.onednn, options.compile, False)]
    preload = library if options.mkl == "avx512" else None
    ways = [(preload,), (options.onednn,), (options.compile,)]
    if options.all:
        ways = [(None, library) if library else (None,), (False, True), (False, True)]
    tuned = [Variant(True, *way) for way in itertools.product(*ways, (False, True))]
    return [Variant(False, None, False, False, False)] * options.all + tuned


def append(environment, name, value):
    environment[name] = ":".join(filter(None, (environment.get(name), value)))


AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


def make_environment(variant, threads, avx2):
    """The environment variables of the timed process; `avx2`: it has no AVX-512."""
    environment = dict(os.environ)
    if variant.tuned:
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ATEN_CPU_CAPABILITY"):
            environment.pop(name, None)
        if has_avx512():
            environment["ATEN_CPU_CAPABILITY"] = "avx512"
    if avx2:
        environment.update(AVX2)
    if not variant.tuned:
        return environment
    environment.update(OMP_NUM_THREADS=str(threads), MALLOC_TRIM_THRESHOLD_=str(1 << 40), MALLOC_MMAP_MAX_="0",
                       MALLOC_ARENA_MAX="1")
    append(environment, "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    openblas = glob.glob(f"/usr/lib/{platform.machine()}-*/openblas-openmp/libblas.so.3")
    if openblas:
        append(environment, "LD_LIBRARY_PATH", os.path.dirname(openblas[0]))
    if variant.mkl:
        append(environment, "LD_PRELOAD", variant.mkl)
    return environment

"""The environment in which bench_pytorch.py runs PyTorch: as installed, or tuned (the head of that file
says how)."""
from collections import namedtuple
import glob
import os
import platform
import shutil
import subprocess

# A way to run PyTorch. `mkl`: the library that makes MKL use AVX-512, or None.
Variant = namedtuple("Variant", "tuned mkl onednn compile")


def describe(variant):
    words = ["tuned" if variant.tuned else "as installed"]
    words += [word for word, there in (("MKL on AVX-512", variant.mkl), ("oneDNN", variant.onednn),
                                       ("compiled", variant.compile)) if there]
    return ", ".join(words)


def read_text(path):
    """The file's text, "" if it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def has_avx512():
    flags = read_text("/proc/cpuinfo").split()
    return all(flag in flags for flag in ("avx512f", "avx512bw", "avx512vl", "avx512dq"))


def make_mkl_library(folder):
    """A shared object that tells MKL that the processor is Intel's, or None if there is no compiler."""
    source, library = os.path.join(folder, "vendor.c"), os.path.join(folder, "vendor.so")
    with open(source, "w", encoding="ascii") as file:
        file.write("int mkl_serv_intel_cpu(void) { return 1; }\n"
                   "int mkl_serv_intel_cpu_true(void) { return 1; }\n")
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
    """The variants that the command line asks for."""
    if options.all:
        tuned = [Variant(True, preloaded, onednn, compiled)
                 for preloaded in ((None, library) if library else (None,))
                 for compiled in (False, True) for onednn in (False, True)]
        return [Variant(False, None, False, False), *tuned]
    preload = not options.as_installed and options.mkl == "avx512"
    return [Variant(not options.as_installed, library if preload else None, options.onednn,
                    options.compile)]


def append(environment, name, value, separator=":"):
    environment[name] = separator.join(filter(None, (environment.get(name), value)))


# ATen and the code of torch.compile, MKL and oneDNN.
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
    environment.update(OMP_NUM_THREADS=str(threads), MALLOC_TRIM_THRESHOLD_=str(1 << 40),
                       MALLOC_MMAP_MAX_="0", MALLOC_ARENA_MAX="1")
    append(environment, "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    openblas = glob.glob(f"/usr/lib/{platform.machine()}-*/openblas-openmp/libblas.so.3")
    if openblas:
        append(environment, "LD_LIBRARY_PATH", os.path.dirname(openblas[0]))
    if variant.mkl:
        append(environment, "LD_PRELOAD", variant.mkl)
    return environment

#!/usr/bin/env python3
"""How long PyTorch needs for normlab's training step, beside normlab itself, and the ratio:

  scripts/bench_pytorch.py                        cpu, baby, micro; tuned PyTorch; all cores
  scripts/bench_pytorch.py --all --only=cpu       every way of running PyTorch that this machine has
  scripts/bench_pytorch.py --check                the timed model against scripts/make_golden.py's

It works with PyTorch 1.13 (Debian's python3-torch) and 2.x; the Python that runs it decides which.
A step is forward, backward, clipping at 1.0 and AdamW in float32, on the model of ./train.

"Tuned" is the best found, since the default leaves a factor of two or three unused:
  - one thread a core; ATen's AVX-512 loops where the processor has them (1.13 takes AVX2 unasked);
  - a malloc that keeps its pages, and huge ones: else every step faults all activations in again;
  - OpenBLAS in its OpenMP build, if PyTorch calls a shared BLAS and Debian's libopenblas0-openmp is
    installed (or stands in LD_LIBRARY_PATH): it shares its threads with ATen; and OpenBLAS, not the
    environment, chooses the kernels;
  - MKL (in 2.x from PyPI) takes its AVX2 products on processors that are not Intel's; a preloaded
    function, compiled on the spot, answers its question for the vendor, and it takes AVX-512
    (--mkl=own leaves it alone).
--onednn computes the layers' linear maps and their input gradients with oneDNN, as 1x1 convolutions
over the tokens; the weights' gradients stay with BLAS. PyTorch's own oneDNN linear map copies its
input and output to oneDNN's tensors and back, and was slower. --compile is torch.compile.

PyTorch and normlab's bench take turns, --repeat times; the figures are medians over steps (PyTorch)
and over turns (normlab). MiB is the peak: for PyTorch, of the process above what it had before the
model was made.
"""
import argparse
import csv
import glob
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
Sizes = namedtuple("Sizes", "L NH C T B V")
SIZES = {"cpu": Sizes(4, 4, 128, 64, 12, 65),
         "baby": Sizes(6, 6, 384, 256, 64, 65),
         "micro": Sizes(1, 4, 16, 16, 1, 27)}
NORMS, PLACEMENTS = ("none", "ln", "bn", "rms"), ("pre", "post")
EPS, BN_MOMENTUM = 1e-5, 0.1
LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0
Variant = namedtuple("Variant", "tuned mkl onednn compile")


# ---- the model, in the process that is timed ----------------------------------------------------

def make_model(torch, sizes, norm, placement, bias, onednn):
    """A module: (ids, targets), each of B*T, -> mean loss. Its tensors are named as normlab's."""
    nn, functional = torch.nn, torch.nn.functional
    L, NH, C, T, B, V = sizes
    HS = C // NH
    flash = hasattr(functional, "scaled_dot_product_attention")

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(C))

        def forward(self, x):
            if hasattr(functional, "rms_norm"):
                return functional.rms_norm(x, (C,), self.weight, EPS)
            return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS))

    def make_norm():
        if norm == "ln":
            layer = nn.LayerNorm(C, eps=EPS)
        elif norm == "bn":
            layer = nn.BatchNorm1d(C, eps=EPS, momentum=BN_MOMENTUM)
        else:
            return RMSNorm() if norm == "rms" else nn.Identity()
        if not bias:
            layer.bias = None
        return layer

    def convolve(x, weight, bias=None):
        """x weight^T: x (N,I) is an image of I channels, 1 by N, with its channels last."""
        image = x.view(1, 1, *x.shape).permute(0, 3, 1, 2)
        y = functional.conv2d(image, weight.view(*weight.shape, 1, 1), bias)
        return y.permute(0, 2, 3, 1).reshape(len(x), -1)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            ctx.save_for_backward(x, weight)
            ctx.bias = bias is not None
            return convolve(x, weight, bias)

        @staticmethod
        def backward(ctx, dy):
            x, weight = ctx.saved_tensors
            dy = dy.contiguous()
            dx = convolve(dy, weight.t().contiguous())
            return dx, dy.t() @ x, dy.sum(0) if ctx.bias else None

    class OneDNN(nn.Linear):
        def forward(self, x):
            return Product.apply(x, self.weight, self.bias)

    linear = OneDNN if onednn else nn.Linear

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn = linear(C, 3 * C, bias)
            self.c_proj = linear(C, C, bias)
            if not flash:
                future = torch.full((T, T), -math.inf).triu(1)
                self.register_buffer("mask", future, persistent=False)

        def forward(self, x):  # (B*T,C)
            qkv = self.c_attn(x).view(B, T, 3, NH, HS).permute(2, 0, 3, 1, 4)  # (3,B,NH,T,HS)
            if flash:
                q, k, v = qkv.unbind(0)
                heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                q, k, v = qkv.reshape(3, B * NH, T, HS).unbind(0)
                weights = torch.baddbmm(self.mask, q, k.transpose(1, 2),
                                        alpha=1 / math.sqrt(HS)).softmax(-1)
                heads = torch.bmm(weights, v).view(B, NH, T, HS)
            return self.c_proj(heads.transpose(1, 2).reshape(B * T, C))

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_fc = linear(C, 4 * C, bias)
            self.c_proj = linear(4 * C, C, bias)

        def forward(self, x):
            return self.c_proj(functional.gelu(self.c_fc(x)))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn = make_norm(), Attention()
            self.ln_2, self.mlp = make_norm(), MLP()

        def forward(self, x):
            for function, normalize in ((self.attn, self.ln_1), (self.mlp, self.ln_2)):
                x = (x + function(normalize(x)) if placement == "pre"
                     else normalize(x + function(x)))
            return x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.transformer = nn.ModuleDict({
                "wte": nn.Embedding(V, C),
                "wpe": nn.Embedding(T, C),
                "h": nn.ModuleList(Layer() for _ in range(L)),
                "ln_f": make_norm() if placement == "pre" else nn.Identity(),
            })
            with torch.no_grad():
                for name, p in self.named_parameters():
                    if p.dim() >= 2:
                        p.normal_(0, 0.02 / math.sqrt(2 * L) if "c_proj" in name else 0.02)
                    elif name.endswith("bias"):
                        p.zero_()

        def logits(self, ids):
            part = self.transformer
            x = (part["wte"](ids).view(B, T, C) + part["wpe"].weight).view(B * T, C)
            for layer in part["h"]:
                x = layer(x)
            return functional.linear(part["ln_f"](x), part["wte"].weight)

        def forward(self, ids, targets):
            return functional.cross_entropy(self.logits(ids), targets)

    return Model()


def make_step(torch, model, loss_of):
    """A function that takes (ids, targets) through one training step.

    Clipping and AdamW see two long tensors, with and without weight decay, of which the parameters
    are views: a call per tensor would cost more than the arithmetic in small models."""
    groups, slabs = [], []
    for decays, decay in ((True, WEIGHT_DECAY), (False, 0.0)):
        members = [p for p in model.parameters() if (p.dim() >= 2) == decays]
        if members:
            slab = torch.nn.Parameter(torch.cat([p.detach().reshape(-1) for p in members]))
            for p, part in zip(members, slab.detach().split([p.numel() for p in members])):
                p.data = part.view(p.shape)
            groups.append({"params": [slab], "weight_decay": decay})
            slabs.append((slab, members))

    try:  # on the CPU from 2.4 on
        optimizer = torch.optim.AdamW(groups, LEARNING_RATE, BETAS, fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(groups, LEARNING_RATE, BETAS, foreach=True)

    def step(ids, targets):
        loss_of(ids, targets).backward()
        for slab, members in slabs:
            slab.grad = torch.cat([p.grad.reshape(-1) for p in members])
            for p in members:
                p.grad = None
        norm = math.sqrt(sum(slab.grad.norm().item() ** 2 for slab, _ in slabs))
        if norm > CLIP:
            for slab, _ in slabs:
                slab.grad.mul_(CLIP / norm)
        optimizer.step()

    return step


def work(arguments):
    """The timed process: for each line on standard input one turn; answers are lines of JSON."""
    import torch

    def peak_mib():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def answer(**values):
        print(json.dumps(values), flush=True)

    if arguments.compile and not hasattr(torch, "compile"):
        return answer(error="it has no torch.compile")
    if arguments.onednn and not torch.backends.mkldnn.is_available():
        return answer(error="it was built without oneDNN")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    sizes = SIZES[arguments.only]
    batches = [torch.randint(sizes.V, (2, sizes.B * sizes.T)) for _ in range(16)]
    before = peak_mib()
    model = make_model(torch, sizes, arguments.norm, arguments.placement, arguments.bias == "on",
                       arguments.onednn)
    step = make_step(torch, model, torch.compile(model) if arguments.compile else model)
    done = 0

    def turn(seconds):
        """The times of as many steps as fit in, one at least, in ms."""
        nonlocal done
        times, end = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            ids, targets = batches[done % len(batches)]
            start = time.perf_counter()
            step(ids, targets)
            times.append(1e3 * (time.perf_counter() - start))
            done += 1
        return times

    turn(min(1, arguments.seconds))  # caches, pages, Adam's moments, and the compiler
    answer(ready=True)
    for _ in sys.stdin:
        cpu = time.process_time()
        times = turn(arguments.seconds)
        answer(times=times, mib=peak_mib() - before, cpu=time.process_time() - cpu)


def check(arguments):
    """The timed model's loss and gradients against make_golden's, in doubles, for its sizes."""
    import torch
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    import make_golden as golden
    torch.set_default_dtype(torch.float64)
    sizes = Sizes(golden.L, golden.NH, golden.C, golden.T, golden.B, golden.V)
    worst = 0.0
    for norm in NORMS:
        for placement in PLACEMENTS:
            theirs = golden.make_model(norm, placement)
            ours = make_model(torch, sizes, norm, placement, True, arguments.onednn)
            ours.load_state_dict({name: tensor for name, tensor in theirs.state_dict().items()
                                  if name != "lm_head.weight"})  # it is wte's
            ids, targets = golden.tokens(0)
            _, loss = golden.logits_and_loss(theirs, 0)
            loss.backward()
            ours(ids.reshape(-1), targets.reshape(-1)).backward()
            gradients = {name: p.grad for name, p in ours.named_parameters()}
            for name, p in theirs.named_parameters():
                worst = max(worst, (p.grad - gradients.pop(name)).abs().max().item())
            assert not gradients, gradients.keys()
    print(f"largest difference of a gradient from make_golden.py's: {worst:.1e}")
    return 0 if worst < 1e-12 else 1


# ---- the environment ----------------------------------------------------------------------------

def read(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def has_avx512():
    flags = read("/proc/cpuinfo").split()
    return all(flag in flags for flag in ("avx512f", "avx512bw", "avx512vl", "avx512dq"))


def compile_mkl_answer(folder):
    """A shared object that answers MKL's questions for the vendor with yes, or None."""
    source, library = os.path.join(folder, "vendor.c"), os.path.join(folder, "vendor.so")
    with open(source, "w", encoding="ascii") as file:
        file.write("int mkl_serv_intel_cpu(void) { return 1; }\n"
                   "int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    done = compiler and subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source],
                                       check=False, capture_output=True).returncode == 0
    return library if done else None


def append(environment, name, value, separator=":"):
    environment[name] = separator.join(filter(None, (environment.get(name), value)))


def make_environment(variant, threads):
    """The environment of the timed process."""
    environment = dict(os.environ)
    if not variant.tuned:
        return environment
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ATEN_CPU_CAPABILITY"):
        environment.pop(name, None)
    if has_avx512():
        environment["ATEN_CPU_CAPABILITY"] = "avx512"
    environment.update(OMP_NUM_THREADS=str(threads), MALLOC_TRIM_THRESHOLD_=str(1 << 40),
                       MALLOC_MMAP_MAX_="0", MALLOC_ARENA_MAX="1")
    append(environment, "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    openblas = glob.glob(f"/usr/lib/{platform.machine()}-*/openblas-openmp/libblas.so.3")
    if openblas:
        append(environment, "LD_LIBRARY_PATH", os.path.dirname(openblas[0]))
    if variant.mkl:
        append(environment, "LD_PRELOAD", variant.mkl)
    return environment


# ---- turns --------------------------------------------------------------------------------------

class Failed(Exception):
    """Why a figure could not be had, in words."""


def last_line(file):
    file.seek(0)
    return (file.read().strip().splitlines() or ["it said nothing"])[-1]


class PyTorch:
    """The timed process of one configuration."""

    def __init__(self, configuration, variant, arguments, folder):
        command = [sys.executable, os.path.abspath(__file__), "--worker", f"--only={configuration}",
                   f"--threads={arguments.threads}", f"--norm={arguments.norm}",
                   f"--placement={arguments.placement}", f"--bias={arguments.bias}",
                   f"--seconds={arguments.seconds}"]
        command += ["--onednn"] * variant.onednn + ["--compile"] * variant.compile
        self.errors = tempfile.TemporaryFile("w+", dir=folder)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=make_environment(variant, arguments.threads))
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
        words = json.loads(line)
        if "error" in words:
            raise Failed(words["error"])
        return words

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


def normlab_turn(bench, configuration, arguments, folder):
    """The row that normlab's bench has for the configuration."""
    path = os.path.join(tempfile.mkdtemp(dir=folder), "bench.csv")  # bench appends: a file a turn
    command = [bench, f"--only={configuration}", f"--threads={arguments.threads}",
               f"--norm={arguments.norm}", f"--placement={arguments.placement}", f"--csv={path}"]
    if arguments.bias == "off":
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


def busy_seconds():
    """What all programs have used of all cores since the machine started; 0 where nobody says."""
    ticks = [int(word) for word in read("/proc/stat").split("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") if ticks else 0


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def find_bench():
    """The bench program that was built last, or None."""
    found = [path for path in glob.glob(os.path.join(ROOT, "build", "*", "bench"))
             if "sanitize" not in path and os.path.isfile(path) and os.access(path, os.X_OK)]
    return max(found, key=os.path.getmtime, default=None)


def gflop(sizes):
    """Of a step: 6 a token and matrix parameter (the head's included), 12 L C T for attention."""
    L, _, C, T, B, V = sizes
    return 1e-9 * B * T * (6 * (12 * L * C * C + V * C) + 12 * L * C * T)


def describe(variant):
    words = ["tuned" if variant.tuned else "as installed"]
    words += [word for word, there in (("MKL on AVX-512", variant.mkl), ("oneDNN", variant.onednn),
                                       ("compiled", variant.compile)) if there]
    return ", ".join(words)


def measure(configuration, variant, bench, arguments, folder):
    """The table's row, PyTorch and normlab taking turns, and the share of a core that other
    programs had meanwhile: a spinning team of threads pays for it many times over."""
    pytorch = PyTorch(configuration, variant, arguments, folder)
    try:
        times, rows, mib, others = [], [], 0, 0
        begun = time.perf_counter()
        for _ in range(arguments.repeat):
            busy = busy_seconds()
            said = pytorch.turn()
            times += said["times"]
            mib = said["mib"]
            children = children_seconds()
            if bench:
                rows.append(normlab_turn(bench, configuration, arguments, folder))
            others += busy_seconds() - busy - said["cpu"] - (children_seconds() - children)
        others /= time.perf_counter() - begun
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


HEADER = ["configuration", "PyTorch", "ms/step", "steps", "chars/s", "GFLOP/s", "MiB"]
HEADER_BOTH = HEADER + ["share", "normlab ms", "normlab MiB", "share", "times as fast",
                        "MiB ratio"]


def number(kind, low):
    def parse(text):
        value = kind(text)
        if not value >= low:
            raise argparse.ArgumentTypeError(f"{text} is less than {low}")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(
        description="Times normlab's model in PyTorch and in normlab, in turns.")
    add = parser.add_argument
    add("--only", default=",".join(SIZES), help=f"some of {','.join(SIZES)}")
    add("--norm", choices=NORMS, default="ln")
    add("--placement", choices=PLACEMENTS, default="pre")
    add("--bias", choices=("on", "off"), default="on")
    add("--dtype", choices=("float32",), default="float32", help="normlab's")
    add("--threads", type=number(int, 1), default=os.cpu_count(), help="default: all cores")
    add("--repeat", type=number(int, 1), default=3, help="turns (default 3)")
    add("--seconds", type=number(float, 0), default=2,
        help="of a turn of PyTorch; it ends after the step in hand (default 2)")
    add("--as-installed", action="store_true", help="leave the environment as it is")
    add("--mkl", choices=("avx512", "own"), default="avx512",
        help="what MKL takes on processors that are not Intel's (default avx512)")
    add("--onednn", action="store_true", help="linear maps by oneDNN")
    add("--compile", action="store_true", help="torch.compile")
    add("--all", action="store_true", help="every variant in turn")
    add("--bench", help="normlab's bench program (default: the newest build/*/bench)")
    add("--check", action="store_true", help="compare the timed model with make_golden.py's")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for configuration in arguments.only.split(","):
        if configuration not in SIZES:
            parser.error(f"--only={arguments.only}: not some of {','.join(SIZES)}")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.worker:
        return work(arguments)
    if arguments.check:
        return check(arguments)
    bench = arguments.bench or find_bench()
    probe = "import torch; print(torch.__version__, torch.backends.mkl.is_available())"
    said = subprocess.run([sys.executable, "-c", probe], check=False, capture_output=True,
                          text=True)
    if said.returncode:
        sys.exit(f"bench_pytorch: {(said.stderr.strip().splitlines() or ['no PyTorch'])[-1]} "
                 "(scripts/deps.sh golden installs Debian's, for /usr/bin/python3)")
    version, mkl = said.stdout.split()
    table, remarks = [], []
    with tempfile.TemporaryDirectory() as folder:
        library = None
        if mkl == "True" and has_avx512() and "GenuineIntel" not in read("/proc/cpuinfo"):
            library = compile_mkl_answer(folder)
        if arguments.all:
            tuned = [Variant(True, preloaded, onednn, compiled)
                     for preloaded in ((None, library) if library else (None,))
                     for compiled in (False, True) for onednn in (False, True)]
            variants = [Variant(False, None, False, False), *tuned]
        else:
            switched = not arguments.as_installed and arguments.mkl == "avx512"
            variants = [Variant(not arguments.as_installed, library if switched else None,
                                arguments.onednn, arguments.compile)]
        for configuration in arguments.only.split(","):
            for variant in variants:
                name = f"{configuration}, {describe(variant)}"
                try:
                    row, others = measure(configuration, variant, bench, arguments, folder)
                except Failed as error:
                    remarks.append(f"{name}: {error}")
                    continue
                table.append(row)
                if others > 0.1:
                    remarks.append(f"{name}: disturbed, other programs took {100 * others:.0f} % "
                                   "of a core meanwhile")
    if table:
        print(f"PyTorch {version}, {arguments.norm}/{arguments.placement}, "
              f"bias {arguments.bias}, float32, {arguments.threads} threads\n")
        header = HEADER_BOTH if bench else HEADER
        print("| " + " | ".join(header) + " |")
        print("|" + "---|" * len(header))
        for row in table:
            print("| " + " | ".join(row) + " |", flush=True)
    if not bench:
        remarks.append("no build/*/bench, so PyTorch's figures alone: `make bench` builds it, "
                       "--bench=PATH names it")
    for remark in remarks:
        print(f"bench_pytorch: {remark}", file=sys.stderr)
    return 0 if table else 1


if __name__ == "__main__":
    sys.exit(main())

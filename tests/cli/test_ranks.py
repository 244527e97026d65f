"""Several processes that train one model (ranks.h): any number of ranks and threads leaves the files that one process leaves,
byte for byte, except for the times in the log. RANKS names a program built with MPI=1, which `make ranks` sets; TRAIN's is
built without, and runs what is compared with."""
import os
from pathlib import Path
import shutil
import signal

import pytest

from conftest import DIVERGED, MACHINE, OK, TINY, USAGE, lines, log_of, put_items, refusal, same_folder, split, summary_of
from models import values
from signals import Started

RANKS = os.environ.get("RANKS")
if not RANKS:
    pytest.skip("no program of several processes (make ranks builds and tests it)", allow_module_level=True)
if not shutil.which("mpirun"):
    pytest.skip("no mpirun (scripts/deps.sh mpi)", allow_module_level=True)

# 76 sequences are ten parts (parts.h) of 8, except for the last, which has 4. Two ranks have 8 and 2 of them, three or four
# ranks 4, 4 and 2, and eight ranks 2 each, as far as they reach.
SMALL = ("--quiet --n-layer=2 --n-head=4 --n-embd=32 --block-size=32 --batch-size=76 --max-iters=5 --log-interval=1 "
         "--eval-interval=3 --eval-iters=3 --grammar-chars=20000 --warmup-iters=0 --sample=20 --batch-parts=10")

# The same with the lines of items.txt, of unequal length: 100 are seven parts.
LINES = f"{SMALL} --items items.txt --pad-to=block --block-size=16 --batch-size=100 --batch-parts=7"

# Fewer updates of less; and a run that may go on, in which no option depends on --max-iters.
TINIEST = ["--threads=1", *TINY, "--quiet"]
LASTING = f"{SMALL} --norm=bn --dropout=0.1 --schedule=constant --lr-decay-iters=1000 --prepbn-steps=1000"

ALONE = 0  # no ranks: the program without mpirun


@pytest.fixture
def ranks(run, text):
    """Runs the program on some ranks."""
    put_items("items.txt", 300)
    return lambda count, *words: run(*(["mpirun", "-n", count] if count else []), RANKS, *split(words))


@pytest.fixture
def silent(ranks):
    """The same, which must succeed without a word on standard error. Returns what it printed."""
    def printed(*words):
        ended = ranks(*words)
        assert (ended.status, ended.err) == (OK, ""), ended
        return ended.out
    return printed


@pytest.fixture
def same(done, silent):
    """Each of these numbers of ranks and threads must do with these options what one process does."""
    def check(teams, *words):
        done("--threads=1 --force --out=one", *words)
        for count, threads in teams:
            silent(count, f"--threads={threads} --out=ranks --force", *words)
            same_folder("one", "ranks")
    return check


# ---- The same files ----

@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_any_number_of_ranks_and_threads(same, norm):
    same([(1, 1), (ALONE, 1), (1, 3), (2, 1), (2, 2), (3, 1), (4, 2), (8, 1)], SMALL, f"--norm={norm}")


@pytest.mark.parametrize("norm", values("norm"))
def test_every_norm_with_dropout_and_accumulation(same, norm):
    same([(3, 1)], SMALL, f"--dropout=0.1 --grad-accum=2 --pn-warmup=2 --prepbn-steps=4 --norm={norm}")


@pytest.mark.parametrize("words", [
    *(f"--norm={norm} --placement={placement}" for placement in ("post", "siamese", "admin") for norm in ("ln", "bn")),
    "--norm=ln --placement=ngpt",
    "--norm=ln --optimizer=muon",
    "--norm=bn --preset=llama --qk-norm=on --embd-scale=learned",
    "--norm=bn --batch-size=1",  # some ranks have no sequences
    # what a run measures and keeps
    "--norm=bn --probe-interval=2",
    "--norm=bn --keep-best=on --max-iters=8 --eval-interval=2",
    "--norm=bn --eval-train=on"])
def test_variants(same, words):
    same([(3, 1)], SMALL, words)


@pytest.mark.parametrize("words", ["--norm=bn", "--norm=bn --pad-to=longest",
                                   "--norm=prepbn --grad-accum=2 --dropout=0.1 --eval-train=on"])
def test_items(same, words):
    same([(3, 1)], LINES, words)


# Those with means over the batch need sums from all ranks: of levels one after another, in queries and keys too, and with pads.
@pytest.mark.parametrize("formula", ["gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta * var_n(x)",
                                     "gamma * x / (1 + abs(s * x)) + beta; s[1] = 0.5"])
def test_formulas(same, formula):
    for team, *words in (((3, 1), SMALL, "--dropout=0.1 --grad-accum=2 --probe-interval=2"), ((2, 2), LINES),
                         ((8, 1), SMALL, "--batch-size=20")):
        same([team], *words, [f"--norm={formula}", f"--qk-norm={formula}"])


def test_some_ranks_have_no_sequences(same):
    for counts, *words in (((8, 4), SMALL, "--batch-size=20"), ((8,), LINES), ((8, 5), LINES, "--batch-size=40"),
                           ((12,), SMALL, "--batch-size=5")):
        same([(count, 1) for count in counts], "--norm=bn", *words)


def test_local_statistics(done, same, silent):
    """32 sequences are four parts, two for each of two ranks: then local statistics are those of two shards, except for the
    running ones."""
    bn = f"{SMALL} --norm=bn --batch-size=32 --batch-parts=4 --learning-rate=0.01"
    done("--threads=1 --out=shards --bn-shards=2", bn)
    done("--threads=1 --out=all", bn)
    silent(2, "--threads=1 --out=local --local-stats=on", bn)
    local, shards, every = (float(log_of(folder)[4]["train_loss"]) for folder in ("local", "shards", "all"))
    assert abs(local - shards) < 1e-5 and abs(local - every) > 1e-4
    same([(2, 1)], SMALL, "--norm=ln --local-stats=on")
    # all ranks measure with the running statistics that are saved
    silent(2, "--threads=1 --out=whole --local-stats=on --eval-iters=0", bn)
    assert f"loss: {log_of('whole')[-1]['val_loss']} nats" in done("--evaluate=whole").out


def test_evaluation_prints_the_same(done, silent):
    done("--threads=1 --out=one --norm=bn", SMALL)
    assert silent(3, "--threads=1 --evaluate=one") == done("--threads=1 --evaluate=one").out


# ---- Stopped and resumed ----

def test_resume_under_other_counts(done, silent):
    done("--threads=1 --out=one --probe-interval=2", LASTING, "--max-iters=9")
    silent(3, "--threads=1 --out=ranks --probe-interval=2", LASTING, "--max-iters=4")
    silent(2, "--threads=2 --resume=ranks --quiet --max-iters=6")
    silent(8, "--threads=1 --resume=ranks --quiet --max-iters=7")
    done("--threads=1 --resume=ranks --quiet --max-iters=8")
    silent(1, "--threads=3 --resume=ranks --quiet --max-iters=9")
    same_folder("one", "ranks")


def test_one_rank_speaks(ranks):
    """A resumed run says everything once, as a new one does, and draws the losses of its log."""
    for resumed, words in enumerate(([TINY, "--eval-iters=2 --out=ranks"], ["--resume=ranks --max-iters=8"])):
        ended = ranks(3, "--plot=on --threads=1", *words)
        assert ended.status == OK, ended
        for part in ("\nnorm ", "\n2 of the 3 ranks have nothing to do: a batch of 2 sequences of 8 has work for 1 (see --batch-parts)\n",
                     "\ndone after ", "nats per character"):
            assert ended.err.count(part) == 1, ended.err
        assert ended.err.count("\nresuming at step 4\n") == resumed, ended.err


@pytest.mark.parametrize("whom", ["mpirun", "rank 1"])
def test_after_a_termination(done, silent, whom):
    """Each rank writes its process id to a line of ids. The status is mpirun's: if it is told to end itself, it may be gone
    before it knows how its ranks ended, and says 0."""
    with Started("--threads=1 --out=ranks", LASTING, "--max-iters=1000000",
                 program=["mpirun", "-n", "3", "bash", "-c", 'echo $$ >>ids; exec "$@"', "-", RANKS]) as process:
        process.wait("ranks/log.csv", 5)
        os.kill(process.process.pid if whom == "mpirun" else int(lines("ids")[1]), signal.SIGTERM)
        ended = process.end()
    assert ended.status in ([143, 0] if whom == "mpirun" else [143]) and not ended.err, ended
    steps = summary_of("ranks")["steps"]
    assert summary_of("ranks")["exit_reason"] == "interrupted" and 3 <= steps < 1000000
    done("--threads=1 --out=one", LASTING, f"--max-iters={steps + 3}")
    silent(2, f"--threads=1 --resume=ranks --quiet --max-iters={steps + 3}")
    same_folder("one", "ranks")


# ---- Messages ----

def expect_end(ended, status, line):
    """It ended so, with one line of the program, which begins so. A library of MPI may add lines of its own."""
    said = [one for one in ended.err.splitlines() if one.startswith("train:")]
    assert (ended.status, ended.out, len(said)) == (status, "", 1) and said[0].startswith(line), ended


@pytest.mark.parametrize("status, said, words", [
    (USAGE, "train: --nonsense: no such option", "--nonsense"),
    (USAGE, "train: --n-layer=x: must be a whole number", "--n-layer=x"),
    (MACHINE, "train: corpus: missing.txt: No such file or directory", "missing.txt"),
    (DIVERGED, "train: diverged", "--max-iters=60 --learning-rate=1000 --norm=none --grad-clip=0 --schedule=constant --out=ranks")])
def test_all_die_with_one_line(ranks, status, said, words):
    refusal(ranks(3, *([] if words == "--nonsense" else TINIEST), words), status, said)


OTHER = "other"  # a program that differs


@pytest.mark.parametrize("status, said, others, first, second", [
    (MACHINE, "rank 1: corpus: missing.txt: No such file or directory", RANKS, "text.txt", "missing.txt"),
    (MACHINE, "corpus: missing.txt: No such file or directory", RANKS, "missing.txt", "text.txt"),
    (USAGE, "ranks: the corpus of rank 1 differs from that of rank 0", RANKS, "text.txt", "longer.txt"),
    (USAGE, "ranks: an option of rank 1 differs from that of rank 0", RANKS, "text.txt", "--n-embd=16 text.txt"),
    (USAGE, "ranks: the program of rank 2 differs from that of rank 0", OTHER, "text.txt", "text.txt")])
def test_what_differs_names_the_rank(ranks, run, status, said, others, first, second):
    Path("longer.txt").write_text(Path("text.txt").read_text() + "t")
    shutil.copy(RANKS, OTHER)
    with open(OTHER, "ab") as file:
        file.write(b"\n")
    start = [*TINIEST, "--out=ranks"]
    expect_end(run("mpirun", "-n", 2 if others == OTHER else 1, RANKS, *start, *split([first]),
                   ":", "-n", 1, Path(others).absolute(), *start, *split([second])), status, f"train: {said}")
    assert not Path("ranks").exists(), "a run folder is left"


def test_a_run_that_exists(ranks, done, silent):
    silent(2, TINIEST, "--out=ranks text.txt")
    done(TINIEST, "--out=one text.txt")
    expect_end(ranks(2, TINIEST, "--max-iters=9 --out=ranks text.txt"), USAGE, "train: run: ranks: already contains a run")
    same_folder("one", "ranks")

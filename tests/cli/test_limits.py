"""What the process may use of the machine. --threads=auto: the processors, or OMP_NUM_THREADS. And its memory."""
import os
from pathlib import Path

import pytest

from conftest import MACHINE, OK, TINY, TRAIN, refusal, split, summary_of

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.fixture
def limited(run, monkeypatch):
    """Runs ./train where files of this folder stand for the system's cgroups. OMP_NUM_THREADS is unset."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for folder in "cgroup/cpu", "cgroup/memory":
        Path(folder).mkdir(parents=True)
    within = ["unshare", "-m", "bash", "-c", 'mount --bind cgroup /sys/fs/cgroup && exec "$@"', "-"]
    if run("bash", "-c", '"$@"', "-", *within, "true").status:
        pytest.skip("no right to mount a folder over the cgroups (root)")

    def started(files, *words, **how):
        for name, text in files.items():
            Path("cgroup", name).write_text(f"{text}\n")
        return run(*within, TRAIN, *split(words), **how)
    return started


@pytest.mark.parametrize("given, threads", [("3", 3), ("32000", 1024), (None, None), ("none", None)])
def test_the_environment_chooses_up_to_the_limit(train, monkeypatch, given, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert train(TINY, "--out=out", env={"OMP_NUM_THREADS": given} if given else {}).status == OK
    used = summary_of("out")["threads"]
    assert used == threads or threads is None and 1 <= used <= CORES


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no system that binds a process to processors")
def test_a_process_that_is_bound_to_one_processor_has_one_thread(done, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    done(TINY, "--quiet --out=out", preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]))
    assert summary_of("out")["threads"] == 1


@pytest.mark.parametrize("quota, given, threads", [
    (100000, None, 1), (100000, "none", 1), (100000, "2", 2), (150000, None, min(CORES, 2)), (None, None, CORES),
    (None, "none", CORES)])
def test_a_quota_limits_auto(limited, quota, given, threads):
    ended = limited({"cpu.max": f"{quota or 'max'} 100000", "cpu/cpu.cfs_quota_us": quota or -1, "cpu/cpu.cfs_period_us": 100000},
                    TINY, "--quiet --out=out", env={"OMP_NUM_THREADS": given} if given else {})
    assert ended.status == OK and summary_of("out")["threads"] == threads, ended


def test_a_model_that_needs_more_memory_is_refused(limited):
    """Before the system kills the process."""
    files = {"memory.max": 1000000, "memory/memory.limit_in_bytes": 1000000}
    refusal(limited(files, "--quiet --max-iters=1 --out=out"), MACHINE, "in use, but the cgroup of this process may have 0.0 GiB (try")
    assert not Path("out").exists()
    assert limited(files, TINY, "--quiet --out=out").status == OK

"""A program that was built for another processor says so before it does anything."""
from pathlib import Path
import platform
import subprocess

import pytest

from conftest import ROOT

OBJECTS = ("processor", "processor_needs")


@pytest.fixture
def built(tmp_path, run):
    """Builds the objects for a processor, in the test's folder; returns the commands that make shows for each."""
    def build(arch):
        paths = [f"{tmp_path}/float/model/math/{name}.o" for name in OBJECTS]
        ending = run("make", "-s", "V=1", "-C", ROOT, f"BUILD={tmp_path}", f"ARCH={arch}", *paths)
        assert ending.status == 0, ending.err
        Path("main.c").write_text("int main(void) { return 0; }\n")
        subprocess.run(["cc", "main.c", *paths, "-o", "program"], check=True)
        shown = run("make", "-n", "-B", "V=1", "-C", ROOT, f"BUILD={tmp_path}", f"ARCH={arch}", *paths).out.splitlines()
        return [next(line for line in shown if f"-c model/math/{name}.c" in line) for name in OBJECTS]
    return build


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86 processor")
def test_instructions_that_are_missing_are_named(built, run):
    if "fma4" in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has everything that bdver4 has")
    checks, needs = built("bdver4")
    assert "-march" not in checks and "-march=bdver4" in needs, "the check runs on every processor"
    ending = run("./program")
    assert (ending.status, ending.out) == (1, "")
    assert ending.err == ("train: processor: lacks fma4 instructions, for which this program was built (build it here with make, or "
                          "for many processors with make ARCH=x86-64-v2)\n")


def test_what_was_built_here_runs(built, run):
    built("native")
    ending = run("./program")
    assert (ending.status, ending.out, ending.err) == (0, "", "")

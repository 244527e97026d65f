"""A program that was built for another processor says so."""
from pathlib import Path
import platform
import subprocess

import pytest

from conftest import ROOT

SOURCE = "model/math/processor.c"


@pytest.fixture
def program(tmp_path, run):
    """Runs a program of these lines, linked with what the build has for such processors."""
    def made(lines):
        path = f"{tmp_path}/float/{SOURCE.replace('.c', '.o')}"
        ending = run("make", "-s", "V=1", "-C", ROOT, f"BUILD={tmp_path}", "ARCH=bdver4", path)
        assert ending.status == 0, ending.err
        shown = run("make", "-n", "-B", "V=1", "-C", ROOT, f"BUILD={tmp_path}", "ARCH=bdver4", path).out.splitlines()
        assert "-march" not in next(line for line in shown if f"-c {SOURCE}" in line), "it runs on every processor"
        Path("main.c").write_text(lines)
        subprocess.run(["cc", "main.c", path, "-o", "program"], check=True)
        return run("./program")
    return made


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86 processor")
@pytest.mark.parametrize("lines", ['int main(void) { __asm__("ud2"); }',
                                   '__attribute__((constructor)) static void start(void) { __asm__("ud2"); }\nint main(void) {}'])
def test_an_instruction_that_is_missing_ends_the_program_with_a_line(program, lines):
    ending = program(lines + "\n")
    assert (ending.status, ending.out) == (1, "")
    assert ending.err == ("train: processor: lacks instructions for which this program was built (build it here with make, or "
                          "for many processors with make ARCH=x86-64-v2)\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86 processor")
def test_a_program_that_lacks_nothing_runs(program):
    ending = program("int main(void) { return 0; }\n")
    assert (ending.status, ending.out, ending.err) == (0, "", "")

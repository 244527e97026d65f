"""The Makefile, in a program of a few lines: blanks in paths, the variables that any makefile has, headers, optimization; and
what the compiler must not do."""
import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import ROOT, SCRIPTS, command

FILES = {
    "model/a.h": "#define A 1\nint a(void);\n",
    "model/a.c": '#include "model/a.h"\nint a(void) {\n    return A;\n}\n',
    "train.c": '#include "model/a.h"\n#include <stdio.h>\n#ifndef X\n#define X 0\n#endif\n'
               'int main(int count, char **words) {\n    printf("%d %d %s\\n", a(), X, words[count - 1]);\n}\n',
    "tests/bench.c": "int main(void) {\n    return 0;\n}\n",
    "tests/test_a.c": '#include <criterion/criterion.h>\n#include <stdlib.h>\nTest(a, program) {\n'
                      '    cr_assert(!system("\\"$TRAIN\\" >/dev/null"));\n}\n'}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Runs make in a folder whose name has a blank, and returns what it printed."""
    folder = tmp_path / "a b"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "scripts/upkeep").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    for name in "run_tests.sh", "picks.sh":
        shutil.copy(SCRIPTS / "upkeep" / name, folder / "scripts/upkeep")
    monkeypatch.chdir(folder)
    for name in "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "FILTER", "CC", "CFLAGS", "CPPFLAGS", "LDFLAGS":
        monkeypatch.delenv(name, raising=False)

    def made(*words, env=None):
        ending = command("make", *words, cwd=folder, env=env)
        assert ending.status == 0, ending.err
        return ending.out
    return made


def trained():
    return command("./train", cwd=".").out.split()[:2]


def test_blanks_in_paths(make):
    assert make("check", "FILTER=a/*").endswith("1 passed, 0 failed\n")
    make("install", "PREFIX=/x y", f"DESTDIR={os.getcwd()}/z")
    place = Path("z/x y")
    assert command(f"{os.getcwd()}/{place}/bin/normlab", "there", cwd=".").out == "1 0 there\n"
    assert (place / "share/man/man1/normlab.1").read_text() == "1 0 --help=man\n"
    assert (place / "share/bash-completion/completions/normlab").read_text() == "1 0 --help=completion\n"
    make("uninstall", "PREFIX=/x y", f"DESTDIR={os.getcwd()}/z")
    assert [path for path in place.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("cc", ["gcc -DX=5", f"{shutil.which('gcc')} -DX=5"])
def test_a_compiler_with_a_path_and_arguments(make, cc):
    make(f"CC={cc}")
    assert trained() == ["1", "5"] and len(list(Path("build").iterdir())) == 1
    assert f"MPICH_CC='{cc}' OMPI_CC='{cc}' mpicc" in make("-n", "MPI=1", f"CC={cc}", "build/x/float/model/a.o", "BUILD=build/x")


def test_variables_of_any_makefile(make):
    """Each where it belongs, and what the environment gives of them."""
    lines = make("V=1", "CPPFLAGS=-DX=7", "LDFLAGS=-L/there", "LDLIBS=-lm", env={"CFLAGS": "-DHERE"}).splitlines()
    compiled, linked = ([line for line in lines if part in line] for part in (" -c ", "a.o -o "))
    assert len(compiled) == 2 and len(linked) == 1
    assert all(" -DX=7 -DHERE" in line and "-L/there" not in line for line in compiled) and " -L/there " in linked[0]
    assert trained() == ["1", "7"]


def test_a_changed_header_in_any_build_folder(make, tmp_path):
    for build in "build/own", str(tmp_path / "elsewhere"):
        Path("model/a.h").write_text(FILES["model/a.h"])
        make(f"BUILD={build}")
        Path("model/a.h").write_text(FILES["model/a.h"].replace("1", "2"))
        make(f"BUILD={build}")
        assert trained()[0] == "2", build


@pytest.mark.parametrize("name, level", [("train", "-O3"), ("tests/test_a", "-O1"), ("tests/bench", "-O3")])
def test_how_much_is_optimized(make, name, level):
    assert re.findall(r" (-O\d)", make("-n", f"build/x/float/{name}.o", "BUILD=build/x"))[-1] == level


@pytest.mark.parametrize("flags, said", [
    ("-Ofast", "no NaN would be found"), ("-ffinite-math-only", "no NaN would be found"), ("-ffast-math", "no NaN would be found"),
    ("-fassociative-math -fno-signed-zeros -fno-trapping-math", "no NaN would be found"),
    ("-U__FLT_EVAL_METHOD__ -D__FLT_EVAL_METHOD__=2", "-mfpmath=sse"),
    ("-U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__", "this machine is big-endian"), ("", "")])
def test_what_the_compiler_must_not_do(run, tmp_path, flags, said):
    """Only the first file is looked at, which is compiled first."""
    ending = run("make", "-C", ROOT, f"BUILD={tmp_path}/build", f"CFLAGS=-fsyntax-only -Wno-builtin-macro-redefined {flags}",
                 f"{tmp_path}/build/float/train.o")
    assert bool(ending.status) == bool(said) and said in ending.err

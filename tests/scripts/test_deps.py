"""deps.sh, openmp.sh and the Makefile on a simulated Mac: PATH has some tools of this machine, and a uname, cc and brew
that behave as on a Mac. For Windows, uname answers as there."""
import os
import shutil

import pytest

from conftest import SCRIPTS

TOOLS = "bash sh env sed grep tr id mktemp rm cat dirname basename make find mkdir true head as ld".split()
OURS = "CC ARCH PYTHON LDLIBS MAKEFLAGS HOMEBREW_PREFIX MFLAGS MAKELEVEL".split()

# Apple's compiler has OpenMP only after -Xpreprocessor and where libomp is installed, and does not know
# -march=native.
APPLE_CC = """#!/bin/bash
words=() before=
for word; do
    case $before$word in
    -Xpreprocessor-fopenmp) words+=(-fopenmp) ;;
    -fopenmp) echo "clang: error: unsupported option '-fopenmp'" >&2; exit 1 ;;
    -march=native) echo 'clang: error: unsupported argument' >&2; exit 1 ;;
    -Xpreprocessor) before=$word; continue ;;
    -mcpu=native | -lomp) ;;
    *) words+=("$word") ;;
    esac
    before=
done
exec real-gcc "${words[@]}"
"""
OTHERS = "/opt/homebrew", "/usr/local/opt/libomp", "/opt/local/include"

pytestmark = pytest.mark.skipif(any(map(os.path.exists, OTHERS)), reason="a machine with Homebrew or MacPorts")


def put(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(autouse=True)
def bin(tmp_path, monkeypatch):
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    for name, tool in ("real-gcc", "gcc"), ("real-bash", "bash"):
        # a link of ccache would call itself
        place = shutil.which(tool, path=os.pathsep.join(p for p in os.environ["PATH"].split(":") if "ccache" not in p))
        (folder / name).symlink_to(place)
    put(folder / "uname", "#!/bin/sh\necho Darwin\n")
    put(folder / "cc", APPLE_CC)
    put(folder / "brew", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", str(folder))
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def libomp(tmp_path, bin):
    """libomp, where brew says that it is."""
    for folder in "include", "lib":
        (tmp_path / "omp" / folder).mkdir(parents=True)
    (tmp_path / "omp/include/omp.h").write_text("int omp_get_max_threads(void);\n")
    put(bin / "brew", f'#!/bin/sh\n[ "$*" = "--prefix libomp" ] && echo {tmp_path}/omp\n')


@pytest.fixture
def make(run):
    """What `make -Bn` prints, whose commands are not run."""
    def printed(*words):
        ending = run("make", "-C", SCRIPTS.parent, "--no-print-directory", "-Bn", *words)
        assert (ending.status, ending.err) == (0, "")
        return ending.out
    return printed


def said(ending):
    return ending.status, ending.out, ending.err


def test_apples_compiler_lacks_openmp(run):
    assert said(run("upkeep/openmp.sh", "cc")) == (
        1, "-fopenmp\n", "openmp: cc builds no program with OpenMP (brew install libomp, or brew install gcc)\n")
    assert said(run("deps.sh", "build")) == (1, "", "deps: missing: libomp-dev; to get it: brew install libomp\n")


def test_libomp_serves_apples_compiler(run, make, libomp, tmp_path):
    assert said(run("upkeep/openmp.sh", "cc")) == (
        0, f"-Xpreprocessor -fopenmp -I{tmp_path}/omp/include -L{tmp_path}/omp/lib -lomp\n", "")
    assert said(run("deps.sh", "build")) == (0, "", "")
    out = make("build/cc-native/float/data/die.o")
    assert "cc -std=gnu11 -I. -O3 -mcpu=native " in out and " -Xpreprocessor -fopenmp -I/" in out and "-lomp" not in out
    assert any("-o build/cc-native/train " in line and "/omp/lib -lomp " in line for line in make("train").splitlines())


def test_gcc_by_its_number_serves_where_the_system_decides(run, bin, make):
    put(bin / "gcc-13", "#!/bin/sh\nexit 1\n")  # a broken one
    put(bin / "gcc-12", '#!/bin/sh\nexec real-gcc "$@"\n')
    assert said(run("upkeep/openmp.sh", "cc")) == (0, "gcc-12 -fopenmp\n", "")
    assert said(run("deps.sh", "build")) == (0, "", "")
    assert said(run("upkeep/openmp.sh", "cc", "-O2"))[:2] == (1, "-fopenmp\n")  # one that is named is not replaced
    assert said(run("deps.sh", "build", env={"CC": "real-gcc -m64"})) == (0, "", "")
    assert "gcc-12 -std=gnu11 -I. -O3 -march=native " in make("build/gcc-12-native/float/data/die.o")
    assert "cc -std=gnu11 " in make("CC=cc", "build/cc-native/float/data/die.o")


def test_apples_tools_come_from_apple(run, bin):
    (bin / "cc").unlink()
    (bin / "make").unlink()
    ending = run("deps.sh", "build")
    assert ending.status == 1 and "deps: missing: gcc" in ending.err and "brew" not in ending.err
    assert " make; Apple's command line tools have it: xcode-select --install\n" in ending.err


def test_macs_bash_is_too_old_for_tests(run, bin):
    assert said(run("deps.sh", "bash")) == (0, "", "")
    (bin / "bash").unlink()
    put(bin / "bash", '#!/bin/sh\ncase $1 in -c) exit 1 ;; esac\nexec real-bash "$@"\n')
    assert said(run("deps.sh", "bash")) == (1, "", "deps: missing: bash; to get it: brew install bash\n")


def test_pip_has_what_homebrew_lacks(run, bin):
    """Then all of Python's modules come from there, since one Python needs them all."""
    ending = run("deps.sh", "test", env={"PYTHON": "no-python"})
    assert ending.status == 1 and ending.err.splitlines()[-1] == (
        "deps: missing: python3-pytest python3-pytest-xdist python3-numpy python3-matplotlib python3-scipy python3-statsmodels "
        "python3-pandas python3-jinja2; in a virtual environment: python3 -m venv venv && . venv/bin/activate && "
        "pip install -r scripts/requirements.txt")
    native, = [line for line in ending.err.splitlines() if "brew install" in line]
    assert "parallel" in native and "numpy" not in native
    assert said(run("deps.sh", "python3-numpy", env={"PYTHON": "no-python"})) == (
        1, "", "deps: missing: python3-numpy; to get it: brew install numpy\n")


def test_pip_installs_what_tests_need(run):
    listed = [line.split() for line in run("deps.sh", "--list", "test").out.splitlines()]
    needed = {package.removeprefix("python3-") for package, _, probe in listed if probe.startswith("python:")}
    assert needed == {line for line in (SCRIPTS / "requirements.txt").read_text().splitlines() if line[0] != "#"}
    assert run("deps.sh", "--list").out.startswith("gcc build command:cc\n")
    assert "python3-torch pytorch python:torch\n" in run("deps.sh", "--list").out


def test_groups(run):
    for group in "clang", "mpi", "arm", "lint":
        ending = run("deps.sh", group)
        assert ending.status == 1 and ending.err.startswith("deps: missing"), group
    ending = run("deps.sh", "arms")
    assert ending.status == 2 and ending.err.startswith("deps: no group or package 'arms' (groups: build test ")


def test_msys2_has_what_builds(run, make, bin):
    (bin / "brew").unlink()
    put(bin / "pacman", "#!/bin/sh\nexit 1\n")
    put(bin / "uname", "#!/bin/sh\necho MINGW64_NT-10.0-22631\n")
    assert said(run("deps.sh", "build")) == (1, "", "deps: the compilers of this shell lack POSIX: use MSYS2's MSYS shell, "
                                             "or WSL with Debian or Ubuntu in it\n")
    put(bin / "uname", "#!/bin/sh\necho MSYS_NT-10.0-22631\n")
    put(bin / "cc", '#!/bin/sh\nexec real-gcc "$@"\n')
    out = make("CC=cc", "build/cc-native/float/data/die.o")
    assert "cc -std=gnu11 -I. -O3 -march=native " in out and " -fopenmp " in out and "-Xpreprocessor" not in out
    (bin / "cc").unlink()
    (bin / "make").unlink()
    ending = run("deps.sh", "build")
    assert ending.status == 1 and "deps: missing: gcc" in ending.err and "sudo" not in ending.err
    assert " make; to get it: pacman -S gcc " in ending.err and "not packaged" not in ending.err
    assert "not packaged for this system: " in run("deps.sh", "clang").err

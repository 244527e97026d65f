"""as_fresh.py hides what neither Debian's base nor the command's groups of deps.sh bring; README has the two commands that
.ci/run gives to it."""
import re
import shutil

import pytest

from conftest import ROOT, command
from upkeep.as_fresh import closure

COMMANDS = [line.partition(" #")[0].rstrip() for line in (ROOT / "README.md").read_text().splitlines()
            if line.startswith("scripts/deps.sh ")]


def test_readme_has_the_two_commands_next_to_each_other():
    assert [command.rpartition(" ")[2] for command in COMMANDS] == ["demo", "test"]
    demo, test = map((ROOT / "README.md").read_text().index, COMMANDS)
    assert (ROOT / "README.md").read_text()[demo:test].count("\n") == 1


def test_make_installs_what_its_command_in_readme_does():
    recipe = re.search(r"^test:.*\n\t@(.*)\n", (ROOT / "Makefile").read_text(), re.M)[1]
    assert f"{recipe} && make test" == COMMANDS[1]


def package(name, depends="", provides="", before=""):
    return {"Package": name, "Provides": provides, "Depends": depends, "Pre-Depends": before}


def test_what_packages_depend_on_is_visible():
    """Through names of others, and of alternatives the first that is installed."""
    packages = {row["Package"]: row for row in (
        package("a", "b:any (>= 2), none | c | d", before="e"), package("b", "virtual (= 1)"), package("c"), package("d"),
        package("e", "a"), package("f", provides="virtual (= 1), other"), package("g", "a"))}
    assert closure(packages, ["a"]) == {"a", "b", "c", "e", "f"}
    assert closure(packages, ["d", "missing", "other"]) == {"d", "f"}


SHOW = """scripts/deps.sh build test &&
for name in ls make git parallel by-hand mpirun chromium clang-16; do command -v $name >/dev/null && echo $name; done
for name in numpy xdist mpl_toolkits torch nbformat planted planted_too os; do python3 -c "import $name" 2>/dev/null && echo $name; done
python3 -c 'import importlib.metadata as m; print(*(d.name for d in m.distributions() if d.name in ("numpy", "planted")))'
echo ${ANYTHING-nothing}
exit 7"""


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no dpkg-query (Debian has it)")
def test_what_the_command_does_not_install_is_hidden(tmp_path):
    """Besides what this machine has by chance: a program beside /usr/bin, packages as pip installs them."""
    for path, text in {"bin/by-hand": "#!/bin/sh\n", "site-packages/planted.py": "", "site-packages/planted_too/a.py": "",
                       "site-packages/planted-1.dist-info/METADATA": "Name: planted\nVersion: 1\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    shown = SHOW.replace("python3", f"PYTHONPATH=$PYTHONPATH:{tmp_path}/site-packages python3")
    ending = command("upkeep/as_fresh.py", shown, cwd=ROOT, env={"ANYTHING": "kept", "PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert (ending.status, ending.err) == (7, "")
    assert ending.out.split() == "ls make git parallel numpy xdist mpl_toolkits os numpy nothing".split()


def test_a_command_that_installs_nothing_is_refused():
    ending = command("upkeep/as_fresh.py", "make test", cwd=ROOT)
    assert ending.status == 2 and "as_fresh: expects one command that starts with scripts/deps.sh" in ending.err

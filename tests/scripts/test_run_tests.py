"""run_tests.sh with Python tests, in a tree of its own: what it counts, and what FILTER picks."""
import shutil

import pytest

GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): assert 1 + 1 == 3\n"
SKIPPED = "import pytest\ndef test_skipped(): pytest.skip('not here')\n"


@pytest.fixture
def count(run, scripts, tmp_path):
    """Puts test_NAME.py files into a tree, runs run_tests.sh there, and returns its ending."""
    for folder in "scripts/upkeep", "tests/scripts":
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(scripts / "upkeep" / "run_tests.sh", "scripts/upkeep")
    (tmp_path / "criterion").write_text("#!/bin/sh\necho '[====] Synthesis: Tested: 2 | Passing: 2 | Failing: 0'\n")
    (tmp_path / "criterion").chmod(0o755)

    def counted(pattern="", **texts):
        for name, text in texts.items():
            (tmp_path / f"tests/scripts/test_{name}.py").write_text(text)
        return run("scripts/upkeep/run_tests.sh", tmp_path / "criterion", tmp_path / "pytest",
                   env={"FILTER": pattern, "CRITERION_JOBS": "1"})

    return counted


def last(ending):
    return ending.out.splitlines()[-1]


def test_python_tests_are_counted_beside_the_others(count):
    ending = count(a=GOOD + SKIPPED, b=GOOD)
    assert (ending.status, last(ending)) == (0, "4 passed, 0 failed, 1 skipped")


def test_a_failed_test_is_named_and_its_assertion_shown(count):
    ending = count(a=GOOD, b=BAD)
    assert (ending.status, last(ending)) == (1, "3 passed, 1 failed")
    assert "E   assert (1 + 1) == 3" in ending.out and "test_b.py::test_bad" in ending.out


@pytest.mark.parametrize("text", ["import nothing_of_that_name\n", "import os\nos._exit(0)\n",
                                  "import os\ndef test_crash(): os._exit(0)\n"])
def test_a_file_that_cannot_run_is_a_failure(count, text):
    ending = count(a=GOOD, b=text)
    assert ending.status == 1 and not last(ending).endswith(" 0 failed"), ending.out


def test_a_failure_of_pytest_itself_counts(count):
    hook = "def pytest_sessionfinish(session): session.exitstatus = 3\n"
    ending = count(a=GOOD, b=GOOD)
    assert ending.status == 0
    with open("tests/scripts/conftest.py", "w", encoding="utf-8") as file:
        file.write(hook)
    ending = count()
    assert (ending.status, last(ending)) == (1, "4 passed, 1 failed")
    assert "pytest: ended with status 3" in ending.out


@pytest.mark.parametrize("pattern, total", [("norm/*", 2), ("pytest/*", 2), ("pytest/a*", 1), ("pytest/b", 1)])
def test_filter_picks_programs_and_files(count, pattern, total):
    ending = count(pattern, a=GOOD, b=GOOD)
    assert (ending.status, last(ending)) == (0, f"{total} passed, 0 failed")


def test_a_filter_that_picks_nothing_fails(count):
    assert count("pytest/nothing", a=GOOD).status == 1

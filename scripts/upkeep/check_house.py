#!/usr/bin/env python3
"""Checks the order of the folders, the heads of files of C, and the lengths of files, functions and lines of Python.
`make lint` runs it.

A file may include files of the folders that ALLOWED names for its own. Modules do not include
each other in a circle, a module being NAME.c together with NAME.h. What NAME.h declares is defined
in NAME.c, or in a NAME_PART.c without a header of its own. Run it at the top of the project.
"""
import ast
from graphlib import CycleError, TopologicalSorter
import re
import subprocess
import sys
from pathlib import Path

# Folder: what its files may include, each a folder or a single file.
ALLOWED = {
    "data": ["data"],
    "data/text": ["data", "data/text"],
    "data/files": ["data", "data/files", "data/text/utf8.h"],
    "model/math": ["data/clock.h", "data/die.h", "data/random.h", "model/math"],
    "model/math/serial": [],
    "model/norm": ["data/die.h", "model/options/options.h", "model/math", "model/norm"],
    "model/optimizer": ["data/die.h", "model/options/options.h", "model/math", "model/optimizer"],
    "model/layer": ["data/random.h", "model/math", "model/layer"],
    "model/connection": ["model/math", "model/norm", "model/layer", "model/connection"],
    "model/block": ["data/die.h", "model/math", "model/norm", "model/layer", "model/connection", "model/model_config.h",
                    "model/block"],
    "model": ["data/die.h", "data/text/batch.h", "model/math", "model/norm", "model/layer", "model/connection",
              "model/block", "model"],
    "model/instruments": ["data", "data/text", "model/math", "model/norm", "model/layer", "model/connection", "model/block",
                          "model", "model/instruments"],
    "model/options": ["data", "data/text", "data/files", "model/math", "model/norm", "model/connection", "model/optimizer", "model/block",
                      "model", "model/instruments", "model/options"],
    "model/app": ["data", "data/text", "data/files", "model/math", "model/norm", "model/connection", "model/optimizer", "model/block",
                  "model", "model/instruments", "model/options", "model/app"],
    ".": ["data", "model/math", "model/instruments", "model/options", "model/app"],
}

FILE_LINES, FUNCTION_LINES, PARAMETERS = 400, 60, 7
PYTHON_COLUMNS = 140  # of C, .clang-format says it


def includes(text):
    """The project's own files that a file of this text includes, as (line number, path from the top)."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include "([^"]+)"', line)
        if match:
            yield number, match.group(1)


def c_functions(text):
    """(first line, length, parameters, name) of each function of a file laid out by clang-format."""
    text = re.sub(r" *//.*", "", text)
    for match in re.finditer(r"^(?=[A-Za-z_])[^{}=;#]*?(\w+)\(([^{}=;]*)\) \{\n.*?^\}", text, re.M | re.S):
        pointers = r"\([^()]*\)"  # of a parameter that is a function
        yield (text.count("\n", 0, match.start()) + 1, match[0].count("\n") + 1,
               re.sub(pointers, "", match[2]).count(",") + 1, match[1])


def misplaced(path, text):
    """The functions that a header declares and its module does not define."""
    parts = [part for part in path.parent.glob(f"{path.stem}_*.c") if not part.with_suffix(".h").exists()]
    own = {name for part in [*path.parent.glob(f"{path.stem}.c"), *parts] for *_, name in c_functions(part.read_text())}
    return [name for name in re.findall(r"^(?!static|typedef)\w[\w *]*[ *](\w+)\([^{};]*;", text, re.M) if name not in own]


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            count = len(node.args.args) + len(node.args.kwonlyargs)
            yield node.lineno, node.end_lineno - node.lineno + 1, count, node.name


def long_errors(path, text):
    """What is longer in a file than the house allows."""
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, at most {FILE_LINES}"
    for number, line in enumerate(text.splitlines() if path.suffix == ".py" else (), 1):
        if len(line) > PYTHON_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns, at most {PYTHON_COLUMNS}"
    functions = {".c": c_functions, ".h": c_functions, ".py": python_functions}.get(path.suffix, lambda text: ())
    for line, length, count, name in functions(text):
        if length > FUNCTION_LINES:
            yield f"{path}:{line}: {name}() has {length} lines, at most {FUNCTION_LINES}"
        if count > PARAMETERS:
            yield f"{path}:{line}: {name}() has {count} parameters, at most {PARAMETERS}"


def main():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.py", "*.sh"],
                           capture_output=True, text=True, check=True).stdout.split()
    errors, modules = [], {}
    for path in filter(Path.exists, map(Path, names)):
        text, folder = path.read_text(), str(path.parent)
        errors += long_errors(path, text)
        if path.suffix == ".c" and not text.startswith("/*"):
            errors.append(f"{path}: does not start with a comment that gives its purpose")
        if path.suffix == ".c" and "omp_get_wtime()" in text:
            errors.append(f"{path}: omp_get_wtime() may be a clock that can be put back: clock_now()")
        if path.suffix not in (".c", ".h") or path.parts[0] == "tests":
            continue
        if folder not in ALLOWED:
            errors.append(f"{path}: {folder}/ has no line in scripts/upkeep/check_house.py")
            continue
        if path.suffix == ".h":
            errors += [f"{path}: {name}() is defined in another module's file" for name in misplaced(path, text)]
        module = str(path.with_suffix(""))
        for number, target in includes(text):
            if not {target, str(Path(target).parent)} & set(ALLOWED[folder]):
                errors.append(f"{path}:{number}: files of {folder}/ may not include {target}")
            modules.setdefault(module, set()).add(str(Path(target).with_suffix("")))
    for module, others in modules.items():
        others.discard(module)
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        errors.append("modules include each other: " + " -> ".join(reversed(error.args[1])))
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs a command as on a machine with Debian's base system and what the command itself installs: as_fresh.py COMMAND

COMMAND is a line of bash that starts with `scripts/deps.sh GROUP... &&`. Programs and Python's modules are hidden unless
they belong to a package that is required on every Debian, to one of these groups, or to one that these depend on. So
what pip or hand installed is hidden too. Programs are hidden by a PATH of links, modules by a sitecustomize.py. Nothing
else of the environment is kept but who and where the user is. Files that are named by their whole path stay visible.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KEPT = "HOME", "USER", "LOGNAME", "TERM", "TMPDIR", "CRITERION_JOBS"
FIELDS = "Package", "Status", "Priority", "Essential", "Provides", "Pre-Depends", "Depends"
MODULES = "/usr/lib/python3/dist-packages/"

# The modules of Python in a folder of this name are hidden, except for those in VISIBLE.
CUSTOMIZE = '''
import re, sys
from importlib.machinery import PathFinder

VISIBLE = {visible}

def is_hidden(place):
    found = re.match(r".*?/(?:dist|site)-packages/[^/]+", str(place))
    return bool(found) and found[0] not in VISIBLE

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        places = [spec.origin] if spec and spec.origin else list(spec.submodule_search_locations or ()) if spec else ()
        return None if any(map(is_hidden, places)) else spec

    @classmethod
    def find_distributions(cls, *words, **named):
        return (one for one in PathFinder.find_distributions(*words, **named) if not is_hidden(one._path))

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
'''


def names_in(text):
    """The names in a list of packages: "a (>= 2), b:any" -> a, b."""
    return re.findall(r"(?:^|,)\s*([^\s,|:(]+)", text)


def closure(packages, names):
    """The names of installed packages that have these names, or provide them, and of all they depend on. Of alternatives,
    the first one that is installed counts."""
    provided = {}
    for package in packages.values():
        for name in names_in(package["Provides"]):
            provided.setdefault(name, []).append(package["Package"])
    found, left = set(), list(names)
    while left:
        alternatives = [name for part in left.pop(0).split("|") for name in names_in(part)]
        here = [[name] if name in packages else provided.get(name, []) for name in alternatives]
        for name in next(filter(None, here), []):
            if name not in found:
                found.add(name)
                left += (packages[name]["Pre-Depends"] + "," + packages[name]["Depends"]).split(",")
    return found


def output_of(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def visible_files(groups):
    """The files, and folders, of the packages that such a machine has."""
    rows = output_of("dpkg-query", "-W", "-f", "\\t".join(f"${{{field}}}" for field in FIELDS) + "\\n").splitlines()
    packages = {row.partition("\t")[0]: dict(zip(FIELDS, row.split("\t"))) for row in rows if "\tinstall ok installed\t" in row}
    base = [name for name, package in packages.items() if package["Essential"] == "yes" or package["Priority"] == "required"]
    wanted = [line.split()[0].split(",") for line in output_of("scripts/deps.sh", "--list", *groups).splitlines()]
    files = output_of("dpkg-query", "-L", *sorted(closure(packages, base + sum(wanted, [])))).splitlines()
    return {re.sub("^/(s?bin)/", r"/usr/\1/", file) for file in files}  # one place, two names


def main():
    if len(sys.argv) != 2 or not (found := re.match(r"scripts/deps\.sh ([\w ]+)&&", sys.argv[1])):
        print("as_fresh: expects one command that starts with scripts/deps.sh GROUP... &&", file=sys.stderr)
        return 2
    files = visible_files(found[1].split())
    with tempfile.TemporaryDirectory(prefix="as_fresh-") as folder:
        bin = Path(folder, "bin")
        bin.mkdir()
        for place in "/usr/bin", "/usr/sbin":
            for entry in os.scandir(place):
                if (entry.path in files or os.path.realpath(entry.path) in files) and not (bin / entry.name).is_symlink():
                    (bin / entry.name).symlink_to(entry.path)
        Path(folder, "sitecustomize.py").write_text(CUSTOMIZE.format(
            visible={file for file in files if file.startswith(MODULES) and "/" not in file[len(MODULES):]}))
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        return subprocess.run(["bash", "-c", sys.argv[1]], check=False,
                              env={**environment, "PATH": str(bin), "PYTHONPATH": folder}).returncode


if __name__ == "__main__":
    sys.exit(main())

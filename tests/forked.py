"""Runs Python scripts in children of a process that has imported their modules already, which takes longer than most
scripts. What a script imports from scripts/ it imports by itself."""
import multiprocessing
import os
import runpy
import sys
import tempfile
from types import SimpleNamespace

server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(["runpy", "numpy", "matplotlib.figure", "matplotlib.backends.backend_svg",
                               "matplotlib.backends.backend_agg", "scipy.stats", "jinja2"])


def run_here(words, cwd, env, files):
    """Runs the script words[0] as if it were this process's program."""
    for number, file in enumerate(files):
        os.dup2(os.open(file, os.O_RDWR), number)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode, encoding="utf-8") for number, mode in enumerate("rww"))
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(words[0]))
    runpy.run_path(words[0], run_name="__main__")


def run(words, cwd, env, text):
    """Runs the script with `text` as standard input; returns its exit status and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("in", "out", "err")]
        for file in files:
            with open(file, "w", encoding="utf-8") as opened:
                opened.write(text if file == files[0] else "")
        child = server.Process(target=run_here, args=(words, str(cwd), env, files))
        child.start()
        child.join(1200)
        if child.exitcode is None:
            child.kill()
            raise TimeoutError(f"{words}: runs for more than twenty minutes")
        out, err = (open(file, encoding="utf-8", errors="surrogateescape").read() for file in files[1:])
    return SimpleNamespace(status=child.exitcode if child.exitcode >= 0 else 128 - child.exitcode, out=out, err=err)

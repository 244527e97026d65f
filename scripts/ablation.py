"""Runs a list of runs with ablate.sh, for programs that plan their runs themselves."""
import os
import subprocess
import sys

ABLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ablate.sh")
INTERRUPTED = (129, 130, 143)


def run_grid(path, folder, log, options, train):
    """Does the runs of the list `path` in an ablation's folder; what ablate.sh prints is appended to the file
    `log`. options: of ablate.sh. Runs that fail are in the folder's records, and ablate.sh says so. It ends by
    itself after Ctrl-C; then this program ends too."""
    words = [ABLATE, f"--grid={path}", f"--out={folder}", *options]
    with open(log, "ab") as file, subprocess.Popen(
            words, stdout=file, env={**os.environ, "TRAIN": os.path.abspath(train)}) as process:
        try:
            status = process.wait()
        except SystemExit:
            process.terminate()
            raise
    if status in INTERRUPTED:
        sys.exit(status)
    return status

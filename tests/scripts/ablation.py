"""Ablations whose runs are counted, and held until the test releases them, without clocks."""
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

from conftest import SCRIPTS, TINY, TRAIN, command

RUN = (*TINY, "--eval-interval=250", "text.txt")
EACH = [word for word in TINY if not word.startswith(("--batch-size", "--log-interval"))]

# Records every run of the grid in `begun` (name, process, and whether by --out or --resume) and waits for a file `go`.
# Trials, whose folders are elsewhere, are not held, but recorded in `tried`.
HELD = f"""#!/bin/bash
all=$*
case $all in *=a/runs/*)
    name=${{all#*=a/runs/}} how=${{all%%=a/runs/*}}
    echo "${{name%% *}} $$ ${{how##* }}" >>begun
    for ((i = 0; i < 600; i++)); do [ ! -e go ] || break; sleep 0.05; done ;;
*--config=* | *--help=*) ;;
*) echo "$4 $5" >>tried ;;
esac
exec '{TRAIN}' "$@"
"""


class Ablation:
    """scripts/ablate.sh in the test's folder, which has text.txt."""
    def __init__(self, monkeypatch):
        self.monkeypatch, self.env = monkeypatch, {"TRAIN": str(TRAIN)}
        put_text("text.txt", 2000)

    def put(self, name, text):
        """An executable program in the folder; one of bin/ is found before all others."""
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        if name.startswith("bin/"):
            self.monkeypatch.setenv("PATH", str(path.parent.resolve()), prepend=":")

    def hide_gnu_parallel(self):
        """Behind a program like that of Debian's moreutils."""
        self.put("bin/parallel", "#!/bin/sh\necho \"parallel: invalid option -- '-'\" >&2\nexit 1\n")

    def hold(self):
        """From here on runs are counted, and held until release()."""
        self.put("held", HELD)
        self.env["TRAIN"] = str(Path("held").resolve())

    def release(self):
        Path("go").touch()

    def count(self):
        """From here on runs and trials are counted."""
        self.release()
        self.hold()

    def __call__(self, *words, status=0, script="ablate.sh"):
        """Runs the script, which must end with this status."""
        ending = command("bash", SCRIPTS / script, *words, cwd=".", env=self.env)
        assert ending.status == status, f"{ending.out}{ending.err}"
        return ending

    def start(self, *words):
        with open("out", "w", encoding="utf-8") as out, open("err", "w", encoding="utf-8") as err:
            return subprocess.Popen([str(SCRIPTS / "ablate.sh"), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    env={**os.environ, **self.env})

    def end(self, process, status, number=0):
        """Waits for the end of a script, after sending it a signal if there is a number."""
        if number:
            process.send_signal(number)
        assert process.wait(300) == status, Path("err").read_text()
        return SimpleNamespace(out=Path("out").read_text(), err=Path("err").read_text())


def put_text(name, characters):
    line = "the cat sees a dog, and the dog sees the cat.\n"
    Path(name).write_text((line * (characters // len(line) + 1))[:characters])


def lines(name):
    return Path(name).read_text().splitlines() if Path(name).exists() else []


def wait_until(holds):
    for _ in range(1500):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("never came to be")


def reason(run):
    """Why a run of the folder a/ ended."""
    text = Path(f"a/runs/{run}/summary.json").read_text()
    return text.split('"exit_reason": "')[1].split('"')[0]

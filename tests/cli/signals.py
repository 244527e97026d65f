"""Runs of ./train that a test watches, and signals that it sends them."""
import os
import signal
import subprocess
import time
from pathlib import Path

from conftest import TRAIN, ending, split, wait_until


class Started:
    """./train, or another program, started with these words; killed at the end of a `with`. Of signals, it ignores these,
    whatever the tests ignore."""
    def __init__(self, *words, program=(TRAIN,), ignored=()):
        def heed():
            for number in signal.SIGINT, signal.SIGHUP, signal.SIGTERM:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        self.process = subprocess.Popen([*program, *split(words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, preexec_fn=heed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def wait(self, name, rows):
        """Until the file has `rows` lines, or ./train has ended."""
        wait_until(lambda: self.process.poll() is not None
                   or Path(name).exists() and Path(name).read_bytes().count(b"\n") >= rows)

    def work(self, seconds):
        """Until it has used so much processor time, which a busy machine may take long to give."""
        ticks = seconds * os.sysconf("SC_CLK_TCK")
        self.wait_for(lambda cells: sum(map(int, cells[11:13])) >= ticks, seconds)

    def sleep(self):
        """Until it waits for something, or has ended."""
        self.wait_for(lambda cells: cells[0] in "SZ", 0.2)

    def wait_for(self, holds, seconds):
        """Until this holds for what Linux says of the process; elsewhere, for this time in seconds."""
        table = Path(f"/proc/{self.process.pid}/stat")
        if table.exists():
            wait_until(lambda: holds(table.read_text().rpartition(")")[2].split()))
        else:
            time.sleep(seconds)

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=0):
        if number:
            self.send(number)
        out, err = self.process.communicate(timeout=600)
        return ending(self.process, out, err)


def interrupted(number, log, *words, rows=1):
    """How ./train ends after a signal, which is sent when its log has `rows` rows."""
    with Started(*words) as process:
        process.wait(log, rows + 1)
        return process.end(number)

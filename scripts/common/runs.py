"""Reads run folders: logs, options, how a run ended.

A run is a folder that ./train --out makes. It may be under way: summary.json may be missing, and an incomplete last line
of log.csv is left out.

check_table() checks log.csv, probes.csv or samples.txt against log.crc32. ./train writes log.crc32 with each
checkpoint (model/app/run.h): for each of these files a line NAME BYTES CRC32, the checksum of its
first BYTES bytes. Rows that were added later are not covered. A run without checkpoints has no log.crc32. When a run has
ended, check_summary() checks summary.json and the complete log.
"""
import csv
import errno
import json
import math
import os
import re
import stat
import zlib

from common.run_options import ABSENT, Options, RunError, is_number

CHECKSUM_LINE = re.compile(rb"(log\.csv|probes\.csv|samples\.txt) (\d+) ([0-9a-f]{8})\n")


def open_regular(path, mode="r", **how):
    """Opens a regular file for reading; anything else is an OSError, since a FIFO might wait forever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return open(descriptor, mode, **how)


def read_bytes(path, size=-1):
    """At most `size` bytes of a file, or None if it cannot be read."""
    try:
        with open_regular(path, "rb") as file:
            return file.read(size)
    except OSError:
        return None


def check_table(folder, name, say):
    """Warns by say(text) if FOLDER/NAME does not match its checksum. A file that is missing is not
    reported here."""
    path = os.path.join(folder, "log.crc32")
    text = read_bytes(path)
    if text is None:
        return
    if CHECKSUM_LINE.sub(b"", text):
        say(f"{path}: is damaged: a change of {name} would not be found")
        return
    for known, size, crc in CHECKSUM_LINE.findall(text):
        data = read_bytes(os.path.join(folder, name), int(size)) if known.decode() == name else None
        if data is not None and (len(data) < int(size) or zlib.crc32(data) != int(crc, 16)):
            say(f"{os.path.join(folder, name)}: was changed or damaged after the last checkpoint (its "
                "checksum differs from log.crc32)")


SEAL = re.compile(r'\{\n  "crc32": "([0-9a-f]{8})",\n  "log_crc32": "([0-9a-f]{8})",\n')


def check_summary(path, text):
    """Raises RunError if summary.json, or the log beside it, does not match the checksums at the start of its text
    (model/app/record.c). A summary of an older version has none."""
    seal, log = SEAL.match(text), os.path.join(os.path.dirname(path), "log.csv")
    if not seal and not re.search('"(log_)?crc32": "', text):
        return
    if not seal or int(seal[1], 16) != zlib.crc32((text[:seal.start(1)] + "0" * 8 + text[seal.end(1):]).encode()):
        raise RunError(f"{path}: was changed or damaged after the run ended (its checksum differs)")
    data = read_bytes(log)
    if data is not None and int(seal[2], 16) != zlib.crc32(data):
        raise RunError(f"{log}: was changed or damaged after the run ended (its checksum differs from summary.json)")


RECORD_SEAL = re.compile(r'\{\n "crc32": "([0-9a-f]{8})",\n')


def sealed(record):
    """A dictionary as JSON that begins with the checksum of the whole text, in which the checksum counts as zeros."""
    text = json.dumps({"crc32": "0" * 8, **record}, indent=1) + "\n"
    start, end = RECORD_SEAL.match(text).span(1)
    return f"{text[:start]}{zlib.crc32(text.encode()):08x}{text[end:]}"


def unsealed(path, hint):
    """The dictionary of sealed() in a file, or None if there is no file. Raises RunError with the hint if anything was changed."""
    text = read_text(path)
    if text is None:
        return None
    seal = RECORD_SEAL.match(text)
    if not seal:
        raise RunError(f"{path}: damaged, or of an older version: it does not begin with its checksum ({hint})")
    if int(seal[1], 16) != zlib.crc32((text[:seal.start(1)] + "0" * 8 + text[seal.end(1):]).encode()):
        raise RunError(f"{path}: was changed or damaged (its checksum differs; {hint})")
    record = json.loads(text)
    del record["crc32"]
    return record


NEEDED = ("step", "seconds", "tokens", "train_loss", "val_loss")
FILES = ("log.csv", "config.ini", "summary.json")
ENDED = ("done", "stuck")  # a run with a final loss
FINAL_STATES = (*ENDED, "diverged")
TIMES = ("step", "seconds", "tokens")  # the columns of log.csv in which each row has a number


class NotStarted(RunError):
    """The run has logged nothing yet."""


class Run:
    """A run's folder as it is now.

    columns      {name: [number]} of log.csv: NaN for an empty cell; infinity for a NaN or an infinity
                 of the log, both of which mean that training diverged
    options      Options of {name: number or text}; empty if the folder has neither summary.json nor config.ini
    status       done, stuck (done, but the model has learned only how frequent characters are, says ./train), diverged,
                 interrupted or running
    summary      {name: value} of summary.json; empty while there is none
    diverged_at  the step, or None
    entropy      of the built-in grammar, or None
    """

    def __init__(self, folder):
        self.folder = folder
        self.name = os.path.basename(os.path.abspath(folder))
        if not os.path.isdir(folder):
            what = "not a folder" if os.path.exists(folder) else "no such folder"
            raise RunError(f"{folder}: {what} (a RUN is a folder that ./train --out made)")
        summary = self.summary = read_summary(os.path.join(folder, "summary.json"))
        self.columns = read_log(os.path.join(folder, "log.csv"))
        self.options = read_options(folder, summary)
        self.entropy = summary.get("grammar_entropy")
        self.status = summary.get("exit_reason", "running")
        watched = [self.columns[name]
                   for name in ("train_loss", "val_loss", "grad_norm", "eval_train_loss")
                   if name in self.columns]
        bad = [row for row, values in enumerate(zip(*watched)) if math.inf in values]
        if bad:
            self.status = "diverged"
        self.diverged_at = None
        if self.status == "diverged":
            self.diverged_at = self.columns["step"][bad[0] if bad else -1]
        if self.status == "done" and summary.get("stuck", self.did_not_fall()):
            self.status = "stuck"

    def did_not_fall(self):
        """What is known of runs of older versions, whose summary does not say whether they are stuck."""
        losses = self.losses()
        return len(losses) > 1 and losses[-1] >= losses[0]

    def measured(self, column):
        """The rows where the column holds a finite number; none if the log has no such column."""
        return [row for row, value in enumerate(self.columns.get(column, []))
                if math.isfinite(value)]

    def losses(self):
        """The validation losses in order, without those that are not finite."""
        return [self.columns["val_loss"][row] for row in self.measured("val_loss")]


def read_text(path):
    """The file's text, or None if there is no such file."""
    try:
        with open_regular(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise RunError(f"{path}: damaged: not a text file")
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}")


def read_log(path):
    text = read_text(path)
    if text is None:
        raise NotStarted(f"{path}: No such file or directory (a RUN is a folder that ./train --out "
                         "made)")
    if "\n" not in text:
        raise NotStarted(f"{path}: empty (has the run started?)")
    try:
        lines = list(csv.reader(text[:text.rfind("\n")].split("\n")))
    except csv.Error as error:
        raise RunError(f"{path}: damaged: {error}")
    header = lines[0]
    absent = [name for name in NEEDED if name not in header]
    if absent:
        raise RunError(f"{path}: damaged: line 1 names no column {', '.join(absent)}")
    rows = []
    step, seconds = header.index("step"), header.index("seconds")
    for number, cells in enumerate(lines[1:], 2):
        if len(cells) != len(header):
            raise RunError(f"{path}: damaged: line {number} has {len(cells)} cells, "
                           f"but there are {len(header)} columns")
        try:
            row = [float(cell) if cell else None for cell in cells]
        except ValueError as error:
            raise RunError(f"{path}: damaged: line {number}: {error}")
        row = [math.nan if value is None else value if math.isfinite(value) else math.inf
               for value in row]
        # A resumed run repeats the steps after its checkpoint.
        while rows and rows[-1][step] >= row[step]:
            rows.pop()
        # The clock of an older ./train could be put back; a negative time is an empty cell.
        earlier = rows[-1][seconds] if rows else 0
        row[seconds] = earlier if math.isnan(row[seconds]) else max(earlier, row[seconds])
        for name in TIMES:
            if not math.isfinite(row[header.index(name)]):
                raise RunError(f"{path}: damaged: line {number} has no number of {name.removesuffix('s')}s")
        rows.append(row)
    if not rows:
        raise NotStarted(f"{path}: only the header: no step is logged yet")
    return dict(zip(header, map(list, zip(*rows))))


REASONS = ("done", "diverged", "interrupted")
FINAL = ("val_loss", "best_val_loss", "seconds")  # what a run that is done has
NUMBERS = (*FINAL, "train_loss", "eval_train_loss", "val_accuracy", "grammar_entropy", "unigram_entropy", "steps", "tokens", "best_step",
           "parameters", "threads", "tokens_per_second", "corpus_characters", "vocabulary")
TEXTS = ("corpus", "corpus_crc32", "version", "compiler")


def finite(kind):
    """A reader of numbers in JSON. Python would read 1e999, NaN or 400 digits too."""
    def read(text):
        if not math.isfinite(float(text)):
            raise ValueError(f"{text[:20]} is not a finite number")
        return kind(text)
    return read


FINITE = {"parse_int": finite(int), "parse_float": finite(float), "parse_constant": finite(float)}


def fault_of(summary):
    """What is wrong with the members of summary.json, or None."""
    if not isinstance(summary, dict):
        return "not a summary"
    reason, options = summary.get("exit_reason"), summary.get("options", {})
    if summary and reason not in REASONS:
        return f"exit_reason is not one of {', '.join(REASONS)}"
    if not isinstance(options, dict) or any(isinstance(value, (list, dict)) for value in options.values()):
        return "options is not a list of options with their values"
    absent = [name for name in FINAL if summary.get(name) is None] if reason == "done" else []
    if absent:
        return f"the run is done, but {absent[0]} is missing"
    for names, fits, what in (NUMBERS, is_number, "number"), (TEXTS, lambda value: isinstance(value, str), "text"):
        wrong = [name for name in names if not (summary.get(name) is None or fits(summary[name]))]
        if wrong:
            return f"{wrong[0]} is not a {what}"
    return None


def read_summary(path):
    """{name: value} of summary.json; empty while there is none."""
    text = read_text(path)
    check_summary(path, text or "")
    try:
        summary = json.loads(text or "{}", **FINITE)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: damaged: {error}")
    fault = fault_of(summary)
    if fault:
        raise RunError(f"{path}: damaged: {fault}")
    return summary


def plain(value):
    """An option's value in the form that config.ini and summary.json share."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value if isinstance(value, (int, type(None))) else str(value)


def checked(path, options):
    """The options of a file, of which each run needs a seed that is a number."""
    if not is_number(options.get("seed", 0)):
        raise RunError(f"{path}: damaged: the seed is not a number")
    return options


def from_json(text):
    """The value, or the text itself if it is not JSON."""
    try:
        return json.loads(text, **FINITE)
    except (ValueError, RecursionError):
        return text


def lists_of(stored):
    """The options without an effect and those that "auto" gave, as ./train stored them; empty if it did not. Older
    versions stored only the names of the latter."""
    lists = {name: stored.get(name) if isinstance(stored, dict) else None for name in ("inactive", "auto")}
    return {name: list(filter(None, map(str, found))) for name, found in lists.items() if isinstance(found, (list, dict))}


def read_config(path):
    """{name: value} of a config.ini, and its comments."""
    options, comments = {}, []
    for number, line in enumerate((read_text(path) or "").splitlines(), 1):
        if line.startswith("#"):
            comments.append(line)
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise RunError(f"{path}: damaged: line {number} is not NAME = VALUE")
        options[name] = plain(from_json(value))  # numbers and quoted texts are JSON's, the other values are words
    return options, comments


def read_options(folder, summary):
    """From summary.json, or from config.ini while the run has none."""
    stored = summary.get("options")
    options, lists, became = dict.fromkeys(ABSENT), {}, {}
    if stored is not None:
        return checked(os.path.join(folder, "summary.json"), Options(
            stored and options | {name: plain(value) for name, value in stored.items()}, **lists_of(summary)))
    path = os.path.join(folder, "config.ini")
    found, notes = read_config(path)
    options.update(found)
    for note in notes:
        if note.startswith("# {"):
            stored = from_json(note[2:])
            lists, became = lists_of(stored), stored.get("auto") if isinstance(stored, dict) else None
    if isinstance(became, dict):
        options.update({name: plain(value) for name, value in became.items() if options.get(name) == "auto"})
    return checked(path, Options(options, **lists)) if len(options) > len(ABSENT) else Options({})


def natural(text):
    """A key that sorts the numbers in names as numbers."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in re.split(r"(\d+)", text) if part]


def is_run(folder):
    return any(os.path.isfile(os.path.join(folder, name)) for name in FILES)


def runs_inside(folder):
    """The run folders in FOLDER/runs, or in FOLDER itself if there are none; not those deeper down."""
    for parent in (os.path.join(folder, "runs"), folder):
        try:
            names = sorted(os.listdir(parent), key=natural)
        except OSError:
            continue
        found = [path for path in (os.path.join(parent, name) for name in names) if is_run(path)]
        if found:
            return found
    return []


def read_runs(folders, say):
    """The runs in these run folders and folders of runs, and whether some could not be read; say(text)
    reports those. In a folder of runs, a run that has not started is no failure."""
    runs, failed, waiting = [], False, []
    for folder in folders:
        inside = [] if is_run(folder) else runs_inside(folder)
        if os.path.isdir(folder) and not is_run(folder) and not inside:
            say(f"{folder}: no run in it (a RUN is a folder that ./train --out made, or one of runs)")
            failed = True
            continue
        for path in inside or [folder]:
            try:
                runs.append(Run(path))
                check_table(path, "log.csv", say)
            except NotStarted as error:
                waiting.append(str(error))
                failed |= not inside
            except RunError as error:
                say(str(error))
                failed = True
    for text in waiting:
        say(text)
    return runs, failed

"""The runs of an ablation: the command line of ablate.sh, and the list of --grid.

--norm=ln,bn is a list of one option. --batch-size,max-iters=1:24000,4:6000 is a tied list: its options vary together,
and each tuple has a value for each of them. A line of a --grid file is a run: a name, then options of ./train. Words may
be in single quotes, as in a folder's grid.txt, and # starts a comment. The file is data: no shell expands its words.
"""
import itertools
import os
import re
import shlex
import subprocess
from types import SimpleNamespace

from common.command_line import UsageError, check_characters, holds, parts_of
from common.factors import factor_name, product_of, read_factors
from common.run_options import file_value, own_name
from common.runs import RunError, read_text
from common.variants import FIRST

OWN = ("seeds", "seed", "out", "jobs", "sshlogin", "grid")  # options of ablate.sh with a value
NAME_MAX = 200  # of a file's name
SEED_MAX = 2 ** 53
ELSEWHERE = ("out", "resume", "generate", "evaluate")  # options of ./train that a run in a grid cannot have


# ---- words ---------------------------------------------------------------------------------------

def quote(word):
    """The word, quoted for a shell."""
    return word if shlex.quote(word) == word else "'" + word.replace("'", "'\\''") + "'"


def encode(word):
    """The word as part of a file name; different words give different names."""
    return "".join(c if c.isalnum() or c in "._+=-" or ord(c) > 127 else f"%{ord(c):02X}" for c in word)


def encode_value(name, value):
    """The value of an option as part of a file name."""
    value = file_value(name, value)
    return encode(value if name in ("norm", "placement") else f"{name}={value}")


def checksum(text):
    return subprocess.run(["cksum"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.split()[0].decode()


def split(text):
    """The parts of a comma list."""
    parts = parts_of(text)
    for part in parts:
        if parts.count(part) > 1:
            raise UsageError(f"{text}: '{part}' is given twice")
    return parts


# ---- the command ---------------------------------------------------------------------------------

def options_in(lists):
    """The options in {names: values} of lists."""
    return [option for names in lists for option in names.split(",")]


def order_of(factors):
    """The options of factors, norm and placement first; and the factors in this order."""
    names = [*FIRST, *sorted(set(options_in(factors)) - set(FIRST))]
    factor_of = {option: name for name in factors for option in name.split(",")}
    return names, {factor_of[name]: factors[factor_of[name]] for name in names}


def read_command(words):
    """The plan as far as the words before -- say it, and the words after it."""
    plan = SimpleNamespace(folder="", jobs="", sshlogin="", grid="", seeds="5", dry_run=False, list_only=False, runs={}, advice="")
    given, seed_list, words, lists = set(), "", list(words), {}
    while words:
        word = words.pop(0)
        if word == "--":
            break
        if word in ("--dry-run", "--list"):
            setattr(plan, "dry_run" if word == "--dry-run" else "list_only", True)
            continue
        if not word.startswith("--"):
            raise UsageError(f"{word}: options of every run and the corpus belong after -- (scripts/ablate.sh --norm=ln,bn -- {word})")
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not words or words[0].startswith("--"):
                raise UsageError(f"{word}: needs values ({word}=A,B,...)")
            value = words.pop(0)
        check_characters(value, ("Cc",) if name == "out" else ("Cc", "Cs"))
        if name in OWN and name not in ("seed", "seeds") and not value:
            raise UsageError(f"--{name}: must not be empty")
        given.add(name)
        if name == "seed":
            seed_list = value
        elif name == "out":
            plan.folder = value
        elif name in OWN:
            setattr(plan, name, value)
            seed_list = "" if name == "seeds" else seed_list
        elif re.fullmatch("[a-z0-9][a-z0-9-]*(,[a-z0-9-]+)*", name):
            lists[factor_name(name)] = value
        else:
            raise UsageError(f"{word}: no such option (--help lists them)")
    if plan.grid and lists:
        raise UsageError(f"--grid={plan.grid}: lists each run; --NAME=A,B,... cannot be given too")
    if plan.grid and given & {"seed", "seeds"}:
        raise UsageError(f"--grid={plan.grid}: each of its lines names its own --seed; --seeds cannot be given too")
    defaults = {"norm": "ln", "placement": "pre"} if lists else {"norm": "ln,bn,rms", "placement": "pre,post"}
    lists |= {name: taken(words, name) or value for name, value in defaults.items() if name not in options_in(lists)}
    plan.factors = read_factors(lists, OWN, "cannot vary together with others")
    if not re.fullmatch("([1-9][0-9]{0,3})?", plan.jobs):
        raise UsageError(f"--jobs={plan.jobs}: must be a whole number from 1 to 9999")
    plan.folder = re.sub("(?<=.)/+$", "", plan.folder)
    plan.folder = f"./{plan.folder}" if plan.folder.startswith("-") else plan.folder
    plan.seeds = seeds_of(plan.seeds, seed_list)
    return plan, words


PLACEMENTS = {"--preln": "--placement=pre", "--postln": "--placement=post"}


def taken(words, name):
    """The value of an option for every run, which is taken out of the words after --; "" if they do not have it."""
    value = ""
    for place, word in reversed(list(enumerate(words))):
        option, equals, text = PLACEMENTS.get(word, word).partition("=")
        if option == f"--{name}" and (equals or words[place + 1:]):
            value = value or (text if equals else words[place + 1])  # the last one counts
            del words[place:place + 1 + (not equals)]
    return value


def seeds_of(seeds, seed_list):
    if "," in seeds:
        seed_list = seed_list or seeds
    elif not re.fullmatch("[1-9][0-9]{0,3}", seeds):
        raise UsageError(f"--seeds={seeds}: must be a whole number from 1 to 9999, or a list")
    found = split(seed_list) if seed_list else list(map(str, range(1, int(seeds) + 1)))
    for seed in found:
        if not re.fullmatch("0|[1-9][0-9]{0,15}", seed) or int(seed) > SEED_MAX:
            raise UsageError(f"--seeds={seed_list}: '{seed}' is not a whole number from 0 to {SEED_MAX}")
    return found


def check_common(plan, words):
    """Refuses words after -- that are not for every run. Returns the threads that they give, or ""."""
    threads = ""
    for word in words:
        check_characters(word)
    for word in words[:words.index("--")] if "--" in words else words:
        name = own_name(word)
        if name == "out":
            raise UsageError("--out: belongs before --")
        if word.startswith("--") and name in ELSEWHERE:
            raise UsageError(f"{word}: cannot be combined with a grid (leave it out)")
        if word in ("-", "--corpus=-"):
            raise UsageError("-: standard input cannot feed several runs (give a file)")
        if plan.grid:
            continue
        threads = word.partition("=")[2] if name == "threads" else threads
        if name == "seed":
            raise UsageError("--seed: belongs before --")
        name = own_name(PLACEMENTS.get(word, word))
        if word.startswith("--") and name in options_in(plan.factors):
            raise UsageError(f"--{name}: is in the grid (give it only before --)")
    return threads


# ---- the runs ------------------------------------------------------------------------------------

def make_grid(plan, common):
    """Runs of all variants, those with the first seed first. A variant's name consists of the values, starting with norm
    and placement, and is the same whether lists were tied or not."""
    names, factors = order_of(plan.factors)
    plan.title = "".join(f"{key} {' '.join(levels)} x " for key, levels in factors.items()) + "seed " + " ".join(plan.seeds)
    plan.shape = " ".join(f"--{name}" for name in names) + f" --{common}"
    variants = [variant.options for variant in product_of(factors)]
    for seed, values in itertools.product(plan.seeds, variants):
        name = "-".join(encode_value(name, values[name]) for name in names)
        if len(f"{name}-s{seed}") > NAME_MAX:
            raise UsageError(f"{name}-s{seed}: too long for a file's name (shorten the values)")
        options = " ".join(quote(f"--{name}={values[name]}") for name in names)
        plan.runs[f"{name}-s{seed}"] = f"{name}-s{seed} {options} --seed={seed}{common}"
    default = "".join(f" --{name}={','.join(factors[next(key for key in factors if name in key.split(','))])}" for name in names)
    others = "".join(f"-{encode(name)}" for name in names[2:])
    plan.folder = plan.folder or f"runs/ablate-norm-placement{others}-{checksum(f'{default} --{common}')}"
    if len(variants) > 1 and len(plan.seeds) > 1:
        first = next(key for key, levels in plan.factors.items() if len(levels) > 1)  # of what is compared, as it was given
        named = [key for key in factors if key == first or {key, first} == set(FIRST) and len(factors[key]) > 1]
        pairs = [pair for key in named for pair in zip(key.split(","), factors[key][0].split(":") if "," in key else factors[key][:1])]
        plan.advice = f"--baseline {quote(','.join(map('='.join, pairs)))} compares the variants by their seeds"


def split_line(line):
    """The words of a line of a list, or None if a quote is not closed. Single quotes and backslashes quote, and a word that
    begins with # begins a comment. Double quotes and other signs of a shell are letters."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.quotes, lexer.commenters = True, "'", ""
    words = []
    while not line[lexer.instream.tell():].lstrip().startswith("#"):
        try:
            words.append(lexer.get_token())
        except ValueError:
            return None
        if words[-1] is None:
            return words[:-1]
    return words


def check_word(where, word, in_common):
    """Refuses what a run in a list cannot have."""
    name = own_name(word)
    if word.startswith("--") and name in ELSEWHERE:
        raise UsageError(f"{where}: {word}: cannot be in a list (each run is trained in the folder of its name)")
    if word == "--":
        raise UsageError(f"{where}: --: belongs on the command line, before the options of every run")
    if word.startswith("--") and name in in_common:
        raise UsageError(f"{where}: --{name}: is also after -- (give it once)")
    if word.startswith("-") and not word.startswith("--"):
        raise UsageError(f"{where}: {word}: is not an option of ./train by its long name, nor a corpus")


def read_list(plan, common, in_common):
    """The runs of a list."""
    text = read_text(plan.grid) if os.path.isfile(plan.grid) and os.access(plan.grid, os.R_OK) else None
    if text is None:
        raise RunError(f"{plan.grid}: cannot be read (--grid=FILE: a name and options on each line)")
    seen, given = {}, []
    # Editors of Windows begin a text with a byte order mark, and end its lines with \r\n.
    for number, line in enumerate(re.split("\r?\n", text.removeprefix("\ufeff")), 1):
        where = f"{plan.grid}, line {number}"
        if holds(line.replace("\t", "")):
            raise UsageError(f"{where}: holds a control character")
        words = split_line(line)
        if words is None:
            raise UsageError(f"{where}: a quote is not closed")
        if not words:
            continue
        name, *words = words
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._+=%-]*", name):
            raise UsageError(f"{where}: '{name}' is no name for a run's folder (letters, digits and ._+=%-)")
        if len(name) > NAME_MAX:
            raise UsageError(f"{where}: its name is too long for a file's")
        if name in seen:
            raise UsageError(f"{where}: '{name}' is the name of line {seen[name]} too")
        seen[name] = number
        for word in words:
            check_word(where, word, in_common)
        plan.runs[name] = " ".join([name, *map(quote, words)]) + common
        given.append({own_name(word) if word.startswith("--") else "corpus": word.split("=", 1)[-1] for word in words})
    if not plan.runs:
        raise UsageError(f"{plan.grid}: has no run")
    plan.title, plan.shape = f"from {plan.grid}", f"--grid --{common}"
    plan.folder = plan.folder or f"runs/ablate-{encode(os.path.basename(plan.grid).removesuffix('.txt'))}-{checksum(common)}"
    differing = sorted(name for name in {name for one in given for name in one} - {"seed"}
                       if len({one.get(name) for one in given}) > 1)
    if 1 <= len(differing) <= 4:  # of runs that differ in many options, two values do not name a comparison
        plan.advice = "--a NAME=VALUE --b NAME=VALUE compares variants by their common seeds (they differ in " \
                      f"{', '.join(differing)})"


def variant_of(name):
    """The name of a run's variant. In a list, too, NAME-s1, NAME-s2, ... are expected to take the same time."""
    return re.sub("(?<=.)-s[0-9]+$", "", name)


def read_plan(words):
    """The plan of a command: SimpleNamespace of

    folder, jobs, sshlogin, grid, seeds, dry_run, list_only   as given
    threads        that the words after -- give a run, or ""
    common         the words after --, quoted
    runs           {name: line of grid.txt}
    title, shape   the grid in words; what all commands that extend a folder have in common
    advice         how compare.py compares the variants, or ""
    """
    plan, words = read_command(words)
    plan.threads = check_common(plan, words)
    plan.common = "".join(" " + quote(word) for word in words)
    if plan.grid:
        read_list(plan, plan.common, set(map(own_name, words)))
    else:
        make_grid(plan, plan.common)
    return plan

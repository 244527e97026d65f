"""The runs of each experiment, as functions that experiments.py names.

A function takes (size, tuned) and yields runs; tuned(size, **options) is the best learning rate of a
variant, or None as long as it is not known. A variant is judged at its tuned rate and at ./train's own
("default"). Measures are those of measures.py and instruments.py, by name.
"""
import itertools

from claims import lab, recipes
from claims.plan import DEFAULT_RATE, run_of
from ablate.selection import rank

LOSS = ("ending", "curve", "steadiness")


def judged(size, label, tuned, variant, options, measures=("ending",), at_default=0):
    """The runs of a variant at its tuned and at the default rate; at_default: the least number of seeds at the latter."""
    rates = {"default": DEFAULT_RATE, "tuned": tuned(size, **options)}
    for name, rate in rates.items():
        for seed in size.judged(at_least=at_default * (name == "default")) if rate is not None else ():
            yield run_of(size, label, {**variant, "rate": name}, seed, measures,
                         learning_rate=rate, **options)


def at_tuned(size, label, tuned, variant, options, measures=("ending",), tune=None):
    """The runs of a variant at its tuned rate only; tune: the options that are tuned, if not all."""
    rate = tuned(size, **(options if tune is None else tune))
    for seed in size.judged() if rate is not None else ():
        yield run_of(size, label, variant, seed, measures, learning_rate=rate, **options)


def norm_runs(size, tuned):
    label = tuned.label
    for norm in size.norms:
        yield from judged(size, label, tuned, {"norm": norm}, {"norm": norm}, LOSS)
    for seed in size.judged():
        yield run_of(size, label, {"norm": "none", "placement": "post", "rate": "default"}, seed,
                     ("ending",), norm="none", placement="post")
    for seed in size.judged(at_least=8):  # canaries compare these with each other
        yield run_of(size, label, {"norm": "rms", "rate": "default"}, seed, ("ending",), norm="rms",
                     learning_rate=DEFAULT_RATE)
    for norm in ("none", "ln"):  # each with the better of two initializations
        rates = {init: tuned(size, norm=norm, init=init) for init in ("gpt2", "xavier")}
        yield from best_init(size, label, tuned, norm, rates)
    for norm in ("ln", "bn") if size.long else ():
        rate = tuned(size, norm=norm)
        for seed in size.judged(2) if rate is not None else ():
            yield run_of(size, label, {"norm": norm, "updates": LONG}, seed, ("ending", "curve"),
                         norm=norm, learning_rate=rate, max_iters=LONG)
    if size.smallest:
        yield from edge_runs(size, label)
        for norm in ("none", "ln", "bn"):
            for width in WIDTHS if size.full else WIDTHS[::2]:
                rate = tuned(size, rates=size.rates[-4:-1], norm=norm, n_embd=width)
                for seed in size.judged() if rate is not None else ():
                    yield run_of(size, label, {"norm": norm, "width": width, "rate": "tuned"}, seed,
                                 ("ending",), norm=norm, n_embd=width, learning_rate=rate)


WIDTHS = (16, 32, 64)
LONG = 10000
DEEPER = 4  # layers, where the largest rate is looked for at another depth than XS has


def edge_runs(size, label):
    """Norms at every rate of the grid; with more layers; and at large rates without clipping of gradients
    and without warm-up, which hide instability."""
    rates, deeper = size.rates, size.rates[-4:]
    cells = [({"norm": norm, "depth": "base"}, {"norm": norm}, rates)
             for norm in ("none", "ln", "rms", "bn")]
    for norm in ("none", "ln"):
        cells.append(({"norm": norm, "depth": DEEPER}, {"norm": norm, "n_layer": DEEPER}, deeper))
    for norm in ("none", "ln", "bn", "rms")[:size.pick(1, 2, 4)]:
        cells += [({"norm": norm, "depth": "base", "recipe": recipe}, {"norm": norm, **options},
                   rates[-size.pick(1, 2, 4):])
                  for recipe, options in (("no-clipping", {"grad_clip": 0}),
                                          ("no-warmup", {"warmup_iters": 0}))]
    for variant, options, some in cells:
        seeds = None if size.full or variant["norm"] != "bn" else 2  # no claim reads bn's grid
        for rate, seed in ((rate, seed) for rate in some for seed in size.judged(seeds)):
            yield run_of(size, label, {**variant, "rate": f"{rate:g}"}, seed, ("ending",),
                         learning_rate=rate, **options)


def best_init(size, label, tuned, norm, rates):
    """Judged at the rate and initialization that tuning found best together."""
    if None in rates.values():
        return
    init = min(rates, key=lambda init: rank(
        tuned.losses(size, rates[init], norm=norm, init=init)))
    for seed in size.judged():
        yield run_of(size, label, {"norm": norm, "recipe": "best"}, seed, LOSS, norm=norm, init=init,
                     learning_rate=rates[init])


def statistics_runs(size, tuned):
    for norm in ("ln", "bn"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm}, {"norm": norm},
                            ("statistics", "batches", "rereading"))
    for momentum in (0.01,):
        yield from at_tuned(size, tuned.label, tuned, {"norm": "bn", "momentum": momentum},
                            {"norm": "bn", "bn_momentum": momentum}, ("statistics",),
                            tune={"norm": "bn"})


def range_of(size, batch):
    """Three rates of the grid. Many small batches need lower ones than few large ones."""
    return size.rates[-4:-1] if batch >= 4 else size.rates[-5:-2] or size.rates[-1:]


def batch_runs(size, tuned):
    whole = size["block-size"]
    more = size.pick([], [(2, whole), (8, whole)], [(1, 16), (2, whole), (8, whole)])
    shapes = [(1, 4), (1, whole), (4, whole), (32, whole), *more]
    for norm in ("ln", "bn", "gn"):
        for batch, block in shapes if norm != "gn" else [(1, whole), (4, whole), (32, whole)]:
            updates = max(2, size.tokens() // (batch * block))
            options = {"norm": norm, "batch_size": batch, "block_size": block, "max_iters": updates,
                       "warmup_iters": updates // 10}
            rate = tuned(size, rates=size.pick(range_of(size, batch)[:1], range_of(size, batch),
                                               size.rates[1:]), **options)
            variant = {"norm": norm, "batch": batch, "block": "full" if block == whole else block}
            for seed in size.judged() if rate is not None else ():
                yield run_of(size, tuned.label, variant, seed, ("ending",), learning_rate=rate,
                             **options)


def text_runs(size, tuned):
    updates = size["max-iters"]
    for kind in ("real", "shuffled"):
        label = tuned.label if kind == "real" else f"{tuned.label}-shuffled"
        for seed in size.judged():
            yield run_of(size, label, {"norm": "bn", "text": kind}, seed,
                         ("ending", "fluctuation", "statistics"), norm="bn",
                         probe_interval=max(1, updates // 20))
    for seed in size.judged():
        part = 4 * updates // 5
        for end in (part, updates):
            yield run_of(size, tuned.label, {"norm": "bn", "part": "4/5" if end == part else "all"},
                         seed, ("movement",) if end == part else (), norm="bn", max_iters=end,
                         lr_decay_iters=updates, eval_interval=updates)


def padding_runs(size, tuned):
    yield from recipes.spread_runs(size, tuned)
    for norm, pads in (("ln", "mask"), ("bn", "mask"), ("bn", "include")):
        rate = tuned(size, norm=norm)
        if rate is not None and size.full:  # other fractions of pads
            for blocks, seed in ((blocks, seed) for blocks in (1, 4) for seed in size.judged()):
                yield run_of(size, f"{tuned.label}-lines", {"norm": norm, "pads": pads,
                             "blocks": blocks}, seed, ("ending",), norm=norm, items="on",
                             pad_to="block", pad_stats=pads, learning_rate=rate,
                             block_size=blocks * size["block-size"])
        for seed in size.judged() if rate is not None else ():
            yield run_of(size, f"{tuned.label}-lines", {"norm": norm, "pads": pads, "text": "items"},
                         seed, ("ending", "pad_change"), norm=norm, items="on", pad_to="block",
                         pad_stats=pads, block_size=2 * size["block-size"], learning_rate=rate)
            if pads == "mask":
                yield run_of(size, tuned.label, {"norm": norm, "pads": pads, "text": "running"}, seed,
                             ("ending",), norm=norm, learning_rate=rate,
                             block_size=2 * size["block-size"])


def dependence_runs(size, tuned):
    for norm in ("ln", "rms", "gn", "bn"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm}, {"norm": norm}, ("dependence",))


def future_runs(size, tuned):
    for norm in ("ln", "bn", "gn"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm}, {"norm": norm}, ("leak",))
    rows = [{"norm": norm} for norm in ("ln", "bn", "in")]
    if size.full:
        rows += [{"norm": "gn"}, {"norm": "pn"}, {"norm": "bn", "bn_axis": "batch"}]
    for options, seed in ((options, seed) for options in rows for seed in size.judged()):
        variant = {**{name.replace("bn_", ""): word for name, word in options.items()},
                   "text": "random"}
        if size.smallest:
            yield run_of(size, lab.RANDOM, {**variant, "batch": 1}, seed, ("learned_leak",),
                         batch_size=1, block_size=16, n_layer=2, n_embd=size.pick(16, 64, 64),
                         max_iters=size.pick(20, 4000, 4000), **options)
        yield run_of(size, lab.RANDOM, {**variant, "batch": 12}, seed, ("learned_leak",),
                     max_iters=size.pick(20, 1000, 4000), **options)


def depth_runs(size, tuned):
    yield from recipes.placed_runs(size, tuned)
    for norm, place in DEPTH_CELLS:
        options = {"norm": norm, "placement": place}
        more = 16 if size.full and norm != "none" else 0  # A22 was open with 8
        yield from judged(size, tuned.label, tuned, {**options, "depth": "base"}, options, LOSS, at_default=more)
        if size.smallest:
            yield from deep_runs(size, tuned.label, options)
    for norm in ("ln", "bn"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm, "final": "off"},
                            {"norm": norm, "final_norm": "off"}, tune={"norm": norm})
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm, "final": "on"}, {"norm": norm})


DEPTH_CELLS = [("ln", "pre"), ("ln", "post"), ("none", "pre"), ("bn", "pre"), ("bn", "post")]


def deep_runs(size, label, options):
    """Narrow models of many layers: untrained ones, and some that are trained for a while."""
    narrow = {"n_embd": size.pick(16, 32, 32), "block_size": size.pick(16, 32, 32)}
    for layers in size.pick((2,), (4, 48, 100), (4, 16, 48, 100)):
        for init, seed in ((init, seed) for init in ("xavier", "gpt2")[:size.pick(1, 2, 2)]
                           for seed in size.judged(8, at_least=8)):
            variant = {**options, "depth": layers, "init": init, "time": "start"}
            yield run_of(size, label, variant, seed, ("depth",), n_layer=layers, init=init,
                         max_iters=1, probe_interval=1, eval_interval=1, eval_iters=1, **options,
                         **narrow)
    trained = [(layers, warmup, {}) for layers in size.pick((2,), (16,), (16, 48))
               for warmup in size.pick((0,), (0,), (0, 100, 400))]
    trained += [(size.pick(2, 16, 16), 0, {"init": "xavier"})] if options["norm"] == "ln" else []
    for (layers, warmup, init), seed in itertools.product(trained, size.judged(8, at_least=8)):
        variant = {**options, "depth": layers, "warmup": warmup, **init}
        yield run_of(size, label, variant, seed, ("ending", "depth"), n_layer=layers,
                     warmup_iters=warmup, probe_interval=100, max_iters=size.pick(20, 200, 600),
                     eval_iters=8, **options, **init, **narrow)


def outlier_runs(size, tuned):
    for norm in ("none", "ln", "rms", "bn"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm}, {"norm": norm},
                            ("outlier", "ranges"))
    for rate in size.pick((1e-1,), (1e-2, 1e-1), (1e-2, 3e-2, 1e-1)):
        for qk, seed in ((qk, seed) for qk in ("off", "ln") for seed in size.judged()):
            yield run_of(size, tuned.label, {"norm": "ln", "qk": qk, "rate": f"{rate:g}"}, seed,
                         ("ending", "attention"), norm="ln", qk_norm=qk, learning_rate=rate,
                         probe_interval=size["max-iters"] - 1)
    for norm in ("none", "ln", "bn", "rms", "gn") if size.full else ("none", "ln", "bn", "rms"):
        yield from outlier_starts(size, tuned, {"norm": norm})
    for norm in ("none", "ln") if size.full else ():
        yield from outlier_starts(size, tuned, {"norm": norm, "qk_norm": "ln"})


def outlier_starts(size, tuned, options):
    """Runs that start from weights whose positions have a channel multiplied by these factors."""
    rate = tuned(size, norm=options["norm"])
    if rate is None:
        return
    variant = {name.replace("_norm", ""): word for name, word in options.items()}
    factors = (1, 10, 100, 1000) if size.full else (1, 1000)
    more = 40 if size.full and size.smallest and options == {"norm": "none"} else 0  # F10 was open with 8
    for factor, seed in ((factor, seed) for factor in factors for seed in size.judged(at_least=more * (factor in (1, 1000)))):
        run = run_of(size, tuned.label, {**variant, "start": f"x{factor}"}, seed, ("ending",),
                     learning_rate=rate, **options)
        yield tuned.lab.with_start(run, factor)


def affine_runs(size, tuned):
    yield from recipes.noise_runs(size, tuned)
    for norm in ("none", "ln", "bn"):
        rows = [{}, {"affine": "off"}, {"ffn_norm": "ln"}, {"bias": "off"}]
        for options in rows if norm != "none" else rows[:1]:
            variant = {"norm": norm, "variant": "-".join(f"{name.replace('_', '-')}-{value}" for
                                                          name, value in options.items()) or "plain"}
            yield from at_tuned(size, tuned.label, tuned, variant, {"norm": norm, **options},
                                ("ending", "gains", "noise") if not options else
                                ("ending", "gains"),
                                tune={"norm": norm})


def cost_runs(size, tuned):
    short = {"max_iters": 6, "n_layer": 2, "profile": True, "eval_interval": 6, "eval_iters": 1,
             "threads": 1}
    for repeat in range(1, size.pick(1, 8, 8) + 1) if size.smallest else ():
        for norm in ("none", "ln", "rms", "bn"):
            yield run_of(size, tuned.label, {"norm": norm, "width": 128, "length": 64}, repeat,
                         ("profile",), norm=norm, n_embd=128, block_size=64, **short)
        for width, length in [(64, 64), (256, 64), (512, 64), (128, 128), (128, 256), (128, 512)]:
            yield run_of(size, tuned.label, {"norm": "ln", "width": width, "length": length}, repeat,
                         ("profile",), norm="ln", n_embd=width, block_size=length, **short)


def small_runs(size, tuned):
    yield from recipes.overfitted_runs(size, tuned)
    updates = size.pick(20, 3 * size["max-iters"], 3000)
    for norm in ("none", "ln", "bn", "rms")[:4 if size.full else 3]:
        for dropout in (0.0, 0.2):
            yield from at_tuned(size, f"{tuned.label}-small", tuned,
                                {"norm": norm, "dropout": dropout},
                                {"norm": norm, "dropout": dropout, "eval_train": "on",
                                 "max_iters": updates},
                                ("ending", "overfitting"), tune={"norm": norm})


def position_runs(size, tuned):
    for axis in ("batch+time", "batch"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": "bn", "axis": axis},
                            {"norm": "bn", "bn_axis": axis}, ("ending", "statistics"),
                            tune={"norm": "bn"})


def kept_runs(size, tuned):
    for norm in ("none", "ln", "rms", "bn"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm}, {"norm": norm}, ("kept",))


def checkpoints(updates, small):
    """The quarters of a run, the halves in a trial."""
    return [part * updates // 4 for part in ((2, 4) if small else (1, 2, 3, 4))]


def drift_runs(size, tuned):
    updates = size["max-iters"]
    steps = checkpoints(updates, size.small)
    for norm, seed in ((norm, seed) for norm in ("none", "ln", "bn", "rms")
                       for seed in size.judged(8, at_least=8)):
        for step in [one for step in steps for one in (step, step + 1)]:
            last = step == updates
            yield run_of(size, tuned.label, {"norm": norm} if last else {"norm": norm, "step": step},
                         seed, ("ending", "drift") if last else (), norm=norm, max_iters=step,
                         lr_decay_iters=updates + 1, eval_interval=updates + 1)


def shard_runs(size, tuned):
    for norm in ("ln", "rms", "gn", "bn"):
        yield from at_tuned(size, tuned.label, tuned, {"norm": norm}, {"norm": norm}, ("shards",))
    updates, steps = size["max-iters"], checkpoints(size["max-iters"], size.small)[:-1]
    for norm, step, seed in ((norm, step, seed) for norm in ("ln", "bn") for step in steps
                             for seed in size.judged(3)):  # early models, which E17 trains too
        yield run_of(size, tuned.label, {"norm": norm, "step": step}, seed, ("shards",), norm=norm,
                     max_iters=step, lr_decay_iters=updates + 1, eval_interval=updates + 1)
    for norm in ("ln", "bn"):
        for parts in (1, 4, 12)[:size.pick(2, 3, 3)]:
            yield from at_tuned(size, tuned.label, tuned, {"norm": norm, "parts": parts},
                                {"norm": norm, "batch_size": size["batch-size"] // parts,
                                 "grad_accum": parts}, tune={"norm": norm})

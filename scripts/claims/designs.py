"""The runs of each experiment, as functions that experiments.py names.

A function takes (size, tuned) and yields runs. tuned(size, **options) is the best learning rate of a variant,
or None until it is known. A variant is judged at its tuned learning rate and at ./train's default. Measures
are named as in measures.py and instruments.py.
"""
import itertools

from claims import lab, recipes
from claims.plan import DEFAULT_RATE, runs_of
from claims.recipes import LOSS
from ablate.selection import rank


def judged(size, tuned, variant, options, measures, at_default=0):
    """The runs of a variant at its tuned and at the default rate; at_default: the least number of seeds at the latter."""
    for name, rate, seeds in (("default", DEFAULT_RATE, size.judged(at_least=at_default)),
                              ("tuned", tuned(size, **options), size.judged())):
        yield from runs_of(size, tuned.label, {**variant, "rate": name}, seeds, measures,
                           learning_rate=rate, **options)


def at_tuned(size, tuned, norm, measures=("ending",), variant=None, **options):
    """The runs of a norm at the rate that was tuned for it. variant: the names of further options."""
    return runs_of(size, tuned.label, {"norm": norm, **(variant or {})}, size.judged(), measures, norm=norm,
                   learning_rate=tuned(size, norm=norm), **options)


def of_norms(*norms, measures):
    """An experiment that measures these norms at their tuned rates."""
    def runs(size, tuned):
        for norm in norms:
            yield from at_tuned(size, tuned, norm, measures)
    return runs


def norm_runs(size, tuned):
    label = tuned.label
    for norm in size.norms:
        yield from judged(size, tuned, {"norm": norm}, {"norm": norm}, LOSS)
    yield from runs_of(size, label, {"norm": "none", "placement": "post", "rate": "default"}, size.judged(),
                       norm="none", placement="post")
    yield from runs_of(size, label, {"norm": "rms", "rate": "default"}, size.judged(at_least=8),  # canaries
                       norm="rms", learning_rate=DEFAULT_RATE)
    for norm in ("none", "ln"):
        yield from best_init(size, tuned, norm)
    for norm in ("ln", "bn") if size.long else ():
        yield from runs_of(size, label, {"norm": norm, "updates": LONG}, size.judged(2), ("ending", "curve"),
                           norm=norm, learning_rate=tuned(size, norm=norm), max_iters=LONG)
    if size.smallest:
        yield from edge_runs(size, label)
        for norm, width in itertools.product(("none", "ln", "bn"), WIDTHS if size.full else WIDTHS[::2]):
            rate = tuned(size, rates=size.rates[-4:-1], norm=norm, n_embd=width)
            yield from runs_of(size, label, {"norm": norm, "width": width, "rate": "tuned"}, size.judged(),
                               norm=norm, n_embd=width, learning_rate=rate)


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
        for rate in some:
            yield from runs_of(size, label, {**variant, "rate": f"{rate:g}"}, size.judged(seeds),
                               learning_rate=rate, **options)


def best_init(size, tuned, norm):
    """Judged at the rate and initialization that tuning found best together."""
    rates = {init: tuned(size, norm=norm, init=init) for init in ("gpt2", "xavier")}
    if None not in rates.values():
        init = min(rates, key=lambda init: rank(tuned.losses(size, rates[init], norm=norm, init=init)))
        yield from runs_of(size, tuned.label, {"norm": norm, "recipe": "best"}, size.judged(), LOSS,
                           norm=norm, init=init, learning_rate=rates[init])


def statistics_runs(size, tuned):
    yield from of_norms("ln", "bn", measures=("statistics", "batches", "rereading"))(size, tuned)
    yield from at_tuned(size, tuned, "bn", ("statistics",), {"momentum": 0.01}, bn_momentum=0.01)


def range_of(size, batch):
    """Three rates of the grid. Many small batches need lower ones than few large ones."""
    return size.rates[-4:-1] if batch >= 4 else size.rates[-5:-2] or size.rates[-1:]


def batch_runs(size, tuned):
    whole = size["block-size"]
    more = size.pick([], [(2, whole), (8, whole)], [(1, 16), (2, whole), (8, whole)])
    shapes = [(1, 4), (1, whole), (4, whole), (32, whole), *more]
    for norm in ("ln", "bn", "gn"):
        for batch, block in shapes if norm != "gn" else [(1, whole), (4, whole), (32, whole)]:
            options = {"norm": norm, **recipes.of_sequences(size, batch, block), "block_size": block}
            rate = tuned(size, rates=size.pick(range_of(size, batch)[:1], range_of(size, batch),
                                               size.rates[1:]), **options)
            variant = {"norm": norm, "batch": batch, "block": "full" if block == whole else block}
            yield from runs_of(size, tuned.label, variant, size.judged(), learning_rate=rate, **options)


def text_runs(size, tuned):
    updates = size["max-iters"]
    for kind, label in (("real", tuned.label), ("shuffled", f"{tuned.label}-shuffled")):
        yield from runs_of(size, label, {"norm": "bn", "text": kind}, size.judged(),
                           ("ending", "fluctuation", "statistics"), norm="bn", probe_interval=max(1, updates // 20))
    for part, end, measures in (("4/5", 4 * updates // 5, ("movement",)), ("all", updates, ())):
        yield from runs_of(size, tuned.label, {"norm": "bn", "part": part}, size.judged(), measures,
                           norm="bn", max_iters=end, lr_decay_iters=updates, eval_interval=updates)


def padding_runs(size, tuned):
    yield from recipes.spread_runs(size, tuned)
    lines, seeds = f"{tuned.label}-lines", size.judged()
    for norm, pads in (("ln", "mask"), ("bn", "mask"), ("bn", "include")):
        variant, at = {"norm": norm, "pads": pads}, {"norm": norm, "learning_rate": tuned(size, norm=norm)}
        items = {**at, "items": "on", "pad_to": "block", "pad_stats": pads}
        for blocks in (1, 4) if size.full else ():  # other fractions of pads
            yield from runs_of(size, lines, {**variant, "blocks": blocks}, seeds,
                               block_size=blocks * size["block-size"], **items)
        yield from runs_of(size, lines, {**variant, "text": "items"}, seeds, ("ending", "pad_change"),
                           block_size=2 * size["block-size"], **items)
        if pads == "mask":
            yield from runs_of(size, tuned.label, {**variant, "text": "running"}, seeds,
                               block_size=2 * size["block-size"], **at)


dependence_runs = of_norms("ln", "rms", "gn", "bn", measures=("dependence",))


def future_runs(size, tuned):
    yield from of_norms("ln", "bn", "gn", measures=("leak",))(size, tuned)
    rows = [{"norm": norm} for norm in ("ln", "bn", "in")]
    if size.full:
        rows += [{"norm": "gn"}, {"norm": "pn"}, {"norm": "bn", "bn_axis": "batch"}]
    for options in rows:
        variant = {**{name.replace("bn_", ""): word for name, word in options.items()}, "text": "random"}
        if size.smallest:
            yield from runs_of(size, lab.RANDOM, {**variant, "batch": 1}, size.judged(), ("learned_leak",),
                               batch_size=1, block_size=16, n_layer=2, n_embd=size.pick(16, 64, 64),
                               max_iters=size.pick(20, 4000, 4000), **options)
        yield from runs_of(size, lab.RANDOM, {**variant, "batch": 12}, size.judged(), ("learned_leak",),
                           max_iters=size.pick(20, 1000, 4000), **options)


def depth_runs(size, tuned):
    yield from recipes.placed_runs(size, tuned)
    for norm, place in DEPTH_CELLS:
        options = {"norm": norm, "placement": place}
        more = 16 if size.full and norm != "none" else 0  # A22 was open with 8
        yield from judged(size, tuned, {**options, "depth": "base"}, options, LOSS, at_default=more)
        if size.smallest:
            yield from deep_runs(size, tuned.label, options)
    for norm in ("ln", "bn"):
        yield from at_tuned(size, tuned, norm, variant={"final": "off"}, final_norm="off")
        yield from at_tuned(size, tuned, norm, variant={"final": "on"})


DEPTH_CELLS = [("ln", "pre"), ("ln", "post"), ("none", "pre"), ("bn", "pre"), ("bn", "post")]


def deep_runs(size, label, options):
    """Narrow models of many layers: untrained ones, and some that are trained for a while."""
    narrow = {"n_embd": size.pick(16, 32, 32), "block_size": size.pick(16, 32, 32)}
    seeds = size.judged(8, at_least=8)
    for layers, init in itertools.product(size.pick((2,), (4, 48, 100), (4, 16, 48, 100)),
                                          ("xavier", "gpt2")[:size.pick(1, 2, 2)]):
        variant = {**options, "depth": layers, "init": init, "time": "start"}
        yield from runs_of(size, label, variant, seeds, ("depth",), n_layer=layers, init=init,
                           max_iters=1, probe_interval=1, eval_interval=1, eval_iters=1, **options, **narrow)
    trained = [(layers, warmup, {}) for layers in size.pick((2,), (16,), (16, 48))
               for warmup in size.pick((0,), (0,), (0, 100, 400))]
    trained += [(size.pick(2, 16, 16), 0, {"init": "xavier"})] if options["norm"] == "ln" else []
    for layers, warmup, init in trained:
        yield from runs_of(size, label, {**options, "depth": layers, "warmup": warmup, **init}, seeds,
                           ("ending", "depth"), n_layer=layers, warmup_iters=warmup, probe_interval=100,
                           max_iters=size.pick(20, 200, 600), eval_iters=8, **options, **init, **narrow)


def outlier_runs(size, tuned):
    yield from of_norms("none", "ln", "rms", "bn", measures=("outlier", "ranges"))(size, tuned)
    for rate, qk in itertools.product(size.pick((1e-1,), (1e-2, 1e-1), (1e-2, 3e-2, 1e-1)), ("off", "ln")):
        yield from runs_of(size, tuned.label, {"norm": "ln", "qk": qk, "rate": f"{rate:g}"}, size.judged(),
                           ("ending", "attention"), norm="ln", qk_norm=qk, learning_rate=rate,
                           probe_interval=size["max-iters"] - 1)
    for norm in ("none", "ln", "bn", "rms", "gn") if size.full else ("none", "ln", "bn", "rms"):
        yield from outlier_starts(size, tuned, {"norm": norm})
    for norm in ("none", "ln") if size.full else ():
        yield from outlier_starts(size, tuned, {"norm": norm, "qk_norm": "ln"})


def outlier_starts(size, tuned, options):
    """Runs that start from weights whose positions have a channel multiplied by these factors."""
    rate = tuned(size, norm=options["norm"])
    variant = {name.replace("_norm", ""): word for name, word in options.items()}
    more = 40 if size.full and size.smallest and options == {"norm": "none"} else 0  # F10 was open with 8
    for factor in (1, 10, 100, 1000) if size.full else (1, 1000):
        for run in runs_of(size, tuned.label, {**variant, "start": f"x{factor}"},
                           size.judged(at_least=more * (factor in (1, 1000))), learning_rate=rate, **options):
            yield tuned.lab.with_start(run, factor)


def affine_runs(size, tuned):
    yield from recipes.noise_runs(size, tuned)
    for norm in ("none", "ln", "bn"):
        rows = {"plain": {}, "affine-off": {"affine": "off"}, "ffn-norm-ln": {"ffn_norm": "ln"},
                "bias-off": {"bias": "off"}}
        for name, options in rows.items() if norm != "none" else [("plain", {})]:
            measures = ("ending", "gains", "noise") if name == "plain" else ("ending", "gains")
            yield from at_tuned(size, tuned, norm, measures, {"variant": name}, **options)


def cost_runs(size, tuned):
    short = {"max_iters": 6, "n_layer": 2, "profile": True, "eval_interval": 6, "eval_iters": 1,
             "threads": 1}
    shapes = [(norm, 128, 64) for norm in ("none", "ln", "rms", "bn")]
    shapes += [("ln", *shape) for shape in ((64, 64), (256, 64), (512, 64), (128, 128), (128, 256), (128, 512))]
    for repeat in range(1, size.pick(1, 8, 8) + 1) if size.smallest else ():
        for norm, width, length in shapes:
            yield from runs_of(size, tuned.label, {"norm": norm, "width": width, "length": length}, [repeat],
                               ("profile",), norm=norm, n_embd=width, block_size=length, **short)


def small_runs(size, tuned):
    yield from recipes.overfitted_runs(size, tuned)
    updates = size.pick(20, 3 * size["max-iters"], 3000)
    for norm, dropout in itertools.product(("none", "ln", "bn", "rms")[:4 if size.full else 3], (0.0, 0.2)):
        variant = {"norm": norm, "dropout": dropout}
        yield from runs_of(size, f"{tuned.label}-small", variant, size.judged(), ("ending", "overfitting"),
                           learning_rate=tuned(size, norm=norm), eval_train="on", max_iters=updates, **variant)


def position_runs(size, tuned):
    for axis in ("batch+time", "batch"):
        yield from at_tuned(size, tuned, "bn", ("ending", "statistics"), {"axis": axis}, bn_axis=axis)


kept_runs = of_norms("none", "ln", "rms", "bn", measures=("kept",))


def checkpoints(updates, small):
    """The quarters of a run, the halves in a trial."""
    return [part * updates // 4 for part in ((2, 4) if small else (1, 2, 3, 4))]


def stopped(size, tuned, norm, step, seeds, measures, last=False):
    """Runs that stop at a step. last: whether it is the last one, which no variant names."""
    updates = size["max-iters"]
    return runs_of(size, tuned.label, {"norm": norm} if last else {"norm": norm, "step": step}, seeds, measures,
                   norm=norm, max_iters=step, lr_decay_iters=updates + 1, eval_interval=updates + 1)


def drift_runs(size, tuned):
    updates = size["max-iters"]
    for norm, step in itertools.product(("none", "ln", "bn", "rms"), checkpoints(updates, size.small)):
        for one in (step, step + 1):
            last = one == updates
            measures = ("ending", "drift") if last else ()
            yield from stopped(size, tuned, norm, one, size.judged(8, at_least=8), measures, last)


def shard_runs(size, tuned):
    yield from of_norms("ln", "rms", "gn", "bn", measures=("shards",))(size, tuned)
    for norm in ("ln", "bn"):
        for step in checkpoints(size["max-iters"], size.small)[:-1]:  # early models, which E17 trains too
            yield from stopped(size, tuned, norm, step, size.judged(3), ("shards",))
        for parts in (1, 4, 12)[:size.pick(2, 3, 3)]:
            yield from at_tuned(size, tuned, norm, variant={"parts": parts}, batch_size=size["batch-size"] // parts,
                                grad_accum=parts)

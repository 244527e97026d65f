"""The runs of each experiment, as functions that experiments.py names.

A function yields the runs of a Study (plan.py). A variant is judged at its tuned learning rate and at ./train's
default. Measures are named as in measures.py and instruments.py.
"""
import itertools

from claims.lab import RANDOM
from claims.plan import DEFAULT_RATE
from claims.recipes import LOSS, best_of, judged_at, of_sequences


def judged(study, names, measures=LOSS, at_default=0, **options):
    """The runs of a variant at its tuned and at the default rate; at_default: the least number of seeds at the latter."""
    yield from study.runs({**names, "rate": "default"}, measures, study.size.judged(at_least=at_default),
                          learning_rate=DEFAULT_RATE, **options)
    yield from study.runs({**names, "rate": "tuned"}, measures, recipe=study.tuned(**options), **options)


def at_tuned(study, norm, measures=("ending",), names=(), **options):
    """The runs of a norm at the rate that was tuned for it. names: of further options."""
    return study.runs(names, measures, recipe=study.tuned(norm=norm), norm=norm, **options)


def of_norms(*norms, measures):
    """An experiment that measures these norms at their tuned rates."""
    return lambda study: itertools.chain(*(at_tuned(study, norm, measures) for norm in norms))


def norm_runs(study):
    size = study.size
    for norm in size.norms:
        yield from judged(study, {}, norm=norm)
    yield from study.runs({"rate": "default"}, norm="none", placement="post")
    yield from study.runs({"rate": "default"}, seeds=size.judged(at_least=8), norm="rms",  # canaries
                          learning_rate=DEFAULT_RATE)
    for norm in ("none", "ln"):  # at the rate and initialization that are best together
        best = study.tuned([{"init": "gpt2"}, {"init": "xavier"}], norm=norm)
        yield from study.runs({"recipe": "best"}, LOSS, recipe=best, norm=norm)
    for norm in ("ln", "bn") if size.long else ():
        yield from study.runs({"updates": LONG}, ("ending", "curve"), size.judged(2), study.tuned(norm=norm),
                              norm=norm, max_iters=LONG)
    if not size.smaller:
        yield from edge_runs(study)
        for norm, width in itertools.product(("none", "ln", "bn"), WIDTHS if size.full else WIDTHS[::2]):
            options = {"norm": norm, "n_embd": width}
            best = study.tuned(rates=size.rates[-4:-1], **options)
            yield from study.runs({"width": width, "rate": "tuned"}, recipe=best, **options)


WIDTHS = (16, 32, 64)
LONG = 10000
DEEPER = 4  # layers, where the largest rate is looked for at another depth than XS has


def edge_runs(study):
    """Norms at every rate of the grid; with more layers; and at large rates without clipping of gradients
    and without warm-up, which hide instability."""
    size, base = study.size, {"depth": "base"}
    cells = [(norm, base, {}, size.rates) for norm in ("none", "ln", "rms", "bn")]
    cells += [(norm, {"depth": DEEPER}, {"n_layer": DEEPER}, size.rates[-4:]) for norm in ("none", "ln")]
    cells += [(norm, {**base, "recipe": recipe}, options, size.rates[-size.pick(1, 2, 4):])
              for norm in ("none", "ln", "bn", "rms")[:size.pick(1, 2, 4)]
              for recipe, options in (("no-clipping", {"grad_clip": 0}), ("no-warmup", {"warmup_iters": 0}))]
    for norm, names, options, rates in cells:
        seeds = size.judged(None if size.full or norm != "bn" else 2)  # no claim reads bn's grid
        for rate in rates:
            yield from study.runs({**names, "rate": f"{rate:g}"}, seeds=seeds, norm=norm, learning_rate=rate, **options)


def statistics_runs(study):
    yield from of_norms("ln", "bn", measures=("statistics", "batches", "rereading"))(study)
    yield from at_tuned(study, "bn", ("statistics",), {"momentum": 0.01}, bn_momentum=0.01)


def batch_runs(study):
    size, whole = study.size, study.size["block-size"]
    more = size.pick([], [(2, whole), (8, whole)], [(1, 16), (2, whole), (8, whole)])
    shapes = [(1, 4), (1, whole), (4, whole), (32, whole), *more]
    for norm in ("ln", "bn", "gn"):
        for batch, block in shapes if norm != "gn" else [(1, whole), (4, whole), (32, whole)]:
            options = {"norm": norm, **of_sequences(size, batch, block), "block_size": block}
            # Many small batches need lower rates than few large ones.
            three = size.rates[-4:-1] if batch >= 4 else size.rates[-5:-2] or size.rates[-1:]
            best = study.tuned(rates=size.pick(three[:1], three, size.rates[1:]), **options)
            names = {"batch": batch, "block": "full" if block == whole else block}
            yield from study.runs(names, recipe=best, **options)


def text_runs(study):
    updates = study.size["max-iters"]
    for kind, text in ("real", study), ("shuffled", study.on(f"{study.label}-shuffled")):
        yield from text.runs({"text": kind}, ("ending", "fluctuation", "statistics"), norm="bn",
                             probe_interval=max(1, updates // 20))
    for part, end, measures in (("4/5", 4 * updates // 5, ("movement",)), ("all", updates, ())):
        yield from study.runs({"part": part}, measures, norm="bn", max_iters=end, lr_decay_iters=updates,
                              eval_interval=updates)


SPREADS = (0, 14, 29)  # by how much the lengths of lines of the same mean length differ


def padding_runs(study):
    size, lines, double = study.size, study.on(f"{study.label}-lines"), 2 * study.size["block-size"]
    padded = {"items": "on", "pad_to": "block"}
    for norm, more in itertools.product(("ln", "bn"), SPREADS):
        yield from judged_at(study.on(study.lab.spread(study.label, more)), best_of(study, {"norm": norm}),
                             {"spread": more}, what="spread", norm=norm, block_size=double, **padded)
    for norm, pads in (("ln", "mask"), ("bn", "mask"), ("bn", "include")):
        names, at = {"pads": pads}, {"norm": norm, "recipe": study.tuned(norm=norm)}
        items = {**at, **padded, "pad_stats": pads}
        for blocks in (1, 4) if size.full else ():  # other fractions of pads
            yield from lines.runs({**names, "blocks": blocks}, block_size=blocks * size["block-size"], **items)
        yield from lines.runs({**names, "text": "items"}, ("ending", "pad_change"), block_size=double, **items)
        if pads == "mask":
            yield from study.runs({**names, "text": "running"}, block_size=double, **at)


def future_runs(study):
    yield from of_norms("ln", "bn", "gn", measures=("leak",))(study)
    size, unpredictable = study.size, study.on(RANDOM)
    rows = [("ln", {}), ("bn", {}), ("in", {})]
    if size.full:
        rows += [("gn", {}), ("pn", {}), ("bn", {"axis": "batch"})]
    for norm, axis in rows:
        options = {"norm": norm, **{f"bn_{name}": word for name, word in axis.items()}}
        names = {**axis, "text": "random"}
        if not size.smaller:
            yield from unpredictable.runs({**names, "batch": 1}, ("learned_leak",), batch_size=1, block_size=16,
                                          n_layer=2, n_embd=size.pick(16, 64),
                                          max_iters=size.pick(20, 4000), **options)
        yield from unpredictable.runs({**names, "batch": 12}, ("learned_leak",), max_iters=size.pick(20, 1000, 4000),
                                      **options)


def depth_runs(study):
    for norm, place in itertools.product(("ln", "bn"), ("pre", "post")) if not study.size.small else ():
        best = best_of(study, {"norm": norm, "placement": place} if place == "post" else {"norm": norm})
        yield from judged_at(study, best, {"depth": "base", "recipe": "best"}, norm=norm, placement=place)
    for norm, place in DEPTH_CELLS:
        more = 16 if study.size.full and norm != "none" else 0  # A22 was open with 8
        yield from judged(study, {"depth": "base"}, LOSS, more, norm=norm, placement=place)
        if not study.size.smaller:
            yield from deep_runs(study, norm=norm, placement=place)
    for norm in ("ln", "bn"):
        yield from at_tuned(study, norm, names={"final": "off"}, final_norm="off")
        yield from at_tuned(study, norm, names={"final": "on"})


DEPTH_CELLS = [("ln", "pre"), ("ln", "post"), ("none", "pre"), ("bn", "pre"), ("bn", "post")]


def deep_runs(study, **options):
    """Narrow models of many layers: untrained ones, and some that are trained for a while."""
    size, seeds = study.size, study.size.judged(8, at_least=8)
    options.update(n_embd=size.pick(16, 32), block_size=size.pick(16, 32))
    for layers, init in itertools.product(size.pick((2,), (4, 48, 100), (4, 16, 48, 100)),
                                          ("xavier", "gpt2")[:size.pick(1, 2)]):
        yield from study.runs({"depth": layers, "init": init, "time": "start"}, ("depth",), seeds, n_layer=layers,
                              init=init, max_iters=1, probe_interval=1, eval_interval=1, eval_iters=1, **options)
    trained = [(layers, warmup, {}) for layers in size.pick((2,), (16,), (16, 48))
               for warmup in size.pick((0,), (0,), (0, 100, 400))]
    trained += [(size.pick(2, 16), 0, {"init": "xavier"})] if options["norm"] == "ln" else []
    for layers, warmup, init in trained:
        yield from study.runs({"depth": layers, "warmup": warmup, **init}, ("ending", "depth"), seeds, n_layer=layers,
                              warmup_iters=warmup, probe_interval=100, max_iters=size.pick(20, 200, 600), eval_iters=8,
                              **options, **init)


def outlier_runs(study):
    size = study.size
    yield from of_norms("none", "ln", "rms", "bn", measures=("outlier", "ranges"))(study)
    for rate, qk in itertools.product(size.pick((1e-1,), (1e-2, 1e-1), (1e-2, 3e-2, 1e-1)), ("off", "ln")):
        yield from study.runs({"qk": qk, "rate": f"{rate:g}"}, ("ending", "attention"), norm="ln", qk_norm=qk,
                              learning_rate=rate, probe_interval=size["max-iters"] - 1)
    for norm in ("none", "ln", "bn", "rms", "gn") if size.full else ("none", "ln", "bn", "rms"):
        yield from outlier_starts(study, norm, {})
    for norm in ("none", "ln") if size.full else ():
        yield from outlier_starts(study, norm, {"qk": "ln"})


def outlier_starts(study, norm, names):
    """Runs that start from weights whose positions have a channel multiplied by these factors."""
    options = {f"{name}_norm": word for name, word in names.items()}
    for factor in (1, 10, 100, 1000) if study.size.full else (1, 1000):
        more = 40 if norm == "none" and not names and factor in (1, 1000) else 0  # F10 was open with 8
        yield from study.from_start(factor, at_tuned(study, norm, names={**names, "start": f"x{factor}"},
                                                     seeds=study.size.judged(if_full=more), **options))


def affine_runs(study):
    for norm in ("none", "ln", "bn"):
        yield from judged_at(study, best_of(study, {"norm": norm}), {"variant": "plain", "recipe": "best"},
                             ("ending", "noise_sweep"), "noise", norm=norm)
    in_mlp = {"norm": "ln", "ffn_norm": "ln"}
    yield from judged_at(study, best_of(study, in_mlp), {"variant": "ffn-norm-ln", "recipe": "best"}, **in_mlp)
    for norm in ("none", "ln", "bn"):
        rows = {"plain": {}, "affine-off": {"affine": "off"}, "ffn-norm-ln": {"ffn_norm": "ln"},
                "bias-off": {"bias": "off"}}
        for name, options in rows.items() if norm != "none" else [("plain", {})]:
            measures = ("ending", "gains", "noise") if name == "plain" else ("ending", "gains")
            yield from at_tuned(study, norm, measures, {"variant": name}, **options)


def cost_runs(study):
    size = study.size
    shapes = [(norm, 128, 64) for norm in ("none", "ln", "rms", "bn")]
    shapes += [("ln", *shape) for shape in ((64, 64), (256, 64), (512, 64), (128, 128), (128, 256), (128, 512))]
    for repeat in range(1, size.pick(1, 8) + 1) if not size.smaller else ():
        for norm, width, length in shapes:
            yield from study.runs({"width": width, "length": length}, ("profile",), [repeat], norm=norm, n_embd=width,
                                  block_size=length, max_iters=6, n_layer=2, profile=True, eval_interval=6,
                                  eval_iters=1, threads=1)


OVERFITTED = 20000  # characters that are few enough to be learned by heart


def small_runs(study):
    size, small = study.size, study.on(f"{study.label}-small")
    part = study.lab.part(study.label, size.pick(OVERFITTED // 10, OVERFITTED))
    for norm, dropout in itertools.product(("none", "ln", "bn"), (0.0, 0.2)) if part else ():
        names = {"dropout": dropout, "characters": OVERFITTED}
        yield from judged_at(study.on(part), best_of(study, {"norm": norm}), names, ("ending", "overfitting"),
                             "overfitted", norm=norm, dropout=dropout, eval_train="on",
                             max_iters=size.pick(20, 1000, 2000))
    updates = size.pick(20, 3 * size["max-iters"], 3000)
    for norm, dropout in itertools.product(("none", "ln", "bn", "rms")[:4 if size.full else 3], (0.0, 0.2)):
        yield from small.runs({"dropout": dropout}, ("ending", "overfitting"), recipe=study.tuned(norm=norm), norm=norm,
                              eval_train="on", max_iters=updates, dropout=dropout)


def position_runs(study):
    for axis in ("batch+time", "batch"):
        yield from at_tuned(study, "bn", ("ending", "statistics"), {"axis": axis}, bn_axis=axis)


def checkpoints(size):
    """The quarters of a run, the halves in a trial."""
    return [part * size["max-iters"] // 4 for part in size.pick((2, 4), (1, 2, 3, 4))]


def stopped(study, norm, step, seeds, measures):
    """Runs that stop at a step, which the variant names unless it is the last one."""
    updates = study.size["max-iters"]
    return study.runs({"step": None if step == updates else step}, measures, seeds, norm=norm, max_iters=step,
                      lr_decay_iters=updates + 1, eval_interval=updates + 1)


def drift_runs(study):
    for norm, step in itertools.product(("none", "ln", "bn", "rms"), checkpoints(study.size)):
        for one in (step, step + 1):
            measures = ("ending", "drift") if one == study.size["max-iters"] else ()
            yield from stopped(study, norm, one, study.size.judged(8, at_least=8), measures)


def shard_runs(study):
    size = study.size
    yield from of_norms("ln", "rms", "gn", "bn", measures=("shards",))(study)
    for norm in ("ln", "bn"):
        for step in checkpoints(size)[:-1]:  # early models, which E17 trains too
            yield from stopped(study, norm, step, size.judged(3), ("shards",))
        for parts in (1, 4, 12)[:size.pick(2, 3)]:
            yield from at_tuned(study, norm, names={"parts": parts}, batch_size=size["batch-size"] // parts,
                                grad_accum=parts)

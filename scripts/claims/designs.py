"""The experiments: the runs of each, as functions of a Study (plan.py). claims.toml says what they compare.

A variant is judged at its tuned learning rate and at ./train's default, or at its best recipe: an initial standard deviation
and a learning rate, tuned together. Measures are named as in measures.py and instruments.py.
"""
from dataclasses import dataclass
import itertools
from typing import Callable

from claims.lab import RANDOM
from claims.plan import DEFAULT_RATE, FEWER, FULL, MINI

POST = {"norm": "ln", "placement": "post"}
CORE = ("none", "ln", "rms", "bn")  # norms of all sizes
FREE = ("dyt", "derf")              # those of the smallest one too, which E25 is about
JUDGED, FACTOR_SEEDS = 8, 4         # seeds of E20, E22 and E23, and of E21
# Seeds of the smallest models where fewer left claims open: those of E5, E10, E14 and E21's budgets were raised once, after
# 6, 6, 6 and 16 seeds.
MORE_SEEDS = {"best": 16, "budgets": 32, "width": 8, "spread": 32, "overfitted": 24, "noise": 32}
LOWER_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # for small batches
OVERFITTED = 20000  # characters that are few enough to be learned by heart


def judged_at(study, recipe, names=(), measures=("ending",), what="", **options):
    """The judged runs of a variant at its recipe. what: of MORE_SEEDS."""
    return study.runs(names, measures, study.size.judged(JUDGED, if_smallest=MORE_SEEDS.get(what, 0)), recipe, **options)


def at_default(study, names=(), seeds=None, **options):
    return study.runs({**dict(names), "rate": "default"}, seeds=seeds, learning_rate=DEFAULT_RATE, **options)


def at_tuned(study, norm, measures=("ending",), names=(), seeds=None, **options):
    """The runs of a norm at the rate that was tuned for it. names: of further options."""
    return study.runs(names, measures, seeds, study.tuned(norm=norm), norm=norm, **options)


def of_norms(*norms, measures):
    """An experiment that measures these norms at their tuned rates."""
    return lambda study: itertools.chain(*(at_tuned(study, norm, measures) for norm in norms))


def best_of(study, options, rates=None):
    """The best recipe of a variant, which is tuned with its group of E20, or else alone."""
    group = next((group for group in groups_of(study.size) if options in group), [options])
    return study.recipes(group, rates)[tuple(options.items())][0]


def groups_of(size):
    """The variants of E20 by their options, in groups that are tuned in lockstep."""
    norms = [{"norm": norm} for norm in CORE]
    return [norms if size.small else [*norms, POST], [{"norm": norm} for norm in FREE]]


# ---- E1 to E19 -----------------------------------------------------------------------------------

def norm_runs(study):
    size = study.size
    for norm in ("ln",) if size is FULL[-1] else ("ln", "gn"):
        yield from at_default(study, norm=norm)
        yield from study.runs({"rate": "tuned"}, recipe=study.tuned(norm=norm), norm=norm)
    yield from at_default(study, norm="none")
    yield from study.runs({"rate": "default"}, norm="none", placement="post")
    yield from at_default(study, seeds=size.judged(at_least=8), norm="rms")  # canaries
    for norm, rate in itertools.product(("ln", "rms"), () if size.smaller else size.rates):
        yield from study.runs({"depth": "base", "rate": f"{rate:g}"}, norm=norm, learning_rate=rate)


def statistics_runs(study):
    return of_norms("ln", "bn", measures=("statistics", "rereading"))(study)


def batch_runs(study):
    size, whole = study.size, study.size["block-size"]
    for norm, shapes in ("ln", BATCH_SHAPES), ("bn", BATCH_SHAPES), ("gn", [(1, 0), (4, 0), (32, 0)]):
        for batch, block in shapes if not size.small else shapes[:3]:
            options = {"norm": norm, **of_sequences(size, batch, block or whole), "block_size": block or whole}
            best = study.tuned(rates=size.pick(size.rates[-1:], size.rates[1:]), **options)
            yield from study.runs({"batch": batch, "block": block or "full"}, recipe=best, **options)


BATCH_SHAPES = [(1, 4), (1, 0), (4, 0), (32, 0), (2, 0), (8, 0)]  # sequences, and their length, 0 for that of the size


def of_sequences(size, count, block=None):
    """Options of as many characters in batches of `count` sequences; block: their length, if not the size's."""
    updates = max(2, size.tokens() // (count * (block or size["block-size"])))
    return {"batch_size": count, "max_iters": updates, "warmup_iters": updates // 10}


SPREADS = (0, 29)  # by how much the lengths of lines of the same mean length differ


def padding_runs(study):
    lines = study.on(study.lab.lines(study.label))
    padded = {"items": "on", "pad_to": "block", "block_size": 2 * study.size["block-size"]}
    for norm, more in itertools.product(("ln", "bn"), SPREADS):
        yield from judged_at(study.on(study.lab.spread(study.label, more)), best_of(study, {"norm": norm}), {"spread": more},
                             what="spread", norm=norm, **padded)
    for norm, pads in (("ln", "mask"), ("bn", "mask"), ("bn", "include")):
        yield from lines.runs({"pads": pads, "text": "items"}, ("ending", "pad_change"), recipe=study.tuned(norm=norm), norm=norm,
                              pad_stats=pads, **padded)


def future_runs(study):
    size, unpredictable = study.size, study.on(RANDOM)
    if not size.smaller:
        for norm in "ln", "bn":
            yield from unpredictable.runs({"text": "random", "batch": 1}, ("learned_leak",), batch_size=1, block_size=16, n_layer=2,
                                          n_embd=size.pick(16, 64), max_iters=size.pick(20, 4000), norm=norm)
    yield from unpredictable.runs({"text": "random", "batch": 12}, ("learned_leak",), max_iters=size.pick(20, 4000), norm="bn")


def depth_runs(study):
    size = study.size
    for norm, place in itertools.product(("ln", "bn"), ("pre", "post")):
        if not size.small:
            best = best_of(study, {"norm": norm, "placement": place} if place == "post" else {"norm": norm})
            yield from judged_at(study, best, {"depth": "base", "recipe": "best"}, norm=norm, placement=place)
        yield from at_default(study, {"depth": "base"}, size.judged(at_least=16), norm=norm, placement=place)
    if size.smaller:
        return
    narrow = {"n_embd": size.pick(16, 32), "block_size": size.pick(16, 32)}
    untrained = [(48, "xavier", "none", "pre"), (48, "xavier", "ln", "pre"), (48, "xavier", "ln", "post"),
                 (100, "xavier", "ln", "post"), (100, "gpt2", "ln", "post")]
    for layers, init, norm, place in untrained:
        yield from study.runs({"depth": layers, "init": init, "time": "start"}, ("depth",), size.judged(8, at_least=8),
                              n_layer=size.pick(2, layers), init=init, norm=norm, placement=place, max_iters=1, probe_interval=1,
                              eval_interval=1, eval_iters=1, **narrow)
    for place, init in itertools.product(("pre", "post"), ({}, {"init": "xavier"})):
        yield from study.runs({"depth": 16, "warmup": 0, **init}, ("ending", "depth"), size.judged(8, at_least=8),
                              n_layer=size.pick(2, 16), warmup_iters=0, probe_interval=100, max_iters=size.pick(20, 600),
                              eval_iters=8, norm="ln", placement=place, **narrow, **init)


def outlier_runs(study):
    size = study.size
    yield from at_tuned(study, "none", ("outlier", "ranges"))
    yield from at_tuned(study, "ln", ("outlier",))
    yield from study.runs({"qk": "off", "rate": "0.1"}, ("attention",), norm="ln", learning_rate=0.1,
                          probe_interval=size["max-iters"] - 1)
    for norm, factor in itertools.product(CORE, (1, 1000)):
        seeds = size.judged(if_smallest=40 if norm == "none" else 0)  # F10 was open with 8
        yield from from_start(study, factor, at_tuned(study, norm, names={"start": f"x{factor}"}, seeds=seeds))


def from_start(study, factor, runs):
    """These runs, from initial weights whose positions have a channel multiplied by the factor."""
    return [study.lab.with_start(run, factor) for run in runs]


def affine_runs(study):
    for norm in "none", "ln":
        yield from judged_at(study, best_of(study, {"norm": norm}), {"variant": "plain", "recipe": "best"},
                             ("ending", "noise_sweep"), "noise", norm=norm)
    in_mlp = {"norm": "ln", "ffn_norm": "ln"}
    yield from judged_at(study, best_of(study, in_mlp), {"variant": "ffn-norm-ln", "recipe": "best"}, **in_mlp)
    for norm, name, options in (("ln", "plain", {}), ("bn", "plain", {}), ("ln", "affine-off", {"affine": "off"}),
                                ("ln", "bias-off", {"bias": "off"}), ("bn", "bias-off", {"bias": "off"})):
        yield from at_tuned(study, norm, names={"variant": name}, **options)


def cost_runs(study):
    size = study.size
    shapes = [(norm, 128, 64) for norm in ("ln", "rms", "bn")]
    shapes += [("ln", *shape) for shape in ((256, 64), (512, 64), (128, 128), (128, 256), (128, 512))]
    for repeat, (norm, width, length) in itertools.product(range(1, size.pick(1, 8) + 1), () if size.smaller else shapes):
        yield from study.runs({"width": width, "length": length}, ("profile",), [repeat], norm=norm, n_embd=width,
                              block_size=length, max_iters=6, n_layer=2, profile=True, eval_interval=6, eval_iters=1, threads=1)


def small_runs(study):
    part = study.lab.part(study.label, study.size.pick(OVERFITTED // 10, OVERFITTED))
    for norm, dropout in (("none", 0.0), ("ln", 0.0), ("bn", 0.0), ("ln", 0.2), ("bn", 0.2)) if part else ():
        yield from judged_at(study.on(part), best_of(study, {"norm": norm}), {"dropout": dropout, "characters": OVERFITTED},
                             ("ending", "overfitting"), "overfitted", norm=norm, dropout=dropout, eval_train="on",
                             max_iters=study.size.pick(20, 2000))


def drift_runs(study):
    """The whole runs, each with those that stop at its quarters."""
    updates = study.size["max-iters"]

    def stopped(norm, step, measures=()):
        return study.runs({}, measures, study.size.judged(8, at_least=8), norm=norm, max_iters=step, lr_decay_iters=updates + 1,
                          eval_interval=updates + 1)
    for norm in CORE:
        parts = [stopped(norm, part * updates // 4) for part in (1, 2, 3)]
        yield from (run._replace(beside=tuple(others)) for run, *others in zip(stopped(norm, updates, ("ending", "drift")), *parts))


# ---- E20 to E26: norms at their best recipes --------------------------------------------------------

EDGE = (1e-2, 1.8e-2, 3e-2, 5.6e-2, 0.1, 0.18, 0.3, 0.56, 1.0)  # rates among which E20 looks for the largest stable one


def recipe_runs(study):
    size = study.size
    for variant, best in study.recipes(groups_of(size)[0]).items():
        options = dict(variant)
        yield from at_default(study, seeds=size.judged(JUDGED), **options)
        for (name, seeds), recipe in zip((("best", JUDGED), ("second", JUDGED // 2)), best):
            seeds = size.judged(seeds, if_smallest=MORE_SEEDS.get(name, 0))
            yield from study.runs({"recipe": name}, ("ending", "steadiness"), seeds, recipe, **options)
        for rate in EDGE[::size.pick(8, 1)] if not size.smaller and options in ({"norm": "none"}, {"norm": "ln"}) else ():
            recipe = {"init_std": best[0]["init_std"], "learning_rate": rate}
            yield from judged_at(study, recipe, {"edge": "best", "rate": rate}, **options)


# What E21 varies at XS and S, one option at a time: (option, its name in variants, values, norms); and at M.
FACTORS = (("n_embd", "width", (32, 64, 128), ("none", "ln", "bn")), ("n_layer", "depth", (1, 2, 4, 8), ("ln", "bn")),
           ("block_size", "context", (32, 64, 128), ("ln", "bn")))
UPDATES = (("max_iters", "updates", (1000, 2000, 5000, 10000), ("ln", "bn")),)
BUDGETS = (50, 70, 90, 100)  # per cent of the updates, each annealed by itself


def factor_runs(study):
    size, at_m = study.size, study.size is FULL[-1]
    for option, name, values, norms in () if size.small else UPDATES if at_m else FACTORS:
        for norm, value in itertools.product(norms, values):
            at_value = {"norm": norm, option: value}
            yield from study.runs({name: value}, recipe=study.near(best_of(study, {"norm": norm}), **at_value), **at_value,
                                  seeds=size.judged(FACTOR_SEEDS, if_smallest=MORE_SEEDS.get(name, 0)))
    for options in () if at_m else ({"norm": "none"}, {"norm": "ln"}) if size.small else ({"norm": "none"}, {"norm": "ln"}, POST):
        for part in BUDGETS:
            yield from study.runs({"updates": f"{part}%"}, ("ending", "steadiness"),
                                  size.judged(FACTOR_SEEDS, if_smallest=MORE_SEEDS["budgets"]), best_of(study, options),
                                  max_iters=part * size["max-iters"] // 100, **options)


# E22's optimizers beside AdamW, with the grid of their learning rates, none for AdamW's. SGD decays no weights: decay acts as
# rate x decay, and SGD's rates are a hundred times as large.
OPTIMIZERS = {"muon": ({"optimizer": "muon"}, None),
              "sgd": ({"optimizer": "sgd", "weight_decay": 0.0}, (3e-2, 1e-1, 3e-1, 1.0, 3.0))}


def optimizer_runs(study):
    for norm in CORE:
        yield from judged_at(study, best_of(study, {"norm": norm}), {"optimizer": "adamw"}, norm=norm)
    # At the smallest size the norm-free kinds were tuned in lockstep with the others.
    norms = CORE if study.size.small or study.size.smaller else (*CORE, *FREE)
    for name, (options, rates) in OPTIMIZERS.items() if not study.size.small else ():
        found = study.recipes([{"norm": norm, **options} for norm in norms], rates)
        for variant, best in found.items():
            if dict(variant)["norm"] in CORE:
                yield from judged_at(study, best[0], {"optimizer": name}, **dict(variant))


def other_text_runs(study):
    """The norms of all sizes on other texts, at the first text's recipe with its learning rate halved, kept or doubled: a
    quarter of a decade is a factor of 1.8."""
    for label, norm in itertools.product(study.lab.bases + study.lab.others, CORE):
        there = study.on(label)
        recipe = there.near(best_of(study, {"norm": norm}), step=1, seeds=study.size.recipe_seeds(), norm=norm)
        yield from judged_at(there, recipe, norm=norm)


def rounding_runs(study):
    for norm in "none", "ln":
        yield from judged_at(study, best_of(study, {"norm": norm}), {"optimizer": "adamw", "placement": "pre"},
                             ("ending", "outliers", "rounding"), norm=norm)


# What E25 chooses the recipe of a norm-free kind among: pairs of initial alpha with a learned scale, or nothing.
OWN = {"off": [{}], "both": [{"embd_scale": "learned", "dyt_alpha_attn": attention, "dyt_alpha": other}
                             for attention, other in ((0.8, 0.2), (2.0, 0.5), (2.0, 1.0))]}
LENGTHS = (100_000, 4_000_000)  # characters of E25's texts
LONGER = 3                      # times the updates on them


def norm_free_runs(study):
    size, lab = study.size, study.lab
    for norm, own in itertools.product(() if size.smaller else FREE, OWN):
        recipe = study.near(best_of(study, {"norm": norm}), OWN[own][:size.pick(1, 3)], norm=norm)
        yield from judged_at(study, recipe, {"own": own}, norm=norm)
    for count, norm in itertools.product(() if size.smaller or size.small else LENGTHS, ("ln", "dyt")):
        label = lab.part(lab.longest(), count)
        if label:
            part, updates = study.on(label), LONGER * size["max-iters"]
            recipe = part.near(best_of(study.on(lab.longest()), {"norm": norm}), OWN["both" if norm in FREE else "off"][:1],
                               norm=norm, max_iters=updates)
            yield from judged_at(part, recipe, {"characters": count}, norm=norm, max_iters=updates)


DEEP_LAYERS, DEEP_UPDATES, DEEP_SEEDS = 16, 600, 4
DEEP_INITS = {"xavier": {"init": "xavier"}, "0.08": {"init_std": 0.08}}


def finding_runs(study):
    """What findings compare, on every text. Recipes are the best ones on the first text, but deep models differ in their
    initialization only."""
    size = study.size
    if size.smaller:
        return
    for there in map(study.on, study.lab.bases + study.lab.others):
        for count, norm in itertools.product((1, 4, 32), ("ln", "bn", "gn")):
            row = {"norm": norm, **of_sequences(size, count)}
            yield from judged_at(there, best_of(study, row, LOWER_RATES), {"batch": count}, **row)
        for norm, factor in itertools.product(("ln", "bn"), (1, 1000)):
            measures = ("ending", "statistics") if (norm, factor) == ("bn", 1) else ("ending",)
            runs = judged_at(there, best_of(study, {"norm": norm}), {"start": f"x{factor}"}, measures, norm=norm)
            yield from from_start(study, factor, runs)
        for place, (init, options) in itertools.product(("pre", "post"), DEEP_INITS.items()):
            yield from there.runs({"norm": None, "depth": "deep", "init": init}, seeds=size.judged(DEEP_SEEDS), norm="ln",
                                  placement=place, warmup_iters=0, learning_rate=DEFAULT_RATE, n_layer=size.pick(2, DEEP_LAYERS),
                                  max_iters=size.pick(4, DEEP_UPDATES), **options)


# ---- the table -----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Experiment:
    """alone: measurements that need no run (exact.py). sizes: of models. everywhere: whether it is run on every text, and not
    on the first one only. across: whether it compares texts, so that a fact's text is that of its run. timed: whether its
    facts are times."""
    runs: Callable = lambda study: ()
    sizes: tuple = FEWER
    everywhere: bool = False
    across: bool = False
    timed: bool = False
    alone: tuple = ()

    def sizes_named(self, names):
        """The sizes with these names, smallest first; all if there are none. A trial has one of its own."""
        return [MINI] if names == [MINI.name] else [size for size in self.sizes if not names or size.name in names]


EXPERIMENTS = {
    "E1": Experiment(norm_runs, FULL, everywhere=True), "E2": Experiment(statistics_runs), "E3": Experiment(batch_runs),
    "E5": Experiment(padding_runs), "E6": Experiment(of_norms("ln", "bn", measures=("dependence",))), "E7": Experiment(future_runs),
    "E8": Experiment(depth_runs), "E9": Experiment(outlier_runs), "E10": Experiment(affine_runs),
    "E11": Experiment(sizes=(), alone=("vectors", "softmaxes")), "E12": Experiment(cost_runs, timed=True),
    "E13": Experiment(sizes=(), alone=("variances",)), "E14": Experiment(small_runs),
    "E16": Experiment(of_norms("ln", "bn", measures=("kept",))), "E17": Experiment(drift_runs),
    "E18": Experiment(sizes=(), alone=("repeats",)), "E19": Experiment(of_norms("ln", "bn", measures=("shards",))),
    "E20": Experiment(recipe_runs, FULL, everywhere=True), "E21": Experiment(factor_runs, FULL),
    "E22": Experiment(optimizer_runs, FULL, everywhere=True), "E23": Experiment(other_text_runs, across=True),
    "E24": Experiment(rounding_runs), "E25": Experiment(norm_free_runs, across=True), "E26": Experiment(finding_runs, across=True)}

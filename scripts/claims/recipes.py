"""The runs of experiments E20 to E26: norms at their best recipes, one factor of a model at a time, other optimizers,
other texts, outliers, norm-free kinds.

A recipe is an initial standard deviation and a learning rate, tuned together (Study.recipes()) on seeds of their
own and on a held-out tenth of the training split. The best two are judged with other seeds.
"""
import itertools

from claims.fact_table import variant_text
from claims.plan import DEFAULT_RATE, QUARTERS, STDS, beside, tuning_seeds

LOSS = ("ending", "curve", "steadiness")
POST = {"norm": "ln", "placement": "post"}
CORE = ("none", "ln", "rms", "bn")  # norms of all sizes
FREE = ("dyt", "derf")              # those of the smallest one too, which E25 is about
JUDGED, FACTOR_SEEDS = 8, 4         # seeds of E20, E22 and E23, and of E21
# Of the smallest models in a full report, where fewer left claims open: those of E5, E10, E14 and E21's budgets were
# raised once, after 6, 6, 6 and 16 seeds.
MORE_SEEDS = {"best": 16, "budgets": 32, "width": 8, "spread": 32, "overfitted": 24, "noise": 32}
EDGE = QUARTERS[QUARTERS.index(1e-2):QUARTERS.index(1.0) + 1]  # rates among which E20 looks for the largest stable one
LENGTHS = (100_000, 1_000_000, 4_000_000)  # characters of E25's texts
LONGER = 3                          # times the updates on them
# What E25 chooses the recipe of a norm-free kind among: pairs of initial alpha, a learned scale, both, or nothing.
ALPHAS = [{"dyt_alpha_attn": attention, "dyt_alpha": other} for attention, other in ((0.8, 0.2), (2.0, 0.5), (2.0, 1.0))]
SCALE = {"embd_scale": "learned"}
OWN = {"off": [{}], "scale": [SCALE], "alpha": ALPHAS, "both": [{**SCALE, **alphas} for alphas in ALPHAS]}
PLACES = ("post", "peri", "sandwich")  # of E24 beside Pre-LN
BATCHES = (1, 4, 32)                # sequences per batch, of E26
BATCHED = ("ln", "bn", "gn")        # norms with them
DEEP_LAYERS, DEEP_UPDATES, DEEP_SEEDS = 16, 600, 4  # of E26
DEEP_INITS = {"xavier": {"init": "xavier"}, "0.08": {"init_std": 0.08}}
LOWER_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # for deep models and small batches
# What E21 varies: {option: (its name in variants, its values)}.
FACTORS = {"n_embd": ("width", (32, 64, 128)), "n_layer": ("depth", (1, 2, 4, 8)),
           "block_size": ("context", (32, 64, 128)), "max_iters": ("updates", (500, 1000, 2000, 4000))}
LARGE_NORMS, LARGE_UPDATES = ("ln", "bn"), (1000, 2000, 5000, 10000)  # what E21 trains at M
BUDGETS = (50, 70, 90, 100)  # per cent of the updates, each annealed by itself
# E22's optimizers beside AdamW, with the grid of their learning rates, none for AdamW's. SGD decays no weights: decay
# acts as rate x decay, and SGD's rates are a hundred times as large.
OPTIMIZERS = {"muon": ({"optimizer": "muon"}, None),
              "sgd": ({"optimizer": "sgd", "weight_decay": 0.0}, (3e-2, 1e-1, 3e-1, 1.0, 3.0))}


def groups_of(size):
    """The variants of E20 by their options, in groups that are tuned in lockstep."""
    norms = [{"norm": norm} for norm in CORE]
    return [norms if size.small else [*norms, POST], [{"norm": norm} for norm in FREE]]


def with_free(size):
    return size.full and not size.smaller


def best_of(study, options, rates=None):
    """The best recipe of a variant, which is tuned with its group of E20, or else alone; None as long as it is not known."""
    group = next((group for group in groups_of(study.size) if options in group), [options])
    found = study.recipes(group, rates).get(tuple(options.items()))
    return found and found[0]


def judged_at(study, recipe, names=(), measures=("ending",), what="", **options):
    """The judged runs of a variant at its recipe. what: of MORE_SEEDS."""
    seeds = study.size.judged(JUDGED, if_full=MORE_SEEDS.get(what, 0))
    return study.runs(names, measures, seeds, recipe, **options)


def recipe_runs(study):
    """E20."""
    size = study.size
    for group in groups_of(size)[:2 if with_free(size) else 1]:
        found = study.recipes(group)
        for options in group:
            yield from study.runs({"rate": "default"}, LOSS, size.judged(JUDGED // 2 if size.brief else JUDGED),
                                  learning_rate=DEFAULT_RATE, **options)
            best = found.get(tuple(options.items()), ())
            judged = (("best", JUDGED), ("second", JUDGED // 2))[:1 if size.brief else 2]
            for (name, seeds), recipe in zip(judged, best):
                seeds = size.judged(seeds, if_full=MORE_SEEDS.get(name, 0))
                yield from study.runs({"recipe": name}, LOSS, seeds, recipe, **options)
            if best and not size.smaller and not size.brief:
                yield from grid_runs(study, options, best[0])
                if options in ({"norm": "none"}, {"norm": "ln"}):
                    yield from edge_runs(study, options, best[0]["init_std"])


def edge_runs(study, options, std):
    """At all rates that could be the largest stable one."""
    for rate in EDGE[::study.size.pick(8, 2, 1)]:
        yield from judged_at(study, {"init_std": std, "learning_rate": rate}, {"edge": "best", "rate": rate}, **options)


def grid_runs(study, options, best):
    """Runs that were tuned with, for the picture and for the largest rate that a variant bears: their losses are
    those of the held-out tenth."""
    for std, rate in itertools.product(STDS, study.size.rates[-5:]):
        for seed in tuning_seeds(study.size.recipe_seeds()):
            run = study.recipe_trial(options, (std, rate), seed)
            for name in [std, "best"] if std == best["init_std"] else [std]:
                yield run._replace(variant=variant_text({**options, "init": name, "rate": rate}))


def factor_runs(study):
    """E21: the norms of all sizes at their best recipes, with one option at a time at other values; and LayerNorm in
    both placements and no norm with fewer updates. At M only two norms, and only the number of updates."""
    size, at_m = study.size, study.size.name == "M"
    factors = {"max_iters": ("updates", LARGE_UPDATES)} if at_m else FACTORS
    for norm in LARGE_NORMS if at_m else CORE:
        best = best_of(study, {"norm": norm})
        for option, (name, values) in factors.items() if best and not size.small else ():
            for value in values:
                at_value = {"norm": norm, option: value}
                yield from study.runs({name: value}, recipe=study.near(best, **at_value), **at_value,
                                      seeds=size.judged(FACTOR_SEEDS, if_full=MORE_SEEDS.get(name, 0)))
    for options in ({"norm": "none"}, {"norm": "ln"}, *([] if size.small else [POST])) if not at_m else ():
        best = best_of(study, options)
        for part in BUDGETS:
            yield from study.runs({"updates": f"{part}%"}, ("ending", "steadiness"),
                                  size.judged(FACTOR_SEEDS, if_full=MORE_SEEDS["budgets"]), best,
                                  max_iters=part * size["max-iters"] // 100, **options)


def optimizer_rows(study):
    """(optimizer, options, best recipe or None)."""
    norms = [*CORE, *FREE] if with_free(study.size) else CORE
    for norm in norms:
        yield "adamw", {"norm": norm}, best_of(study, {"norm": norm})
    for name, (options, rates) in OPTIMIZERS.items() if not study.size.small else ():
        rows = [{"norm": norm, **options} for norm in norms]
        found = study.recipes(rows, rates)
        for row in rows:
            yield name, row, next(iter(found.get(tuple(row.items()), ())), None)


def optimizer_runs(study):
    """E22: norms at their best recipes, with each optimizer; AdamW and Muon without weight decay too, and Muon with a
    learning rate of its own for hidden matrices."""
    for name, options, best in optimizer_rows(study):
        names = {"optimizer": name}
        yield from judged_at(study, best, names, **options)
        if name != "sgd" and not study.size.small:
            yield from judged_at(study, best, {**names, "decay": "off"}, **options, weight_decay=0.0)
        if best and name == "muon":
            own = study.near(best, [{"muon_lr": beside(best["learning_rate"], step)} for step in (-2, 0, 2)], **options)
            yield from judged_at(study, own, {**names, "own": "rate"}, **options)


def other_text_runs(study):
    """E23: the norms of all sizes on other texts, at the first text's recipe with its learning rate halved, kept or
    doubled: a quarter of a decade is a factor of 1.8."""
    for label, norm in itertools.product(study.lab.bases + study.lab.others, CORE):
        best, there = best_of(study, {"norm": norm}), study.on(label)
        recipe = best and there.near(best, step=1, seeds=study.size.recipe_seeds(), norm=norm)
        yield from judged_at(there, recipe, norm=norm)


def outlier_runs(study):
    """E24: the models of E22, and LayerNorm in other placements; Peri-LN and sandwich have Pre-LN's recipe."""
    rows = [({"optimizer": name, "placement": "pre"}, options, best) for name, options, best in optimizer_rows(study)]
    rows += [({"optimizer": "adamw"}, {"norm": "ln", "placement": place},
              best_of(study, POST if place == "post" else {"norm": "ln"}))
             for place in PLACES if not study.size.small]
    for names, options, best in rows:
        yield from judged_at(study, best, names, ("ending", "outliers", "rounding"), **options)


def norm_free_runs(study):
    """E25: norm-free kinds with a learned scale of the embeddings and an alpha for each site; and on the first parts of
    the longest text."""
    size, lab = study.size, study.lab
    for norm in FREE if not size.smaller else ():
        best = best_of(study, {"norm": norm})
        for own, choices in OWN.items():
            recipe = best and study.near(best, choices[:size.pick(1, 3)], norm=norm)
            yield from judged_at(study, recipe, {"own": own}, norm=norm)
    for count in LENGTHS if not size.smaller and not size.small else ():
        part = lab.part(lab.longest(), count)
        if part:
            yield from part_runs(study.on(lab.longest()), study.on(part), count)


def part_runs(whole, part, count):
    """LayerNorm, and norm-free kinds with their own recipe, on a part of a text. whole, part: their studies."""
    updates = LONGER * part.size["max-iters"]
    for norm in ("ln", *FREE):
        best = best_of(whole, {"norm": norm})
        choices = OWN["both" if norm in FREE else "off"][:1]
        recipe = best and part.near(best, choices, norm=norm, max_iters=updates)
        yield from judged_at(part, recipe, {"characters": count}, norm=norm, max_iters=updates)


def finding_runs(study):
    """E26: what findings compare, on every text. Recipes are the best ones on the first text, but deep models differ in
    their initialization only."""
    size = study.size
    if size.smaller:
        return
    rows = [{"norm": norm, **of_sequences(size, count)} for count in BATCHES for norm in BATCHED]
    rows = [(row, best_of(study, row, LOWER_RATES)) for row in rows]
    for there in map(study.on, study.lab.bases + study.lab.others):
        for row, best in rows:
            yield from judged_at(there, best, {"batch": row["batch_size"]}, **row)
        for norm, factor in itertools.product(("ln", "bn"), (1, 1000)):
            measures = ("ending", "statistics") if (norm, factor) == ("bn", 1) else ("ending",)
            best = best_of(study, {"norm": norm})
            yield from there.from_start(factor, judged_at(there, best, {"start": f"x{factor}"}, measures, norm=norm))
        for place, (init, options) in itertools.product(("pre", "post"), DEEP_INITS.items()):
            yield from there.runs({"norm": None, "depth": "deep", "init": init}, seeds=size.judged(DEEP_SEEDS),
                                  norm="ln", placement=place, warmup_iters=0, learning_rate=DEFAULT_RATE,
                                  n_layer=size.pick(2, DEEP_LAYERS), max_iters=size.pick(4, DEEP_UPDATES), **options)


def of_sequences(size, count, block=None):
    """Options of as many characters in batches of `count` sequences; block: their length, if not the size's."""
    updates = max(2, size.tokens() // (count * (block or size["block-size"])))
    return {"batch_size": count, "max_iters": updates, "warmup_iters": updates // 10}

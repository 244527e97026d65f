"""The runs of E20 to E23: norms at their best recipes, one factor of a model at a time, other optimizers, other texts.

A recipe is an initial standard deviation and a learning rate, tuned together (Tuning.recipes()) on seeds of their
own and on a held-out tenth of the training split. The best two are judged with other seeds.
"""
from dataclasses import replace

from claims.fact_table import variant_text
from claims.plan import DEFAULT_RATE, FIRST_TUNING_SEED, HELD_OUT, LEVELS, STDS, Tuning, beside, run_of

LOSS = ("ending", "curve", "steadiness")
POST = {"norm": "ln", "placement": "post"}
CORE = ("none", "ln", "rms", "bn")  # norms of all sizes
MORE = ("dyt", "derf")              # those of the smallest one too
JUDGED, FACTOR_SEEDS = 8, 4         # seeds of E20, E22 and E23, and of E21
# What E21 varies: {option: (its name in variants, its values)}.
FACTORS = {"n_embd": ("width", (32, 64, 128)), "n_layer": ("depth", (1, 2, 4, 8)),
           "block_size": ("context", (32, 64, 128)), "max_iters": ("updates", (500, 1000, 2000, 4000))}
BUDGETS = (50, 70, 90, 100)  # per cent of the updates, each annealed by itself
# E22's optimizers beside AdamW, with the grid of their learning rates, none for AdamW's. SGD decays no weights: decay
# acts as rate x decay, and SGD's rates are a hundred times as large.
OPTIMIZERS = {"muon": ({"optimizer": "muon"}, None),
              "sgd": ({"optimizer": "sgd", "weight_decay": 0.0}, (3e-2, 1e-1, 3e-1, 1.0, 3.0))}


def groups_of(size):
    """The variants of E20 by their options, in groups that are tuned in lockstep."""
    core, post = [{"norm": norm} for norm in CORE], [POST] if not size.small else []
    more = [{"norm": norm} for norm in MORE if size.full and not size.coarse]
    return [group for group in (core + post, more) if group]


def recipes_of(size, tuned, group, rates=None):
    """{variant: its best recipes}. Those of large models are searched around those of the next smaller size. rates: the
    grid, if not the size's."""
    if not size.coarse:
        return tuned.recipes(replace(size, rates=rates or size.rates), group)
    sizes = next(core for core, _ in LEVELS.values() if size.name in [one.name for one in core])
    smaller = sizes[[one.name for one in sizes].index(size.name) - 1]
    starts = recipes_of(smaller, tuned, group, rates)
    found = {variant: tuned.around(size, best[0], **dict(variant)) for variant, best in starts.items() if best}
    return {variant: best for variant, best in found.items() if best}


def best_of(size, tuned, options):
    """The best recipe of a variant, or None as long as it is not known."""
    group = next(group for group in groups_of(size) if options in group)
    found = recipes_of(size, tuned, group).get(tuple(options.items()))
    return found and found[0]


def recipe_runs(size, tuned):
    """E20."""
    for group in groups_of(size):
        found = recipes_of(size, tuned, group)
        for options in group:
            for seed in size.judged(JUDGED):
                yield run_of(size, tuned.label, {**options, "rate": "default"}, seed, LOSS,
                             learning_rate=DEFAULT_RATE, **options)
            best = found.get(tuple(options.items()))
            for name, recipe, seeds in zip(("best", "second"), best or (), (JUDGED, JUDGED // 2)):
                for seed in size.judged(seeds):
                    yield run_of(size, tuned.label, {**options, "recipe": name}, seed, LOSS, **options, **recipe)
            if best and not size.coarse:
                yield from grid_runs(size, tuned, options, best[0])


def grid_runs(size, tuned, options, best):
    """Runs that were tuned with, for the picture and for the largest rate that a variant bears: their losses are
    those of the held-out tenth."""
    for std in STDS:
        for rate in size.rates[-5:]:
            for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.recipe_seeds()):
                run = tuned.recipe_run(size, (std, rate), seed, **options)
                yield run._replace(variant=variant_of(options, std, rate))
                if std == best["init_std"]:
                    yield run._replace(variant=variant_of(options, "best", rate))


def variant_of(options, std, rate):
    return variant_text({**options, "init": std, "rate": rate})


def factor_runs(size, tuned):
    """E21: the norms of all sizes at their best recipes, with one option at a time at other values; and LayerNorm in
    both placements and no norm with fewer updates."""
    for norm in CORE:
        options = {"norm": norm}
        best = best_of(size, tuned, options)
        for option, (name, values) in FACTORS.items() if best and not size.small else ():
            for value in values:
                recipe = at_value(size, tuned, {**options, **best, option: value})
                for seed in size.judged(FACTOR_SEEDS) if recipe else ():
                    yield run_of(size, tuned.label, {**options, name: value}, seed, ("ending",), **recipe)
    for options in ({"norm": "none"}, {"norm": "ln"}, POST):
        best = best_of(size, tuned, options) if options != POST or not size.small else None
        for part in BUDGETS if best else ():
            for seed in size.judged(FACTOR_SEEDS):
                yield run_of(size, tuned.label, {**options, "updates": f"{part}%"}, seed, ("ending", "steadiness"),
                             max_iters=part * size["max-iters"] // 100, **options, **best)


def at_value(size, tuned, options):
    """The options with their best learning rate: of the recipe's, and of those half a decade away. Large models keep
    the recipe's."""
    if size.coarse:
        return options
    rest = {name: value for name, value in options.items() if name != "learning_rate"}
    rate = tuned(replace(size, tuning=1), rates=[beside(options["learning_rate"], step) for step in (-2, 0, 2)],
                 hold_out=HELD_OUT, **rest)
    return rate and {**rest, "learning_rate": rate}


def optimizer_runs(size, tuned):
    """E22: norms at their best recipes, with each optimizer."""
    norms = [*CORE, *MORE] if size.full and not size.coarse else CORE
    for norm in norms:
        best = best_of(size, tuned, {"norm": norm})
        yield from judged_at(size, tuned.label, {"norm": norm, "optimizer": "adamw"}, best, {"norm": norm})
    for name, (options, rates) in OPTIMIZERS.items() if not size.small else ():
        rows = [{"norm": norm, **options} for norm in norms]
        found = recipes_of(size, tuned, rows, rates)
        for row in rows:
            best = found.get(tuple(row.items()))
            yield from judged_at(size, tuned.label, {"norm": row["norm"], "optimizer": name}, best and best[0], row)


def judged_at(size, label, variant, recipe, options):
    """The judged runs of a variant at its recipe, none as long as this is not known."""
    for seed in size.judged(JUDGED) if recipe else ():
        yield run_of(size, label, variant, seed, ("ending",), **options, **recipe)


def other_text_runs(size, tuned):
    """E23: the norms of all sizes on other texts, at the first text's recipe with its learning rate halved, kept or
    doubled: a quarter of a decade is a factor of 1.8."""
    for label in tuned.lab.bases + tuned.lab.others:
        tuning = Tuning(label, tuned.lab)
        for norm in CORE:
            best = best_of(size, tuned, {"norm": norm})
            if best:
                rates = [beside(best["learning_rate"], step) for step in (-1, 0, 1)]
                fixed = {"norm": norm, "init_std": best["init_std"]}
                rate = tuning(replace(size, tuning=size.recipe_seeds()), rates=rates, hold_out=HELD_OUT, **fixed)
                recipe = rate and {"init_std": best["init_std"], "learning_rate": rate}
                yield from judged_at(size, label, {"norm": norm}, recipe, {"norm": norm})
        tuned.wanted += tuning.wanted

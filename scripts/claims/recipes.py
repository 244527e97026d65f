"""The runs of experiments E20 to E26 (norms at their best recipes, one factor of a model at a time, other optimizers, other
texts, outliers, norm-free kinds), and of other experiments that use best recipes.

A recipe is an initial standard deviation and a learning rate, tuned together (Tuning.recipes()) on seeds of their
own and on a held-out tenth of the training split. The best two are judged with other seeds.
"""
from dataclasses import replace
import itertools

from ablate.selection import rank
from claims.fact_table import variant_text
from claims.plan import DEFAULT_RATE, FIRST_TUNING_SEED, HELD_OUT, LEVELS, QUARTERS, STDS, beside, runs_of

LOSS = ("ending", "curve", "steadiness")
POST = {"norm": "ln", "placement": "post"}
CORE = ("none", "ln", "rms", "bn")  # norms of all sizes
FREE = ("dyt", "derf")              # those of the smallest one too, which E25 is about
JUDGED, FACTOR_SEEDS = 8, 4         # seeds of E20, E22 and E23, and of E21
# Of the smallest models in a full report, where fewer left claims open: those of E5, E10, E14 and E21's budgets were
# raised once, after 6, 6, 6 and 16 seeds.
MORE_SEEDS = {"best": 16, "budgets": 32, "width": 8, "spread": 32, "overfitted": 24, "noise": 32}
EDGE = QUARTERS[QUARTERS.index(1e-2):QUARTERS.index(1.0) + 1]  # rates among which E20 looks for the largest stable one
SPREADS = (0, 14, 29)               # by how much the lengths of lines differ, of E5
NOISE_NORMS = ("none", "ln", "bn")
OVERFITTED = 20000                  # characters of E14's text at best recipes
LENGTHS = (100_000, 1_000_000, 4_000_000)  # characters of E25's texts
LONGER = 3                          # times the updates on them
ALPHAS = ((0.8, 0.2), (2.0, 0.5), (2.0, 1.0))  # initial alpha in attention and elsewhere
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
    return size.full and not size.coarse


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


def best_of(size, tuned, options, rates=None):
    """The best recipe of a variant, which is tuned with its group of E20, or else alone; None as long as it is not known."""
    group = next((group for group in groups_of(size) if options in group), [options])
    found = recipes_of(size, tuned, group, rates).get(tuple(options.items()))
    return found and found[0]


def recipe_runs(size, tuned):
    """E20."""
    for group in groups_of(size)[:2 if with_free(size) else 1]:
        found = recipes_of(size, tuned, group)
        for options in group:
            yield from runs_of(size, tuned.label, {**options, "rate": "default"},
                               size.judged(JUDGED // 2 if size.brief else JUDGED), LOSS,
                               learning_rate=DEFAULT_RATE, **options)
            best = found.get(tuple(options.items()))
            judged = (("best", JUDGED), ("second", JUDGED // 2))[:1 if size.brief else 2]
            for (name, seeds), recipe in zip(judged, best or ()):
                yield from runs_of(size, tuned.label, {**options, "recipe": name},
                                   size.judged(seeds, at_least=more_seeds(size, name)), LOSS, **options, **recipe)
            if best and not size.coarse and not size.brief:
                yield from grid_runs(size, tuned, options, best[0])
            if best and options in ({"norm": "none"}, {"norm": "ln"}) and size.smallest and not size.brief:
                yield from edge_runs(size, tuned, options, best[0]["init_std"])


def more_seeds(size, what):
    return MORE_SEEDS.get(what, 0) if size.full and size.smallest else 0


def edge_runs(size, tuned, options, std):
    """At all rates that could be the largest stable one."""
    for rate in EDGE[::size.pick(8, 2, 1)]:
        yield from runs_of(size, tuned.label, {**options, "edge": "best", "rate": rate}, size.judged(JUDGED),
                           init_std=std, learning_rate=rate, **options)


def grid_runs(size, tuned, options, best):
    """Runs that were tuned with, for the picture and for the largest rate that a variant bears: their losses are
    those of the held-out tenth."""
    for std in STDS:
        for rate in size.rates[-5:]:
            for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.recipe_seeds()):
                run = tuned.recipe_run(size, (std, rate), seed, **options)
                for name in [std, "best"] if std == best["init_std"] else [std]:
                    yield run._replace(variant=variant_text({**options, "init": name, "rate": rate}))


def factor_runs(size, tuned):
    """E21: the norms of all sizes at their best recipes, with one option at a time at other values; and LayerNorm in
    both placements and no norm with fewer updates. At M only two norms, and only the number of updates."""
    at_m = size.name == "M"
    factors = {"max_iters": ("updates", LARGE_UPDATES)} if at_m else FACTORS
    for norm in LARGE_NORMS if at_m else CORE:
        options = {"norm": norm}
        best = best_of(size, tuned, options)
        for option, (name, values) in factors.items() if best and not size.small else ():
            for value in values:
                at_value = {**options, option: value}
                recipe = with_best_rate(size, tuned, best, [{}], **at_value)
                seeds = size.judged(FACTOR_SEEDS, at_least=more_seeds(size, name)) if recipe else ()
                yield from runs_of(size, tuned.label, {**options, name: value}, seeds, **at_value, **recipe or {})
    for options in ({"norm": "none"}, {"norm": "ln"}, POST) if not at_m else ():
        best = best_of(size, tuned, options) if options != POST or not size.small else None
        for part in BUDGETS if best else ():
            yield from runs_of(size, tuned.label, {**options, "updates": f"{part}%"},
                               size.judged(FACTOR_SEEDS, at_least=more_seeds(size, "budgets")),
                               ("ending", "steadiness"), max_iters=part * size["max-iters"] // 100, **options, **best)


def optimizer_rows(size, tuned):
    """(norm, optimizer, options, best recipe or None)."""
    norms = [*CORE, *FREE] if with_free(size) else CORE
    for norm in norms:
        yield norm, "adamw", {"norm": norm}, best_of(size, tuned, {"norm": norm})
    for name, (options, rates) in OPTIMIZERS.items() if not size.small else ():
        rows = [{"norm": norm, **options} for norm in norms]
        found = recipes_of(size, tuned, rows, rates)
        for row in rows:
            best = found.get(tuple(row.items()))
            yield row["norm"], name, row, best and best[0]


def optimizer_runs(size, tuned):
    """E22: norms at their best recipes, with each optimizer; AdamW and Muon without weight decay too, and Muon with a
    learning rate of its own for hidden matrices."""
    for norm, name, options, best in optimizer_rows(size, tuned):
        variant = {"norm": norm, "optimizer": name}
        yield from judged_at(size, tuned.label, variant, best, options)
        if best and name != "sgd" and not size.small:
            yield from judged_at(size, tuned.label, {**variant, "decay": "off"}, best, {**options, "weight_decay": 0.0})
        if best and name == "muon":
            choices = [{"muon_lr": beside(best["learning_rate"], step)} for step in (-2, 0, 2)]
            own = with_best_rate(size, tuned, best, choices, **options)
            yield from judged_at(size, tuned.label, {**variant, "own": "rate"}, own, options)


def judged_at(size, label, variant, recipe, options, measures=("ending",), what=""):
    """The judged runs of a variant at its recipe, none as long as this is not known. what: of MORE_SEEDS."""
    seeds = size.judged(JUDGED, at_least=more_seeds(size, what))
    return runs_of(size, label, variant, seeds if recipe else (), measures, **options, **recipe or {})


def other_text_runs(size, tuned):
    """E23: the norms of all sizes on other texts, at the first text's recipe with its learning rate halved, kept or
    doubled: a quarter of a decade is a factor of 1.8."""
    for label in tuned.lab.bases + tuned.lab.others:
        tuning = tuned.on(label)
        for norm in CORE:
            best = best_of(size, tuned, {"norm": norm})
            if best:
                rates = [beside(best["learning_rate"], step) for step in (-1, 0, 1)]
                fixed = {"norm": norm, "init_std": best["init_std"]}
                rate = tuning(replace(size, tuning=size.recipe_seeds()), rates=rates, hold_out=HELD_OUT, **fixed)
                recipe = rate and {"init_std": best["init_std"], "learning_rate": rate}
                yield from judged_at(size, label, {"norm": norm}, recipe, {"norm": norm})
        tuned.wanted += tuning.wanted


def outlier_runs(size, tuned):
    """E24: the models of E22, and LayerNorm in other placements; Peri-LN and sandwich have Pre-LN's recipe."""
    def measured(variant, recipe, options):
        return judged_at(size, tuned.label, variant, recipe, options, ("ending", "outliers", "rounding"))

    for norm, name, options, best in optimizer_rows(size, tuned):
        yield from measured({"norm": norm, "optimizer": name, "placement": "pre"}, best, options)
    for place in PLACES if not size.small else ():
        best = best_of(size, tuned, POST if place == "post" else {"norm": "ln"})
        yield from measured({"norm": "ln", "optimizer": "adamw", "placement": place}, best,
                            {"norm": "ln", "placement": place})


OWN = {"off": ((), False), "scale": ((), True), "alpha": (ALPHAS, False), "both": (ALPHAS, True)}


def own_choices(size, own):
    """The options that a recipe of norm-free kinds is chosen among."""
    alphas, scale = OWN[own]
    alphas = alphas[:size.pick(1, 3, 3)]
    more = {"embd_scale": "learned"} if scale else {}
    return [{**more, "dyt_alpha_attn": attention, "dyt_alpha": other} for attention, other in alphas] or [more]


def with_best_rate(size, tuned, best, choices, **options):
    """The options and the learning rate of the best choice, or None as long as it is not known. Each choice is tried
    with the recipe's rate, and half a decade less and more, on one seed."""
    tried, found = replace(size, tuning=1), []
    rates = [beside(best["learning_rate"], step) for step in (-2, 0, 2)]
    for more in choices:
        one = {"init_std": best["init_std"], "hold_out": HELD_OUT, **options, **more}
        rate = tuned(tried, rates=rates, **one)
        found.append((rate and rank(tuned.losses(tried, rate, **one)), {**more, "learning_rate": rate}))
    return None if any(score is None for score, _ in found) else {
        "init_std": best["init_std"], **min(found, key=lambda one: one[0])[1]}


def norm_free_runs(size, tuned):
    """E25: norm-free kinds with a learned scale of the embeddings and an alpha for each site; and on the first parts of
    the longest text."""
    for norm in FREE if not size.coarse else ():
        best = best_of(size, tuned, {"norm": norm})
        for own in OWN if best else ():
            recipe = with_best_rate(size, tuned, best, own_choices(size, own), norm=norm)
            yield from judged_at(size, tuned.label, {"norm": norm, "own": own}, recipe, {"norm": norm})
    label = tuned.lab.longest()
    for count in LENGTHS[:size.pick(1, 3, 3)] if size.smallest and not size.small else ():
        part = tuned.lab.part(label, count)
        if part:
            yield from part_runs(size, tuned, tuned.on(label), part, count)


def part_runs(size, tuned, whole, part, count):
    """LayerNorm, and norm-free kinds with their own recipe, on a part of a text. whole: the tuning on the text."""
    tuning, updates = tuned.on(part), {"max_iters": LONGER * size["max-iters"]}
    for norm in ("ln", *FREE):
        best = best_of(size, whole, {"norm": norm})
        if best:
            choices = own_choices(size, "both")[:1] if norm in FREE else [{}]
            recipe = with_best_rate(size, tuning, best, choices, norm=norm, **updates)
            yield from judged_at(size, part, {"norm": norm, "characters": count}, recipe, {"norm": norm, **updates})
    tuned.wanted += whole.wanted + tuning.wanted


def finding_runs(size, tuned):
    """E26: what findings compare, on every text. Recipes are the best ones on the first text, but deep models differ in
    their initialization only."""
    if not size.smallest:
        return
    rows = [{"norm": norm, **of_sequences(size, count)} for count in BATCHES for norm in BATCHED]
    rows = [(row, best_of(size, tuned, row, LOWER_RATES)) for row in rows]
    for label in tuned.lab.bases + tuned.lab.others:
        for row, best in rows:
            yield from judged_at(size, label, {"norm": row["norm"], "batch": row["batch_size"]}, best, row)
        for norm in ("ln", "bn"):
            best = best_of(size, tuned, {"norm": norm})
            for factor in (1, 1000):
                measures = ("ending", "statistics") if (norm, factor) == ("bn", 1) else ("ending",)
                for run in judged_at(size, label, {"norm": norm, "start": f"x{factor}"}, best, {"norm": norm}, measures):
                    yield tuned.lab.with_start(run, factor)
        for options, (init, words) in itertools.product(({"norm": "ln"}, POST), DEEP_INITS.items()):
            variant = {"placement": options.get("placement", "pre"), "depth": "deep", "init": init}
            yield from runs_of(size, label, variant, size.judged(DEEP_SEEDS), warmup_iters=0,
                               learning_rate=DEFAULT_RATE, n_layer=size.pick(2, *2 * [DEEP_LAYERS]),
                               max_iters=size.pick(4, *2 * [DEEP_UPDATES]), **options, **words)


def of_sequences(size, count, block=None):
    """Options of as many characters in batches of `count` sequences; block: their length, if not the size's."""
    updates = max(2, size.tokens() // (count * (block or size["block-size"])))
    return {"batch_size": count, "max_iters": updates, "warmup_iters": updates // 10}


# ---- rows of other experiments at best recipes ---------------------------------------------------

def placed_runs(size, tuned):
    """E8: LayerNorm and BatchNorm in both placements."""
    for norm in ("ln", "bn"):
        for place in ("pre", "post") if not size.small else ():
            options = {"norm": norm, "placement": place} if place == "post" else {"norm": norm}
            yield from judged_at(size, tuned.label, {"norm": norm, "placement": place, "depth": "base", "recipe": "best"},
                                 best_of(size, tuned, options), options)


def noise_runs(size, tuned):
    """E10: the cost of noise, and LayerNorm in the MLP."""
    for norm in NOISE_NORMS:
        yield from judged_at(size, tuned.label, {"norm": norm, "variant": "plain", "recipe": "best"},
                             best_of(size, tuned, {"norm": norm}), {"norm": norm}, ("ending", "noise_sweep"), "noise")
    options = {"norm": "ln", "ffn_norm": "ln"}
    yield from judged_at(size, tuned.label, {"norm": "ln", "variant": "ffn-norm-ln", "recipe": "best"},
                         best_of(size, tuned, options), options)


def spread_runs(size, tuned):
    """E5: lines of the same mean length whose lengths differ more or less."""
    for norm in ("ln", "bn"):
        best = best_of(size, tuned, {"norm": norm})
        for more in SPREADS:
            options = {"norm": norm, "items": "on", "pad_to": "block", "block_size": 2 * size["block-size"]}
            yield from judged_at(size, tuned.lab.spread(tuned.label, more), {"norm": norm, "spread": more}, best, options,
                                 what="spread")


def overfitted_runs(size, tuned):
    """E14: a text that is small enough to be learned by heart."""
    updates = size.pick(20, 1000, 2000)
    part = tuned.lab.part(tuned.label, size.pick(OVERFITTED // 10, OVERFITTED, OVERFITTED))
    for norm in NOISE_NORMS if part else ():
        best = best_of(size, tuned, {"norm": norm})
        for dropout in (0.0, 0.2):
            yield from judged_at(size, part, {"norm": norm, "dropout": dropout, "characters": OVERFITTED}, best,
                                 {"norm": norm, "dropout": dropout, "eval_train": "on", "max_iters": updates},
                                 ("ending", "overfitting"), "overfitted")

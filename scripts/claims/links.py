"""Which pictures show what a claim reads, so that the page can lead from a claim to its pictures and back.

A picture is that of one experiment, cell and spec (experiments.py). It shows a claim's facts if the claim reads its
metric of a variant that is in it; a course of a difference, if the claim reads the losses of both its norms.
"""
from claims.fact_table import variant_options, variant_text


def fits(options, spec):
    """Whether a variant with these options is in a picture. In `where` True is any value of the option, and None
    is without it."""
    return all(name in options if value is True else options.get(name) == (value and str(value))
               for name, value in spec["where"].items())


def course_variants(spec):
    """The two variants whose difference is drawn."""
    return [variant_text({"norm": norm, "rate": "tuned"}) for norm in spec["pair"]]


def shows(spec, experiment, needs):
    """needs: {(experiment, metric, variant)}, as those of a claim."""
    read = [(metric, variant) for one, metric, variant in needs if one == experiment]
    if spec["kind"] == "course":
        return set(course_variants(spec)) <= {variant for metric, variant in read
                                         if metric.startswith(spec["metric"])}
    return any(metric == spec["metric"] and fits(variant_options(variant), spec) and
               ("x" not in spec or spec["x"] in variant_options(variant)) for metric, variant in read)


def needs_of(outcome):
    """What the quantity of an outcome reads."""
    quantity = outcome.reading.quantity
    return {(quantity.experiment, metric, variant_text(variant)) for metric, variant in quantity.needs}


def of_claim(claim, outcome, pictures):
    """The pictures that show what the claim reads, first those of the outcome that decides it. A picture is a
    dictionary with "experiment", "cell" and "spec"."""
    def decides(picture):
        return outcome is not None and picture["cell"] == outcome.cell and \
            shows(picture["spec"], picture["experiment"], needs_of(outcome))
    found = [one for one in pictures if shows(one["spec"], one["experiment"], claim.needs())]
    return sorted(found, key=lambda one: not decides(one))

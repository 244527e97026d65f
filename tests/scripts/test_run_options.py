"""run_options.py and `./train --help=json`: one table of options and conditions."""
import json
import os
import subprocess

from common import run_options

OF_TRAIN_ALONE = {"training", "micro-batches", "end-norms"}  # facts that no table of runs needs
RUN = {"norm": "ln", "placement": "pre", "items": False, "corpus": None, "weight-decay": 0.1, "affine": True}
ACTIVE = [("norm-groups", {"norm": "gn"}), ("mix-fraction", {"placement-ffn": "mix"}),
          ("lambda-start", {"placement": "rezero"}), ("lambda-start", {"connection": "skipinit"}),
          ("grammar-seed", {}), ("pad-to", {"items": True}), ("decay-gamma", {}),
          ("norm", {"placement": "rezero", "final-norm": "on"}), ("qk-norm-over", {"placement": "hybrid"}),
          ("beta1", {"optimizer": "muon"}), ("gated-rank", {"qk-norm": "gated"}), ("seed", {})]
INACTIVE = [("norm-groups", {}), ("mix-fraction", {}), ("lambda-start", {"placement": "rezero", "connection": "plain"}),
            ("grammar-seed", {"corpus": "x"}), ("pad-to", {}), ("decay-gamma", {"weight-decay": 0}),
            ("norm", {"placement": "rezero"}), ("qk-norm-over", {}), ("beta1", {"optimizer": "sgd"}),
            ("affine", {"placement": "ngpt"}), ("threads", {})]


def table():
    train = os.environ.get("TRAIN", run_options.TRAIN)
    return json.loads(subprocess.run([train, "--help=json"], capture_output=True, check=True).stdout)


def test_every_clause_names_an_option_or_a_fact():
    options = {row["name"]: row for row in table()["options"]}
    assert len(options) > 100 and all(row["help"] for row in options.values())
    for row in options.values():
        for _, name, values in run_options.clauses_of(row.get("needs")):
            assert name in options or name in run_options.FACTS or name in OF_TRAIN_ALONE, (row["name"], name)
            if options.get(name, {}).get("kind") == "choice":
                assert set(values) <= set(options[name]["values"]), (row["name"], values)


def test_conditions():
    for active, cases in ((True, ACTIVE), (False, INACTIVE)):
        for name, options in cases:
            assert run_options.is_active(name, {**RUN, **options}) == active, (name, options)

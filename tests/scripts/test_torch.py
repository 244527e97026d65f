"""Against PyTorch itself, where it is installed (scripts/deps.sh pytorch): losses and dumps of ./train and of normlab.py for
every norm in every placement, the golden numbers, and the notebook."""
import itertools
import json
import os
import sys

import pytest

from conftest import SCRIPTS, needs

torch = needs("torch")

from pytorch import bench_model, make_golden as golden

# Parts of the variants: all with make check-all, else a sample.
PARTS = [f"{part}/4" for part in range(1, 5)] if "SWEEP" in os.environ else ["1/10"]


@pytest.mark.parametrize("part", PARTS)
def test_every_norm_in_every_placement(run, part):
    ending = run("pytorch/check_normlab.py", f"--part={part}")
    assert ending.status == 0 and "variants in 2 modes: 0 differ" in ending.out, ending.out + ending.err


@pytest.mark.sweep
def test_golden_numbers(run):
    ending = run("pytorch/make_golden.py", "--check")
    assert ending.status == 0 and "files agree with PyTorch" in ending.out, ending.out + ending.err


@pytest.fixture
def make_golden(tmp_path, monkeypatch, capsys):
    """make_golden.py of one file, numbers.txt in the test's folder, whose cases a and b have the values 1 2 and 3."""
    import torch
    from pytorch import make_golden as script
    kind = torch.get_default_dtype()

    def cases():
        return {"numbers.txt": ("numbers", 10, {"a:": [("x", torch.tensor([1.0, 2.0])), ("y", torch.tensor(5.0))],
                                                "b:": [("x", torch.tensor(3.0))]})}

    def made(*words):
        monkeypatch.setattr(sys, "argv", ["make_golden.py", *words, str(tmp_path)])
        try:
            status = script.main()
        except SystemExit as end:
            status = end.code
        ending = capsys.readouterr()
        return status or 0, ending.out, ending.err
    monkeypatch.setattr(script, "all_cases", cases)
    yield made
    torch.set_default_dtype(kind)


NUMBERS = "# numbers; by scripts/pytorch/make_golden.py, float64\na:x 2 1 2\na:y 1 5\nb:x 1 3\n"


@pytest.mark.parametrize("had, added, is_written", [
    (None, "4 new lines", NUMBERS),
    ("", "4 new lines", NUMBERS),
    (NUMBERS.replace("a:y 1 5\n", ""), "1 new lines", NUMBERS),
    (NUMBERS.replace("b:x 1 3\n", ""), "1 new lines", NUMBERS),
    (NUMBERS.replace("a:x 2 1 2", "a:x 2 1.000000001 2"), "", NUMBERS.replace("a:x 2 1 2", "a:x 2 1.000000001 2"))])
def test_golden_numbers_that_are_missing_are_added(make_golden, tmp_path, had, added, is_written):
    file = tmp_path / "numbers.txt"
    if had is not None:
        file.write_text(had)
    status, out, err = make_golden()
    assert (status, err) == (0, "") and added in out and file.read_text() == is_written
    assert make_golden() == (0, "", "") and make_golden("--check")[0] == 0


@pytest.mark.parametrize("wrong", [NUMBERS.replace("a:y 1 5", "a:y 1 6"), NUMBERS.replace("a:y 1 5", "a:y 2 5 5"),
                                   NUMBERS.replace("a:y", "c:z 1 1\na:y")])
def test_golden_numbers_that_are_not_pytorchs_are_left_unless_all_are_written(make_golden, tmp_path, wrong):
    file = tmp_path / "numbers.txt"
    for words in [], ["--check"]:
        file.write_text(wrong)
        status, _, err = make_golden(*words)
        assert file.read_text() == wrong and status == (words == ["--check"])
        assert ("a:y is not what" in err or "c:z is not what" in err) and ("--all" in err) != (words == ["--check"])
    file.write_text(wrong.replace("b:x 1 3\n", ""))
    assert make_golden()[0] == 0 and file.read_text() == wrong
    assert make_golden("--all")[0] == 0 and file.read_text() == NUMBERS and make_golden("--check")[0] == 0


@pytest.mark.parametrize("name, error", [("nosuch", FileNotFoundError), ("damaged", ValueError)])
def test_a_missing_or_damaged_run_is_an_exception(tmp_path, name, error):
    """A notebook continues after it: normlab.load() does not end Python."""
    import normlab
    (tmp_path / "damaged").write_text("no model")
    with pytest.raises(error):
        normlab.load(str(tmp_path / name))


def test_a_text_is_measured_as_the_program_measures_it(run, tmp_path, monkeypatch, capsys):
    """Also the text that the model was trained on: all of it, if it is named."""
    import normlab
    from pytorch import nanogpt_model
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("the cat and the dog sat on the mat\n" * 30)
    run("train", "--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--max-iters=9", "--out=out", "--quiet", "text.txt")
    nanogpt_model.measure_corpus(normlab.load("out"), "text.txt")
    found, printed = capsys.readouterr().out, run("train", "--evaluate=out", "text.txt").out
    assert found.partition("text: ")[2] == "text.txt, 1049 characters\n" == printed.partition("text: ")[2]
    assert float(found.split()[1]) == pytest.approx(float(printed.split()[1]), abs=1e-6)


def test_muon_takes_the_matrices_that_the_program_takes():
    import normlab
    from pytorch import optimizers
    model = normlab.Model(normlab.Config(5, n_layer=1, n_head=2, n_embd=8, attn_gate="head", act="swiglu", ffn_width=12,
                                         connection="hyper", norm="gated"))
    rows, names = optimizers.hidden_matrices(model), dict(model.transformer["h"][0].named_parameters())
    assert {name: rows[weight] for name, weight in names.items() if weight in rows} == {
        "attn.c_attn.weight": [8, 8, 8, 2], "attn.c_proj.weight": [8], "mlp.c_fc.weight": [12, 12], "mlp.c_proj.weight": [8]}


# ---- the notebook --------------------------------------------------------------------------------

def code_cells():
    cells = json.loads((SCRIPTS / "normlab.ipynb").read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.sweep
def test_the_notebook_runs(run):
    """Its assertions compare LayerNorm and BatchNorm by hand with the model's."""
    program = "\n".join("".join(cell["source"]) for cell in code_cells())
    ending = run(sys.executable, "-c", f"{program}\nprint(len(plt.get_fignums()), 'pictures')", cwd=SCRIPTS,
                 env={"MPLBACKEND": "agg"})
    assert ending.status == 0 and ending.out.endswith("2 pictures\n"), ending.out + ending.err


def test_the_notebook_shows_what_came_out():
    """It was executed in order and saved with its pictures, so that one can read it without running it."""
    cells = code_cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.fixture
def in_doubles():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("norm, placement", itertools.product(bench_model.NORMS, bench_model.PLACEMENTS))
def test_the_model_that_is_timed_has_the_same_gradients(in_doubles, norm, placement):
    """As the model of the golden numbers."""
    sizes = bench_model.Sizes(golden.L, golden.NH, golden.C, golden.T, golden.B, golden.V)
    theirs, ours = golden.make_model(norm, placement), bench_model.Model(sizes, norm, placement, True)
    ours.load_state_dict(theirs.state_dict())
    golden.logits_and_loss(theirs, 0)[1].backward()
    ours(*(ids.reshape(-1) for ids in golden.tokens(0))).backward()
    expected, found = (dict(model.named_parameters()) for model in (theirs, ours))
    assert list(expected) == list(found)
    assert max((p.grad - found[name].grad).abs().max() for name, p in expected.items()) < 1e-12


def test_the_timed_pytorch_runs_with_and_without_denormals(run):
    ending = run(sys.executable, SCRIPTS / "bench_pytorch.py", "--only=micro", "--seconds=0", "--repeat=1", "--threads=1")
    rows = [line for line in ending.out.splitlines() if line.startswith("| micro |")]
    assert ending.status == 0 and len(rows) == 2, ending.out + ending.err
    assert ["denormals flushed" in row for row in rows] == [False, True]
    fastest = min(rows, key=lambda row: float(row.split("|")[3])).split("|")
    assert f"micro: PyTorch was fastest {fastest[2].strip()}, at {fastest[3].strip()} ms" in ending.out

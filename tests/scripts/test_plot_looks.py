"""What scripts/plot.py draws and scripts/table.py prints: labels inside of a picture, lines that can be told apart,
pictures of a given size, and which options distinguish runs."""
import io
import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import ROOT, needs
from pages import expect_fit
from written import HEADER, put_run

needs("matplotlib")

import matplotlib.figure
import plot
from plots.groups import Table
from plots.plot_options import read_command
from plots.svg import compact


def compose(*words):
    """The figure of plot.py with these words."""
    options = read_command([*map(str, words), "-o", "a.svg"])
    runs, failed = plot.run_folders.read_runs(options.run, plot.say)
    assert not failed
    figure = plot.compose(runs, options, Table())
    figure.canvas.draw()
    return figure


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Runs of four norms and two placements at three learning rates."""
    monkeypatch.chdir(tmp_path)
    for i, norm in enumerate(("none", "ln", "bn", "rms")):
        for j, placement in enumerate(("pre", "post")):
            for rate in (3e-4, 1e-3, 3e-3):
                for seed in (1, 2):
                    put_run(f"runs/{norm}-{placement}-{rate}-{seed}", 2 + i / 5 + j / 10 + rate + seed / 50, seed,
                            norm=norm, placement=placement, learning_rate=rate)


@pytest.mark.parametrize("words", [["--a=norm=ln,placement=pre,lr=3e-3", "--b=norm=bn,placement=post,lr=3e-4"],
                                   ["--baseline=norm=ln"]])
def test_labels_fit_a_picture_of_comparisons(grid, monkeypatch, words):
    """One row is a small picture, and a label with the names of two variants a long one."""
    import compare
    from plots import looks
    monkeypatch.setattr(compare.sys, "argv", ["compare.py", "runs", *words, "--plot=a.png"])
    monkeypatch.setattr(looks, "write_picture", lambda figure, *_: expect_fit(lambda: figure))
    assert compare.main() == 0


LONG = "gamma * (a_word - mean_n(a_word)) / rms_c(a_word) + beta"
CASES = {"2 x 2": {"norm": ("ln", "rms"), "placement": ("pre", "peri")},
         "2 x 2 x 2": {"norm": ("ln", "rms"), "placement": ("pre", "peri"), "weight_decay": (0, 0.1)},
         "nine variants": {"norm": ("ln", "rms", "bn", "gn", "dyt", "none", "in", "scale", "derf")},
         "unequal sizes": {"n_layer,n_embd": ((1, 16), (2, 32))},
         "long names": {"norm": (LONG, LONG.replace("a_word", "x")), "placement": ("pre", "y" * 40)}}
RATES = {1e-3: "done", 1.8e-3: "done", 3e-3: "done", 1e-2: "done", 3e-2: "stuck", 0.1: "diverged", 0.3: "diverged"}


def put_case(case, rates):
    """Three seeds of each variant at these learning rates, of which the large ones do not train."""
    for i, values in enumerate(itertools.product(*CASES[case].values())):
        options = {}
        for names, value in zip(CASES[case], values):
            options.update(zip(names.split(","), value) if "," in names else {names: value})
        for rate, seed in itertools.product(rates, (1, 2, 3)):
            loss = 3.97 if RATES[rate] == "stuck" else 2 + i / 9 + rate + seed / 30
            put_run(f"runs/{i}-{rate}-{seed}", loss, seed, "diverged" if RATES[rate] == "diverged" and seed > 1 else "done",
                    learning_rate=rate, **options)


@pytest.mark.parametrize("size", ["3.3x2.5", "6.9x3.2"])
@pytest.mark.parametrize("chart", ["curves", "dots", "curves,dots", "sweep"])
@pytest.mark.parametrize("case", CASES)
def test_no_text_is_cut_or_covered_in_a_column_or_on_a_page(run, case, chart, size):
    put_case(case, RATES if chart == "sweep" else [1e-3, 0.1] if chart == "dots" else [1e-3])
    for more in ([], ["--log-y"]):
        figure = expect_fit(lambda more=more: compose("runs", f"--chart={chart}", f"--size={size}", *more))
        data = [axes.bbox.height for axes in figure.axes if axes.get_visible()]
        assert sum(data) / (1 + (len(data) == 4)) > 0.3 * figure.bbox.height


def test_a_swept_line_joins_only_values_at_which_all_seeds_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rate, seed in itertools.product((1e-3, 1e-2, 0.1), (1, 2)):
        put_run(f"runs/{rate}-{seed}", 3.97 if (rate, seed) == (0.1, 2) else 2 + rate, seed, learning_rate=rate)
    lines = compose("runs", "--chart=sweep").axes[0].lines
    joined, = (line.get_ydata() for line in lines if (line.get_linestyle(), line.get_marker(), len(line.get_ydata())) == ("-", "none", 3))
    means, = (line.get_ydata() for line in lines if line.get_marker() == "_")
    assert list(joined[:2]) == [2.001, 2.01] and joined[2] != joined[2] and list(means) == [2.001, 2.01, 2.1]


@pytest.mark.parametrize("words", [["--x=step"], ["--x=tokens"], ["--chart=sweep", "--sweep=n-layer"]])
def test_ticks_are_at_whole_updates_tokens_and_layers(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    for layers in range(3, 23):
        put_run(f"runs/{layers}", 2, n_layer=layers)
        log = "".join(f"{step},{step},{step},0.01,{9 - step / 9},{9 - step / 9},1,1\n" for step in range(21))
        Path(f"runs/{layers}/log.csv").write_text(HEADER + log)
    ticks = compose("runs", "--chart=curves", *words).axes[0].get_xticks()
    assert len(ticks) > 1 and all(tick == round(tick) for tick in ticks), ticks


def test_a_pages_pictures_are_small_and_show_the_same():
    """Their ids are those that are used, and no picture of another name has them."""
    figure = matplotlib.figure.Figure()
    axes = figure.subplots()
    axes.plot(range(6), [4, 6, 5, 6, 4, 5], "o-", label="<a> & b")
    axes.legend(title="0.12345")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        large = io.StringIO()
        figure.savefig(large, format="svg")
        small, other = (compact(figure, name) for name in ("its", "another"))
    assert len(small) < len(large.getvalue()) * 0.7
    ElementTree.fromstring(small)
    words = re.compile(r"<text[^>]*>([^<]*)<")
    assert words.findall(small) == words.findall(large.getvalue()) and "&lt;a&gt; &amp; b" in words.findall(small)
    assert "<style" not in small and small == compact(figure, "its")
    ids = re.findall(r' id="([^"]*)"', small)
    assert ids and sorted(ids) == sorted({*re.findall(r'(?:href="|url\()#([^")]*)', small)})
    assert not set(ids) & set(re.findall(r' id="([^"]*)"', other))


def test_an_image_is_clipped_where_it_stands():
    """Matplotlib transforms images; a clip of the image itself would be transformed too, and hide it."""
    figure = matplotlib.figure.Figure()
    figure.subplots().imshow([[0, 1]])
    small = compact(figure, "its")
    assert re.search(r'<g clip-path="url\(#[^>]*><image [^>]*transform="', small) and not re.search("<image [^>]*clip-path", small)


MOVED_CLIP = re.compile(r'<use (?=[^>]* [xy]=)[^>]*clip-path')  # the clip moves with the mark, and hides it


def test_a_mark_alone_is_clipped_where_it_stands():
    figure = matplotlib.figure.Figure()
    figure.subplots().plot([1], [1], "o")
    small = compact(figure, "its")
    assert re.search(r'<g clip-path="url\(#[^>]*><use [^>]* x="', small) and not MOVED_CLIP.search(small)


def test_no_published_picture_hides_a_mark():
    pictures = sorted((ROOT / "scripts").rglob("published/**/*.svg"))
    assert len(pictures) > 8 and not [path.name for path in pictures if MOVED_CLIP.search(path.read_text(encoding="utf-8"))]


# ---- sizes ----

NORMS, PLACES = ("ln", "rms", "bn", "gn", "dyt", "none"), ("post", "pre", "sandwich")


def put_ablation(norms, places):
    """An ablation's folder: the first norms in the first placements, two seeds each."""
    Path("A").mkdir()
    Path("A/grid.txt").touch()
    for i in range(2 * norms * places):
        put_run(f"A/runs/{i}", 2 + 0.01 * i, i % 2 + 1, norm=NORMS[i // 2 % norms], placement=PLACES[i // 2 // norms])


def expect_apart(texts):
    """The texts do not overlap. Returns their boxes."""
    boxes = [text.get_window_extent() for text in texts]
    assert not [(one.get_text(), other.get_text()) for (one, box), (other, place)
                in itertools.combinations(zip(texts, boxes), 2) if box.overlaps(place)]
    return boxes


@pytest.mark.parametrize("width, height, norms, places", [(3.3, 2.5, 2, 1), (3.3, 2.5, 3, 2), (3.3, 2.5, 6, 3),
                                                          (6.75, 2.6, 2, 1), (6.75, 2.6, 6, 3), (10, 4.2, 6, 3)])
def test_data_has_most_of_the_picture(run, width, height, norms, places):
    put_ablation(norms, places)
    figure = compose("A", "--chart=curves", f"--size={width}x{height}")
    assert tuple(figure.get_size_inches()) == (width, height)
    (axes,), (legend,) = figure.axes, figure.legends
    data, whole = axes.get_window_extent(), figure.bbox
    assert data.width > 0.8 * whole.width and data.height > 0.4 * whole.height
    names = [NORMS[i % norms] + (f", {PLACES[i // norms]}" if places > 1 else "") for i in range(norms * places)]
    full = {f"{name}: {2 + 0.01 * (2 * i + 0.5):.3f}" for i, name in enumerate(names)}
    assert {text.get_text() for text in legend.get_texts()} >= full or \
        {text.get_text() for text in legend.get_texts()} >= set(names)
    below, *boxes = expect_apart([axes.xaxis.label, *legend.get_texts()])
    assert all(box.y1 < below.y0 + 1 and box.x0 > 0 and box.x1 < whole.x1 and box.y0 > -1 for box in boxes)


def test_rows_of_dots_have_letters_that_fit(run):
    put_ablation(6, 3)
    axes, = compose("A", "--chart=dots", "--size=3.3x2.5").axes
    assert len(expect_apart(axes.get_yticklabels())) == 18
    assert axes.get_window_extent().width > 0.6 * axes.figure.bbox.width


def test_a_picture_without_room_is_refused(run):
    put_ablation(6, 3)
    ending = run("plot.py", "A", "--chart=curves", "--size=1x1", "-o", "a.svg")
    assert (ending.status, ending.err) == (1, "plot: --size=1x1: the legend of 21 entries leaves no room for data (a larger "
                                              "size, or fewer runs)\n") and not Path("a.svg").exists()


def test_lines_on_each_other_differ_in_dashes_only(run):
    for norm in ("ln", "rms"):
        put_run(norm, 2.5, norm=norm, placement="pre")
        with open(f"{norm}/log.csv", "a", encoding="utf-8") as log:
            log.write("20,2,1920,0.01,,2.25,1,960\n")
    below, above = compose("ln", "rms", "--lines=val").axes[0].lines[:2]
    assert (below.get_color(), above.get_color()) == ("#0072B2", "#009E73") and below.get_zorder() <= above.get_zorder()
    assert below.get_linewidth() == above.get_linewidth() and above.is_dashed() and not below.is_dashed()


def test_a_norm_has_one_colour_in_every_picture(run):
    for norm in ("bn", "ln", "derf"):
        put_run(norm, 2.5, norm=norm, placement="pre")
    colours = [[line.get_color() for line in compose(*norms, "--lines=val").axes[0].lines[:len(norms)]]
               for norms in (["ln"], ["bn", "ln"], ["bn", "derf", "ln"])]
    assert colours[0] == ["#0072B2"] and colours[1] == ["#D55E00", "#0072B2"]
    assert colours[2][0] == "#D55E00" and colours[2][2] == "#0072B2" and len(set(colours[2])) == 3


def test_two_points_are_dots(run):
    put_run("ln", 2.5, norm="ln", placement="pre")
    lines = compose("ln").axes[0].lines
    assert [line.get_linestyle() for line in lines if len(line.get_xdata()) == 2] == ["None", "None"]
    with open("ln/log.csv", "a", encoding="utf-8") as log:
        log.write("20,2,1920,0.01,2.25,2.25,1,960\n")
    assert all(line.get_linestyle() == "-" for line in compose("ln").axes[0].lines if len(line.get_xdata()) == 3)


def test_columns_of_curves_share_axes_and_looks(run, draw):
    put_ablation(3, 2)
    # Without one of them, the others keep their colours and dashes.
    words = [*(f"A/runs/{i}" for i in (0, 4, 6, 8, 10)), "--columns=placement", "--lines=val"]
    table, picture = draw(*words)
    assert {'curves,"post, bn",validation,10,2.04,,,1', 'curves,"pre, rms",validation,10,2.08,,,1'} <= set(table)
    assert all(f">{label}<" in picture for label in ("post", "pre", "ln", "rms", "bn"))
    assert picture.count(">ln<") == 1, "twice in the legend"
    first, second = compose(*words).axes
    one, other = first.get_window_extent(), second.get_window_extent()
    assert one.y1 == other.y1 and one.x1 < other.x0 and one.width == pytest.approx(other.width, rel=0.1)
    assert first.get_ylim() == second.get_ylim()
    ln, same = ({line.get_linestyle(): line.get_linewidth() for line in axes.lines if line.get_color() == "#D55E00"}
                for axes in (first, second))
    assert ln and ln == same


# ---- labels ----

HAND = dict(placement="pre", n_layer=1, n_embd=64, n_head=4, bn_momentum=0.1, norm_groups=4, max_iters=200,
            lr_decay_iters=200, learning_rate=3e-3, min_lr=3e-4, eval_iters=10,
            inactive=("bn-momentum", "norm-groups"), auto=("norm-groups", "lr-decay-iters", "min-lr"))
FIRST = dict(HAND, n_layer=2, max_iters=100, lr_decay_iters=100, learning_rate=1e-3, min_lr=1e-4)


@pytest.fixture
def table(run):
    """The lines that table.py prints; it must succeed without a word on standard error."""
    def lines(*words):
        ending = run("table.py", *words)
        assert (ending.status, ending.err) == (0, ""), ending.err
        return ending.out.splitlines()
    return lines


def test_the_list_of_watching_options_is_whole():
    """Options that may change on --resume do not change what a run learns, except for the text and the length."""
    from common.run_options import watching
    tables = "".join(path.read_text() for path in sorted((ROOT / "model/options").glob("config*.c")))
    free = {row[1] for row in re.finditer(r'\{"([a-z-]+)", OPTION_(?:(?!\n    \{).)*?OPTION_FREE', tables, re.S)}
    assert len(free) > 5 and free - watching() == {"corpus", "max-iters", "max-seconds", "stop-at"}


def test_lines_are_named_by_the_options_in_which_runs_differ(draw):
    """Also outside of ablations; not by those that follow from others or change no result."""
    put_run("runs/a", 3, **FIRST)
    put_run("runs/b", 2.5, **{**HAND, "n_embd": 128, "eval_iters": 20})
    put_run("runs/c", 2.7, seed=2, **{**HAND, "n_embd": 128})
    _, picture = draw("runs")
    assert ">n-layer 1, n-embd 128, max-iters 200, learning-rate 3e-3: 2.600<" in picture
    assert "min-lr" not in picture and "eval-iters" not in picture
    put_run("runs/d", 2.75, seed=2, **{**HAND, "n_embd": 128})  # two runs of one variant and seed: folders
    _, picture = draw("runs", "--by=run")
    assert all(f">{label}<" in picture for label in ("a: 3.000", "b: 2.500", "c: 2.700", "d: 2.750"))


def test_a_formula_is_named_whole_and_a_file_without_its_folder(draw):
    for i, options in enumerate(({"norm": "gamma * x / rms_c(x)"}, {"norm": "ln"}, {"norm": "ln", "start": "runs/0/model.safetensors"})):
        put_run(f"runs/{i}", 2 + 0.25 * i, **{"start": None, **options})
    _, picture = draw("runs", "--chart=curves")
    for text in "gamma * x / rms_c(x), start random: 2.000", "ln, start random: 2.250", "ln, start model.safetensors: 2.500":
        assert f">{text}<" in picture


def test_options_without_effect_make_no_variant(run, tmp_path):
    (tmp_path / "grid.txt").touch()
    for i, (norm, momentum) in enumerate((("ln", 0.1), ("ln", 0.01), ("bn", 0.1), ("bn", 0.01))):
        put_run(f"runs/{norm}{i % 2}", 2 + 0.25 * i, **{**FIRST, "norm": norm, "bn_momentum": momentum,
                                                        "inactive": ["bn-momentum"] if norm == "ln" else []})
    ending = run("plot.py", ".", "-o", "a.svg")
    assert (ending.status, ending.err) == (0, "plot: ./runs/ln1 is left out: it differs from ./runs/ln0 only in "
                                              "bn-momentum, which has no effect there\n")
    picture = Path("a.svg").read_text()
    for text in "ln: 2.000", "bn, bn-momentum 0.1: 2.500", "bn, bn-momentum 0.01: 2.750":
        assert f">{text}<" in picture


@pytest.mark.parametrize("more", [0, 1])
def test_updates_that_equal_tokens_ask_for_make_no_variant(table, more):
    """Grids at equal tokens: larger batches have fewer updates, which is no difference of its own."""
    for i, (batch, updates) in enumerate(((1, 1000), (4, 250), (6, 167))):
        put_run(f"runs/{i}", 2 + 0.25 * i, placement="pre", batch_size=batch, grad_accum=1, block_size=16,
                max_iters=updates + more * i)
    head = table("runs")[0]
    assert "batch-size" in head and ("max-iters" in head) == bool(more)


def test_the_training_part_is_drawn_where_it_was_measured(draw):
    put_run("old", 3, placement="pre")
    put_run("new", 2.5, norm="bn", placement="pre")
    Path("new/log.csv").write_text(HEADER.rstrip() + ",eval_train_loss\n0,0,0,0.01,4,4,1,960,3.5\n"
                                   "5,0.5,480,0.01,3,,1,960,\n10,1,960,0.01,,2.5,1,960,2.25\n")
    table, picture = draw("old", "new")
    measured = [line for line in table if "training split" in line]
    assert measured == [f"curves,bn,training split,{step},{loss},,,1" for step, loss in ((0, 3.5), (10, 2.25))]
    assert ">training split, evaluated<" in picture
    for words in ["old", "new", "--lines=val,train"], ["old"]:
        table, picture = draw(*words)
        assert "training split" not in "".join(table) + picture


# ---- the table -----------------------------------------------------------------------------------

def test_a_table_of_runs_made_by_hand(table):
    put_run("runs/a", 3, **FIRST)
    put_run("runs/b", 2.5, **{**HAND, "bn_momentum": 0.2, "eval_iters": 20})
    head, _, *rows = table("runs")
    assert head.startswith("| run | n-layer | max-iters | learning-rate | median |")
    assert "| a | 2 | 100 | 1e-3 | 3.0000 | 3.0000 |  | 3.0000 | 1 | 0 | 0 | 0 | 2 |" in rows
    put_run("runs/b2", 2.7, seed=2, **HAND)
    assert ("| 1 | 200 | 3e-3 | 2.6000 | 2.6000 ± 0.1414 | 2.5000 to 2.7000 | 2.6000 ± 0.1414 | 2 | 0 | 0 | 0 | 2 |"
            in table("runs/a", "runs/b", "runs/b2"))


def test_where_a_run_starts_is_named(table, draw):
    """Runs of versions without --start had random weights."""
    put_run("runs/1", 3, **FIRST)
    put_run("runs/2", 2, **FIRST, start="runs/first")
    put_run("runs/3", 2, seed=2, **FIRST, start=None)
    _, picture = draw("runs")
    assert ">start random: 2.500<" in picture and ">start first: 2.000<" in picture
    rows = "\n".join(table("runs/2", "runs/3"))
    assert "| runs/first | 2.0000 |" in rows and "| random | 2.0000" in rows


@pytest.mark.parametrize("status, words, why", [
    (2, [], "table: the following arguments are required: FOLDER | RUN"),
    (2, ["--cvs=x", "runs"], "table: unrecognized arguments: --cvs=x"),
    (2, ["--csv=", "runs"], "table: --csv: must name a file"),
    (1, ["nosuch"], "table: nosuch: no such folder (an ablation"),
    (1, ["empty"], "table: empty/grid.txt: lists no run (")])
def test_wrong_commands_of_the_table(run, status, words, why):
    Path("empty").mkdir()
    Path("empty/grid.txt").touch()
    ending = run("table.py", *words)
    assert ending.status == status and why in ending.err and ending.err.count("\n") == 1 and not ending.out

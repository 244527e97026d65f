"""What a run says before it trains: of options without an effect, and of values that exceed what it has."""
import pytest

from conftest import TINY


@pytest.fixture
def said(done):
    """What a run with these options says."""
    return lambda *words: done(TINY, "--force --out=out", *words).err


# The options, the line, and options with which a run says nothing of the kind. TINY: 4 updates, batches of 2 sequences of 8
# tokens, 8 channels, 2 heads, no warm-up.
@pytest.mark.parametrize("words, line, silent", [
    ("--norm=bn --bn-shards=3", "--bn-shards=3 acts as 2, the number of sequences per batch", ("--norm=bn --bn-shards=2", "--bn-shards=3")),
    ("--warmup-iters=4 --lr=0.5", "--warmup-iters=4 does not end in the run's 4 updates: the highest learning rate is 0.4",
     ("--warmup-iters=3", "--warmup-iters=4 --max-iters=5")),
    ("--warmup-iters=100 --max-iters=50 --lr=1e-3",
     "--warmup-iters=100 does not end in the run's 50 updates: the highest learning rate is 0.00049505", ()),
    ("--lr-decay-iters=8 --schedule=linear --lr=0.8 --min-lr=0",
     "--lr-decay-iters=8 is after the run's 4 updates: the last learning rate is 0.5",
     ("--lr-decay-iters=4", "--lr-decay-iters=8 --schedule=constant")),
    ("--norm=brn", "--brn-warmup=80 does not end in the run's 4 batches", ("--norm=brn --brn-warmup=3", "--brn-warmup=80")),
    ("--norm=brn --brn-warmup=8 --grad-accum=2", "--brn-warmup=8 does not end in the run's 8 batches",
     ("--norm=brn --brn-warmup=8 --grad-accum=3",)),
    ("--qk-norm=pn", "--pn-warmup=200 does not end in the run's 4 batches", ("--qk-norm=pn --pn-warmup=3",)),
    ("--norm=prepbn --prepbn-steps=5", "--prepbn-steps=5 does not end in the run's 4 batches", ("--norm=prepbn",)),
    ("--sample=0 --temperature=2 --top-k=3", "no effect: --temperature (only with --generate, --sample or --sample-interval), "
     "--top-k (only with --generate, --sample or --sample-interval)",
     ("--sample=9 --temperature=2", "--sample=0 --sample-interval=9 --top-p=0.5 --min-p=0.1"))])
def test_values_that_exceed_the_run(said, words, line, silent):
    assert f"\n{line}\n" in said(words, "text.txt")
    assert [other for other in silent if line[line.index(" "):][:20] in said(other, "text.txt")] == []


@pytest.mark.parametrize("words, line", [
    ("--norm=ln --rbn-mean=1", "--rbn-mean (only with --norm=bn)"),
    ("--norm=rms --dyt-alpha=1", "--dyt-alpha (only with --norm=dyt|derf)"),
    ("--sample=5 --temperature=0 --top-k=3", "--top-k (only with nonzero --temperature)"),
    ("--norm=rms --norm-bias=off", "--norm-bias (only with a norm that learns beta)"),
    ("--norm=bn --micro-batch-tokens=99", "--micro-batch-tokens (not with --probe-interval, batch statistics or --connection=admin)"),
    ("--random-chars=5", "--random-chars (only with --corpus=random)"),
    ("--corpus=random --val-fraction=0.2", "--val-fraction (not with --corpus=random)"),
    ("--schedule=constant --min-lr=1e-4", "--min-lr (not with --schedule=constant)"),
    ("--muon-momentum=0.5", "--muon-momentum (only with --optimizer=muon)"),
    ("--optimizer=sgd --beta1=0.5", "--beta1 (only with --optimizer=adamw|muon)"),
    ("--affine=off --decay-gamma=zero", "--decay-gamma (only with --affine)"),
    ("--norm=bn --weight-decay=0 --decay-gamma=zero", "--decay-gamma (only with nonzero --weight-decay)"),
    ("--bucket --pad-to=block --num-items=3 --num-chars=9",
     "--pad-to (only with --items), --bucket (only with --items), --num-chars (only with --generate), --num-items (only with --items, "
     "only with --generate, --sample or --sample-interval)"),
    ("--prompt=the --stop=x --stats=own --leak --vocabulary=text.txt",
     "--prompt (only with --generate), --stop (only with --generate), --stats (only with --evaluate), --leak (only with --evaluate), "
     "--vocabulary (only with --generate or --evaluate)"),
    ("--norm=ln --norm-attn=rms --norm-ffn=rms --norm-final=rms", "--norm (only where no other option overrides it)"),
    ("--norm-groups=2 --placement=pre --mix-fraction=0.5 text.txt --grammar-seed=3",
     "--grammar-seed (not with --corpus), --norm-groups (only with --norm=gn|ts), --mix-fraction (only with --placement=mix)"),
    ("--placement=post --norm-final=gn --norm-groups=2",
     "--norm-final (only with a norm before the output layer or after the embedding), --norm-groups (only with --norm=gn|ts)"),
    ("--placement=rezero --norm=bn --bn-momentum=0.2",
     "--norm (only where no other option overrides it), --bn-momentum (only with --norm=bn|brn|in|prepbn)"),
    ("--placement=skipinit --norm-attn=rms --norm-ffn=rms --qk-norm=on", "--norm-ffn (only with a norm in the MLP sub-layers)"),
    ("--lambda-start=0.1", "--lambda-start (only with --connection=rezero|skipinit|layerscale|interpolate)"),
    ("--placement=rezero --connection=plain --lambda-start=0.1",
     "--lambda-start (only with --connection=rezero|skipinit|layerscale|interpolate)"),
    ("--placement=skipinit --norm=ln --norm-attn=rms --ffn-norm=on", "--norm-attn (only with a norm in the attention sub-layers)"),
    ("--placement=bare --norm=bn --norm-final=rms", "--norm (only where no other option overrides it)"),
    ("--qk-norm-over=width", "--qk-norm-over (only with --qk-norm or --v-norm)"),
    ("--placement=ngpt --affine=off --lambda-start=0.1", "--affine (only with a norm that learns gamma or beta)"),
    ("--norm=none --decay-gamma=one", "--decay-gamma (only with a norm that learns gamma)"),
    ("--init=xavier --init-std=0.1 --init-embd-std=0.1", "--init-std (only with --init=gpt2), --init-embd-std (not with --init=xavier)"),
    ("--norm=rms --qk-scale-start=3", "--qk-scale-start (only with --qk-scale=learned)"),
    ("--placement=mix --placement-attn=pre --placement-ffn=post --mix-fraction=0.5", "--mix-fraction (only with --placement=mix)")])
def test_options_without_effect_are_said_in_one_line(said, words, line):
    assert f"\nno effect: {line}\n" in said("--max-iters=0", words)


@pytest.mark.parametrize("words", """\
--norm=rms --norm-final=ln --norm-bias=off
--optimizer=muon --beta1=0.5 --muon-lr=0.02
--norm=none --norm-eps=1e-3 --bn-momentum=0.2 --probe-interval=1
--norm=bn --rbn-mean=1
--norm=none --norm-attn=gn --norm-groups=2
--norm=none --norm-ffn=gn --norm-groups=2
--norm=none --norm-final=gn --norm-groups=2
--norm=dyt --dyt-alpha=2 --norm-attn=ln
--grammar-seed=3
--corpus=random --random-chars=5
--norm=ln --seed=2 --quiet
--connection=skipinit --lambda-start=0.1
--placement=rezero --norm=bn --final-norm=on --lambda-start=0.1
--norm=none --qk-norm=gn --norm-groups=2
--placement=hybrid --qk-norm-over=width
--init=width --init-embd-std=0.1 --placement=tfixup
--qk-norm=l2 --qk-scale=learned --qk-scale-start=3
--norm=none --v-norm=gn --norm-groups=2 --qk-norm-over=width
--norm=none --ffn-norm=dyt --dyt-alpha=2
--placement=post --final-norm=on --norm-final=gn --norm-groups=2
--placement=mix --mix-fraction=0.5
--placement-ffn=mix --mix-fraction=0.5
--placement=mix --placement-attn=pre --mix-fraction=0.5""".splitlines())
def test_options_with_an_effect_are_not_said(said, words):
    assert "no effect" not in said("--max-iters=0", words)


def test_an_option_of_a_file_is_not_said(said):
    said("--max-iters=0 --norm=bn --rbn-mean=1")
    assert "no effect" not in said("--max-iters=0 --config=out/config.ini --norm=ln")


def test_what_force_needs(done):
    assert "\nno effect: --force (only with --out)\n" in done(TINY, "--force text.txt").err


TRAINING = "--start (only in training), --max-iters (only in training), --learning-rate (only in training), --out (only in training)"


@pytest.mark.parametrize("words, line", [
    ("--generate=out --out=there --start=out --max-iters=7 --lr=1", TRAINING),
    ("--evaluate=out --out=there --start=out --max-iters=7 --lr=1", TRAINING),
    ("--evaluate=out --dropout=0.5 --temperature=3",
     "--dropout (only in training), --temperature (only with --generate, --sample or --sample-interval)")])
def test_the_same_where_a_stored_model_is_used(done, words, line):
    done(TINY, "--max-iters=0 --quiet --out=out text.txt")
    assert done(words).err == f"note: no effect: {line}\n"

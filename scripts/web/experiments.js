/* The experiments: each asks what the reader expects, trains, and then says what happened, by the numbers of this run.

   look: what the reader should know first. answers: the first that is true is the one at `right`. claims(of): [holds, sentence]
   for each, where of[NAME] is {train, val}, the losses of a variant at its end (runs.js). `make web-check` tests that every claim
   holds for three seeds. The variants differ from `shared` only in their own options. */
"use strict";

const SMALL = { "n-layer": 2, "n-embd": 32, "block-size": 32, "batch-size": 12, "grammar-chars": 200000, "max-iters": 300,
  "warmup-iters": 50, "learning-rate": 0.01, "init-std": 0.1, "eval-interval": 15, "eval-iters": 5, "sample-interval": 100 };
const GUESSING = Math.log(64);
const nats = loss => loss.toFixed(2);
const norms = names => names.map(([norm, name]) => ({ name, colour: norm, options: { norm } }));
const FIVE = norms([["ln", "LayerNorm"], ["rms", "RMSNorm"], ["gn", "GroupNorm"], ["bn", "BatchNorm"], ["none", "no norm"]]);
const KEPT = "The built-in grammar writes the text. ";

const EXPERIMENTS = [
  {
    name: "one-sequence", title: "A statistic of one sequence", section: "1. Why not BatchNorm with one sequence?",
    look: `${KEPT}A batch has 32 sequences of 32 characters. LayerNorm divides by the size of a token. BatchNorm divides by a
      statistic over tokens: here of all 32 sequences, of two, or of one. New text is normalized by running statistics.`,
    question: "One sequence per statistic: how does BatchNorm do?",
    answers: ["It is noisy, so it is worse in training and on new text", "It is best in training and fails on new text",
      "It is as good as over the batch"], right: 1,
    shared: { ...SMALL, "batch-size": 32 }, highest: 5,
    variants: [
      { name: "LayerNorm", colour: "ln", options: { norm: "ln" } },
      { name: "BatchNorm, 32 sequences", colour: "bn", options: { norm: "bn", "bn-shards": 1 } },
      { name: "BatchNorm, 2 sequences", colour: "gn", options: { norm: "bn", "bn-shards": 16 } },
      { name: "BatchNorm, 1 sequence", colour: "none", options: { norm: "bn", "bn-shards": 32 } }],
    claims({ LayerNorm: ln, "BatchNorm, 32 sequences": all, "BatchNorm, 2 sequences": two, "BatchNorm, 1 sequence": one }) {
      return [
        [one.train < ln.train - 0.1, `In training, one sequence gives the lowest loss: ${nats(one.train)}, whereas LayerNorm has ${nats(ln.train)}.`],
        [one.val > ln.val + 3, `On new text it fails: its loss is ${nats(one.val)}, and LayerNorm's ${nats(ln.val)}.`],
        [Math.max(all.val, two.val) < ln.val + 0.2, `Statistics over two sequences (${nats(two.val)}) or over all (${nats(all.val)}) end within 0.2 nats of LayerNorm.`]];
    },
    why: `A statistic over one sequence contains the characters that the model should predict. In training it learns to read them
      there. Running statistics contain no future, so on new text what it learned is worth nothing. It is not the small sample: a
      second sequence hides most of the future.`,
  },
  {
    name: "random-text", title: "Text that nobody can predict", section: "1. Why not BatchNorm with one sequence?",
    look: `The text is drawn at random from 64 characters, so the best that anybody can do is to guess, at a loss of
      ln 64 = ${nats(GUESSING)}. Whoever gets below has seen the answer.`,
    question: "Which model gets below guessing in training?",
    answers: ["None: the text is random", "All, a little, since they learn it by heart", "Only BatchNorm over one sequence"], right: 2,
    shared: { corpus: "random", "n-layer": 2, "n-embd": 32, "block-size": 16, "max-iters": 2000, "learning-rate": 0.003,
      "eval-interval": 100, "eval-iters": 4, "log-interval": 25 },
    level: { y: GUESSING, name: "guessing" }, lowest: 2, highest: 8,
    variants: [
      { name: "LayerNorm", colour: "ln", options: { norm: "ln", "batch-size": 1 } },
      { name: "BatchNorm, 1 sequence", colour: "none", options: { norm: "bn", "batch-size": 1 } },
      { name: "BatchNorm, 2 sequences", colour: "gn", options: { norm: "bn", "batch-size": 2 } },
      { name: "BatchNorm over the past", colour: "rms", options: { norm: "ts", "norm-groups": 32, "ts-prior-count": 4, "batch-size": 1 } }],
    claims({ LayerNorm: ln, "BatchNorm, 1 sequence": one, "BatchNorm, 2 sequences": two, "BatchNorm over the past": past }) {
      return [
        [one.train < GUESSING - 0.3, `BatchNorm over one sequence gets to ${nats(one.train)} in training, ${nats(GUESSING - one.train)} nats below guessing.`],
        [one.val > GUESSING + 3, `On new text this is a trap: there its loss is ${nats(one.val)}.`],
        [Math.min(ln.train, past.train) > GUESSING - 0.1, `LayerNorm (${nats(ln.train)}) and a statistic over the past of a sequence (${nats(past.train)}) only guess.`],
        [two.train > one.train + 0.2, `With two sequences, ${nats(two.train)}, little of the future is left to read.`]];
    },
    why: `Nothing in this text can be learned, so a loss below guessing comes from the statistic alone: it is computed from later
      characters too. A statistic over the past has no more tokens, but no later ones.`,
  },
  {
    name: "outlier-channel", title: "An outlier channel", section: "3. What does a 999 do?",
    look: `${KEPT}In every token, the first channel of the position embedding starts 1,000 times too large.`,
    question: "Which norms survive?",
    answers: ["LayerNorm and RMSNorm, since they divide it away", "BatchNorm and GroupNorm", "None of them"], right: 1,
    shared: { ...SMALL, "outlier-channel": 1000 }, variants: FIVE,
    claims({ LayerNorm: ln, RMSNorm: rms, GroupNorm: gn, BatchNorm: bn }) {
      return [
        [Math.min(ln.val, rms.val) > bn.val + 0.8, `LayerNorm (${nats(ln.val)}) and RMSNorm (${nats(rms.val)}) are ruined.`],
        [gn.val < ln.val - 0.5 && bn.val < gn.val, `BatchNorm does not notice it (${nats(bn.val)}), and GroupNorm loses little (${nats(gn.val)}).`]];
    },
    why: `LayerNorm and RMSNorm divide a token by its own size, which is now that of one channel, so next to nothing of the other
      channels remains. BatchNorm divides each channel by its own size. In GroupNorm, the outlier spoils one of four groups.`,
  },
  {
    name: "outlier-position", title: "An outlier position", section: "3. What does a 999 do?",
    look: `${KEPT}At one position in the middle of the context, all channels of the position embedding start 1,000 times too large.`,
    question: "Which norms survive this one?",
    answers: ["BatchNorm, as it survives an outlier channel", "LayerNorm, RMSNorm and GroupNorm", "All of them"], right: 1,
    shared: { ...SMALL, "outlier-position": 1000 }, variants: FIVE,
    claims({ LayerNorm: ln, RMSNorm: rms, GroupNorm: gn, BatchNorm: bn, "no norm": none }) {
      return [
        [Math.max(ln.val, rms.val, gn.val) < 1.9, `LayerNorm (${nats(ln.val)}), RMSNorm (${nats(rms.val)}) and GroupNorm (${nats(gn.val)}) learn as usual.`],
        [bn.val > ln.val + 0.4, `BatchNorm (${nats(bn.val)}) suffers.`],
        [Math.abs(bn.val - none.val) < 0.4, `It does about as badly as a model without a norm (${nats(none.val)}).`]];
    },
    why: `The outlier is large in one token, and whoever divides by the token's own size is rid of it. BatchNorm's statistic is
      over all tokens, so one large token makes all others small.`,
  },
  {
    name: "deep-postln", title: "Deep Post-LN", section: "4. Why does deep Post-LN stop?",
    look: `${KEPT}Twelve layers, in which LayerNorm stands after each sum of stream and branch (Post-LN). “Large” branches start
      three times as large as <code>--init=width</code> has them. With warm-up, the learning rate rises over 100 updates.`,
    question: "What does deep Post-LN need to train?",
    answers: ["Warm-up", "Branches that start small, or warm-up", "It does not train"], right: 1,
    shared: { ...SMALL, norm: "ln", placement: "post", "n-layer": 12, "block-size": 16, "batch-size": 8, "max-iters": 400,
      "learning-rate": 0.003, init: "width", "eval-interval": 20 },
    variants: [
      { name: "small branches", colour: "rms", options: { "init-branch-scale": 1, "warmup-iters": 0 } },
      { name: "small branches, warm-up", colour: "ln", options: { "init-branch-scale": 1, "warmup-iters": 100 } },
      { name: "large branches", colour: "bn", options: { "init-branch-scale": 3, "warmup-iters": 0 } },
      { name: "large branches, warm-up", colour: "none", options: { "init-branch-scale": 3, "warmup-iters": 100 } }],
    claims({ "small branches": small, "small branches, warm-up": smallWarm, "large branches": large, "large branches, warm-up": largeWarm }) {
      return [
        [Math.max(small.val, smallWarm.val) < large.val - 0.8, `With small branches the model trains without warm-up (${nats(small.val)}) and with it (${nats(smallWarm.val)}).`],
        [large.val > 3, `With large ones it is stuck at ${nats(large.val)}, where a model is that knows only how frequent each character is.`],
        [largeWarm.val < large.val - 0.7 && largeWarm.val > Math.min(small.val, smallWarm.val), `Warm-up rescues it: ${nats(largeWarm.val)}, though not to the loss of small branches.`]];
    },
    why: `Each Post-LN divides by the size of stream plus branch, and so shrinks what comes from below by the more, the larger the branch
      is. Twelve layers do that 24 times. In still deeper models, or with still larger branches, warm-up no longer suffices.`,
  },
  {
    name: "no-norm", title: "No norm", section: "5. What does a norm buy?",
    look: `${KEPT}Poor settings are GPT-2's initialization (0.02) and nanoGPT's learning rate (0.001), which are too small for this
      model. Good ones are 0.2 and 0.03.`,
    question: "Does a model of two layers need a norm?",
    answers: ["Yes, without one it does not learn", "Only at poor settings", "No"], right: 1,
    shared: { ...SMALL, "max-iters": 400, "eval-interval": 20 },
    variants: [
      { name: "LayerNorm, good settings", colour: "ln", options: { norm: "ln", "init-std": 0.2, "learning-rate": 0.03 } },
      { name: "no norm, good settings", colour: "none", options: { norm: "none", "init-std": 0.2, "learning-rate": 0.03 } },
      { name: "LayerNorm, poor settings", colour: "rms", options: { norm: "ln", "init-std": 0.02, "learning-rate": 0.001 } },
      { name: "no norm, poor settings", colour: "bn", options: { norm: "none", "init-std": 0.02, "learning-rate": 0.001 } }],
    claims({ "LayerNorm, good settings": ln, "no norm, good settings": none, "LayerNorm, poor settings": lnPoor, "no norm, poor settings": nonePoor }) {
      return [
        [Math.abs(none.val - ln.val) < 0.1, `At good settings both end level: ${nats(none.val)} without a norm, ${nats(ln.val)} with LayerNorm.`],
        [nonePoor.val > lnPoor.val + 0.5, `At poor settings the norm is worth ${nats(nonePoor.val - lnPoor.val)} nats: ${nats(lnPoor.val)} instead of ${nats(nonePoor.val)}.`]];
    },
    why: `In a shallow model, a norm does not buy a lower loss but room: more settings are good enough, because after a norm the size
      of the weights before it matters less.`,
  },
  {
    name: "cut-gradient", title: "A norm without its gradient", section: "5. What does a norm buy?",
    look: `${KEPT}“Gradient cut” means that the model computes the same, but its backward pass takes the norm's statistics for constants
      (<code>--norm-detach-mean</code>, <code>--norm-detach-std</code>).`,
    question: "Is a norm without the gradient through its statistics still useful?",
    answers: ["Yes: it normalizes all the same", "Not much, but better than nothing", "It is worse than no norm"], right: 2,
    shared: { ...SMALL, "max-iters": 400, "eval-interval": 20 },
    variants: [
      { name: "LayerNorm", colour: "ln", options: { norm: "ln" } },
      { name: "LayerNorm, gradient cut", colour: "gn", options: { norm: "ln", "norm-detach-mean": "on", "norm-detach-std": "on" } },
      { name: "BatchNorm, gradient cut", colour: "bn", options: { norm: "bn", "norm-detach-mean": "on", "norm-detach-std": "on" } },
      { name: "no norm", colour: "none", options: { norm: "none" } }],
    claims({ LayerNorm: ln, "LayerNorm, gradient cut": cut, "BatchNorm, gradient cut": bnCut, "no norm": none }) {
      return [
        [ln.val < none.val - 0.1, `LayerNorm (${nats(ln.val)}) ends below no norm (${nats(none.val)}).`],
        [cut.val > none.val + 0.3, `With its gradient cut it ends above: ${nats(cut.val)}.`],
        [bnCut.val > none.val + 0.3, `The same holds for BatchNorm: ${nats(bnCut.val)}.`]];
    },
    why: `Normalizing alone does not help. A likely reason: the output of LayerNorm does not change if a token's numbers all grow, and
      the gradient through its statistics removes this direction from the update. Without it, updates go on moving there.`,
  },
  {
    name: "without-beta", title: "Without beta", section: "2. Why not with a dozen sequences?",
    look: `${KEPT}GPT-2's block has biases, and its norms a beta, which are added after normalizing. Llama's block has neither.`,
    question: "Which norm needs beta and biases?",
    answers: ["Both alike", "LayerNorm", "BatchNorm"], right: 2,
    shared: { ...SMALL, "max-iters": 400, "eval-interval": 20 },
    variants: [
      { name: "LayerNorm", colour: "ln", options: { norm: "ln" } },
      { name: "LayerNorm, no beta, no biases", colour: "rms", options: { norm: "ln", bias: "off" } },
      { name: "BatchNorm", colour: "bn", options: { norm: "bn" } },
      { name: "BatchNorm, no beta, no biases", colour: "none", options: { norm: "bn", bias: "off" } },
      { name: "BatchNorm, only beta", colour: "gn", options: { norm: "bn", bias: "off", "norm-bias": "on" } }],
    claims({ LayerNorm: ln, "LayerNorm, no beta, no biases": lnOff, BatchNorm: bn, "BatchNorm, no beta, no biases": bnOff, "BatchNorm, only beta": beta }) {
      return [
        [bnOff.val > bn.val + 0.15, `Without beta and biases BatchNorm loses ${nats(bnOff.val - bn.val)} nats (${nats(bnOff.val)} instead of ${nats(bn.val)}).`],
        [lnOff.val < ln.val + 0.12, `LayerNorm loses ${nats(lnOff.val - ln.val)} (${nats(lnOff.val)} instead of ${nats(ln.val)}).`],
        [beta.val < bnOff.val - 0.15, `Beta alone gives most of it back: ${nats(beta.val)}.`]];
    },
    why: `A likely reason: BatchNorm subtracts what all tokens have in common, and beta puts it back. LayerNorm subtracts the mean of a
      token and leaves it.`,
  },
];

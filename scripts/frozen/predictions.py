"""What was predicted before the experiments of WHY.md were run.

P1 is the first row, so new predictions go to the end. Each has a rule with a threshold that refutes it, a Python expression of
conditions (why/experiments.py) and measures; evidence/README.md says how they are judged. A rule must hold at each x of a condition,
or at the x that .at() names.
"""
from evidence.quantities import measured
from why.facts import BASELINE, above


def trained(condition):
    """W3: the share of the seeds that trained: which learned more than the frequencies of characters."""
    return measured("W3", "trained", condition)


def whose(shape, condition):
    """W8: a loss above LayerNorm's."""
    return above(f"W8-{shape}", condition)


def settled(condition):
    """W8-settings: a loss above LayerNorm's at the same settings."""
    return above("W8-settings", condition)


def at_best(condition):
    """W8-settings: a loss above LayerNorm's, each at the best of the settings."""
    return measured("W8-settings", "best_of_settings", condition)


def cell(condition, optimizer):
    """W9-cells: a loss above LayerNorm's with this optimizer."""
    return above("W9-cells", f"{condition}, {optimizer}")


def grown(width, condition):
    """W10: how often the stream grows as with the whole gradient."""
    return measured(f"W10-{width}", "stream_growth", condition) / measured(f"W10-{width}", "stream_growth", BASELINE)


def gradient(measure, condition):
    """W11: how much of the gradient reaches the first layer, as a decimal logarithm."""
    return measured("W11", measure, condition)


PREDICTIONS = [
    ("Over one sequence BatchNorm fails at every length, and tuning does not help", above("W1", "one sequence") > 0.3),
    ("Over one position of 32 sequences, as many tokens, it does not fail", above("W1", "one position").at(32) < 0.2),
    ("Two sequences of 32 characters nearly suffice", above("W1", "two sequences").at(64) < 0.15),
    ("Two sequences do not fail at any length", above("W1", "two sequences") < 0.3),
    ("The same statistics over the past of each sequence do not fail", above("W1", "the past").at(32) < 0.3),
    ("Nor do a LayerNorm's over the past", above("W1", "the past, all channels").at(32) < 0.3),
    ("Over all sequences it ends within 0.1 nats of LayerNorm", above("W1", "all sequences") < 0.1),
    ("The model of one sequence predicts better than LayerNorm's where the future is in its statistics",
     above("W1", "one sequence", "own_loss") < -0.2),
    ("One position costs more with 8 sequences than with 128", above("W1", "one position").at(8) > 0.05),
    ("and with 128 next to nothing", above("W1", "one position").at(128) < 0.05),
    ("On random text one sequence falls below guessing", measured("W1-random", "gain", "one sequence") > 0.1),
    ("One position does not", measured("W1-random", "gain", "one position") < 0.02),
    ("The past does not", measured("W1-random", "gain", "the past") < 0.02),
    ("LayerNorm does not", measured("W1-random", "gain", "LayerNorm") < 0.02),
    ("An outlier channel of factor 1000 harms LayerNorm", above("W2", "ln, channel").at(1000) > 0.2),
    ("and RMSNorm", above("W2", "rms, channel").at(1000) > 0.2),
    ("but not BatchNorm, which divides each channel by its own size", above("W2", "bn, channel").at(1000) < 0.05),
    ("An outlier position harms BatchNorm", above("W2", "bn, position").at(1000) > 0.2),
    ("but hardly LayerNorm, which divides each position by its own size", above("W2", "ln, position").at(1000) < 0.15),
    ("nor RMSNorm", above("W2", "rms, position").at(1000) < 0.15),
    ("Without a norm a channel harms", above("W2", "none, channel").at(1000) > 0.2),
    ("and so does a position", above("W2", "none, position").at(1000) > 0.2),
    ("GroupNorm loses a part of its channels only", above("W2", "gn, channel").at(1000) < 0.5),
    ("With Xavier's weights Post-LN of 16 layers learns only the frequencies", trained("post, warm-up 0, depth 16").at(1) < 0.1),
    ("With a quarter of the branch it trains", trained("post, warm-up 0, depth 16").at(0.25) > 0.9),
    ("Pre-LN of 16 layers trains with Xavier's", trained("pre, warm-up 0, depth 16").at(1) > 0.9),
    ("and with four times the branch", trained("pre, warm-up 0, depth 16").at(4) > 0.9),
    ("Post-LN of 4 layers trains with Xavier's", trained("post, warm-up 0, depth 4").at(1) > 0.9),
    ("Post-LN of 32 layers is stuck at half of the branch", trained("post, warm-up 0, depth 32").at(0.5) < 0.1),
    ("and trains at an eighth", trained("post, warm-up 0, depth 32").at(0.125) > 0.9),
    ("Dividing Xavier's branch by sqrt(2L) is enough", trained("xavier, divided") > 0.9),
    ("The rule `width` trains", trained("width") > 0.9),
    ("and is stuck when its branch is multiplied by sqrt(2L)", trained("width, multiplied") < 0.1),
    ("A lower rate alone does not free Xavier's", trained("rate 0.0003") < 0.1),
    ("DeepNorm trains", trained("deepnorm") > 0.9),
    ("Admin trains", trained("admin") > 0.9),
    ("ReZero trains", trained("rezero") > 0.9),
    ("SkipInit trains", trained("skipinit") > 0.9),
    ("A warm-up of 100 updates frees Post-LN of 16 layers at half of the branch",
     trained("post, warm-up 100, depth 16").at(0.5) > 0.9),
    ("In GPT-2's block BatchNorm ends level with LayerNorm or below", above("W5", "GPT-2, bn") < 0.05),
    ("Without biases and beta BatchNorm loses", above("W5", "GPT-2 without beta and biases, bn") > 0.08),
    ("Beta alone puts most of it back", above("W5", "GPT-2 with beta only, bn") < 0.08),
    ("and so do the biases of the linear layers, except behind the final norm", above("W5", "GPT-2 with biases only, bn") < 0.12),
    ("In Llama's block BatchNorm loses", above("W5", "Llama, bn") > 0.1),
    ("and beta puts most of it back", above("W5", "Llama with beta, bn") < 0.12),
    ("In Llama's block no norm ends level with LayerNorm or below", above("W5", "Llama, none") < 0.05),
    ("and RMSNorm needs no beta", above("W5", "Llama, rms") < 0.03),
    ("Without a norm fewer pairs of initialization and rate are near the best", measured("W6", "room_beyond_ln", "none") < -2.5),
    ("RMSNorm has as much room as LayerNorm, give or take three of 64 pairs", measured("W6", "room_beyond_ln", "rms") > -3.5),
    ("and not more than three pairs more", measured("W6", "room_beyond_ln", "rms") < 3.5),
    ("BatchNorm has at least LayerNorm's room along the initial std", measured("W6", "room_std_beyond_ln", "bn") > -0.5),
    ("DyT has less room than LayerNorm", measured("W6", "room_beyond_ln", "dyt") < -2.5),
    ("At LayerNorm's best settings one sequence fails at every length", above("W1-untuned", "one sequence") > 0.3),
    ("where one position does not", above("W1-untuned", "one position") < 0.5),
    ("BatchNorm everywhere loses in a model of 4 layers and 64 channels", above("W4", "bn: attention and MLPs and head") > 0.01),
    ("In attention alone it costs next to nothing", above("W4", "bn: attention") < 0.03),
    ("In the MLPs alone it costs", above("W4", "bn: MLPs") > 0),
    ("and so it does before the head alone", above("W4", "bn: head") > 0),
    ("What it costs grows with the width", measured("W4", "growth", "bn, n-embd").at(128) > 0),
    ("but not with the depth", measured("W4", "growth", "bn, n-layer").at(8) < 0.05),
    ("and shrinks with the number of updates", measured("W4", "growth", "bn, max-iters").at(8000) < 0),
    ("It is not noise: statistics of 4 instead of 12 sequences cost little", above("W4", "4 sequences") < 0.03),
    ("and batch renormalization does not close the gap", above("W4", "renormalization") > -0.03),
    ("The batch's own statistics do not close it either", above("W4", "bn: attention and MLPs and head", "own_loss") > 0),
    ("With 48 sequences in a batch the gap is small", above("W4", "bn, batch-size 48") < 0.03),
    ("and with twice the updates it is smaller than 0.05", above("W4", "bn, max-iters 1200") < 0.05),
    ("Without the gradient through its statistics LayerNorm loses", above("W7", "ln, detached") > 0),
    ("and so does RMSNorm", above("W7", "rms, detached") > 0),
    ("and BatchNorm", above("W7", "bn, detached") > 0),
    ("and Post-LN", above("W7", "post ln, detached") > 0),
    ("LayerNorm without this gradient is worse than no norm", above("W7", "ln, detached / none") > 0),
    ("It is not the gradient through LayerNorm's mean that counts", above("W7", "ln, mean detached") < 0.05),
    ("but the one through its standard deviation", above("W7", "ln, std detached") > 0.05),
    ("and so it is in BatchNorm", above("W7", "bn, std detached") > 0.05),
    ("Post-LN without this gradient is worse than Pre-LN without a norm", above("W7", "post ln, detached / none") > 0),
    ("Without this gradient LayerNorm has less room", measured("W6", "room_half_beyond_ln", "ln, detached") < -2.5),
    ("At 2 layers and 64 channels BatchNorm loses", whose("2x64", "batch mean, batch size") > 0.01),
    ("The token's size closes the gap, although the mean is the batch's", whose("2x64", "batch mean, token size") < 0.02),
    ("and it suffices without any mean, as in RMSNorm", whose("2x64", "none mean, token size") < 0.01),
    ("The batch's size costs with the token's mean", whose("2x64", "token mean, batch size") > 0.02),
    ("and without a mean", whose("2x64", "none mean, batch size") > 0.02),
    ("The batch's mean costs nothing there", whose("2x64", "batch mean, token size") > -0.02),
    ("No size at all loses with the token's mean", whose("2x64", "token mean, none size") > 0.02),
    ("and without a mean", whose("2x64", "none mean, none size") > 0.02),
    ("Half of the division by the token's size closes at least half of the gap", whose("2x64", "batch, rescaled^0.5") < 0.02),
    ("and all of it closes it", whose("2x64", "batch, rescaled^1") < 0.015),
    ("In attention alone it closes most", whose("2x64", "batch, rescaled: attention") < 0.025),
    ("In the MLPs alone it does not close it", whose("2x64", "batch, rescaled: MLPs") > 0),
    ("nor before the head alone", whose("2x64", "batch, rescaled: head") > 0),
    ("Behind BatchNorm tokens differ in size", measured("W8-2x64", "size_spread", "batch mean, batch size") > 0.15),
    ("and much less where the token's size divides", measured("W8-2x64", "size_spread", "batch mean, token size") < 0.1),
    ("Half of the division lies between", measured("W8-2x64", "size_spread", "batch, rescaled^0.5") < 0.15),
    ("A small token before the head is an uncertain one", measured("W8-2x64", "size_entropy", "batch mean, batch size") < -0.3),
    ("At 32 channels BatchNorm does not lose", whose("2x32", "batch mean, batch size") < 0.01),
    ("since the batch's size costs less", whose("2x32", "token mean, batch size") < 0.03),
    ("and the batch's mean gains", whose("2x32", "batch mean, token size") < 0),
    ("At 4 layers BatchNorm loses, too", whose("4x64", "batch mean, batch size") > 0.02),
    ("The batch's size costs", whose("4x64", "token mean, batch size") > 0.02),
    ("The batch's mean costs, as it did not at 2 layers", whose("4x64", "batch mean, token size") > 0),
    ("less than its size", whose("4x64", "batch mean, token size") < 0.035),
    ("A token's size after BatchNorm leaves only what the mean costs", whose("4x64", "batch, rescaled^1") < 0.035),
    ("At 128 channels BatchNorm loses", whose("4x128", "batch mean, batch size") > 0.01),
    ("and the batch's size costs", whose("4x128", "token mean, batch size") > 0.01),
    ("Nine tenths of the gradient through LayerNorm's size nearly suffice", above("W10-32", "ln, size").at(0.9) < 0.03),
    ("and half of it costs at most half as much as none", above("W10-32", "ln, size").at(0.5) < 0.1),
    ("Half of the gradient through BatchNorm's mean costs", above("W10-32", "bn, mean").at(0.5) > 0.05),
    ("and so do nine tenths, a little", above("W10-32", "bn, mean").at(0.9) < 0.1),
    ("Without the size's gradient the stream grows at least twice as much", grown("32", "ln, size").at(0) > 2),
    ("and with nine tenths hardly more", grown("32", "ln, size").at(0.9) < 1.5),
    ("Without the mean's gradient it grows at least twice as much, too", grown("32", "bn, mean").at(0) > 2),
    ("At 64 channels LayerNorm needs its size's gradient, too", above("W10-64", "ln, size").at(0) > 0.1),
    ("and nine tenths nearly suffice", above("W10-64", "ln, size").at(0.9) < 0.03),
    ("and BatchNorm its mean's", above("W10-64", "bn, mean").at(0) > 0.2),
    ("and half of it costs", above("W10-64", "bn, mean").at(0.5) > 0.05),
    ("and without the size's gradient the stream grows", grown("64", "ln, size").at(0) > 2),
    ("With Xavier's weights less than a tenth of the gradient reaches the first of 16 Post-LN layers",
     gradient("gradient_start", "post, warm-up 0, depth 16").at(1) < -1),
    ("and with a quarter of the branch at least a half", gradient("gradient_start", "post, warm-up 0, depth 16").at(0.25) > -0.3),
    ("In 32 layers less than a hundredth reaches it", gradient("gradient_start", "post, warm-up 0, depth 32").at(1) < -2),
    ("It is what 1 / sqrt(1 + b^2) leaves, within a factor of 3",
     abs(gradient("gradient_start", "post, warm-up 0, depth 16")
         - gradient("gradient_expected", "post, warm-up 0, depth 16")) < 0.5),
    ("In Pre-LN at least a third reaches the first layer, whatever the branch",
     gradient("gradient_start", "pre, warm-up 0, depth 16") > -0.5),
    ("After training, a stuck model's first layer gets less than a tenth",
     gradient("gradient_end", "post, warm-up 0, depth 16").at(1) < -1),
    ("and with warm-up, where it trains, more", gradient("gradient_end", "post, warm-up 100, depth 16").at(0.5) > -1),
    ("With AdamW BatchNorm loses after 2,000 updates at 2 layers and 64 channels", above("W9", "bn, adamw").at(2000) > 0.01),
    ("and after 500", above("W9", "bn, adamw").at(500) > 0.01),
    ("but hardly after 250", above("W9", "bn, adamw").at(250) < 0.03),
    ("With SGD it does not lose after 250 updates", above("W9", "bn, sgd").at(250) < 0),
    ("nor after 500", above("W9", "bn, sgd").at(500) < 0),
    ("nor after 2,000, where SGD has come as far as AdamW after 500", above("W9", "bn, sgd").at(2000) < 0.01),
    ("BatchNorm's division by the token's size does not help without the gradient through that size",
     whose("halves", "rescaled forward") > 0.02),
    ("nor does its gradient alone, behind a BatchNorm that does not divide", whose("halves", "rescaled backward") > 0.02),
    ("Deep Post-LN is stuck also if its norms subtract what tokens have in common (another seed was seen before)",
     measured("W11", "trained", "post, batch's mean").at(1) < 0.1),
    ("With SGD the batch's size costs nothing with the token's mean", cell("token mean, batch size", "sgd") < 0.02),
    ("nor does the batch's mean with the token's size", cell("batch mean, token size", "sgd") < 0.02),
    ("and dividing by the token's size instead of the batch's gains nothing with the batch's mean",
     cell("batch mean, token size", "sgd") - cell("batch mean, batch size", "sgd") > -0.02),
    ("RMSNorm ties with LayerNorm with SGD", abs(cell("none mean, token size", "sgd")) < 0.02),
    ("Gamma and beta alone lose with SGD, too", cell("none mean, none size", "sgd") > 0.02),
    ("AdamW's weight decay is not what BatchNorm loses by", cell("batch mean, batch size", "adamw without decay") > 0.01),
    ("and without it the token's size closes the gap, too", cell("batch mean, token size", "adamw without decay") < 0.02),
    ("while the batch's size costs with the token's mean", cell("token mean, batch size", "adamw without decay") > 0.01),
    ("With Muon BatchNorm loses less than with AdamW", cell("batch mean, batch size", "muon") < 0.03),
    ("and so does the batch's size with the token's mean", cell("token mean, batch size", "muon") < 0.03),
    ("RMSNorm ties with LayerNorm with Muon", abs(cell("none mean, token size", "muon")) < 0.02),
    ("Gamma and beta alone lose with Muon", cell("none mean, none size", "muon") > 0.02),
    ("At 4 layers the batch's size costs without a mean, too", whose("4x64", "none mean, batch size") > 0.01),
    ("and the token's suffices without a mean, as in RMSNorm", abs(whose("4x64", "none mean, token size")) < 0.015),
    ("No size at all loses with the token's mean", whose("4x64", "token mean, none size") > 0.02),
    ("and without a mean", whose("4x64", "none mean, none size") > 0.02),
    ("Half of the division by the token's size closes at least half of the gap", whose("4x64", "batch, rescaled^0.5") < 0.018),
    ("Before the head alone it closes more than in attention alone",
     whose("4x64", "batch, rescaled: head") - whose("4x64", "batch, rescaled: attention") < 0),
    ("At 128 channels the batch's mean costs nothing with the token's size", whose("4x128", "batch mean, token size") < 0.015),
    ("and dividing BatchNorm's output by it leaves no more than the batch's mean costs (which was seen: 0.022)",
     whose("4x128", "batch, rescaled^1") < 0.035),
    ("With Muon BatchNorm loses little after 2,000 updates, too", above("W9", "bn, muon").at(2000) < 0.03),
    ("and after 250", above("W9", "bn, muon").at(250) < 0.03),
    ("RMSNorm ties with LayerNorm with AdamW after every budget", abs(above("W9", "rms, adamw")) < 0.02),
    ("and with SGD", abs(above("W9", "rms, sgd")) < 0.02),
    ("and with Muon", abs(above("W9", "rms, muon")) < 0.02),
    ("Gamma and beta alone lose with AdamW after every budget", above("W9", "gamma and beta, adamw") > 0.02),
    ("and with SGD", above("W9", "gamma and beta, sgd") > 0.02),
    ("and with Muon", above("W9", "gamma and beta, muon") > 0.02),
    ("At 4 layers the batch's mean without a size beats LayerNorm (which was seen on the Bible)",
     whose("4x64", "batch mean, none size") < 0),
    ("and at 128 channels", whose("4x128", "batch mean, none size") < 0),
    ("At LayerNorm's better setting the batch's mean without a size ties with it",
     abs(settled("batch mean, none size").at("0.08 0.01")) < 0.02),
    ("and has a lower loss than BatchNorm at each", settled("batch mean, none size") - settled("batch mean, batch size") < 0),
    ("and so does BatchNorm divided by the token's size", settled("batch, rescaled^1") - settled("batch mean, batch size") < 0),
    ("which ends within 0.03 of LayerNorm at each", settled("batch, rescaled^1") < 0.03),
    ("Each at its best of the four settings, BatchNorm loses (which was seen on the Bible)", at_best("batch mean, batch size") > 0.01),
    ("divided by the token's size it loses less (which was seen on the Bible)",
     at_best("batch, rescaled^1") - at_best("batch mean, batch size") < 0),
    ("the batch's mean without a size ties with LayerNorm (which was seen on the Bible)",
     abs(at_best("batch mean, none size")) < 0.02),
    ("and so does the token's size without a mean (which was seen on the Bible)", abs(at_best("none mean, token size")) < 0.02),
    ("With Muon BatchNorm ties with LayerNorm from 1,000 updates on (which was seen on the Bible)",
     abs(above("W9", "bn, muon").at(1000, 2000)) < 0.02),
    ("and at 4 layers it loses less than 0.03", above("W9-4x64", "bn, muon") < 0.03),
    ("With AdamW it loses", above("W9-eps", "bn").at("1e-08") > 0.02),
    ("but not if its eps is so large that it hardly divides by the gradient's size", above("W9-eps", "bn").at("0.01") < 0.02),
    ("With Muon BatchNorm ties with LayerNorm at 4 layers, each at its best of four settings",
     abs(measured("W9-settings", "best_of_settings", "bn, muon")) < 0.02),
    ("and at 128 channels it loses less than 0.03", above("W9-4x128", "bn, muon") < 0.03)]

/* Rows of the table of options: data, the model, its norms (config.c). */
#include "model/norm/formula.h"
#include "model/options/config.h"
#include "model/options/config_rows.h"

static struct option_choice norm_choice(int64_t i) {
    const struct norm_kind *kind = norm_kinds[i];
    if (!kind) return (struct option_choice){0};
    return (struct option_choice){.name = kind->name,
                                  .full_name = kind->full_name,
                                  .formula = kind->formula ? kind->formula : kind->words,
                                  .source = kind->source};
}

static struct option_choice init_choice(int64_t i) {
    return (struct option_choice){.name = initial_rules[i].name};
}

static struct option_choice activation_choice(int64_t i) {
    return (struct option_choice){.name = activations[i].name};
}

/* ---- --preset and --recipe: settings of several options, as words of the form option=value
   ---- */

/* Sizes, grouped queries and initial weights are not part of a preset.

     gpt2     Radford et al. 2019
     llama    Touvron et al. 2023 (arXiv:2302.13971)
     gemma2   Gemma team 2024 (arXiv:2408.00118), without sliding windows, and without the factor
              sqrt(C) of the embeddings
     olmo2    OLMo 2, 2024 (arXiv:2501.00656)
     qwen3    Qwen team 2025 (arXiv:2505.09388) */
static const struct option_choice presets[] = {
    {"none", .sets = ""},
    {"gpt2", .sets = "norm=ln placement=pre norm-eps=1e-5 position=learned act=gelu-tanh bias=on "
                     "head=tied qk-norm=off"},
    {"llama", .sets = "norm=rms placement=pre norm-eps=1e-5 position=rope rope-theta=10000 "
                      "act=swiglu bias=off head=untied qk-norm=off"},
    {"gemma2", .sets = "norm=rms placement=sandwich norm-eps=1e-6 position=rope rope-theta=10000 "
                       "act=geglu-tanh bias=off head=tied qk-norm=off attn-softcap=50 "
                       "logit-softcap=30"},
    {"olmo2", .sets = "norm=rms placement=reordered norm-eps=1e-6 position=rope rope-theta=500000 "
                      "act=swiglu bias=off head=untied qk-norm=on qk-norm-over=width"},
    {"qwen3", .sets = "norm=rms placement=pre norm-eps=1e-6 position=rope rope-theta=1000000 "
                      "act=swiglu bias=off head=untied qk-norm=on qk-norm-over=head"},
    {0},
};

/* How to train, with whatever it needs of the model.

     nanogpt  the defaults: nanoGPT's config/train_shakespeare_char.py as its README has it for a CPU,
              with biases
     best     the lowest loss found for the same budget: 1,536,000 training characters, a context of
              64 and at most 825,000 parameters. Chosen on the end of the training split of tiny
              Shakespeare (--hold-out), one choice at a time; scripts/guides/results.md has the trials */
static const struct option_choice recipes[] = {
    {"nanogpt", .sets = ""},
    {"best", .sets = "preset=llama placement=peri qk-norm=on ffn-norm=on n-layer=7 n-embd=96 "
                     "init-std=0.06 init-embd-std=0.08 optimizer=muon muon-steps=4 "
                     "learning-rate=5e-3 muon-lr=2.5e-3 schedule=linear min-lr=0 grad-clip=0 "
                     "batch-size=6 max-iters=4000"},
    {0},
};

static struct option_choice preset_choice(int64_t i) {
    return presets[i];
}

static struct option_choice recipe_choice(int64_t i) {
    return recipes[i];
}

/* The names of an option that takes a norm: these, then the kinds. */
#define OR_NORM(...) NAMES(__VA_ARGS__), .choice = norm_choice, .add = formula_add

/* Of a norm inside a sub-layer. "off" leaves it to the placement, so "auto" means the same. */
struct option_choice config_inner_norm(int64_t i) {
    static const struct option_choice words[] = {
        [INNER_NORM_OFF] = {.name = "off", .full_name = "auto"}, [INNER_NORM_ON] = {.name = "on"}};
    return i < INNER_NORM_KINDS ? words[i] : norm_choice(i - INNER_NORM_KINDS);
}

#define INNER_NORM .choice = config_inner_norm, .add = formula_add

const struct option config_model_rows[] = {
    {"data", OPTION_HEADING, .scope = OPTION_OF_RUN, .help = "Data"},
    {"corpus", OPTION_TEXT, AT(corpus), .role = OPTION_OPERAND, .metavar = "FILE",
     .scope = OPTION_FREE,
     .help = "training text: a UTF-8 file, or - for standard input; the name alone will do, "
             "without --corpus=. By default the built-in grammar writes a text. random draws "
             "characters at random, new ones for each batch, so that only a model that sees later "
             "characters can predict them"},
    {"level", OPTION_CHOICE, AT(level), "char", NAMES([LEVEL_CHAR] = "char", [LEVEL_BYTE] = "byte"),
     .scope = OPTION_OF_MODEL, .help = "what a token is: a Unicode code point (char) or a byte"},
    {"val-fraction", OPTION_REAL, AT(val_fraction), "0.1", RANGE(0, 1),
     .needs = {&needs_text, &needs_split},
     .help = "fraction of the text to validate on: its end, or with --items a random subset, which "
             "is the same for every seed"},
    {"hold-out", OPTION_REAL, AT(hold_out), "0", RANGE(0, 1), .needs = {&needs_text, &needs_split},
     .help = "validate on this fraction of the training split instead, on its end or with --items "
             "on a random subset, so that tuning never reads the validation split (0: on the "
             "validation split)"},
    {"items", OPTION_SWITCH, AT(items), "off", .scope = OPTION_OF_MODEL,
     .help = "train on each line, such as a name, as a sequence of its own (an item). The model "
             "also learns to predict the newline at its end; blank lines are skipped, and items "
             "longer than --block-size are cut"},
    {"pad-to", OPTION_CHOICE, AT(pad_to), "longest",
     NAMES([PAD_TO_LONGEST] = "longest", [PAD_TO_BLOCK] = "block"), .needs = {&needs_items},
     .help = "pad each batch of items to its longest item, or to --block-size (block)"},
    {"pad-stats", OPTION_CHOICE, AT(model.pad_stats), "mask",
     NAMES([PAD_STATS_MASK] = "mask", [PAD_STATS_INCLUDE] = "include"), .needs = {&needs_items},
     .help =
         "whether batch statistics, as of bn, leave padding out (mask) or include it, and running "
         "statistics with them"},
    {"local-stats", OPTION_SWITCH, AT(model.local_stats), "off",
     .help = "compute batch statistics, as of bn, in each MPI process by itself, as PyTorch's "
             "BatchNorm does without SyncBatchNorm; only with mpirun"},
    {"bucket", OPTION_SWITCH, AT(bucket), "off", .needs = {&needs_items},
     .help = "put items of similar length into the same batch, which then needs less padding"},
    {"grammar-chars", OPTION_INT, AT(grammar_chars), "1000000", RANGE(1, COUNT_MAX),
     .needs = {&needs_grammar}, .help = "number of characters that the built-in grammar writes"},
    {"random-chars", OPTION_INT, AT(random_chars), "64", RANGE(2, 1000), .needs = {&needs_random},
     .help = "number of different characters in --corpus=random"},
    {"grammar-seed", OPTION_INT, AT(grammar_seed), "1", RANGE(0, 0x1p53), .needs = {&needs_grammar},
     .help = "random seed of the built-in grammar"},

    {"model", OPTION_HEADING, .scope = OPTION_OF_MODEL, .help = "Model"},
    {"recipe", OPTION_CHOICE, AT(recipe), "nanogpt", .choice = recipe_choice,
     .scope = OPTION_OF_CALL, .watching = true, .basic = true,
     .help = "training recipe; nanogpt stands for the defaults, best for the options with the "
             "lowest loss that we know after the same number of training characters (1536000). "
             "Other options override both"},
    {"preset", OPTION_CHOICE, AT(preset), "none", .choice = preset_choice, .scope = OPTION_OF_CALL,
     .watching = true,
     .help = "use the norm, placement, position encoding, activation function, biases and output "
             "head of a well-known model; other options override them"},
    {"n-layer", OPTION_INT, AT(model.n_layer), "4", RANGE(1, 10000), .basic = true,
     .help = "number of layers"},
    {"n-head", OPTION_INT, AT(model.n_head), "4", RANGE(1, 1000000),
     .help = "number of attention heads"},
    {"n-kv-head", OPTION_INT, AT(model.n_kv_head), "auto", RANGE(1, 1000000),
     .automatic = {"n-head"},
     .help = "number of key/value heads, for grouped-query attention (auto: --n-head)"},
    {"n-embd", OPTION_INT, AT(model.n_embd), "128", RANGE(1, 1000000), .basic = true,
     .help = "number of channels"},
    {"block-size", OPTION_INT, AT(model.block_size), "64", RANGE(1, COUNT_MAX), .basic = true,
     .help = "context length in characters"},
    {"position", OPTION_CHOICE, AT(model.position), "learned",
     NAMES([POSITION_LEARNED] = "learned", [POSITION_ROPE] = "rope",
           [POSITION_SINUSOIDAL] = "sinusoidal", [POSITION_NONE] = "none"),
     .help = "how the model knows positions: from learned embeddings, rotary queries and keys "
             "(rope), fixed sines and cosines with the standard deviation of the initial "
             "embeddings (sinusoidal), or not at all (none)"},
    {"rope-theta", OPTION_REAL, AT(model.rope_theta), "10000", RANGE(1, 1e12),
     .needs = {&needs_rope}, .help = "base theta of the frequencies of rotary positions"},
    {"init", OPTION_CHOICE, AT(model.init), "gpt2", .choice = init_choice, .scope = OPTION_OF_RUN,
     .help = "standard deviation of the initial weight matrices. gpt2: --init-std. xavier: sqrt(2 "
             "/ (inputs + outputs)), as in papers on placement; there queries, keys and values "
             "count as n-embd outputs each, whatever n-kv-head is, head and token embeddings start "
             "with 1 / sqrt(n-embd), and learned positions with 1. width: 1 / sqrt(inputs). Except "
             "with xavier, matrices that write to the residual stream start sqrt(2 n-layer) times "
             "smaller, unless the placement has a factor of its own (deepnorm, tfixup, dsinit)"},
    {"init-std", OPTION_REAL, AT(model.init_std), "0.02", RANGE(1e-6, 1e3),
     .needs = {&needs_init_std}, .scope = OPTION_OF_RUN,
     .help = "standard deviation of the initial weight matrices"},
    {"init-embd-std", OPTION_REAL, AT(model.init_embd_std), "auto", RANGE(1e-6, 1e3),
     .needs = {&needs_init_embd}, .scope = OPTION_OF_RUN,
     .help = "standard deviation of the initial token and position embeddings (auto: --init-std, "
             "or 1 / sqrt(n-embd) with --init=width)"},
    {"init-branch-scale", OPTION_REAL, AT(model.init_branch_scale), "1", RANGE(0, 1e6),
     .scope = OPTION_OF_RUN,
     .help = "multiply by X the initial weights that write to the residual stream (c_proj of "
             "attention and MLP), and so what each branch adds at the start"},
    {"outlier-channel", OPTION_REAL, AT(model.outlier_channel), "1", RANGE(0, 1e6),
     .needs = {&needs_positions}, .scope = OPTION_OF_RUN,
     .help = "multiply channel 0 of the initial position embedding by X: an artificial outlier, to "
             "see which norm it harms"},
    {"outlier-position", OPTION_REAL, AT(model.outlier_position), "1", RANGE(0, 1e6),
     .needs = {&needs_positions}, .scope = OPTION_OF_RUN,
     .help = "multiply the initial position embedding by X at the position in the middle of the "
             "context (--block-size / 2): an artificial outlier, to see which norm it harms"},
    {"embd-scale", OPTION_CHOICE, AT(model.embd_scale), "none",
     NAMES([EMBD_SCALE_NONE] = "none", [EMBD_SCALE_LEARNED] = "learned"),
     .help = "multiply token and position embeddings by a learned number (learned), as the authors "
             "of dyt and derf do in language models, or by nothing (none)"},
    {"embd-scale-start", OPTION_REAL, AT(model.embd_scale_start), "auto", RANGE(1e-6, 1e6),
     .needs = {&needs_embd_scale}, .scope = OPTION_OF_RUN,
     .help = "initial value of the learned embedding scale (auto: sqrt(n-embd))"},
    {"act", OPTION_CHOICE, AT(model.activation), "gelu", .choice = activation_choice,
     .help = "activation function of the MLP. gelu is exact (erf), gelu-tanh is GPT-2's "
             "approximation. Those with glu in their name are gated: a second set of hidden units "
             "multiplies the activation"},
    {"ffn-width", OPTION_INT, AT(model.ffn_width), "auto", RANGE(1, 1e6),
     .help = "number of hidden units of the MLP (auto: 4 n-embd, or for gated activations 8/3 "
             "n-embd rounded up to a multiple of 32)"},
    {"head", OPTION_CHOICE, AT(model.head), "tied",
     NAMES([HEAD_TIED] = "tied", [HEAD_UNTIED] = "untied"),
     .help = "let the output head share the token embedding's weights (tied), or learn its own "
             "(untied)"},
    {"attn-gate", OPTION_CHOICE, AT(model.attn_gate), "none",
     NAMES([ATTN_GATE_NONE] = "none", [ATTN_GATE_HEAD] = "head", [ATTN_GATE_ELEMENT] = "element"),
     .help = "gate attention's output by sigmoids of a linear function of its input, with one gate "
             "per head, one per channel (element), or none"},
    {"attn-softcap", OPTION_REAL, AT(model.attn_softcap), "0", RANGE(0, 1e6),
     .help = "cap the attention scores softly at X: they become X tanh(score / X) (0: no cap)"},
    {"logit-softcap", OPTION_REAL, AT(model.logit_softcap), "0", RANGE(0, 1e6),
     .help = "cap the output logits softly at X: they become X tanh(logit / X) (0: no cap)"},
    {"dropout", OPTION_REAL, AT(model.dropout), "0", RANGE(0, 0.99), .scope = OPTION_OF_RUN,
     .needs = {&needs_training}, .help = "dropout probability"},
    {"bias", OPTION_SWITCH, AT(model.bias), "on",
     .help = "learn biases in linear layers, and beta in norms"},
    {"norm-bias", OPTION_CHOICE, AT(model.norm_bias), "auto",
     NAMES([NORM_BIAS_AUTO] = "auto", [NORM_BIAS_ON] = "on", [NORM_BIAS_OFF] = "off"),
     .needs = {&needs_beta, &needs_affine},
     .help = "learn beta in norms that have one (auto: as --bias says)"},

    {"norm", OPTION_HEADING, .scope = OPTION_OF_MODEL, .help = "Norms"},
    {"norm", OPTION_CHOICE, AT(model.norm), "ln", .choice = norm_choice, .add = formula_add,
     .metavar = "NORM", .basic = true, .needs = {&needs_norm},
     .help = "norm, see --help=norm, or a formula; as in --norm='gamma * x / rms_c(x)'. Other "
             "options override it in parts of the model. In training, "
             "a norm with batch statistics lets a token see later ones, because they are in its "
             "statistics"},
    {"norm-attn", OPTION_CHOICE, AT(model.site_norm[SITE_ATTENTION]), "auto", OR_NORM("auto"),
     .metavar = "auto|NORM", .needs = {&needs_attn_norms},
     .help = "norm of the attention sub-layers (auto: --norm)"},
    {"norm-ffn", OPTION_CHOICE, AT(model.site_norm[SITE_FFN]), "auto", OR_NORM("auto"),
     .metavar = "auto|NORM", .needs = {&needs_ffn_norms},
     .help = "norm of the MLP sub-layers (auto: --norm)"},
    {"norm-final", OPTION_CHOICE, AT(model.site_norm[SITE_FINAL]), "auto", OR_NORM("auto"),
     .metavar = "auto|NORM", .needs = {&needs_end_norms},
     .help = "which norm stands before the output layer, and after the embedding if the placement "
             "has one there (auto: --norm); --final-norm says whether there is one before the "
             "output layer"},
    {"qk-norm", OPTION_CHOICE, AT(model.qk_norm), "off", INNER_NORM, .metavar = "on|off|NORM",
     .help =
         "normalize queries and keys, by the norm of the attention sub-layers (on) or by another "
         "one; off adds no norm but keeps that of the placement, none removes that too"},
    {"v-norm", OPTION_CHOICE, AT(model.v_norm), "off", INNER_NORM, .metavar = "on|off|NORM",
     .help = "normalize values before attention, by the norm of the attention sub-layers (on) or "
             "by another one; off adds no norm but keeps that of the placement, none removes that "
             "too"},
    {"qk-norm-over", OPTION_CHOICE, AT(model.qk_norm_over), "head",
     NAMES([EXTENT_HEAD] = "head", [EXTENT_WIDTH] = "width"), .needs = {&needs_qkv_norms},
     .help = "whether --qk-norm and --v-norm normalize the channels of each head by themselves, or "
             "all channels of a token together (width)"},
    {"qk-scale", OPTION_CHOICE, AT(model.qk_scale), "fixed",
     NAMES([QK_SCALE_FIXED] = "fixed", [QK_SCALE_LEARNED] = "learned"),
     .help = "scale of the attention scores: 1 / sqrt(head size) (fixed), or one learned number "
             "per head (learned)"},
    {"qk-scale-start", OPTION_REAL, AT(model.qk_scale_start), "auto", RANGE(1e-6, 1e6),
     .needs = {&needs_qk_scale}, .scope = OPTION_OF_RUN,
     .help = "initial value of the learned attention scale (auto: 1 / sqrt(head size), or with "
             "--qk-norm=l2, log2(T^2 - T), where T is --block-size)"},
    {"attn-norm", OPTION_CHOICE, AT(model.attn_norm), "off", INNER_NORM, .metavar = "on|off|NORM",
     .help = "normalize attention's output before its projection, by the norm of the attention "
             "sub-layers (on) or by another one; with --ffn-norm this is the sub-LN of Wang et al. "
             "2022 (Magneto, arXiv:2210.06423)"},
    {"ffn-norm", OPTION_CHOICE, AT(model.ffn_norm), "off", INNER_NORM, .metavar = "on|off|NORM",
     .help = "normalize the MLP's hidden units after the activation function, by the norm of the "
             "MLP sub-layers (on) or by another one; off and none leave them as they are"},
    {"affine", OPTION_SWITCH, AT(model.norms.affine), "on", .needs = {&needs_gamma_or_beta},
     .help = "learn gamma and beta in norms, or keep their initial values (off)"},
    {.kind = OPTION_END},
};

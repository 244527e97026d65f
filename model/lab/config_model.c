/* Rows of the table of options: data, the model, its norms (config.c). */
#include "model/lab/config.h"
#include "model/lab/config_rows.h"
#include "model/lab/preset.h"

static const char *norm_choice(int64_t i) {
    return norm_kinds[i] ? norm_kinds[i]->name : NULL;
}

static const char *norm_synonym(int64_t i) {
    return norm_kinds[i]->full_name;
}

static const char *site_norm_choice(int64_t i) { // model_config.site_norm
    return i ? norm_choice(i - 1) : "auto";
}

static const char *site_norm_synonym(int64_t i) {
    return i ? norm_synonym(i - 1) : NULL;
}

static const char *inner_norm_choice(int64_t i) { // model_config.qk_norm, v_norm, ffn_norm
    static const char *const names[] = {[INNER_NORM_OFF] = "off", [INNER_NORM_ON] = "on"};
    return i < INNER_NORM_KINDS ? names[i] : norm_choice(i - INNER_NORM_KINDS);
}

static const char *inner_norm_synonym(int64_t i) {
    return i < INNER_NORM_KINDS ? NULL : norm_synonym(i - INNER_NORM_KINDS);
}

static const char *init_choice(int64_t i) {
    return initial_rules[i].name;
}

static const char *activation_choice(int64_t i) {
    return activations[i].name;
}

#define NORM(prefix)                                                                               \
    .choice = prefix##_choice, .synonym = prefix##_synonym, .scope = OPTION_OF_MODEL

const struct option config_model_rows[] = {
    {"data", OPTION_HEADING, .help = "Data"},
    {"corpus", OPTION_OPERAND, AT(corpus), .metavar = "FILE", .scope = OPTION_FREE,
     .help = "UTF-8 text; - is standard input (--corpus= may be left out); without it the text is "
             "made by the built-in grammar; random: characters sampled again for each batch, "
             "which only a model that sees the future can predict"},
    {"level", OPTION_CHOICE, AT(level), "char", NAMES([LEVEL_CHAR] = "char", [LEVEL_BYTE] = "byte"),
     .scope = OPTION_OF_MODEL, .help = "what a character is: a code point or a byte"},
    {"val-fraction", OPTION_REAL, AT(val_fraction), "0.1", RANGE(0, 1), .needs = "!corpus=random",
     .help = "fraction of the text, at its end, for validation; of items, a random fraction, the "
             "same for every seed"},
    {"hold-out", OPTION_REAL, AT(hold_out), "0", RANGE(0, 1), .needs = "!corpus=random",
     .help = "for tuning: train without the last fraction X of the training split and validate on "
             "it, so that the validation split stays unread; with --items, a random subset"},
    {"items", OPTION_SWITCH, AT(items), "off", .scope = OPTION_OF_MODEL,
     .help =
         "each line is an item of its own, such as a name: a sequence from its start to a "
         "learned end marker, its newline. Blank lines are skipped; items longer than a block are "
         "cut"},
    {"pad-to", OPTION_CHOICE, AT(pad_to), "longest",
     NAMES([PAD_TO_LONGEST] = "longest", [PAD_TO_BLOCK] = "block"),
     .help = "pad a batch of items to the longest of them, or to a block"},
    {"pad-stats", OPTION_CHOICE, AT(model.pad_stats), "mask",
     NAMES([PAD_STATS_MASK] = "mask", [PAD_STATS_INCLUDE] = "include"),
     .help = "whether norms that pool over tokens leave pads out of their statistics, running "
             "statistics too, or include them"},
    {"local-stats", OPTION_SWITCH, AT(model.local_stats), "off",
     .help = "with mpirun: norms that pool over tokens see their own rank's part of a batch only"},
    {"bucket", OPTION_SWITCH, AT(bucket), "off",
     .help = "batches of items of similar length: fewer pads"},
    {"grammar-chars", OPTION_INT, AT(grammar_chars), "1000000", RANGE(1, COUNT_MAX),
     .needs = "!corpus", .help = "length of the built-in grammar's text"},
    {"random-chars", OPTION_INT, AT(random_chars), "64", RANGE(2, 1000), .needs = "corpus=random",
     .help = "number of different characters of --corpus=random"},
    {"grammar-seed", OPTION_INT, AT(grammar_seed), "1", RANGE(0, 0x1p53), .needs = "!corpus",
     .help = "seed of the built-in grammar's text"},

    {"model", OPTION_HEADING, .help = "Model"},
    {"recipe", OPTION_CHOICE, AT(recipe), "nanogpt", .choice = recipe_name, .sets = recipe_settings,
     .scope = OPTION_OF_CALL, .basic = true,
     .help =
         "training recipe; nanogpt: the defaults; best: the block, initial weights and learning "
         "rates with the lowest loss known for the same number of training characters. Other "
         "options override it"},
    {"preset", OPTION_CHOICE, AT(preset), "none", .choice = preset_name, .sets = preset_settings,
     .scope = OPTION_OF_CALL,
     .help = "the block of a well-known model: norm, placement, positions, activation, biases and "
             "head at once. Other options override it"},
    {"n-layer", OPTION_INT, AT(model.n_layer), "4", RANGE(1, 10000), .scope = OPTION_OF_MODEL,
     .basic = true, .help = "number of layers"},
    {"n-head", OPTION_INT, AT(model.n_head), "4", RANGE(1, 1000000), .scope = OPTION_OF_MODEL,
     .help = "number of attention heads"},
    {"n-kv-head", OPTION_INT, AT(model.n_kv_head), "auto", RANGE(1, 1000000),
     .scope = OPTION_OF_MODEL,
     .help = "heads of keys and values, each shared by as many queries as it takes (grouped-query "
             "attention); auto: --n-head"},
    {"n-embd", OPTION_INT, AT(model.n_embd), "128", RANGE(1, 1000000), .scope = OPTION_OF_MODEL,
     .basic = true, .help = "number of channels"},
    {"block-size", OPTION_INT, AT(model.block_size), "64", RANGE(1, COUNT_MAX),
     .scope = OPTION_OF_MODEL, .basic = true, .help = "context length in characters"},
    {"position", OPTION_CHOICE, AT(model.position), "learned",
     NAMES([POSITION_LEARNED] = "learned", [POSITION_ROPE] = "rope",
           [POSITION_SINUSOIDAL] = "sinusoidal", [POSITION_NONE] = "none"),
     .scope = OPTION_OF_MODEL,
     .help = "how positions are known: by learned embeddings, by rotating queries and keys, by "
             "fixed sines as large as learned embeddings at first, or by the causal mask alone"},
    {"rope-theta", OPTION_REAL, AT(model.rope_theta), "10000", RANGE(1, 1e12),
     .needs = "position=rope", .scope = OPTION_OF_MODEL,
     .help = "base of the wavelengths of --position=rope"},
    {"init", OPTION_CHOICE, AT(model.init), "gpt2", .choice = init_choice,
     .help = "initial weights; gpt2: all matrices have the standard deviation --init-std; xavier: "
             "sqrt(2 / (inputs + outputs)), as papers on placements assume; width: 1 / "
             "sqrt(inputs). gpt2 and width divide matrices into the residual stream by sqrt(2 "
             "n-layer)"},
    {"init-std", OPTION_REAL, AT(model.init_std), "0.02", RANGE(1e-6, 1e3), .needs = "init=gpt2",
     .help = "standard deviation of the initial matrices"},
    {"init-embd-std", OPTION_REAL, AT(model.init_embd_std), "auto", RANGE(1e-6, 1e3),
     .needs = "!init=xavier",
     .help = "standard deviation of the initial token and position embeddings; auto: --init-std, "
             "with --init=width 1 / sqrt(n-embd)"},
    {"embd-scale", OPTION_CHOICE, AT(model.embd_scale), "none",
     NAMES([EMBD_SCALE_NONE] = "none", [EMBD_SCALE_LEARNED] = "learned"), .scope = OPTION_OF_MODEL,
     .help = "multiply token and position embeddings by one learned number, as language models "
             "with --norm=dyt or derf do"},
    {"embd-scale-start", OPTION_REAL, AT(model.embd_scale_start), "auto", RANGE(1e-6, 1e6),
     .needs = "embd-scale=learned",
     .help = "initial value of the learned embedding scale; auto: sqrt(n-embd)"},
    {"act", OPTION_CHOICE, AT(model.activation), "gelu", .choice = activation_choice,
     .scope = OPTION_OF_MODEL,
     .help =
         "the MLP's nonlinearity; gelu is the exact one (erf), gelu-tanh is GPT-2's; those that "
         "end in -glu multiply it by a second half of hidden units"},
    {"ffn-width", OPTION_INT, AT(model.ffn_width), "auto", RANGE(1, 1e6), .scope = OPTION_OF_MODEL,
     .help = "hidden units of the MLP; auto: 4 n-embd, or with a gate 8/3 n-embd, rounded up to a "
             "multiple of 32"},
    {"head", OPTION_CHOICE, AT(model.head), "tied",
     NAMES([HEAD_TIED] = "tied", [HEAD_UNTIED] = "untied"), .scope = OPTION_OF_MODEL,
     .help = "whether the head's weight is that of the character embedding"},
    {"attn-softcap", OPTION_REAL, AT(model.attn_softcap), "0", RANGE(0, 1e6),
     .scope = OPTION_OF_MODEL, .help = "limit c of attention's scores, c tanh(score / c); 0: none"},
    {"logit-softcap", OPTION_REAL, AT(model.logit_softcap), "0", RANGE(0, 1e6),
     .scope = OPTION_OF_MODEL, .help = "the same for the logits of characters"},
    {"dropout", OPTION_REAL, AT(model.dropout), "0", RANGE(0, 0.99), .help = "dropout probability"},
    {"bias", OPTION_SWITCH, AT(model.bias), "on", .scope = OPTION_OF_MODEL,
     .help = "biases in linear layers and norms (beta)"},

    {"norm", OPTION_HEADING, .help = "Norms"},
    {"norm", OPTION_CHOICE, AT(model.norm), "ln", NORM(norm), .metavar = "NORM", .basic = true,
     .help =
         "normalization, see --help=norm; norms with the option pad-stats pool over tokens, so in "
         "training they are not causal"},
    {"norm-attn", OPTION_CHOICE, AT(model.site_norm[SITE_ATTENTION]), "auto", NORM(site_norm),
     .metavar = "auto|NORM", .help = "norm of the attention sub-layers; auto: --norm"},
    {"norm-ffn", OPTION_CHOICE, AT(model.site_norm[SITE_FFN]), "auto", NORM(site_norm),
     .metavar = "auto|NORM", .help = "norm of the MLP sub-layers; auto: --norm"},
    {"norm-final", OPTION_CHOICE, AT(model.site_norm[SITE_FINAL]), "auto", NORM(site_norm),
     .metavar = "auto|NORM",
     .help = "norm before the head (and after the embedding); auto: --norm"},
    {"qk-norm", OPTION_CHOICE, AT(model.qk_norm), "off", NORM(inner_norm), .metavar = "on|off|NORM",
     .help =
         "normalize queries and keys; on: by the norm of the attention sub-layers; off: only if "
         "the placement does, none: not even then"},
    {"v-norm", OPTION_CHOICE, AT(model.v_norm), "off", NORM(inner_norm), .metavar = "on|off|NORM",
     .help = "normalize values, before attention, likewise"},
    {"qk-norm-over", OPTION_CHOICE, AT(model.qk_norm_over), "head",
     NAMES([EXTENT_HEAD] = "head", [EXTENT_WIDTH] = "width"), .scope = OPTION_OF_MODEL,
     .help = "what --qk-norm and --v-norm normalize: each head by itself, or all channels of a "
             "token together"},
    {"qk-scale", OPTION_CHOICE, AT(model.qk_scale), "fixed",
     NAMES([QK_SCALE_FIXED] = "fixed", [QK_SCALE_LEARNED] = "learned"), .scope = OPTION_OF_MODEL,
     .help = "what the dot products of queries and keys are multiplied by: 1 / sqrt(head size), or "
             "a learned number for each head (an inverse temperature)"},
    {"qk-scale-start", OPTION_REAL, AT(model.qk_scale_start), "auto", RANGE(1e-6, 1e6),
     .needs = "qk-scale=learned",
     .help = "where the learned scale starts; auto: with --qk-norm=l2 log2(T^2 - T), T the "
             "--block-size, else 1 / sqrt(head size)"},
    {"ffn-norm", OPTION_CHOICE, AT(model.ffn_norm), "off", NORM(inner_norm),
     .metavar = "on|off|NORM",
     .help = "a norm after the MLP's nonlinearity; on: that of the MLP sub-layers"},
    {"affine", OPTION_SWITCH, AT(model.norms.affine), "on", .scope = OPTION_OF_MODEL,
     .help = "learn gamma and beta in norms"},
    {.kind = OPTION_END},
};

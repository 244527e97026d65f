/* The table of options. Each is declared once: here, or in the file of the norm that has it (see
   model/norm/option.h). Defaults are nanoGPT's recipe for tiny Shakespeare on a CPU, but with
   biases. */
#include "model/lab/config.h"
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

static const char *placement_choice(int64_t i) {
    return placements[i].name;
}

static const char *placement_synonym(int64_t i) {
    return placements[i].full_name;
}

static const char *site_placement_choice(int64_t i) { // model_config.site_placement
    return i ? placement_choice(i - 1) : "auto";
}

static const char *site_placement_synonym(int64_t i) {
    return i ? placement_synonym(i - 1) : NULL;
}

static const char *activation_choice(int64_t i) {
    return activations[i].name;
}

static const char *stats_choice(int64_t i) { // enum statistics_source, then all of them
    return i < STATISTICS_SOURCES ? statistics_name[i] : i == STATISTICS_SOURCES ? "all" : NULL;
}

#define AT(member)       .offset = offsetof(struct config, member)
#define RANGE(low, high) .min = low, .max = high

#define NORM(prefix)                                                                               \
    .choice = prefix##_choice, .synonym = prefix##_synonym, .scope = OPTION_OF_MODEL

/* The names of a CHOICE, an entry for each value of its enum in the enum's order. */
#define NAMES(...)                                                                                 \
    .names = (const char *const[]) {                                                               \
        __VA_ARGS__, NULL                                                                          \
    }

enum { COUNT_MAX = MAX_ITERS }; // of iterations, characters and other counts

static const struct option rows_before_norms[] = {
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
    {"preset", OPTION_CHOICE, AT(preset), "none", .choice = preset_name, .sets = preset_settings,
     .scope = OPTION_OF_CALL,
     .help = "the block of a well-known model: norm, placement, positions, activation, biases and "
             "head at once. Other options override it"},
    {"n-layer", OPTION_INT, AT(model.n_layer), "4", RANGE(1, 10000), .scope = OPTION_OF_MODEL,
     .basic = true, .help = "number of layers"},
    {"n-head", OPTION_INT, AT(model.n_head), "4", RANGE(1, 1000000), .scope = OPTION_OF_MODEL,
     .basic = true, .help = "number of attention heads"},
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
    {"init", OPTION_CHOICE, AT(model.init), "gpt2",
     NAMES([INIT_GPT2] = "gpt2", [INIT_XAVIER] = "xavier"),
     .help =
         "initial weights: GPT-2's, small so that a sub-layer adds little at first, or Xavier's, "
         "with a stream of unit variance if positions are added, as papers on placements assume"},
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
};

/* The norms' own options come here: norm_row() makes their rows. */

static const struct option rows_after_norms[] = {
    {"placement", OPTION_HEADING, .help = "Placement of the norms"},
    {"placement", OPTION_CHOICE, AT(model.placement), "pre", .choice = placement_choice,
     .synonym = placement_synonym, .scope = OPTION_OF_MODEL, .metavar = "PLACEMENT",
     .help = "where the norms are"},
    {"preln", OPTION_ALIAS, .start = "placement=pre", .basic = true,
     .help = "normalize before each sub-layer; short for --placement=pre"},
    {"postln", OPTION_ALIAS, .start = "placement=post", .basic = true,
     .help = "normalize after each addition; short for --placement=post"},
    {"placement-attn", OPTION_CHOICE, AT(model.site_placement[SITE_ATTENTION]), "auto",
     .choice = site_placement_choice, .synonym = site_placement_synonym, .scope = OPTION_OF_MODEL,
     .metavar = "auto|PLACEMENT",
     .help = "that of attention, with its factors and initial weights; auto: --placement, which "
             "decides about other norms too. Those with two streams, and ngpt, cannot be mixed"},
    {"placement-ffn", OPTION_CHOICE, AT(model.site_placement[SITE_FFN]), "auto",
     .choice = site_placement_choice, .synonym = site_placement_synonym, .scope = OPTION_OF_MODEL,
     .metavar = "auto|PLACEMENT", .help = "likewise of the MLP sub-layers"},
    {"final-norm", OPTION_CHOICE, AT(model.final_norm), "auto",
     NAMES([FINAL_NORM_AUTO] = "auto", [FINAL_NORM_ON] = "on", [FINAL_NORM_OFF] = "off"),
     .scope = OPTION_OF_MODEL, .help = "a norm before the head; auto: as the placement says"},
    {"mix-fraction", OPTION_REAL, AT(model.mix_fraction), "0.25", RANGE(0, 1),
     .scope = OPTION_OF_MODEL, .help = "fraction of the layers, the first ones, that are post"},
    {"lambda-start", OPTION_REAL, AT(model.lambda_start), "auto", RANGE(0, 1e3),
     .help = "initial value of the learned factor of a sub-layer; auto: as the placement says"},

    {"training", OPTION_HEADING, .help = "Training"},
    {"start", OPTION_TEXT, AT(start), .metavar = "DIR|FILE",
     .help = "start from the weights of a run or of a safetensors file, and from its running "
             "statistics and vocabulary if it has them, instead of random weights; its shapes must "
             "be those of the model. Adam starts anew"},
    {"max-iters", OPTION_INT, AT(max_iters), "auto", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .basic = true, .help = "number of updates; auto: 2000, or what --max-tokens asks for"},
    {"max-tokens", OPTION_INT, AT(max_tokens), "auto", RANGE(0, 1e15), .scope = OPTION_FREE,
     .help = "instead of --max-iters: the fewest updates that train on at least N characters (with "
             "--items, ends of items count too). config.ini keeps the number of updates"},
    {"max-seconds", OPTION_REAL, AT(max_seconds), "0", RANGE(0, 1e9), .scope = OPTION_FREE,
     .help = "end the run after X seconds; 0: no limit"},
    {"stop-at", OPTION_REAL, AT(stop_at), "0", RANGE(0, 1e9), .scope = OPTION_FREE,
     .help = "end a run at the first evaluation whose loss is at most X; 0: no limit"},
    {"batch-size", OPTION_INT, AT(batch_size), "12", RANGE(1, COUNT_MAX), .basic = true,
     .help = "sequences in a batch"},
    {"grad-accum", OPTION_INT, AT(grad_accum), "1", RANGE(1, 1000000),
     .help = "number of batches whose gradients make one update"},
    {"batch-parts", OPTION_INT, AT(model.batch_parts), "8", RANGE(1, PARTS_MAX),
     .help = "a batch is cut into at most so many parts, which ranks share (mpirun); sums over "
             "parts are a tree, so another number changes last bits"},
    {"micro-batch-tokens", OPTION_INT, AT(model.micro_batch_tokens), "2048", RANGE(0, COUNT_MAX),
     .scope = OPTION_FREE,
     .help = "tokens that go through the model at once; fewer need less memory. 0: the batch, as "
             "always with probes and norms that pool over sequences. Results stay the same"},
    {"learning-rate", OPTION_REAL, AT(schedule.rate), "1e-3", RANGE(0, 1000), .basic = true,
     .help = "learning rate after warm-up; --lr for short"},
    {"lr", OPTION_ALIAS, .start = "learning-rate", .metavar = "X", .help = "as --learning-rate"},
    {"min-lr", OPTION_REAL, AT(schedule.rate_min), "auto", RANGE(0, 1000),
     .needs = "!schedule=constant", .help = "rate after decay; auto: a tenth of --learning-rate"},
    {"warmup-iters", OPTION_INT, AT(schedule.warmup), "100", RANGE(0, COUNT_MAX),
     .help = "updates of linear warm-up"},
    {"lr-decay-iters", OPTION_INT, AT(schedule.decay), "auto", RANGE(0, COUNT_MAX),
     .needs = "!schedule=constant", .help = "the update at which decay ends; auto: --max-iters"},
    {"schedule", OPTION_CHOICE, AT(schedule.kind), "cosine",
     NAMES([SCHEDULE_COSINE] = "cosine", [SCHEDULE_LINEAR] = "linear",
           [SCHEDULE_CONSTANT] = "constant"),
     .help = "how the rate decays"},
    {"beta1", OPTION_REAL, AT(adam.beta1), "0.9", RANGE(0, 0.999999), .help = "Adam's beta1"},
    {"beta2", OPTION_REAL, AT(adam.beta2), "0.99", RANGE(0, 0.999999), .help = "Adam's beta2"},
    {"adam-eps", OPTION_REAL, AT(adam.eps), "1e-8", RANGE(1e-20, 1), .help = "Adam's epsilon"},
    {"weight-decay", OPTION_REAL, AT(adam.weight_decay), "0.1", RANGE(0, 1000),
     .help = "decoupled weight decay of matrices"},
    {"decay-gamma", OPTION_CHOICE, AT(model.norms.decay_gamma), "off",
     NAMES([NORM_DECAY_OFF] = "off", [NORM_DECAY_ZERO] = "zero", [NORM_DECAY_ONE] = "one"),
     .help = "weight decay of the norms' gamma too: towards 0, or towards 1 (in scale sqrt(C)), as "
             "if gamma - 1 were learned"},
    {"z-loss", OPTION_REAL, AT(model.z_loss), "0", RANGE(0, 1000),
     .help = "weight of the squared logarithm of the softmax's sum, which the gradient then "
             "includes; losses are logged without it"},
    {"grad-clip", OPTION_REAL, AT(adam.grad_clip), "1", RANGE(0, 1e9),
     .help = "maximum norm of the gradient; 0: no limit"},
    {"seed", OPTION_INT, AT(seed), "1", RANGE(0, 0x1p53), .basic = true,
     .help = "random seed; of weights, batches, dropout and the sample"},
    {"threads", OPTION_INT, AT(threads), "auto", RANGE(1, 1024), .scope = OPTION_OF_CALL,
     .help = "threads; auto: one for each core (OMP_NUM_THREADS), fewer where the model is too "
             "small for them. The result is the same for any number"},

    {"watching", OPTION_HEADING, .help = "Watching"},
    {"out", OPTION_TEXT, AT(out), .metavar = "DIR", .scope = OPTION_OF_CALL, .basic = true,
     .help = "the run's folder; without it runs/NORM-PLACEMENT-sSEED"},
    {"force", OPTION_FLAG, AT(force), .scope = OPTION_OF_CALL, .help = "replace a run in --out"},
    {"log-interval", OPTION_INT, AT(log_interval), "10", RANGE(1, COUNT_MAX), .scope = OPTION_FREE,
     .help = "updates between rows of log.csv"},
    {"eval-interval", OPTION_INT, AT(eval_interval), "250", RANGE(1, COUNT_MAX),
     .scope = OPTION_FREE, .help = "updates between evaluations"},
    {"eval-iters", OPTION_INT, AT(eval_iters), "200", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .help = "maximum number of batches in an evaluation, spread evenly; 0: the whole validation "
             "part"},
    {"eval-train", OPTION_SWITCH, AT(eval_train), "off",
     .help = "each evaluation also measures the loss on a slice of the training part, as long as "
             "what it measures of the validation part: column eval_train_loss of log.csv"},
    {"probe-interval", OPTION_INT, AT(probe_interval), "0", RANGE(0, COUNT_MAX),
     .help = "updates between rows of probes.csv: statistics of the norms, gradients by layer, "
             "attention, updates by weight; 0: none"},
    {"profile", OPTION_FLAG, AT(profile), .scope = OPTION_OF_CALL,
     .help = "print at the end how much time each operation took in training"},
    {"quiet", OPTION_FLAG, AT(quiet), .scope = OPTION_OF_CALL, .help = "print nothing but errors"},

    {"keeping", OPTION_HEADING, .help = "Keeping"},
    {"config", OPTION_FILE, AT(file), .metavar = "FILE", .scope = OPTION_OF_CALL,
     .help = "options from a file such as a run's config.ini; the command line overrides it"},
    {"checkpoint-interval", OPTION_INT, AT(checkpoint_interval), "auto", RANGE(0, COUNT_MAX),
     .scope = OPTION_FREE,
     .help = "updates between checkpoints, from which --resume continues; auto: often "
             "enough that saving takes about 1 % of the time; 0: only when interrupted, or if "
             "there is one already"},
    {"keep-best", OPTION_SWITCH, AT(keep_best), "off",
     .help = "keep the model with the lowest validation loss so far in best.safetensors"},
    {"resume", OPTION_TEXT, AT(resume), .metavar = "DIR", .scope = OPTION_OF_CALL, .basic = true,
     .help = "continue the run in DIR; the result has the same bits as if it had never stopped. "
             "--max-iters, the intervals (except --probe-interval), --micro-batch-tokens and "
             "--threads may change"},

    {"using", OPTION_HEADING, .help = "Using a model"},
    {"sample", OPTION_INT, AT(sample), "500", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .help = "number of characters to write and show after training; with --items, 0 means no "
             "sample, anything else --num-items items"},
    {"temperature", OPTION_REAL, AT(sampling.temperature), "0.8", RANGE(0, 1000),
     .scope = OPTION_FREE, .help = "temperature of sampling; 0: always the likeliest character"},
    {"top-k", OPTION_INT, AT(sampling.top_k), "0", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .help = "sample from the N likeliest characters; 0: from all"},
    {"top-p", OPTION_REAL, AT(sampling.top_p), "1", RANGE(0, 1), .scope = OPTION_FREE,
     .help = "sample from the likeliest characters whose probabilities sum to X; 1: from all"},
    {"min-p", OPTION_REAL, AT(sampling.min_p), "0", RANGE(0, 1), .scope = OPTION_FREE,
     .help = "sample from characters at least X times as likely as the likeliest; 0: from all"},
    {"generate", OPTION_TEXT, AT(generate), .metavar = "DIR|FILE", .scope = OPTION_OF_CALL,
     .basic = true,
     .help = "write text with a run's model; DIR is the run's folder, FILE a safetensors file"},
    {"prompt", OPTION_TEXT, AT(prompt), .metavar = "TEXT", .scope = OPTION_OF_CALL,
     .help =
         "text that --generate continues, or with which each item starts; without it, the start "
         "of a line"},
    {"num-chars", OPTION_INT, AT(num_chars), "500", RANGE(0, COUNT_MAX), .scope = OPTION_OF_CALL,
     .help = "number of characters that --generate writes"},
    {"stop", OPTION_TEXT, AT(stop), .metavar = "TEXT", .scope = OPTION_OF_CALL,
     .needs = "items=off", .help = "--generate ends a text after it has written TEXT"},
    {"num-samples", OPTION_INT, AT(num_samples), "1", RANGE(0, COUNT_MAX), .scope = OPTION_OF_CALL,
     .needs = "items=off",
     .help = "number of texts that --generate writes, with lines of --- between them"},
    {"num-items", OPTION_INT, AT(num_items), "auto", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .help = "number of items that a model of items writes, each marked as known (in the training "
             "set) or new; auto: 20"},
    {"evaluate", OPTION_TEXT, AT(evaluate), .metavar = "DIR|FILE", .scope = OPTION_OF_CALL,
     .basic = true,
     .help = "print such a model's loss; on the whole validation part of its corpus, or on all of "
             "another corpus"},
    {"stats", OPTION_CHOICE, AT(stats), "running", .choice = stats_choice, .scope = OPTION_OF_CALL,
     .help = "with --evaluate: statistics of norms over tokens: running (from training), own (of "
             "the evaluated batch), other (of another batch), single (of each sequence alone), "
             "position (of all tokens at a position); all: a table"},
    {"leak", OPTION_FLAG, AT(leak), .scope = OPTION_OF_CALL,
     .help = "with --evaluate: how much the logits before a position change with the characters "
             "from that position on"},
    {"dump", OPTION_TEXT, AT(dump), .metavar = "FILE", .scope = OPTION_OF_CALL,
     .help = "with --evaluate: write what the model computes for the first batch to a safetensors "
             "file: inputs and outputs of the norms, queries, keys and values, the stream, logits; "
             "with --stats=own also the gradients of the loss on all that is measured"},
    {"vocabulary", OPTION_TEXT, AT(vocabulary), .metavar = "FILE", .scope = OPTION_OF_CALL,
     .help = "for a safetensors file of another program: a text with the characters of its "
             "vocabulary, such as the text it was trained on"},

    {"help", OPTION_HEADING, .help = "Help"},
    {"list-norms", OPTION_STOP, AT(list_norms), .scope = OPTION_OF_CALL,
     .help = "name, formula and source of every norm"},
    {"list-placements", OPTION_STOP, AT(list_placements), .scope = OPTION_OF_CALL,
     .help = "name, formula and source of every placement"},
    {"help", OPTION_HELP, AT(help), .metavar = "TOPIC", .letter = 'h', .scope = OPTION_OF_CALL,
     .help = "the first page, a topic, one option by its name, or all"},
    {"version", OPTION_STOP, AT(version), .scope = OPTION_OF_CALL, .help = "the version"},
    {.kind = OPTION_END},
};

enum { BEFORE = sizeof rows_before_norms / sizeof *rows_before_norms };
enum { AFTER = sizeof rows_after_norms / sizeof *rows_after_norms };

struct option config_options[BEFORE + NORM_OPTIONS_MAX + AFTER];

/* The row of the norms' option i. */
static struct option norm_row(const struct norm_option *o, size_t i) {
    static const enum option_kind kinds[] = {[NORM_REAL] = OPTION_REAL,
                                             [NORM_INTEGER] = OPTION_INT,
                                             [NORM_SWITCH] = OPTION_SWITCH,
                                             [NORM_CHOICE] = OPTION_CHOICE};
    return (struct option){.name = o->name,
                           .kind = kinds[o->type],
                           .offset = offsetof(struct config, model.norms.value) +
                                     i * sizeof(union norm_value),
                           .start = o->start,
                           RANGE(o->min, o->max),
                           .choice = o->choice,
                           .help = o->help,
                           .scope = o->of_model ? OPTION_OF_MODEL : OPTION_OF_RUN};
}

/* A constructor, so that the table is complete before main() and before any test. */
__attribute__((constructor)) static void assemble(void) {
    const struct norm_option *const *norms = norm_option_list();
    struct option *row = config_options;
    for (size_t i = 0; i < BEFORE; i++) *row++ = rows_before_norms[i];
    for (size_t i = 0; norms[i]; i++) *row++ = norm_row(norms[i], i);
    for (size_t i = 0; i < AFTER; i++) *row++ = rows_after_norms[i];
}

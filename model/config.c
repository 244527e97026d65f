/* The table of options: each is declared here and nowhere else. Defaults are nanoGPT's recipe for
   tiny Shakespeare on a CPU, with biases. */
#include "config.h"
#include "../data/die.h"
#include <omp.h>

static const char *norm_choice(int64_t i) {
    return norm_kinds[i] ? norm_kinds[i]->name : NULL;
}

static const char *site_norm_choice(int64_t i) { // model_config.site_norm
    return i ? norm_choice(i - 1) : "auto";
}

static const char *inner_norm_choice(int64_t i) { // INNER_NORM_...
    static const char *const names[] = {"off", "on"};
    return i < INNER_NORM_KINDS ? names[i] : norm_choice(i - INNER_NORM_KINDS);
}

static const char *placement_choice(int64_t i) {
    return placements[i].name;
}

static const char *activation_choice(int64_t i) {
    return activations[i].name;
}

static const char *level_choice(int64_t i) {
    static const char *const names[] = {"char", "byte", NULL}; // LEVEL_CHAR, LEVEL_BYTE
    return names[i];
}

static const char *pad_to_choice(int64_t i) {
    static const char *const names[] = {"longest", "block", NULL}; // PAD_TO_...
    return names[i];
}

static const char *pad_stats_choice(int64_t i) {
    static const char *const names[] = {"mask", "include", NULL}; // PAD_STATS_...
    return names[i];
}

static const char *stats_choice(int64_t i) { // enum statistics, and behind them all
    return i < STATISTICS_SOURCES ? statistics_name[i] : i == STATISTICS_SOURCES ? "all" : NULL;
}

static const char *init_choice(int64_t i) {
    static const char *const names[] = {"gpt2", "xavier", NULL}; // INIT_...
    return names[i];
}

static const char *final_norm_choice(int64_t i) {
    static const char *const names[] = {"auto", "on", "off", NULL}; // FINAL_NORM_...
    return names[i];
}

static const char *bn_axis_choice(int64_t i) {
    static const char *const names[] = {"batch+time", "batch", NULL}; // BN_AXIS_...
    return names[i];
}

static const char *pn_divisor_choice(int64_t i) {
    static const char *const names[] = {"psi", "batch", NULL}; // PN_DIVISOR_...
    return names[i];
}

static const char *schedule_choice(int64_t i) {
    static const char *const names[] = {"cosine", "linear", "constant", NULL}; // SCHEDULE_...
    return names[i];
}

#define AT(member)       .offset = offsetof(struct config, member)
#define RANGE(low, high) .least = low, .most = high

enum { MOST = MOST_ITERS }; // iterations, characters, ...

const struct option config_options[] = {
    {NULL, OPTION_HEADING, .help = "Data"},
    {"corpus", OPTION_OPERAND, AT(corpus), .metavar = "FILE", .scope = OPTION_FREE,
     .help =
         "UTF-8 text, - for standard input (also without --corpus=); the built-in grammar if none; "
         "random: characters drawn anew for each batch, which only who sees the future predicts"},
    {"level", OPTION_CHOICE, AT(level), "char", .choice = level_choice, .scope = OPTION_OF_MODEL,
     .help = "a character is a code point or a byte"},
    {"val-fraction", OPTION_REAL, AT(val_fraction), "0.1", RANGE(0, 1),
     .help = "the end of the text that validates; of items, so many of all, at random but the same "
             "for every seed"},
    {"items", OPTION_SWITCH, AT(items), "off", .scope = OPTION_OF_MODEL,
     .help = "each line is an item of its own, such as a name: a sequence from its begin to a "
             "learned end marker, its newline. Blank lines are none; what is longer than a block "
             "is cut"},
    {"pad-to", OPTION_CHOICE, AT(pad_to), "longest", .choice = pad_to_choice,
     .help = "a batch of items is as long as the longest of them, or as a block"},
    {"pad-stats", OPTION_CHOICE, AT(model.pad_stats), "mask", .choice = pad_stats_choice,
     .help = "whether norms that pool over tokens leave pads out of their statistics, the running "
             "ones too, or include them"},
    {"bucket", OPTION_SWITCH, AT(bucket), "off",
     .help = "items of like lengths share a batch: fewer pads"},
    {"grammar-chars", OPTION_INT, AT(grammar_chars), "1000000", RANGE(1, MOST),
     .help = "length of the built-in grammar's text"},
    {"random-chars", OPTION_INT, AT(random_chars), "64", RANGE(2, 1000),
     .help = "how many characters --corpus=random draws from"},
    {"grammar-seed", OPTION_INT, AT(grammar_seed), "1", RANGE(0, 0x1p53), .help = "its seed"},

    {NULL, OPTION_HEADING, .help = "Model"},
    {"norm", OPTION_CHOICE, AT(model.norm), "ln", .choice = norm_choice, .scope = OPTION_OF_MODEL,
     .help = "the normalization (--list-norms says what each is); in training bn and in pool over "
             "time: not causal"},
    {"norm-attn", OPTION_CHOICE, AT(model.site_norm[SITE_ATTENTION]), "auto",
     .choice = site_norm_choice, .scope = OPTION_OF_MODEL,
     .help = "that of the attention sub-layers; auto: --norm"},
    {"norm-ffn", OPTION_CHOICE, AT(model.site_norm[SITE_FFN]), "auto", .choice = site_norm_choice,
     .scope = OPTION_OF_MODEL, .help = "that of the MLP sub-layers; auto: --norm"},
    {"norm-final", OPTION_CHOICE, AT(model.site_norm[SITE_FINAL]), "auto",
     .choice = site_norm_choice, .scope = OPTION_OF_MODEL,
     .help = "that before the head (and behind the embedding); auto: --norm"},
    {"placement", OPTION_CHOICE, AT(model.placement), "pre", .choice = placement_choice,
     .scope = OPTION_OF_MODEL, .help = "where the norms stand (--list-placements says more)"},
    {"preln", OPTION_ALIAS, .start = "placement=pre", .help = "--placement=pre"},
    {"postln", OPTION_ALIAS, .start = "placement=post", .help = "--placement=post"},
    {"final-norm", OPTION_CHOICE, AT(model.final_norm), "auto", .choice = final_norm_choice,
     .scope = OPTION_OF_MODEL, .help = "a norm before the head; auto: as the placement says"},
    {"qk-norm", OPTION_CHOICE, AT(model.qk_norm), "off", .choice = inner_norm_choice,
     .scope = OPTION_OF_MODEL,
     .help = "queries and keys normalized, head by head; on: by the attention sub-layers' norm"},
    {"ffn-norm", OPTION_CHOICE, AT(model.ffn_norm), "off", .choice = inner_norm_choice,
     .scope = OPTION_OF_MODEL,
     .help = "a norm behind the MLP's nonlinearity; on: the MLP sub-layers'"},
    {"n-layer", OPTION_INT, AT(model.n_layer), "4", RANGE(1, 10000), .scope = OPTION_OF_MODEL,
     .help = "layers"},
    {"n-head", OPTION_INT, AT(model.n_head), "4", RANGE(1, 1000000), .scope = OPTION_OF_MODEL,
     .help = "attention heads"},
    {"n-embd", OPTION_INT, AT(model.n_embd), "128", RANGE(1, 1000000), .scope = OPTION_OF_MODEL,
     .help = "channels"},
    {"block-size", OPTION_INT, AT(model.block_size), "64", RANGE(1, MOST), .scope = OPTION_OF_MODEL,
     .help = "context length in characters"},
    {"init", OPTION_CHOICE, AT(model.init), "gpt2", .choice = init_choice,
     .help =
         "initial weights: GPT-2's, small so that a sub-layer adds little at first, or Xavier's, "
         "with a stream of about unit variance, as the literature on placements assumes"},
    {"act", OPTION_CHOICE, AT(model.activation), "gelu", .choice = activation_choice,
     .scope = OPTION_OF_MODEL,
     .help = "the MLP's nonlinearity; gelu is the exact one (erf), gelu-tanh GPT-2's"},
    {"dropout", OPTION_REAL, AT(model.dropout), "0", RANGE(0, 0.99), .help = "dropout probability"},
    {"bias", OPTION_SWITCH, AT(model.bias), "on", .scope = OPTION_OF_MODEL,
     .help = "biases in linear layers and norms (beta)"},
    {"mix-fraction", OPTION_REAL, AT(model.mix_fraction), "0.25", RANGE(0, 1),
     .scope = OPTION_OF_MODEL, .help = "mix: the share of the layers, the first, that are post"},
    {"affine", OPTION_SWITCH, AT(model.norms.affine), "on", .scope = OPTION_OF_MODEL,
     .help = "gamma and beta in norms"},
    {"norm-eps", OPTION_REAL, AT(model.norms.eps), "1e-5", RANGE(1e-12, 1),
     .scope = OPTION_OF_MODEL,
     .help = "epsilon inside the norms' square root; the least length in scale"},
    {"norm-groups", OPTION_INT, AT(model.norms.groups), "auto", RANGE(1, 1000000),
     .scope = OPTION_OF_MODEL, .help = "gn: groups of channels; auto: --n-head"},
    {"bn-momentum", OPTION_REAL, AT(model.norms.bn_momentum), "0.1", RANGE(0, 1),
     .help = "share of the batch in the running statistics of bn, in and prepbn"},
    {"bn-axis", OPTION_CHOICE, AT(model.norms.bn_axis), "batch+time", .choice = bn_axis_choice,
     .scope = OPTION_OF_MODEL,
     .help = "what bn pools over; batch: at each position for itself, which is causal, but not for "
             "--items, whose first position never varies"},
    {"rbn-mean", OPTION_REAL, AT(model.norms.rbn_mean), "0", RANGE(0, 1e9),
     .help = "bn: weight, beside the mean loss, of (mean - running mean)^2 of every channel"},
    {"rbn-var", OPTION_REAL, AT(model.norms.rbn_var), "0", RANGE(0, 1e9),
     .help = "the same of the standard deviations"},
    {"dyt-alpha", OPTION_REAL, AT(model.norms.dyt_alpha), "0.5", RANGE(0, 1000),
     .help = "dyt, derf: where alpha starts"},
    {"prepbn-steps", OPTION_INT, AT(model.norms.prepbn_steps), "auto", RANGE(0, 1e15),
     .help = "batches in which prepbn turns from ln to bn; auto: --max-iters times --grad-accum"},
    {"prepbn-eta", OPTION_REAL, AT(model.norms.prepbn_eta), "0", RANGE(-1000, 1000),
     .help = "what prepbn's eta is at first, the share of x beside bn"},
    {"pn-alpha-fwd", OPTION_REAL, AT(model.norms.pn_alpha_fwd), "0.9", RANGE(0, 1),
     .help = "what a batch leaves of pn's and pn-v's running mean square"},
    {"pn-alpha-bkw", OPTION_REAL, AT(model.norms.pn_alpha_bkw), "0.9", RANGE(0, 1),
     .help = "what a batch leaves of pn's running gradient along x"},
    {"pn-warmup", OPTION_INT, AT(model.norms.pn_warmup), "200", RANGE(0, MOST),
     .help = "batches, the first, in which pn is pn-v"},
    {"pn-group-scaling", OPTION_SWITCH, AT(model.norms.pn_group_scaling), "on",
     .scope = OPTION_OF_MODEL,
     .help = "pn first divides each head's channels of a token by their root mean square"},
    {"pn-divisor", OPTION_CHOICE, AT(model.norms.pn_divisor), "psi", .choice = pn_divisor_choice,
     .help =
         "pn's backward divides by the running root mean square, as forward, or by the batch's"},

    {NULL, OPTION_HEADING, .help = "Training"},
    {"max-iters", OPTION_INT, AT(max_iters), "auto", RANGE(0, MOST), .scope = OPTION_FREE,
     .help = "updates; auto: 2000, or what --max-tokens asks for"},
    {"max-tokens", OPTION_INT, AT(max_tokens), "auto", RANGE(0, 1e15), .scope = OPTION_FREE,
     .help = "instead of --max-iters: the fewest updates that train on at least N characters (with "
             "--items, ends of items count too). config.ini keeps the number of updates"},
    {"batch-size", OPTION_INT, AT(batch_size), "12", RANGE(1, MOST),
     .help = "sequences in a batch"},
    {"grad-accum", OPTION_INT, AT(grad_accum), "1", RANGE(1, 1000000),
     .help = "batches whose gradients make one update"},
    {"learning-rate", OPTION_REAL, AT(schedule.rate), "1e-3", RANGE(0, 1000),
     .help = "the rate after warm-up"},
    {"min-lr", OPTION_REAL, AT(schedule.least), "auto", RANGE(0, 1000),
     .help = "the rate after decay; auto: a tenth of --learning-rate"},
    {"warmup-iters", OPTION_INT, AT(schedule.warmup), "100", RANGE(0, MOST),
     .help = "updates of linear warm-up"},
    {"lr-decay-iters", OPTION_INT, AT(schedule.decay), "auto", RANGE(0, MOST),
     .help = "the update at which decay ends; auto: --max-iters"},
    {"schedule", OPTION_CHOICE, AT(schedule.kind), "cosine", .choice = schedule_choice,
     .help = "how the rate decays"},
    {"beta1", OPTION_REAL, AT(adam.beta1), "0.9", RANGE(0, 0.999999), .help = "of Adam"},
    {"beta2", OPTION_REAL, AT(adam.beta2), "0.99", RANGE(0, 0.999999), .help = "of Adam"},
    {"adam-eps", OPTION_REAL, AT(adam.eps), "1e-8", RANGE(1e-20, 1), .help = "of Adam"},
    {"weight-decay", OPTION_REAL, AT(adam.weight_decay), "0.1", RANGE(0, 1000),
     .help = "decoupled, on matrices"},
    {"grad-clip", OPTION_REAL, AT(adam.grad_clip), "1", RANGE(0, 1e9),
     .help = "largest norm of the gradient; 0: no limit"},
    {"seed", OPTION_INT, AT(seed), "1", RANGE(0, 0x1p53),
     .help = "of weights, batches, dropout and the sample"},
    {"threads", OPTION_INT, AT(threads), "auto", RANGE(1, 1024), .scope = OPTION_OF_CALL,
     .help = "threads; auto: one for each core (OMP_NUM_THREADS), fewer where the model is too "
             "small for them. The result is the same for any number"},

    {NULL, OPTION_HEADING, .help = "Watching"},
    {"out", OPTION_TEXT, AT(out), .metavar = "DIR", .scope = OPTION_OF_CALL,
     .help = "the run's folder; runs/NORM-PLACEMENT-sSEED if none is given"},
    {"force", OPTION_FLAG, AT(force), .scope = OPTION_OF_CALL, .help = "write over a run in --out"},
    {"log-interval", OPTION_INT, AT(log_interval), "10", RANGE(1, MOST), .scope = OPTION_FREE,
     .help = "updates between rows of log.csv"},
    {"eval-interval", OPTION_INT, AT(eval_interval), "250", RANGE(1, MOST), .scope = OPTION_FREE,
     .help = "updates between evaluations"},
    {"eval-iters", OPTION_INT, AT(eval_iters), "200", RANGE(0, MOST), .scope = OPTION_FREE,
     .help =
         "at most so many batches in an evaluation, spread evenly; 0: all of the validation part"},
    {"eval-train", OPTION_SWITCH, AT(eval_train), "off",
     .help = "each evaluation also measures the loss on a slice of the training part, as long as "
             "what it measures of the validation part: column eval_train_loss of log.csv"},
    {"probe-interval", OPTION_INT, AT(probe_interval), "0", RANGE(0, MOST),
     .help = "updates between rows of probes.csv: statistics of the norms, gradients by layer, "
             "attention, updates by weight; 0: none"},
    {"profile", OPTION_FLAG, AT(profile), .scope = OPTION_OF_CALL,
     .help = "where the time of training went, by operation, at the end"},
    {"quiet", OPTION_FLAG, AT(quiet), .scope = OPTION_OF_CALL,
     .help = "nothing on the terminal but errors"},

    {NULL, OPTION_HEADING, .help = "Keeping and using"},
    {"config", OPTION_FILE, AT(file), .metavar = "FILE", .scope = OPTION_OF_CALL,
     .help = "options from a file such as a run's config.ini; the command line overrides it"},
    {"checkpoint-interval", OPTION_INT, AT(checkpoint_interval), "auto", RANGE(0, MOST),
     .scope = OPTION_FREE,
     .help = "updates between checkpoints, which --resume goes on from; auto: as often as costs a "
             "hundredth of the time; 0: only when interrupted, or where one stands already"},
    {"keep-best", OPTION_SWITCH, AT(keep_best), "off",
     .help = "keep the model with the lowest validation loss so far in best.safetensors"},
    {"resume", OPTION_TEXT, AT(resume), .metavar = "DIR", .scope = OPTION_OF_CALL,
     .help = "go on with the run in DIR, to the bit as if it had never stopped; --max-iters, the "
             "intervals (but --probe-interval) and --threads may be others"},
    {"sample", OPTION_INT, AT(sample), "500", RANGE(0, MOST), .scope = OPTION_FREE,
     .help = "characters of text made and shown after training; with --items that is --num-items "
             "items, and only 0 counts: none"},
    {"temperature", OPTION_REAL, AT(sampling.temperature), "0.8", RANGE(0, 1000),
     .scope = OPTION_FREE, .help = "of that text; 0: always the likeliest character"},
    {"top-k", OPTION_INT, AT(sampling.top_k), "0", RANGE(0, MOST), .scope = OPTION_FREE,
     .help = "draw from so many likeliest characters; 0: from all"},
    {"generate", OPTION_TEXT, AT(generate), .metavar = "DIR", .scope = OPTION_OF_CALL,
     .help = "write text with the model of the run in DIR, or in a safetensors file"},
    {"prompt", OPTION_TEXT, AT(prompt), .metavar = "TEXT", .scope = OPTION_OF_CALL,
     .help = "what --generate goes on from, each item if it makes items; a line's begin if none is "
             "given"},
    {"num-chars", OPTION_INT, AT(num_chars), "500", RANGE(0, MOST), .scope = OPTION_OF_CALL,
     .help = "characters that --generate writes"},
    {"num-items", OPTION_INT, AT(num_items), "auto", RANGE(0, MOST), .scope = OPTION_FREE,
     .help = "items that a model of items writes, told to be in the training set (known) or new; "
             "auto: 20"},
    {"evaluate", OPTION_TEXT, AT(evaluate), .metavar = "DIR", .scope = OPTION_OF_CALL,
     .help = "the loss of such a model on the whole validation part of its corpus, or on all of "
             "another corpus"},
    {"stats", OPTION_CHOICE, AT(stats), "running", .choice = stats_choice, .scope = OPTION_OF_CALL,
     .help =
         "what --evaluate's norms over tokens take their statistics from: training (running), the "
         "measured batch, another one, the measured sequence, or the tokens at each position; all: "
         "a table"},
    {"leak", OPTION_FLAG, AT(leak), .scope = OPTION_OF_CALL,
     .help = "--evaluate how far logits before a position change with the characters from it on"},
    {"vocabulary", OPTION_TEXT, AT(vocabulary), .metavar = "FILE", .scope = OPTION_OF_CALL,
     .help = "for a safetensors file of another program: a text that has the characters of its "
             "vocabulary, as the text it learned from"},
    {"list-norms", OPTION_STOP, AT(list_norms), .scope = OPTION_OF_CALL,
     .help = "what can be normalized by: name, formula, source"},
    {"list-placements", OPTION_STOP, AT(list_placements), .scope = OPTION_OF_CALL,
     .help = "where norms can stand, likewise"},
    {"help", OPTION_STOP, AT(help), .scope = OPTION_OF_CALL, .help = "this list"},
    {"version", OPTION_STOP, AT(version), .scope = OPTION_OF_CALL, .help = "the version"},
    {.kind = OPTION_END},
};

void config_set_updates(struct config *config, int64_t updates) {
    int64_t *decay = &config->schedule.decay, *prepbn_steps = &config->model.norms.prepbn_steps;
    config->max_iters = updates;
    config->max_tokens = OPTION_AUTO;
    if (*decay == OPTION_AUTO) *decay = updates;
    if (*prepbn_steps == OPTION_AUTO) *prepbn_steps = updates * config->grad_accum;
}

/* Chooses what is left to "auto". */
static void settle(struct config *config) {
    struct model_config *model = &config->model;
    if (model->norms.groups == OPTION_AUTO) model->norms.groups = model->n_head;
    struct schedule *schedule = &config->schedule;
    if (schedule->least == OPTION_AUTO) schedule->least = schedule->rate / 10;
    if (config->max_tokens == OPTION_AUTO || config->generate || config->evaluate)
        config_set_updates(config, config->max_iters == OPTION_AUTO ? 2000 : config->max_iters);
    // a stored model that is only used is not watched
    model->norms.watch = config->probe_interval && !config->generate && !config->evaluate;
    config->team = config->threads == OPTION_AUTO ? 0 : config->threads;
    if (config->threads == OPTION_AUTO) config->threads = omp_get_max_threads();
    omp_set_num_threads((int)config->threads);
}

/* Values that contradict each other die. */
static void check(const struct config *config) {
    const struct model_config *model = &config->model;
    const struct schedule *schedule = &config->schedule;
    if (model->n_embd % model->n_head)
        die(STATUS_USAGE,
            "--n-embd=%lld: cannot be split among --n-head=%lld heads (it must be a multiple)",
            (long long)model->n_embd, (long long)model->n_head);
    const bool of_items = config->bucket || config->pad_to || model->pad_stats;
    if (of_items && !config->items)
        die(STATUS_USAGE, "--%s: belongs to --items",
            config->bucket   ? "bucket"
            : config->pad_to ? "pad-to=block"
                             : "pad-stats=include");
    if (config->num_items != OPTION_AUTO && !config->items)
        die(STATUS_USAGE, "--num-items=%lld: belongs to --items, to text belongs --num-chars",
            (long long)config->num_items);
    if (schedule->least > schedule->rate)
        die(STATUS_USAGE, "--min-lr=%g: is above --learning-rate=%g", schedule->least,
            schedule->rate);
}

static void check_purpose(const struct config *config) {
    const bool used = config->generate || config->evaluate;
    if ((config->resume != NULL) + (config->generate != NULL) + (config->evaluate != NULL) > 1)
        die(STATUS_USAGE, "--resume, --generate, --evaluate: one at a time");
    if (config->resume && (config->out || config->force))
        die(STATUS_USAGE, "--resume=%s: goes on in that folder, without --out and --force",
            config->resume);
    if (used && (config->out || config->force))
        die(STATUS_USAGE, "--out, --force: belong to training, not to --%s",
            config->generate ? "generate" : "evaluate");
    if (config->prompt && !config->generate)
        die(STATUS_USAGE, "--prompt: belongs to --generate=DIR");
    if (config->stats && !config->evaluate)
        die(STATUS_USAGE, "--stats=%s: belongs to --evaluate=DIR", stats_choice(config->stats));
    if (config->leak && !config->evaluate) die(STATUS_USAGE, "--leak: belongs to --evaluate=DIR");
    if (config->vocabulary && !used)
        die(STATUS_USAGE, "--vocabulary: belongs to --generate=FILE or --evaluate=FILE");
}

void config_start(struct config *config) {
    *config = (struct config){0};
    options_start(config_options, config);
}

void config_parse(struct config *config, int argc, char **argv) {
    config_start(config);
    options_arguments(config_options, config, argc, argv);
    if (config->help || config->version || config->list_norms || config->list_placements) return;
    check_purpose(config);
    if (config_stored(config)) return;
    settle(config);
    check(config);
}

const char *config_stored(const struct config *config) {
    return config->resume ? config->resume : config->generate ? config->generate : config->evaluate;
}

void config_continue(struct config *config, const struct config *stored, enum option_scope scope,
                     const char *where, int argc, char **argv) {
    struct config before = *stored;
    settle(&before);
    *config = *stored;
    config->max_iters = OPTION_AUTO; // so that --max-tokens may replace what is stored
    options_arguments(config_options, config, argc, argv);
    if (config->max_iters == OPTION_AUTO && config->max_tokens == OPTION_AUTO)
        config->max_iters = stored->max_iters;
    settle(config);
    options_agree(config_options, &before, config, scope, where);
    check(config);
}

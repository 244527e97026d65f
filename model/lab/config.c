/* The table of options. Each is declared once: here, in config_model.c, or in the file of the norm
   or the optimizer that has it (see model/norm/option.h and model/optimizer/option.h). Defaults are
   nanoGPT's recipe for tiny Shakespeare on a CPU, but with biases. */
#include "model/lab/config.h"
#include "data/die.h"
#include "model/lab/config_rows.h"

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

static const char *connection_choice(int64_t i) { // model_config.connection
    return !i ? "auto" : connection_kinds[i - 1] ? connection_kinds[i - 1]->name : NULL;
}

static const char *optimizer_choice(int64_t i) {
    return optimizer_kinds[i] ? optimizer_kinds[i]->name : NULL;
}

static const char *schedule_choice(int64_t i) {
    return schedule_kinds[i].name;
}

static const char *stats_choice(int64_t i) { // enum statistics_source, then all of them
    return i < STATISTICS_SOURCES ? statistics_name[i] : i == STATISTICS_SOURCES ? "all" : NULL;
}

static const struct option rows_after_norms[] = {
    {"placement", OPTION_HEADING, .help = "Placement of the norms"},
    {"placement", OPTION_CHOICE, AT(model.placement), "pre", .choice = placement_choice,
     .synonym = placement_synonym, .scope = OPTION_OF_MODEL, .metavar = "PLACEMENT", .basic = true,
     .help = "pre (--preln), post (--postln) or another; where the norms are"},
    {"preln", OPTION_ALIAS, .start = "placement=pre",
     .help = "normalize before each sub-layer; short for --placement=pre"},
    {"postln", OPTION_ALIAS, .start = "placement=post",
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
    {"connection", OPTION_CHOICE, AT(model.connection), "auto", .choice = connection_choice,
     .scope = OPTION_OF_MODEL, .metavar = "auto|CONNECTION",
     .help =
         "residual connection of every sub-layer; auto: as the placement says. deepnorm, residual, "
         "siamese and ngpt have only their own"},
    {"lambda-start", OPTION_REAL, AT(model.lambda_start), "auto", RANGE(0, 1e3),
     .help = "initial value of the learned factor of a sub-layer; auto: as the connection says"},

    {"training", OPTION_HEADING, .help = "Training"},
    {"start", OPTION_TEXT, AT(start), .metavar = "DIR|FILE",
     .help = "start from the weights of a run or of a safetensors file, and from its running "
             "statistics and vocabulary if it has them, instead of random weights; its shapes must "
             "be those of the model. The optimizer's state is reset"},
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
    {"z-loss", OPTION_REAL, AT(model.z_loss), "0", RANGE(0, 1000),
     .help = "weight of the squared logarithm of the softmax's sum, which the gradient then "
             "includes; losses are logged without it"},
    {"seed", OPTION_INT, AT(seed), "1", RANGE(0, 0x1p53), .basic = true,
     .help = "random seed; of weights, batches, dropout and the sample"},
    {"threads", OPTION_INT, AT(threads), "auto", RANGE(1, 1024), .scope = OPTION_OF_CALL,
     .help = "threads; auto: one for each core (OMP_NUM_THREADS), fewer where the model is too "
             "small for them. The result is the same for any number"},

    {"optimizer", OPTION_HEADING, .help = "Optimizer"},
    {"learning-rate", OPTION_REAL, AT(schedule.rate), "1e-3", RANGE(0, 1000), .basic = true,
     .help = "learning rate after warm-up; --lr for short"},
    {"lr", OPTION_ALIAS, .start = "learning-rate", .metavar = "X", .help = "as --learning-rate"},
    {"min-lr", OPTION_REAL, AT(schedule.rate_min), "auto", RANGE(0, 1000),
     .needs = "!schedule=constant", .help = "rate after decay; auto: a tenth of --learning-rate"},
    {"warmup-iters", OPTION_INT, AT(schedule.warmup), "100", RANGE(0, COUNT_MAX),
     .help = "updates of linear warm-up"},
    {"lr-decay-iters", OPTION_INT, AT(schedule.decay), "auto", RANGE(0, COUNT_MAX),
     .needs = "!schedule=constant", .help = "the update at which decay ends; auto: --max-iters"},
    {"schedule", OPTION_CHOICE, AT(schedule.kind), "cosine", .choice = schedule_choice,
     .help = "course of the learning rate, see --list-schedules. constant and wsd stay at "
             "--learning-rate until a decay that --resume may still plan"},
    {"decay-fraction", OPTION_REAL, AT(schedule.fraction), "0.2", RANGE(0, 1),
     .needs = "schedule=wsd",
     .help = "fraction of the updates, the last ones, in which wsd decays"},
    {"decay-shape", OPTION_CHOICE, AT(schedule.shape), "linear",
     NAMES([DECAY_LINEAR] = "linear", [DECAY_SQRT] = "1-sqrt"), .needs = "schedule=wsd",
     .help = "shape of wsd's decay: linear, or 1 - sqrt(x), which falls faster first"},
    {"optimizer", OPTION_CHOICE, AT(optimizer.kind), "adamw", .choice = optimizer_choice,
     .metavar = "NAME", .basic = true, .help = "update rule, see --help=optimizer"},
    {.kind = OPTION_END},
};

static const struct option rows_after_optimizers[] = {
    {"weight-decay", OPTION_REAL, AT(optimizer.weight_decay), "0.1", RANGE(0, 1000),
     .help = "decoupled weight decay of matrices"},
    {"decay-gamma", OPTION_CHOICE, AT(model.norms.decay_gamma), "off",
     NAMES([NORM_DECAY_OFF] = "off", [NORM_DECAY_ZERO] = "zero", [NORM_DECAY_ONE] = "one"),
     .help = "weight decay of the norms' gamma too: towards 0, or towards 1 (in scale sqrt(C)), as "
             "if gamma - 1 were learned"},
    {"grad-clip", OPTION_REAL, AT(optimizer.grad_clip), "1", RANGE(0, 1e9),
     .help = "maximum norm of the gradient; 0: no limit"},

    {"watching", OPTION_HEADING, .help = "Watching"},
    {"out", OPTION_TEXT, AT(out), .metavar = "DIR", .scope = OPTION_OF_CALL, .basic = true,
     .help = "the run's folder; without it runs/NORM-PLACEMENT-sSEED"},
    {"force", OPTION_FLAG, AT(force), .scope = OPTION_OF_CALL, .help = "replace a run in --out"},
    {"log-interval", OPTION_INT, AT(log_interval), "10", RANGE(1, COUNT_MAX), .scope = OPTION_FREE,
     .help = "updates between rows of log.csv"},
    {"eval-interval", OPTION_INT, AT(eval_interval), "auto", RANGE(1, COUNT_MAX),
     .scope = OPTION_FREE,
     .help = "updates between evaluations; auto: an eighth of --max-iters, at most 250. A resumed "
             "run keeps its interval"},
    {"eval-iters", OPTION_INT, AT(eval_iters), "200", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .help = "maximum number of batches in an evaluation, spread evenly; 0: the whole validation "
             "part"},
    {"eval-train", OPTION_SWITCH, AT(eval_train), "off",
     .help = "each evaluation also measures the loss on a slice of the training part, as long as "
             "what it measures of the validation part: column eval_train_loss of log.csv"},
    {"probe-interval", OPTION_INT, AT(probe_interval), "0", RANGE(0, COUNT_MAX),
     .help = "updates between rows of probes.csv: statistics of the norms, gradients by layer, "
             "attention, updates by weight; 0: none"},
    {"sample-interval", OPTION_INT, AT(sample_interval), "0", RANGE(0, COUNT_MAX),
     .help = "updates between lines of text that the model writes into samples.txt and above the "
             "live line; 0: none"},
    {"profile", OPTION_FLAG, AT(profile), .scope = OPTION_OF_CALL,
     .help = "print at the end how much time each operation took in training"},
    {"plot", OPTION_CHOICE, AT(plot), "auto",
     NAMES([PLOT_AUTO] = "auto", [PLOT_ON] = "on", [PLOT_OFF] = "off"), .scope = OPTION_OF_CALL,
     .help =
         "show the loss curves above the live line: auto on a terminal only; on elsewhere, too, "
         "once at the end"},
    {"plot-scale", OPTION_CHOICE, AT(plot_scale), "log",
     NAMES([PLOT_LOG] = "log", [PLOT_LINEAR] = "linear"), .scope = OPTION_OF_CALL,
     .needs = "!plot=off", .help = "scale of the losses in --plot"},
    {"plot-beside", OPTION_TEXT, AT(plot_beside), .metavar = "DIR,...", .scope = OPTION_OF_CALL,
     .needs = "!plot=off", .help = "folders of other runs; --plot shows their validation losses"},
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
             "--max-iters, the intervals (except --probe-interval and --sample-interval), "
             "--micro-batch-tokens and "
             "--threads may change"},

    {"using", OPTION_HEADING, .help = "Using a model"},
    {"sample", OPTION_INT, AT(sample), "500", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .needs = "!generate",
     .help = "number of characters to write and show after training; with --items, 0 means no "
             "sample, anything else --num-items items. --num-chars is the number for --generate"},
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
    {"list-optimizers", OPTION_STOP, AT(list_optimizers), .scope = OPTION_OF_CALL,
     .help = "name, formula and source of every optimizer"},
    {"list-schedules", OPTION_STOP, AT(list_schedules), .scope = OPTION_OF_CALL,
     .help = "name, formula and source of every schedule of the learning rate"},
    {"list-connections", OPTION_STOP, AT(list_connections), .scope = OPTION_OF_CALL,
     .help = "name, formula and source of every residual connection"},
    {"help", OPTION_HELP, AT(help), .metavar = "TOPIC", .letter = 'h', .scope = OPTION_OF_CALL,
     .help = "the first page, a topic, one option by its name, or all"},
    {"version", OPTION_STOP, AT(version), .scope = OPTION_OF_CALL, .help = "the version"},
    {.kind = OPTION_END},
};

struct option config_options[CONFIG_ROWS_MAX + NORM_OPTIONS_MAX + OPTIMIZER_OPTIONS_MAX + 1];

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

/* The row of the optimizers' option i. */
static struct option optimizer_row(const struct optimizer_option *o, size_t i) {
    static const enum option_kind kinds[] = {[OPTIMIZER_REAL] = OPTION_REAL,
                                             [OPTIMIZER_INTEGER] = OPTION_INT,
                                             [OPTIMIZER_SWITCH] = OPTION_SWITCH};
    return (struct option){.name = o->name,
                           .kind = kinds[o->type],
                           .offset = offsetof(struct config, optimizer.value) +
                                     i * sizeof(union optimizer_value),
                           .start = o->start,
                           RANGE(o->min, o->max),
                           .help = o->help};
}

/* Adds rows to the table at `row`; returns the next free one. */
static struct option *append(struct option *row, const struct option *rows) {
    for (; rows->kind != OPTION_END; rows++) {
        if (row == config_options + CONFIG_ROWS_MAX)
            die(STATUS_USAGE, "--%s: too many options (raise CONFIG_ROWS_MAX)", rows->name);
        *row++ = *rows;
    }
    return row;
}

/* A constructor, so that the table is complete before main() and before any test. */
__attribute__((constructor)) static void assemble(void) {
    const struct norm_option *const *norms = norm_option_list();
    const struct optimizer_option *const *optimizers = optimizer_option_list();
    struct option *row = append(config_options, config_model_rows);
    for (size_t i = 0; norms[i]; i++) *row++ = norm_row(norms[i], i);
    row = append(row, rows_after_norms);
    for (size_t i = 0; optimizers[i]; i++) *row++ = optimizer_row(optimizers[i], i);
    append(row, rows_after_optimizers);
}

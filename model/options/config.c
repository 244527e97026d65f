/* The table of options. Each is declared once: here, in config_model.c, or in the file of the norm
   the connection or the optimizer that has it. Defaults are nanoGPT's recipe for tiny
   Shakespeare on a CPU, but with biases. */
#include "model/options/config.h"
#include "data/die.h"
#include "model/norm/formula.h"
#include "model/options/config_rows.h"

static struct option_choice placement_choice(int64_t i) {
    const struct placement *p = &placements[i];
    return (struct option_choice){
        .name = p->name, .full_name = p->full_name, .formula = p->formula, .source = p->source};
}

static struct option_choice connection_choice(int64_t i) {
    const struct connection_kind *kind = connection_kinds[i];
    if (!kind) return (struct option_choice){0};
    return (struct option_choice){
        .name = kind->name, .formula = kind->formula, .source = kind->source};
}

static struct option_choice optimizer_choice(int64_t i) {
    const struct optimizer_kind *kind = optimizer_kinds[i];
    if (!kind) return (struct option_choice){0};
    return (struct option_choice){
        .name = kind->name, .formula = kind->formula, .source = kind->source};
}

static struct option_choice schedule_choice(int64_t i) {
    const struct schedule_kind *kind = &schedule_kinds[i];
    return (struct option_choice){
        .name = kind->name, .formula = kind->formula, .source = kind->source};
}

static const struct option rows_after_norms[] = {
    {"placement", OPTION_HEADING, .scope = OPTION_OF_MODEL, .help = "Placement of the norms"},
    {"placement", OPTION_CHOICE, AT(model.placement), "pre", .choice = placement_choice,
     .metavar = "PLACEMENT", .basic = true,
     .help = "where the norms are, see --help=placement; pre (--preln) puts them before each "
             "sub-layer, post (--postln) after each addition"},
    {"preln", OPTION_ALIAS, .start = "placement=pre",
     .help = "put norms before each sub-layer; short for --placement=pre"},
    {"postln", OPTION_ALIAS, .start = "placement=post",
     .help = "put norms after each addition; short for --placement=post"},
    {"placement-attn", OPTION_CHOICE, AT(model.site_placement[SITE_ATTENTION]), "auto",
     NAMES("auto"), .choice = placement_choice, .metavar = "auto|PLACEMENT",
     .help =
         "placement of the attention sub-layers: their norms, constant factors and initial weights "
         "(auto: --placement). The norms after the embedding and before the output layer follow "
         "--placement in any case. residual, siamese and ngpt do not mix with other placements"},
    {"placement-ffn", OPTION_CHOICE, AT(model.site_placement[SITE_FFN]), "auto", NAMES("auto"),
     .choice = placement_choice, .metavar = "auto|PLACEMENT",
     .help = "placement of the MLP sub-layers: their norms, constant factors and initial weights "
             "(auto: --placement). residual, siamese and ngpt do not mix with other placements"},
    {"final-norm", OPTION_CHOICE, AT(model.final_norm), "auto",
     NAMES([FINAL_NORM_AUTO] = "auto", [FINAL_NORM_ON] = "on", [FINAL_NORM_OFF] = "off"),
     .help = "whether a norm stands before the output layer (auto: as the placement has it); "
             "--norm-final says which one"},
    {"mix-fraction", OPTION_REAL, AT(model.mix_fraction), "0.25", RANGE(0, 1),
     .needs = {&needs_mix},
     .help = "fraction of the layers, from the first on, whose norms are as in post; later layers "
             "have them as in pre"},
    {"connection", OPTION_CHOICE, AT(model.connection), "auto", NAMES("auto"),
     .choice = connection_choice, .metavar = "auto|CONNECTION",
     .help = "residual connection of every sub-layer, see --list-connections (auto: that of the "
             "placement). The placements deepnorm, residual, siamese and ngpt allow no other"},
    {.kind = OPTION_END},
};

static const struct option rows_after_connections[] = {
    {"training", OPTION_HEADING, .scope = OPTION_OF_RUN, .help = "Training"},
    {"start", OPTION_TEXT, AT(start), .metavar = "DIR|FILE", .needs = {&needs_training},
     .help = "start from the weights of a run or safetensors file, and from its running statistics "
             "and vocabulary if it has them. Its tensors must have the model's shapes; the "
             "optimizer's state is reset"},
    {"max-iters", OPTION_INT, AT(max_iters), "auto", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .basic = true, .needs = {&needs_training},
     .help = "number of updates; auto: 2000, or as many as --max-tokens needs"},
    {"max-tokens", OPTION_INT, AT(max_tokens), "auto", RANGE(0, 1e15), .scope = OPTION_FREE,
     .needs = {&needs_training}, .watching = true,
     .help = "number of characters to train on, in place of --max-iters (auto: --max-iters "
             "decides). With --items, newlines count too. config.ini stores the number of updates "
             "that this takes"},
    {"max-seconds", OPTION_REAL, AT(max_seconds), "0", RANGE(0, 1e9), .scope = OPTION_FREE,
     .needs = {&needs_training}, .help = "end the run after X seconds (0: no limit)"},
    {"stop-at", OPTION_REAL, AT(stop_at), "0", RANGE(0, 1e9), .scope = OPTION_FREE,
     .needs = {&needs_training},
     .help = "end the run at the first evaluation with a validation loss of at most X (0: never)"},
    {"batch-size", OPTION_INT, AT(batch_size), "12", RANGE(1, COUNT_MAX), .basic = true,
     .help = "number of sequences per batch"},
    {"grad-accum", OPTION_INT, AT(grad_accum), "1", RANGE(1, 1000000), .needs = {&needs_training},
     .help = "number of batches whose gradients are added up for one update"},
    {"batch-parts", OPTION_INT, AT(model.batch_parts), "8", RANGE(1, PARTS_MAX),
     .help = "largest number of parts into which a batch is cut, so that threads and MPI processes "
             "can share it. Another number changes the order of additions, and so the last bits of "
             "all results"},
    {"micro-batch-tokens", OPTION_INT, AT(model.micro_batch_tokens), "2048", RANGE(0, COUNT_MAX),
     .scope = OPTION_FREE, .needs = {&needs_micro_batches}, .watching = true,
     .help =
         "largest number of tokens in one forward and backward pass; a larger batch takes several "
         "passes, which saves memory and gives the same results (0: one pass). Passes consist of "
         "full sequences, so a small N is raised; with more than 16 threads, N is always raised"},
    {"z-loss", OPTION_REAL, AT(model.z_loss), "0", RANGE(0, 1000), .needs = {&needs_training},
     .help = "add X (log Z)^2 to the training objective, where Z is the sum of the exponentials of "
             "the logits; logged losses leave it out"},
    {"seed", OPTION_INT, AT(seed), "1", RANGE(0, 0x1p53), .basic = true,
     .help = "random seed; initial weights, batches, dropout and samples follow from it"},
    {"threads", OPTION_INT, AT(threads), "auto", RANGE(1, MAX_THREADS), .scope = OPTION_OF_CALL,
     .watching = true,
     .help = "number of threads, which changes no result (auto: OMP_NUM_THREADS if it is set, "
             "otherwise one per core that the process may use, by affinity and by the CPU quota of "
             "a container, but fewer for small models)"},

    {"optimizer", OPTION_HEADING, .scope = OPTION_OF_RUN, .needs = {&needs_training},
     .help = "Optimizer"},
    {"learning-rate", OPTION_REAL, AT(schedule.rate), "1e-3", RANGE(0, 1000), .basic = true,
     .help = "learning rate after warm-up; --lr for short"},
    {"lr", OPTION_ALIAS, .start = "learning-rate", .metavar = "X",
     .help = "short for --learning-rate"},
    {"min-lr", OPTION_REAL, AT(schedule.rate_min), "auto", RANGE(0, 1000), .needs = {&needs_decay},
     .help = "learning rate after the decay (auto: a tenth of --learning-rate)"},
    {"warmup-iters", OPTION_INT, AT(schedule.warmup), "100", RANGE(0, COUNT_MAX),
     .limit = "updates",
     .help = "number of updates in which the learning rate first rises linearly (warm-up)"},
    {"lr-decay-iters", OPTION_INT, AT(schedule.decay), "auto", RANGE(0, COUNT_MAX),
     .needs = {&needs_decay}, .limit = "decay", .automatic = {"max-iters"},
     .help = "update at which the decay of the learning rate ends (auto: --max-iters)"},
    {"schedule", OPTION_CHOICE, AT(schedule.kind), "cosine", .choice = schedule_choice,
     .help = "learning-rate schedule, see --list-schedules. With constant and wsd, --resume can "
             "still change it until the decay starts"},
    {"decay-fraction", OPTION_REAL, AT(schedule.fraction), "0.2", RANGE(0, 1),
     .needs = {&needs_wsd},
     .help =
         "fraction of the updates, at the end of the run, in which wsd lowers the learning rate"},
    {"decay-shape", OPTION_CHOICE, AT(schedule.shape), "linear",
     NAMES([DECAY_LINEAR] = "linear", [DECAY_SQRT] = "1-sqrt"), .needs = {&needs_wsd},
     .help = "how wsd goes from --learning-rate to --min-lr: in a straight line (linear), or "
             "faster at the start, so that after a fraction x of the decay 1 - sqrt(x) of the "
             "difference is left (1-sqrt)"},
    {"optimizer", OPTION_CHOICE, AT(optimizer.kind), "adamw", .choice = optimizer_choice,
     .metavar = "NAME", .basic = true, .help = "optimizer, see --help=optimizer"},
    {.kind = OPTION_END},
};

static const struct option rows_after_optimizers[] = {
    {"weight-decay", OPTION_REAL, AT(optimizer.weight_decay), "0.1", RANGE(0, 1000),
     .help = "decoupled weight decay of matrices and embeddings; biases do not decay, and gamma "
             "decays only with --decay-gamma"},
    {"decay-gamma", OPTION_CHOICE, AT(model.norms.decay_gamma), "off",
     NAMES([NORM_DECAY_OFF] = "off", [NORM_DECAY_ZERO] = "zero", [NORM_DECAY_ONE] = "one"),
     .needs = {&needs_affine, &needs_gamma, &needs_weight_decay},
     .help = "whether weight decay leaves the gamma of norms alone (off), or pulls it towards 0 "
             "(zero) or 1 (one; in scale, sqrt(C)), the latter as if gamma - 1 were learned"},
    {"grad-clip", OPTION_REAL, AT(optimizer.grad_clip), "1", RANGE(0, 1e9),
     .help = "clip the gradient to an L2 norm of at most X (0: no clipping)"},

    {"logging", OPTION_HEADING, .scope = OPTION_OF_CALL, .watching = true, .help = "Logging"},
    {"out", OPTION_TEXT, AT(out), .metavar = "DIR", .basic = true, .needs = {&needs_training},
     .help = "folder of the run; by default runs/NORM-PLACEMENT-sSEED, or with --connection "
             "runs/NORM-PLACEMENT-CONNECTION-sSEED"},
    {"force", OPTION_FLAG, AT(force), .needs = {&needs_training, &needs_out},
     .help = "replace the run that is already in --out"},
    {"log-interval", OPTION_INT, AT(log_interval), "10", RANGE(1, COUNT_MAX), .scope = OPTION_FREE,
     .needs = {&needs_training}, .help = "write a row of log.csv every N updates"},
    {"eval-interval", OPTION_INT, AT(eval_interval), "auto", RANGE(0, COUNT_MAX),
     .scope = OPTION_FREE, .needs = {&needs_training},
     .help = "evaluate before the first update, every N updates, and after the last one (0: after "
             "the last one only; auto: an eighth of --max-iters, but at most 250)"},
    {"eval-iters", OPTION_INT, AT(eval_iters), "200", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .needs = {&needs_training},
     .help = "evaluate on at most N batches, which are spread evenly over the validation split (0: "
             "on all of it)"},
    {"eval-train", OPTION_SWITCH, AT(eval_train), "off", .needs = {&needs_training},
     .scope = OPTION_OF_RUN,
     .help = "also evaluate on a part of the training split that is as large as the evaluated part "
             "of the validation split; log.csv has this loss as eval_train_loss"},
    {"probe-interval", OPTION_INT, AT(probe_interval), "0", RANGE(0, COUNT_MAX),
     .needs = {&needs_training}, .scope = OPTION_OF_RUN,
     .help = "write statistics of norms, gradients, attention and updates to probes.csv every N "
             "updates (0: never)"},
    {"sample-interval", OPTION_INT, AT(sample_interval), "0", RANGE(0, COUNT_MAX),
     .needs = {&needs_training}, .scope = OPTION_OF_RUN,
     .help = "let the model write a short text every N updates, which is printed and appended to "
             "samples.txt (0: never)"},
    {"profile", OPTION_FLAG, AT(profile), .needs = {&needs_training},
     .help = "print at the end how much training time each operation took"},
    {"plot", OPTION_CHOICE, AT(plot), "auto",
     NAMES([PLOT_AUTO] = "auto", [PLOT_ON] = "on", [PLOT_OFF] = "off"), .needs = {&needs_training},
     .help = "draw the loss curves in the terminal. auto: if standard error is one. on: always; "
             "without a terminal once, at the end. off: never"},
    {"plot-scale", OPTION_CHOICE, AT(plot_scale), "log",
     NAMES([PLOT_LOG] = "log", [PLOT_LINEAR] = "linear"), .needs = {&needs_training, &needs_plot},
     .help = "scale of the loss axis of --plot"},
    {"plot-beside", OPTION_TEXT, AT(plot_beside), .metavar = "DIR,...",
     .needs = {&needs_training, &needs_plot},
     .help = "add the validation losses of these runs to --plot"},
    {"quiet", OPTION_FLAG, AT(quiet), .help = "print errors only"},

    {"checkpoints", OPTION_HEADING, .scope = OPTION_OF_CALL, .watching = true,
     .help = "Checkpoints"},
    {"config", OPTION_TEXT, AT(file), .role = OPTION_FILE, .metavar = "FILE",
     .help = "read options from a file, such as a run's config.ini; those on the command line "
             "override it"},
    {"checkpoint-interval", OPTION_INT, AT(checkpoint_interval), "auto", RANGE(0, COUNT_MAX),
     .scope = OPTION_FREE, .needs = {&needs_training},
     .help = "save a checkpoint, from which --resume can continue, every N updates (auto: so often "
             "that saving takes about 1 % of the time; 0: only if the run is interrupted)"},
    {"keep-best", OPTION_SWITCH, AT(keep_best), "off", .needs = {&needs_training},
     .scope = OPTION_OF_RUN,
     .help = "keep the model with the lowest validation loss in best.safetensors"},
    {"resume", OPTION_TEXT, AT(resume), .metavar = "DIR", .basic = true,
     .help = "continue the run in DIR; the result has the same bits as without the interruption. "
             "You may change --max-iters, --micro-batch-tokens, --threads and most intervals, but "
             "not --probe-interval and --sample-interval"},

    {"sampling", OPTION_HEADING, .scope = OPTION_OF_CALL, .watching = true,
     .help = "Sampling and evaluation"},
    {"sample", OPTION_INT, AT(sample), "500", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .needs = {&needs_training},
     .help = "number of characters that the model writes at the end of training (0: none). With "
             "--items it writes --num-items items instead, unless N is 0"},
    {"temperature", OPTION_REAL, AT(sampling.temperature), "0.8", RANGE(0, 1000),
     .scope = OPTION_FREE, .needs = {&needs_sampling},
     .help = "sampling temperature (0: always take the most probable character)"},
    {"top-k", OPTION_INT, AT(sampling.top_k), "0", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .needs = {&needs_sampling, &needs_heat},
     .help = "sample only from the N most probable characters (0: from all)"},
    {"top-p", OPTION_REAL, AT(sampling.top_p), "1", RANGE(0, 1), .scope = OPTION_FREE,
     .needs = {&needs_sampling, &needs_heat},
     .help = "sample only from the most probable characters, as many as it takes for a total "
             "probability of X (nucleus sampling; 1: from all)"},
    {"min-p", OPTION_REAL, AT(sampling.min_p), "0", RANGE(0, 1), .scope = OPTION_FREE,
     .needs = {&needs_sampling, &needs_heat},
     .help = "sample only from characters that are at least X times as probable as the most "
             "probable one (0: from all)"},
    {"generate", OPTION_TEXT, AT(generate), .metavar = "DIR|FILE", .basic = true,
     .help = "write text with a trained model; DIR is a run's folder, FILE a safetensors file"},
    {"prompt", OPTION_TEXT, AT(prompt), .metavar = "TEXT", .needs = {&needs_generate},
     .help = "text that --generate continues, or with --items the start of each item (by default, "
             "the start of a line)"},
    {"num-chars", OPTION_INT, AT(num_chars), "500", RANGE(0, COUNT_MAX), .needs = {&needs_generate},
     .help = "number of characters that --generate writes"},
    {"stop", OPTION_TEXT, AT(stop), .metavar = "TEXT", .needs = {&needs_generate, &needs_no_items},
     .help = "end each text of --generate after the first occurrence of TEXT"},
    {"num-samples", OPTION_INT, AT(num_samples), "1", RANGE(0, COUNT_MAX),
     .needs = {&needs_generate, &needs_no_items},
     .help = "number of texts that --generate writes, separated by lines of ---"},
    {"num-items", OPTION_INT, AT(num_items), "auto", RANGE(0, COUNT_MAX), .scope = OPTION_FREE,
     .needs = {&needs_items, &needs_sampling},
     .help = "number of items that the model writes, each marked known (in the training split) or "
             "new (auto: 20)"},
    {"evaluate", OPTION_TEXT, AT(evaluate), .metavar = "DIR|FILE", .basic = true,
     .help = "print a model's loss; it is measured on all of CORPUS, even if the model was trained "
             "on it, or without CORPUS on the full validation split of the training corpus"},
    {"stats", OPTION_CHOICE, AT(stats), "running", .names = statistics_name,
     .needs = {&needs_evaluate},
     .help = "which statistics --evaluate uses in norms with batch statistics, such as bn: the "
             "running ones (running), those of the evaluated batch (own), of another batch "
             "(other), of each sequence (single), or of all tokens at a position (position); all "
             "prints a table with the losses of each"},
    {"leak", OPTION_FLAG, AT(leak), .needs = {&needs_evaluate},
     .help = "measure how much the logits depend on later characters; in causal models that is 0"},
    {"dump", OPTION_TEXT, AT(dump), .metavar = "FILE", .needs = {&needs_evaluate},
     .help = "write activations of --evaluate's first batch to a safetensors file: inputs and "
             "outputs of norms, queries, keys, values, residual stream and logits; with "
             "--stats=own also the gradients of the loss over all evaluated batches"},
    {"vocabulary", OPTION_TEXT, AT(vocabulary), .metavar = "FILE", .needs = {&needs_use},
     .help = "a text with the model's vocabulary, usually its training text, for a safetensors "
             "file that does not contain it"},

    {"help", OPTION_HEADING, .scope = OPTION_OF_CALL, .watching = true, .help = "Help"},
    {"list-norms", OPTION_ALIAS, .start = "help=norms",
     .help = "print name, formula and source of every norm"},
    {"list-placements", OPTION_ALIAS, .start = "help=placements",
     .help = "print name, formula and source of every placement"},
    {"list-optimizers", OPTION_ALIAS, .start = "help=optimizers",
     .help = "print name, formula and source of every optimizer"},
    {"list-schedules", OPTION_ALIAS, .start = "help=schedules",
     .help = "print name, formula and source of every learning-rate schedule"},
    {"list-connections", OPTION_ALIAS, .start = "help=connections",
     .help = "print name, formula and source of every residual connection"},
    {"help", OPTION_TEXT, AT(help), .role = OPTION_HELP, .metavar = "TOPIC",
     .help = "print the most common options, a topic, one option, or everything (--help=all); json "
             "prints the table of options and their conditions, for programs"},
    {"show-options", OPTION_CHOICE, AT(show), "off",
     NAMES([SHOW_OFF] = "off", [SHOW_TABLE] = "table", [SHOW_JSON] = "json",
           [SHOW_LAYER] = "layer"),
     .role = OPTION_BARE,
     .help = "do not train, but print the value of each option, whether it has an effect "
             "together with the other options, and whether auto gives that value; --show-options "
             "alone prints a table. layer: print what --show-layer prints"},
    {"show-layer", OPTION_ALIAS, .start = "show-options=layer",
     .help = "do not train, but print the operations of a layer: what each computes and learns, "
             "what backward finds stored, and where threads wait"},
    {"show-norm", OPTION_CHOICE, AT(show_norm), "off", .choice = config_inner_norm,
     .add = formula_add, .role = OPTION_BARE, .metavar = "NORM",
     .help = "do not train, but print a norm's formula, its gradient step by step, and what it "
             "computes: whether a token's output depends on others, and what changes nothing; "
             "--show-norm alone shows the norm of --norm"},
    {"as", OPTION_CHOICE, AT(show_as), "steps", NAMES("steps", "pytorch"),
     .needs = {&needs_show_norm},
     .help =
         "how --show-norm prints it: step by step (steps), or as a module of PyTorch (pytorch)"},
    {"version", OPTION_FLAG, AT(version), .role = OPTION_STOP, .help = "print the version"},
    {.kind = OPTION_END},
};

struct option config_options[CONFIG_ROWS_MAX + 3 * KIND_OPTIONS_MAX + 1];

/* Adds the options of kinds, whose values are in the same order from the offset `values` on. They set
   how training starts or goes, unless they say that they are part of the model. */
static struct option *append_kinds(struct option *row, const struct option *const *list,
                                   size_t values) {
    for (; *list; row++, list++, values += sizeof(union option_data)) {
        *row = **list;
        row->offset = values;
        if (!row->scope) row->scope = OPTION_OF_RUN;
    }
    return row;
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
    struct option *row = append(config_options, config_model_rows);
    row = append_kinds(row, norm_option_list(), offsetof(struct config, model.norms.value));
    row = append(row, rows_after_norms);
    row = append_kinds(row, connection_option_list(), offsetof(struct config, model.connections));
    row = append(row, rows_after_connections);
    row = append_kinds(row, optimizer_option_list(), offsetof(struct config, optimizer.value));
    append(row, rows_after_optimizers);
    const struct option *heading = NULL;
    for (row = config_options; row->kind != OPTION_END; row++) {
        if (row->kind == OPTION_HEADING) heading = row;
        if (row->kind == OPTION_HEADING) continue;
        config_add_needs(row, heading);
        if (!row->scope) row->scope = heading->scope;
        row->watching |= heading->watching;
    }
}

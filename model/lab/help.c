#include "model/lab/help.h"
#include "data/die.h"
#include "model/lab/say.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The lists of --help=norm, --help=placement and --help=optimizer. */
static const char *entry(const char *topic, int64_t i, char *text, size_t size) {
    static char name[64];
    if (!strcmp(topic, "norm") && norm_kinds[i]) {
        const struct norm_kind *kind = norm_kinds[i];
        snprintf(name, sizeof name, "%s%s%s", kind->name, kind->full_name ? ", " : "",
                 kind->full_name ? kind->full_name : "");
        bool pools = kind->statistics && !kind->causal;
        size_t used =
            (size_t)snprintf(text, size, "%s%s", kind->formula, pools ? "; pools over tokens" : "");
        const char *option;
        for (size_t k = 0; (option = config_norm_option(kind, k)) && used < size; k++)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", k ? " " : "; options: ", option);
        return name;
    }
    if (!strcmp(topic, "placement") && placements[i].name) {
        const struct placement *p = &placements[i];
        snprintf(name, sizeof name, "%s%s%s", p->name, p->full_name ? ", " : "",
                 p->full_name ? p->full_name : "");
        snprintf(text, size, "%s", p->formula);
        return name;
    }
    if (!strcmp(topic, "optimizer") && optimizer_kinds[i]) {
        const struct optimizer_kind *kind = optimizer_kinds[i];
        size_t used = (size_t)snprintf(text, size, "%s", kind->formula);
        const char *option;
        for (size_t k = 0; (option = optimizer_option_name(kind, k)) && used < size; k++)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", k ? " " : "; options: ", option);
        return kind->name;
    }
    return NULL;
}

static const char *symbols(const char *topic) {
    static const char *const texts[][2] = {
        {"norm",
         "In formulas, x and y are a token's input and output at one channel, and C is the "
         "number of channels. mean_c, var_c and sum_c are over the token's channels. mean_n "
         "and var_n are over all tokens of the batch, mean_t and var_t over those of the "
         "sequence, for each channel; running statistics replace them in evaluation. ||x|| "
         "is the L2 norm over the channels. gamma and beta are learned for each channel; "
         "eps is --norm-eps."},
        {"placement",
         "A formula is the residual stream x after a sub-layer F (attention or MLP). N "
         "is a norm, l = 1, ..., L the layer, C the number of channels, and the head "
         "the output layer."},
        {"connection",
         "A formula is the residual stream x after a sub-layer with input u (x unless "
         "given) and output f. a and b are constant factors of the placement, usually "
         "1. N is a norm, C the number of channels, and the head the output layer."},
        {"optimizer", "In formulas, w is a weight, g its gradient, lr the learning rate, mu the "
                      "momentum, and decay --weight-decay, or 0 for biases and norms. m and v are "
                      "initially 0."},
        {"schedule", "Formulas hold after linear warm-up. lr is --learning-rate, and min --min-lr. "
                     "x rises from 0 at the start of the decay to 1 at --lr-decay-iters."},
        {NULL, NULL}};
    size_t i = 0;
    while (texts[i][0] && strcmp(texts[i][0], topic) != 0) i++;
    return texts[i][1];
}

static const char *const sections[][2] = {
    {"EXIT STATUS",
     "0: done\n1: a file, memory or the machine failed\n2: wrong usage or impossible values\n"
     "3: training diverged; the log is kept\n"
     "130, 143: interrupted by SIGINT or SIGTERM, after a checkpoint was saved"},
    {"FILES",
     "A run's folder holds config.ini (every option), log.csv (losses, in nats per character), "
     "model.safetensors (the weights), checkpoint.safetensors (what --resume needs), summary.json, "
     "sample.txt and, with --probe-interval, probes.csv, with --sample-interval samples.txt."},
    {"EXAMPLES", "normlab-train --norm=rms --postln --learning-rate=3e-3 --out=runs/try CORPUS\n"
                 "normlab-train --resume=runs/try\n"
                 "normlab-train --generate=runs/try --prompt=\"ROMEO:\""},
    {NULL, NULL}};

const struct manual help_manual = {
    .table = config_options,
    .command = "train",
    .installed = "normlab-train",
    .version = "normlab " VERSION,
    .purpose = "train a small Transformer with any normalization in any placement",
    .introduction =
        "Train a character-level Transformer on a text and log its loss. CORPUS is a UTF-8 "
        "file or - (standard input). The default is text of a built-in grammar.",
    .needs = config_condition,
    .entry = entry,
    .symbols = symbols,
    .sections = sections,
};

/* The reader of standard output has closed it. */
static void reader_left(int number) {
    _exit(STATUS_OK);
}

static void list_row(const char *name, const char *formula, const char *source) {
    printf("%-11s %s\n%-11s %s\n", name, formula, "", source);
}

/* Programs take each line that is not indented for a name. */
static void list_symbols(const char *topic) {
    printf("%-11s ", "");
    options_help_wrapped(stdout, symbols(topic), 12);
}

static void list_norms(void) {
    list_symbols("norm");
    for (const struct norm_kind *const *norm = norm_kinds; *norm; norm++)
        list_row((*norm)->name, (*norm)->formula, (*norm)->source);
}

static void list_placements(void) {
    list_symbols("placement");
    for (const struct placement *p = placements; p->name; p++)
        list_row(p->name, p->formula, p->source);
}

static void list_optimizers(void) {
    list_symbols("optimizer");
    for (const struct optimizer_kind *const *kind = optimizer_kinds; *kind; kind++)
        list_row((*kind)->name, (*kind)->formula, (*kind)->source);
}

static void list_schedules(void) {
    list_symbols("schedule");
    for (const struct schedule_kind *kind = schedule_kinds; kind->name; kind++)
        list_row(kind->name, kind->formula, kind->source);
}

static void list_connections(void) {
    list_symbols("connection");
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        list_row((*kind)->name, (*kind)->formula, (*kind)->source);
}

static const char *truth(bool value) {
    return value ? "true" : "false";
}

/* The table of options, and what conditions need to know of the placements, for programs. */
static void print_json(void) {
    fputs("{\"options\":\n", stdout);
    options_table_json(config_options, stdout);
    fputs(", \"placements\":\n", stdout);
    for (const struct placement *p = placements; p->name; p++)
        printf(
            "%s{\"name\": \"%s\", \"connection\": \"%s\", \"attn_norms\": %s, \"ffn_norms\": %s, "
            "\"end_norms\": %s, \"qk_norms\": %s, \"gamma\": %s}",
            p == placements ? "[" : ",\n ", p->name, placement_connection(p)->name,
            truth(placement_has_norms(p, true)), truth(placement_has_norms(p, false)),
            truth(p->final || p->embedding), truth(p->qk || p->qkv), truth(!p->plain));
    puts("]}");
}

bool help_answer(const struct config *config) {
    signal(SIGPIPE, reader_left);
    if (config->help && !strcmp(config->help, "json"))
        print_json();
    else if (config->help)
        options_help(&help_manual, config->help, stdout);
    else if (config->list_norms)
        list_norms();
    else if (config->list_placements)
        list_placements();
    else if (config->list_optimizers)
        list_optimizers();
    else if (config->list_schedules)
        list_schedules();
    else if (config->list_connections)
        list_connections();
    else if (config->version)
        puts("normlab " VERSION);
    else {
        signal(SIGPIPE, SIG_DFL);
        return false;
    }
    streams_flush();
    return true;
}

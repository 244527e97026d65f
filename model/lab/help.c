#include "model/lab/help.h"
#include "data/die.h"
#include "data/format.h"
#include "model/lab/say.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The lists of kinds: the option that chooses one, and the symbols in their formulas. */
static const char *const lists[][2] = {
    [LIST_NORMS] =
        {"norm",
         "In formulas, x and y are a token's input and output at one channel, and C is the "
         "number of channels. mean_c, var_c and sum_c are over the token's channels. mean_n "
         "and var_n are over all tokens of the batch, mean_t and var_t over those of the "
         "sequence, for each channel; running statistics replace them in evaluation. ||x|| "
         "is the L2 norm over the channels. gamma and beta are learned for each channel; "
         "eps is --norm-eps."},
    [LIST_PLACEMENTS] =
        {"placement",
         "A formula is the residual stream x after a sub-layer F (attention or MLP). N "
         "is a norm, l = 1, ..., L the layer, C the number of channels, and the head "
         "the output layer."},
    [LIST_CONNECTIONS] =
        {"connection",
         "A formula is the residual stream x after a sub-layer with input u (x unless "
         "given) and output f. a and b are constant factors of the placement, usually "
         "1. N is a norm, C the number of channels, and the head the output layer."},
    [LIST_OPTIMIZERS] = {"optimizer",
                         "In formulas, w is a weight, g its gradient, lr the learning rate, mu the "
                         "momentum, and decay --weight-decay, or 0 for biases and norms. m and v "
                         "are initially 0."},
    [LIST_SCHEDULES] = {"schedule",
                        "Formulas hold after linear warm-up. lr is --learning-rate, and min "
                        "--min-lr. x rises from 0 at the start of the decay to 1 at "
                        "--lr-decay-iters."}};

const char *help_symbols(const char *topic) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!strcmp(lists[i][0], topic)) return lists[i][1];
    return "";
}

void help_uses(const struct option *o, int64_t i, char *text, size_t size) {
    const bool norms = !strcmp(o->name, "norm"), optimizers = !strcmp(o->name, "optimizer");
    const char *name;
    if (norms && norm_kinds[i]->statistics && !norm_kinds[i]->causal)
        format_add(text, size, "; pools over tokens");
    for (size_t k = 0; norms || optimizers; k++) {
        name = norms ? config_norm_option(norm_kinds[i], k)
                     : optimizer_option_name(optimizer_kinds[i], k);
        if (!name) return;
        format_add(text, size, "%s%s", k ? " " : "; options: ", name);
    }
}

/* The reader of standard output has closed it. */
static void reader_left(int number) {
    _exit(STATUS_OK);
}

/* Programs take each line that is not indented for a name. */
static void print_list(int list) {
    const struct option *o = options_find(config_options, lists[list][0]);
    struct option_choice kind;
    printf("%-11s ", "");
    help_wrapped(stdout, lists[list][1], 12);
    for (int64_t i = 0; (kind = option_choice(o, i)).name; i++)
        if (kind.formula) printf("%-11s %s\n%-11s %s\n", kind.name, kind.formula, "", kind.source);
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
    if (!config_asks(config)) return false;
    signal(SIGPIPE, reader_left);
    if (config->help && !strcmp(config->help, "json"))
        print_json();
    else if (config->help)
        help_page(config->help, stdout);
    else if (config->version)
        puts("normlab " VERSION);
    for (int list = 0; list < LISTS; list++)
        if (config->list[list]) print_list(list);
    streams_flush();
    return true;
}

/* Which options have an effect in a configuration.

   The row of an option has its condition, `needs`: clauses that must all hold, such as "items=on,
   norms=bn|pn". A clause is NAME, NAME=VALUE|VALUE, or either of them after a "!"; NAME is an
   option, which has a value or one of these, or a fact of the table below.

   The row's own text is in the table of options. A heading's text holds for all rows of its topic.
   A norm, a connection or an optimizer lists the options that it uses in its own row (norm/kind.h,
   connection.h, optimizer/optimizer.h): config_needs() adds a clause for them. */
#include "data/die.h"
#include "data/format.h"
#include "model/lab/config.h"
#include "model/math/ranks.h"
#include <string.h>

/* ---- facts ---- */

/* Whether "a|b" holds the name. */
static bool listed(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (; *list; list += strcspn(list, "|"), list += *list == '|')
        if (strcspn(list, "|") == length && !strncmp(list, name, length)) return true;
    return false;
}

static bool in_training(const struct config *config, const char *values) {
    return !config->generate && !config->evaluate;
}

/* Whether the corpus has a split that is not measured. */
static bool corpus_split(const struct config *config, const char *values) {
    return !config->evaluate || !config->named;
}

static bool sampled(const struct config *config, const char *values) {
    return config->generate ||
           (in_training(config, values) && (config->sample || config->sample_interval));
}

static bool norm_occurs(const struct config *config, const char *values) {
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if (listed(values, (*kind)->name) && model_has_norm(&config->model, *kind)) return true;
    return false;
}

static bool placement_used(const struct config *config, const char *values) {
    return listed(values, model_placement(&config->model, SITE_ATTENTION)->name) ||
           listed(values, model_placement(&config->model, SITE_FFN)->name);
}

static bool connection_used(const struct config *config, const char *values) {
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        if (listed(values, (*kind)->name) && model_has_connection(&config->model, *kind))
            return true;
    return false;
}

static bool norm_used(const struct config *config, const char *values) {
    for (int site = SITE_ATTENTION; site <= SITE_FINAL; site++)
        if (model_has_site(&config->model, site) && !config->model.site_norm[site]) return true;
    return false;
}

static bool extent_used(const struct config *config, const char *values) {
    return config->model.qk_norm != INNER_NORM_OFF || config->model.v_norm != INNER_NORM_OFF ||
           model_inner_norm(&config->model, INNER_QK)->forward; // of the placement
}

static bool micro_batch_used(const struct config *config, const char *values) {
    return !model_needs_batch(&config->model);
}

static bool gamma_learned(const struct config *config, const char *values) {
    return model_learns(&config->model, NORM_GAMMA);
}

static bool beta_learned(const struct config *config, const char *values) {
    return model_learns(&config->model, NORM_BETA);
}

static bool affine_used(const struct config *config, const char *values) {
    return gamma_learned(config, values) || beta_learned(config, values);
}

static const struct fact {
    const char *name, *with, *without;                        // %s: the values
    bool (*holds)(const struct config *, const char *values); // for one of the values; or NULL:
    int site;                                                 // whether this site has a norm
} facts[] = {
    {"training", "in training", "with --generate or --evaluate", .holds = in_training},
    {"split", "without a corpus for --evaluate", "", .holds = corpus_split},
    {"sampling", "with --generate, --sample or --sample-interval", "", .holds = sampled},
    {"norms", "with --norm=%s", "without --norm=%s", .holds = norm_occurs},
    {"placements", "with --placement=%s", "without --placement=%s", .holds = placement_used},
    {"connections", "with --connection=%s", "without --connection=%s", .holds = connection_used},
    {"own-norm", "with a norm that no other option overrides", "", .holds = norm_used},
    {"attn-norms", "with a norm in the attention sub-layers", "", .site = SITE_ATTENTION},
    {"ffn-norms", "with a norm in the MLP sub-layers", "", .site = SITE_FFN},
    {"end-norms", "with a norm before the output layer or after the embedding", "",
     .site = SITE_FINAL},
    {"qkv-norms", "with --qk-norm or --v-norm", "", .holds = extent_used},
    {"micro-batches",
     "without --probe-interval, norms that pool over tokens and --connection=admin", "",
     .holds = micro_batch_used},
    {"gamma", "with a norm that learns gamma", "", .holds = gamma_learned},
    {"beta", "with a norm that learns beta", "", .holds = beta_learned},
    {"gamma-or-beta", "with a norm that learns gamma or beta", "", .holds = affine_used},
};

static const struct fact *fact_find(const char *name) {
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (!strcmp(facts[i].name, name)) return &facts[i];
    return NULL;
}

/* ---- clauses ---- */

struct clause {
    bool negated;
    char name[32], values[OPTION_FORM]; // "bn|pn", or ""
};

/* Reads the next clause of a condition; false at the end. */
static bool next_clause(const char **text, struct clause *c) {
    if (!*text || !**text) return false;
    *text += strspn(*text, ", ");
    *c = (struct clause){.negated = **text == '!'};
    *text += c->negated;
    const size_t length = strcspn(*text, ","), name = strcspn(*text, "=,");
    snprintf(c->name, sizeof c->name, "%.*s", (int)name, *text);
    if (name < length)
        snprintf(c->values, sizeof c->values, "%.*s", (int)(length - name - 1), *text + name + 1);
    *text += length;
    return true;
}

static bool clause_holds(const struct clause *c, const struct config *config) {
    const struct fact *fact = fact_find(c->name);
    if (fact)
        return c->negated != (fact->holds ? fact->holds(config, c->values)
                                          : model_has_site(&config->model, fact->site));
    char text[64];
    const char *value =
        option_value(options_find(config_options, c->name), config, text, sizeof text);
    return (value && (!*c->values || listed(c->values, value))) != c->negated;
}

static void add_clause(const struct clause *c, char *text, size_t size) {
    const struct fact *fact = fact_find(c->name);
    if (fact)
        format_add(text, size, c->negated ? fact->without : fact->with, c->values);
    else if (!*c->values || !strcmp(c->values, "on"))
        format_add(text, size, "%s --%s", c->negated ? "without" : "with", c->name);
    else if (c->negated && !strcmp(c->values, "0"))
        format_add(text, size, "with nonzero --%s", c->name);
    else
        format_add(text, size, "%s --%s=%s", c->negated ? "without" : "with", c->name, c->values);
}

/* Adds a part of a list that commas separate. */
static void add_part(char *text, size_t size, const char *part) {
    format_add(text, size, "%s%s", *text ? ", " : "", part);
}

/* ---- limits: what a run has, and a larger value exceeds ---- */

static int64_t sequences(const struct config *config) {
    return config->batch_size;
}

/* The number of updates, or 0 if the model is only used. */
static int64_t updates(const struct config *config) {
    return in_training(config, "") ? config->max_iters : 0;
}

/* The same of batches. A model that was trained before has counted others: 0. */
static int64_t batches(const struct config *config) {
    return config->start ? 0 : updates(config) * config->grad_accum;
}

static const struct limit {
    const char *name;
    int64_t (*of)(const struct config *config); // 0: there is none
    bool reached;                               // the number itself is too large, too
    const char *text;                           // of the number, and the last learning rate
} limits[] = {
    {"sequences", sequences, false, "acts as %lld, the number of sequences per batch"},
    {"updates", updates, true,
     "does not end in the run's %lld updates: the highest learning rate is %g"},
    {"decay", updates, false, "is after the run's %lld updates: the last learning rate is %g"},
    {"batches", batches, true, "does not end in the run's %lld batches"},
    {"all-batches", batches, false, "does not end in the run's %lld batches"},
};

bool config_exceeds(const struct config *config, const struct option *o, char *text, size_t size) {
    if (!o->limit || !config_has_effect(config, o)) return false;
    const struct limit *limit = limits;
    while (strcmp(limit->name, o->limit) != 0) limit++;
    const int64_t bound = limit->of(config), value = option_data_of(o, config)->integer;
    if (bound <= 0 || value < bound + !limit->reached) return false;
    snprintf(text, size, limit->text, (long long)bound,
             schedule_rate(&config->schedule, config->max_iters - 1));
    return true;
}

/* ---- conditions of rows ---- */

const char *config_uses(const struct option *o, int64_t value, size_t i) {
    if (!strcmp(o->name, "optimizer")) return optimizer_option_name(optimizer_kinds[value], i);
    if (!strcmp(o->name, "connection"))
        return value && !i ? connection_kinds[value - 1]->options : NULL; // value 0 is "auto"
    if (strcmp(o->name, "norm") != 0) return NULL;
    const struct norm_kind *kind = norm_kinds[value];
    size_t count = 0;
    while (kind->options[count]) count++;
    if (i < count) return kind->options[i]->name;
    bool sees_pads = kind->statistics && !kind->causal; // which come after a sequence's tokens
    return i == count && sees_pads ? "pad-stats" : NULL;
}

/* The options that choose kinds, and the names of clauses that list kinds. */
static const struct {
    const char *option, *clause;
} choosing[] = {{"norm", "norms"}, {"connection", "connections"}, {"optimizer", "optimizer"}};
enum { CHOOSING = sizeof choosing / sizeof *choosing };

/* Adds the clause of the kinds that use an option; nothing if it is not an option of kinds. */
static void add_users(const char *option, int i, char *text, size_t size) {
    const struct option *kinds = options_find(config_options, choosing[i].option);
    const char *kind, *name, *before = "=";
    for (int64_t value = 0; (kind = option_choice_of(kinds, value).name); value++)
        for (size_t k = 0; (name = config_uses(kinds, value, k)); k++) {
            if (strcmp(name, option) != 0) continue;
            if (*before == '=') add_part(text, size, choosing[i].clause);
            format_add(text, size, "%s%s", before, kind);
            before = "|";
        }
}

const char *config_needs(const struct option *heading, const struct option *o) {
    char text[2 * OPTION_FORM] = "";
    if (heading->needs) add_part(text, sizeof text, heading->needs);
    if (o->needs) add_part(text, sizeof text, o->needs);
    for (int i = 0; i < CHOOSING; i++) add_users(o->name, i, text, sizeof text);
    return *text ? memory_text("%s", text) : NULL; // kept until the program ends
}

/* Whether most kinds are listed: then --help need not say so. */
static bool lists_most(const struct clause *c) {
    int64_t listed = 1, kinds = 0;
    for (const char *v = c->values; *v; v++) listed += *v == '|';
    for (int i = 0; i < CHOOSING; i++)
        while (!strcmp(c->name, choosing[i].clause) &&
               option_choice_of(options_find(config_options, choosing[i].option), kinds).name)
            kinds++;
    return kinds && 2 * listed > kinds;
}

void config_condition(const struct option *o, const struct config *config, char *text,
                      size_t size) {
    const bool of_watch = !strcmp(o->name, norm_eps.name) || !strcmp(o->name, norm_momentum.name);
    struct clause c;
    text[0] = 0;
    if (config && config->model.norms.watch && of_watch) return; // see norm/watch.h
    for (const char *condition = o->needs; next_clause(&condition, &c);) {
        if (config ? clause_holds(&c, config)
                   : lists_most(&c) || (!strcmp(c.name, "training") && !c.negated))
            continue;
        if (*text) format_add(text, size, " and ");
        if (config && !strcmp(c.name, "norms") &&
            listed(c.values, norm_kinds[config->model.norm]->name))
            format_add(text, size, "%s", fact_find("own-norm")->with); // --norm is at no site
        else
            add_clause(&c, text, size);
    }
}

bool config_has_effect(const struct config *config, const struct option *o) {
    char why[OPTION_FORM];
    config_condition(o, config, why, sizeof why);
    return !*why;
}

bool config_unused(const struct config *config, int argc, char **argv, char *text, size_t size) {
    text[0] = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        char why[OPTION_FORM];
        if (o->kind == OPTION_HEADING || !options_given(config_options, o, argc, argv)) continue;
        config_condition(o, config, why, sizeof why);
        if (*why) format_add(text, size, "%s--%s (only %s)", *text ? ", " : "", o->name, why);
    }
    return *text;
}

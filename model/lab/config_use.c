/* Which options have an effect in a configuration. A norm, a placement, a connection or an optimizer lists the
   options that it uses in its own row (kind.h, placement.h, connection.h, optimizer/kind.h). The row of another option has a condition, `needs`. */
#include "model/lab/config.h"
#include <string.h>

/* Whether a list of names, separated by blanks, holds the name. */
static bool listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
    return false;
}

const char *config_norm_option(const struct norm_kind *kind, size_t i) {
    size_t own = 0;
    while (kind->options[own]) own++;
    if (i < own) return kind->options[i]->name;
    bool sees_pads = kind->statistics && !kind->causal; // which come after a sequence's tokens
    return i == own && sees_pads ? "pad-stats" : NULL;
}

static bool norm_uses(const struct norm_kind *kind, const char *option) {
    const char *name;
    for (size_t i = 0; (name = config_norm_option(kind, i)); i++)
        if (!strcmp(name, option)) return true;
    return false;
}

/* Which rows of a table, such as the norms, use an option. */
struct usage {
    int users, others; // how many do, and do not
    bool used;         // by a row that this configuration has
    char text[OPTION_FORM];
};

static void usage_add(struct usage *usage, const char *option, const char *name, bool uses,
                      bool used) {
    size_t length = strlen(usage->text);
    if (!uses) {
        usage->others++;
        return;
    }
    snprintf(usage->text + length, sizeof usage->text - length, "%s%s%s",
             usage->users ? "|" : option, usage->users ? "" : "=", name);
    usage->users++;
    usage->used |= used;
}

/* The norms that use the option; `config` may be NULL. */
static struct usage usage_in_norms(const char *option, const struct config *config) {
    struct usage usage = {0};
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        usage_add(&usage, "with --norm", (*kind)->name, norm_uses(*kind, option),
                  config && model_has_norm(&config->model, *kind));
    return usage;
}

/* Whether a sub-layer has this placement. */
static bool has_placement(const struct config *config, const struct placement *p) {
    return p == model_placement(&config->model, SITE_ATTENTION) ||
           p == model_placement(&config->model, SITE_FFN);
}

static bool optimizer_uses(const struct optimizer_kind *kind, const char *option) {
    const char *name;
    for (size_t i = 0; (name = optimizer_option_name(kind, i)); i++)
        if (!strcmp(name, option)) return true;
    return false;
}

static struct usage usage_in_optimizers(const char *option, const struct config *config) {
    struct usage usage = {0};
    for (size_t k = 0; optimizer_kinds[k]; k++)
        usage_add(&usage, "with --optimizer", optimizer_kinds[k]->name,
                  optimizer_uses(optimizer_kinds[k], option),
                  config && (size_t)config->optimizer.kind == k);
    return usage;
}

static struct usage usage_in_placements(const char *option, const struct config *config) {
    struct usage usage = {0};
    for (const struct placement *p = placements; p->name; p++)
        usage_add(&usage, "with --placement", p->name, listed(p->options, option),
                  config && has_placement(config, p));
    return usage;
}

static struct usage usage_in_connections(const char *option, const struct config *config) {
    struct usage usage = {0};
    for (const struct connection_kind *const *kind = connection_kinds; *kind; kind++)
        usage_add(&usage, "with --connection", (*kind)->name, listed((*kind)->options, option),
                  config && model_has_connection(&config->model, *kind));
    return usage;
}

/* Conditions of options that are not a matter of one row. */

static bool norm_used(const struct config *config) {
    for (int site = SITE_ATTENTION; site <= SITE_FINAL; site++)
        if (model_has_site(&config->model, site) && !config->model.site_norm[site]) return true;
    return false;
}

static bool norm_attn_used(const struct config *config) {
    return model_has_site(&config->model, SITE_ATTENTION);
}

static bool norm_ffn_used(const struct config *config) {
    return model_has_site(&config->model, SITE_FFN);
}

static bool norm_final_used(const struct config *config) {
    return model_has_site(&config->model, SITE_FINAL);
}

static bool extent_used(const struct config *config) {
    return config->model.qk_norm != INNER_NORM_OFF || config->model.v_norm != INNER_NORM_OFF ||
           model_inner_norm(&config->model, INNER_QK)->forward; // of the placement
}

static bool micro_batch_used(const struct config *config) {
    return !model_needs_batch(&config->model);
}

static bool affine_used(const struct config *config) {
    return model_learns(&config->model, NORM_GAMMA) || model_learns(&config->model, NORM_BETA);
}

static bool decay_gamma_used(const struct config *config) {
    return config->model.norms.affine && config->optimizer.weight_decay > 0 &&
           model_learns(&config->model, NORM_GAMMA);
}

static const struct condition {
    const char *option, *where;
    bool (*holds)(const struct config *config);
} conditions[] = {
    {"norm", "with a site whose norm no other option chooses", norm_used},
    {"norm-attn", "with a norm in the attention sub-layers", norm_attn_used},
    {"norm-ffn", "with a norm in the MLP sub-layers", norm_ffn_used},
    {"norm-final", "with a norm before the head or after the embedding", norm_final_used},
    {"qk-norm-over", "with --qk-norm or --v-norm", extent_used},
    {"micro-batch-tokens", "without probes, norms that pool over sequences, and --connection=admin",
     micro_batch_used},
    {"affine", "with a norm that learns gamma or beta", affine_used},
    {"decay-gamma", "with weight decay and a norm that learns gamma", decay_gamma_used},
};

/* The option's row of conditions, or NULL. */
static const struct condition *condition_of(const char *option) {
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        if (!strcmp(option, conditions[i].option)) return &conditions[i];
    return NULL;
}

/* When the option has an effect. If most norms use it, only `in_full` names them. */
static void describe_condition(const struct option *o, char *text, size_t size, bool in_full) {
    const struct usage norms = usage_in_norms(o->name, NULL);
    const struct usage placing = usage_in_placements(o->name, NULL);
    const struct usage updating = usage_in_optimizers(o->name, NULL);
    const struct usage connecting = usage_in_connections(o->name, NULL);
    const struct condition *condition = condition_of(o->name);
    text[0] = 0;
    if (condition && in_full)
        snprintf(text, size, "%s", condition->where);
    else if (norms.users && (in_full || norms.users <= norms.others))
        snprintf(text, size, "%s", norms.text);
    else if (placing.users)
        snprintf(text, size, "%s", placing.text);
    else if (updating.users && (in_full || updating.users <= updating.others))
        snprintf(text, size, "%s", updating.text);
    else if (connecting.users)
        snprintf(text, size, "%s", connecting.text);
    else if (o->needs)
        snprintf(text, size, "%s --%s", *o->needs == '!' ? "without" : "with",
                 o->needs + (*o->needs == '!'));
}

void config_condition(const struct option *option, char *text, size_t size) {
    describe_condition(option, text, size, false);
}

bool config_has_effect(const struct config *config, const struct option *o) {
    const struct usage norms = usage_in_norms(o->name, config);
    const struct usage placing = usage_in_placements(o->name, config);
    const struct usage updating = usage_in_optimizers(o->name, config);
    const struct usage connecting = usage_in_connections(o->name, config);
    const bool of_watch = !strcmp(o->name, norm_eps.name) || !strcmp(o->name, norm_momentum.name);
    if (config->model.norms.watch && of_watch) return true; // see norm/watch.h
    const struct condition *condition = condition_of(o->name);
    if (condition) return condition->holds(config);
    if (norms.users) return norms.used;
    if (placing.users) return placing.used;
    if (updating.users) return updating.used;
    if (connecting.users) return connecting.used;
    return !o->needs || options_hold(config_options, config, o->needs);
}

bool config_unused(const struct config *config, int argc, char **argv, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING || !options_given(config_options, o, argc, argv)) continue;
        if (config_has_effect(config, o) || used >= size) continue;
        char why[OPTION_FORM];
        describe_condition(o, why, sizeof why, true);
        if (norm_uses(norm_kinds[config->model.norm], o->name)) // and yet it has no effect
            snprintf(why, sizeof why, "%s", condition_of("norm")->where);
        used += (size_t)snprintf(text + used, size - used, "%s--%s (only %s)", used ? ", " : "",
                                 o->name, why);
    }
    return used > 0;
}

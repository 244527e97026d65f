/* Which options a configuration uses. Norms and placements list theirs in their rows (kind.h,
   placement.h). The rows of other options say what they need. */
#include "model/lab/config.h"
#include <string.h>

/* Whether the list, names with blanks between, holds the name. */
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
    return i == own && kind->statistics ? "pad-stats" : NULL; // of all that pool over tokens
}

static bool norm_uses(const struct norm_kind *kind, const char *option) {
    const char *name;
    for (size_t i = 0; (name = config_norm_option(kind, i)); i++)
        if (!strcmp(name, option)) return true;
    return false;
}

/* An option that is declared in a list of another place than the option's row. */
struct claim {
    int users, others; // rows of the table that use the option, and that do not
    bool used;         // by this configuration
    char text[OPTION_FORM];
};

static void claim_row(struct claim *claim, const char *option, const char *name, bool uses,
                      bool used) {
    size_t length = strlen(claim->text);
    if (!uses) {
        claim->others++;
        return;
    }
    snprintf(claim->text + length, sizeof claim->text - length, "%s%s%s",
             claim->users ? "|" : option, claim->users ? "" : "=", name);
    claim->users++;
    claim->used |= used;
}

/* The norms that use the option; `config` may be NULL. */
static struct claim claim_of_norms(const char *option, const struct config *config) {
    struct claim claim = {0};
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        claim_row(&claim, "with --norm", (*kind)->name, norm_uses(*kind, option),
                  config && model_has_norm(&config->model, *kind));
    return claim;
}

static struct claim claim_of_placements(const char *option, const struct config *config) {
    struct claim claim = {0};
    for (const struct placement *p = placements; p->name; p++)
        claim_row(&claim, "with --placement", p->name, listed(p->options, option),
                  config && p == &placements[config->model.placement]);
    return claim;
}

static void needs(const struct option *o, char *text, size_t size, bool in_full) {
    const struct claim norms = claim_of_norms(o->name, NULL);
    const struct claim of_placements = claim_of_placements(o->name, NULL);
    text[0] = 0;
    if (norms.users && (in_full || norms.users <= norms.others))
        snprintf(text, size, "%s", norms.text);
    else if (of_placements.users)
        snprintf(text, size, "%s", of_placements.text);
    else if (o->needs)
        snprintf(text, size, "%s --%s", *o->needs == '!' ? "without" : "with",
                 o->needs + (*o->needs == '!'));
}

/* What most norms use needs no mention. */
void config_needs(const struct option *option, char *text, size_t size) {
    needs(option, text, size, false);
}

static bool uses(const struct config *config, const struct option *o) {
    const struct claim norms = claim_of_norms(o->name, config);
    const struct claim of_placements = claim_of_placements(o->name, config);
    if (norms.users) return norms.used;
    if (of_placements.users) return of_placements.used;
    return !o->needs || options_hold(config_options, config, o->needs);
}

bool config_unused(const struct config *config, int argc, char **argv, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING || !options_given(config_options, o, argc, argv)) continue;
        if (uses(config, o) || used >= size) continue;
        char why[OPTION_FORM];
        needs(o, why, sizeof why, true);
        used += (size_t)snprintf(text + used, size - used, "%s--%s (only %s)", used ? ", " : "",
                                 o->name, why);
    }
    return used > 0;
}

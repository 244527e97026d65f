/* Which options have an effect in a configuration.

   The row of an option lists its conditions, which conditions.h defines. Those of a heading hold for all
   rows of its topic. A norm, a connection or an optimizer lists the options that it uses in its own
   row (norm/kind.h, connection.h, optimizer/optimizer.h): such an option needs one of its kinds. */
#include "data/die.h"
#include "data/format.h"
#include "model/options/config.h"
#include "model/options/config_rows.h"
#include <string.h>

/* ---- conditions.h ---- */

static bool config_is_random(const struct config *config) {
    return config->corpus && !strcmp(config->corpus, RANDOM_CORPUS);
}

static bool config_has_placement(const struct config *config, const char *name) {
    return !strcmp(model_placement(&config->model, SITE_ATTENTION)->name, name) ||
           !strcmp(model_placement(&config->model, SITE_FFN)->name, name);
}

static bool config_has_own_norm(const struct config *config) {
    for (int site = SITE_ATTENTION; site <= SITE_FINAL; site++)
        if (model_has_site(&config->model, site) && !config->model.site_norm[site]) return true;
    return false;
}

// clang-format off
#define CONDITION(name, words, expression, ...)                                                    \
    static bool name##_holds(const void *settings, const struct option *option) {                  \
        const struct config *config = settings;                                                    \
        return expression;                                                                         \
    }                                                                                              \
    const struct condition needs_##name = {.text = words, .holds = name##_holds, __VA_ARGS__};
#include "model/options/conditions.h"
#undef CONDITION
// clang-format on

/* ---- conditions of kinds ---- */

/* Whether a kind's list has the option. */
static bool lists(const struct option *const *list, const struct option *o) {
    while (*list && strcmp((*list)->name, o->name) != 0) list++;
    return *list;
}

static bool norm_uses(int64_t k, const struct option *o) {
    const struct norm_kind *kind = norm_kinds[k];
    const bool sees_pads =
        kind->statistics && !kind->causal; // which come after a sequence's tokens
    return lists(kind->options, o) || (sees_pads && !strcmp(o->name, "pad-stats"));
}

static bool has_norm_with(const void *settings, const struct option *o) {
    const struct model_config *model = &((const struct config *)settings)->model;
    if (model->whole_batch &&
        (!strcmp(o->name, norm_eps.name) || !strcmp(o->name, norm_momentum.name)))
        return true; // see watch.h
    for (int64_t k = 0; norm_kinds[k]; k++)
        if (norm_uses(k, o) && model_has_norm(model, norm_kinds[k])) return true;
    return false;
}

/* Connection 0 is "auto". */
static bool connection_uses(int64_t k, const struct option *o) {
    return k && lists(connection_kinds[k - 1]->options, o);
}

static bool has_connection_with(const void *settings, const struct option *o) {
    const struct model_config *model = &((const struct config *)settings)->model;
    for (int64_t k = 1; connection_kinds[k - 1]; k++)
        if (connection_uses(k, o) && model_has_connection(model, connection_kinds[k - 1]))
            return true;
    return false;
}

/* AdamW updates the tensors that a kind does not take. */
static bool optimizer_uses(int64_t k, const struct option *o) {
    const struct optimizer_kind *kind = optimizer_kinds[k];
    return lists(kind->options, o) || (kind->takes && lists(optimizer_kinds[0]->options, o));
}

static bool has_optimizer_with(const void *settings, const struct option *o) {
    return optimizer_uses(((const struct config *)settings)->optimizer.kind, o);
}

/* The options that choose kinds. */
static const struct {
    const char *name;
    bool (*uses)(int64_t kind, const struct option *);
    bool (*holds)(const void *settings, const struct option *);
} choosing[] = {{"norm", norm_uses, has_norm_with},
                {"connection", connection_uses, has_connection_with},
                {"optimizer", optimizer_uses, has_optimizer_with}};
enum { CHOOSING = sizeof choosing / sizeof *choosing };

bool config_uses(const struct option *of, int64_t value, const struct option *o) {
    for (int i = 0; i < CHOOSING; i++)
        if (!strcmp(choosing[i].name, of->name)) return choosing[i].uses(value, o);
    return false;
}

/* The condition that one of the kinds is there that use the option, kept until the program ends;
   NULL if no kind uses it. */
static const struct condition *need_of_kinds(int i, const struct option *o) {
    const struct option *of = options_find(config_options, choosing[i].name);
    char text[OPTION_FORM] = "";
    const char *name;
    int64_t kinds = 0, users = 0;
    for (; (name = option_choice_of(of, kinds).name); kinds++)
        if (choosing[i].uses(kinds, o))
            format_add(text, sizeof text, "%s%s", users++ ? "|" : "", name);
    if (!users) return NULL;
    struct condition *condition = memory_take(1, sizeof *condition, "the table of options");
    *condition = (struct condition){memory_text("only with --%s=%s", of->name, text),
                                    choosing[i].holds, .usual = 2 * users > kinds};
    return condition;
}

/* Adds a condition, unless it is NULL. */
static void add_need(struct option *o, const struct condition *condition) {
    int count = 0;
    while (o->needs[count]) count++;
    if (condition && count == OPTION_NEEDS)
        die(STATUS_USAGE, "--%s: has too many conditions (raise OPTION_NEEDS)", o->name);
    o->needs[count] = condition;
}

void config_add_needs(struct option *o, const struct option *heading) {
    const struct option own = *o;
    memset(o->needs, 0, sizeof o->needs);
    for (int i = 0; heading->needs[i]; i++) add_need(o, heading->needs[i]);
    for (int i = 0; own.needs[i]; i++) add_need(o, own.needs[i]);
    for (int i = 0; i < CHOOSING; i++) add_need(o, need_of_kinds(i, o));
}

/* ---- limits: what a run has, and a larger value exceeds ---- */

static int64_t sequences(const struct config *config) {
    return config->batch_size;
}

/* The number of updates, or 0 if the model is only used. */
static int64_t updates(const struct config *config) {
    return needs_training.holds(config, NULL) ? config->max_iters : 0;
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
    if (!o->limit || !option_is_active(o, config)) return false;
    const struct limit *limit = limits;
    while (strcmp(limit->name, o->limit) != 0) limit++;
    const int64_t bound = limit->of(config), value = option_data_of(o, config)->integer;
    if (bound <= 0 || value < bound + !limit->reached) return false;
    snprintf(text, size, limit->text, (long long)bound,
             schedule_rate(&config->schedule, config->max_iters - 1));
    return true;
}

/* ---- --norm-groups (only with --norm=gn) ---- */

bool config_unused(const struct config *config, int argc, char **argv, char *text, size_t size) {
    text[0] = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        char why[OPTION_FORM];
        if (o->kind == OPTION_HEADING || !options_given(config_options, o, argc, argv)) continue;
        option_lacks(o, config, why, sizeof why);
        if (*why) format_add(text, size, "%s--%s (%s)", *text ? ", " : "", o->name, why);
    }
    return *text;
}

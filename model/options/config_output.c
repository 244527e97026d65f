/* Shows the values of options and what became of them: --show-options, and members of a run's files.

   Scripts compare runs by their options. They leave out an option where it has no effect, and one
   that follows from others by "auto" in every run. The program decides both, here, so that scripts
   need to know no condition. */
#include "data/text/corpus.h"
#include "model/norm/formula_show.h"
#include "model/options/config.h"

/* What is shown: every option of a run, but not the requests for help. */
static bool is_shown(const struct option *o) {
    return o->kind != OPTION_HEADING && o->kind != OPTION_ALIAS && o->role != OPTION_STOP &&
           o->role != OPTION_HELP && o->role != OPTION_BARE;
}

static void show_json(const struct plan *plan) {
    const struct config *config = &plan->config;
    const char *before = "{";
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (!is_shown(o)) continue;
        printf("%s\"%s\": {\"value\": ", before, o->name);
        option_write_json(o, config, stdout);
        printf(", \"active\": %s, \"auto\": %s}", option_is_active(o, config) ? "true" : "false",
               option_is_auto(o, &plan->given) ? "true" : "false");
        before = ",\n ";
    }
    puts("}");
}

static void show_table(const struct plan *plan) {
    const struct config *config = &plan->config;
    char text[64], why[OPTION_FORM];
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) printf("%s:\n", o->help);
        if (!is_shown(o)) continue;
        const char *value = option_value(o, config, text, sizeof text);
        const char *note =
            option_is_auto(o, &plan->given) && strcmp(value, "auto") != 0 ? "  (auto)" : "";
        option_lacks(o, config, why, sizeof why);
        const char *before = *why ? "  no effect: " : "";
        if (config_exceeds(config, o, why, sizeof why)) before = "  ";
        printf("  %-22s %s%s%s%s\n", o->name, value ? value : "-", note, before, why);
    }
}

static void show_norm(const struct model_config *model, int64_t choice, bool torch) {
    const int64_t kind = choice == INNER_NORM_ON ? model->norm : choice - INNER_NORM_KINDS;
    const struct norm_options options = model_norm_options(model, SITE_FINAL);
    formula_show(norm_kinds[kind], &options, (size_t)model->n_embd, torch);
}

bool config_shows(const struct config *config) {
    return config->show || config->show_norm;
}

void config_show(struct plan *plan) {
    const struct corpus text = {.kind = &corpus_text};
    const int64_t show = plan->config.show;
    if (plan->config.show_norm) {
        show_norm(&plan->config.model, plan->config.show_norm, plan->config.show_as);
        return;
    }
    if (!plan->config.items) config_settle_count(plan, &text); // else --max-tokens needs the corpus
    if (show == SHOW_LAYER)
        config_show_layer(&plan->config);
    else if (show == SHOW_JSON)
        show_json(plan);
    else
        show_table(plan);
}

void config_write_auto(const struct plan *plan, FILE *file) {
    const char *before = "{";
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (!option_is_stored(o) || !option_is_auto(o, &plan->given)) continue;
        fprintf(file, "%s\"%s\": ", before, o->name);
        option_write_json(o, &plan->config, file);
        before = ", ";
    }
    fputs(*before == '{' ? "{}" : "}", file);
}

void config_write_outcome(const struct plan *plan, FILE *file) {
    const char *before = "";
    fputs("\"inactive\": [", file);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (!option_is_stored(o) || option_is_active(o, &plan->config)) continue;
        fprintf(file, "%s\"%s\"", before, o->name);
        before = ", ";
    }
    fputs("], \"auto\": ", file);
    config_write_auto(plan, file);
}

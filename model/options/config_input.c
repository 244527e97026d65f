/* From the command line and stored options to a configuration: checks for contradictions. */
#include "data/die.h"
#include "model/options/config.h"
#include <string.h>

/* Dies if --placement-attn or --placement-ffn mixes a placement that concerns all sub-layers with
   another one. Such a placement has a second stream, to which all sub-layers add, or keeps all
   weights, embeddings included, at unit length. */
static void check_whole_rows(const struct model_config *model) {
    const struct placement *of_model = &placements[model->placement];
    for (int site = SITE_ATTENTION; site <= SITE_FFN; site++) {
        const struct placement *of_site = model_placement(model, site);
        if (of_site == of_model) continue;
        const bool streams = model_connection(model, of_site)->streams;
        const struct placement *row = streams || of_site->unit ? of_site : of_model;
        if (model->connection || !(model_connection(model, row)->streams || row->unit)) continue;
        die(STATUS_USAGE,
            "--placement-%s=%s: cannot be combined with --placement=%s, because all sub-layers "
            "must %s of %s (give --placement alone)",
            site == SITE_ATTENTION ? "attn" : "ffn", of_site->name, of_model->name,
            row->unit ? "keep the unit lengths" : "share the streams", row->name);
    }
}

/* Dies if there is no formula for a placement with --connection. */
static void check_connection(const struct model_config *model) {
    for (size_t l = 0; model->connection && l < (size_t)model->n_layer; l++)
        for (int site = SITE_ATTENTION; site <= SITE_FFN; site++) {
            const struct placement *row = model_row(model, site, l);
            const struct connection_kind *kind = model_connection(model, row);
            const char *why = placement_refuses(row, kind);
            if (why)
                die(STATUS_USAGE, "--connection=%s: cannot be combined with --placement=%s: %s",
                    kind->name, row->name, why);
        }
}

/* Dies if the channels cannot be split among the heads. */
static void check_heads(const struct model_config *model) {
    const long long C = model->n_embd, heads = model->n_head, kv_heads = model->n_kv_head;
    if (C % heads)
        die(STATUS_USAGE, "--n-embd=%lld: must be a multiple of --n-head=%lld", C, heads);
    if (heads % kv_heads)
        die(STATUS_USAGE, "--n-kv-head=%lld: must divide --n-head=%lld", kv_heads, heads);
    if (kv_heads != heads && placements[model->placement].gains)
        die(STATUS_USAGE,
            "--n-kv-head=%lld: --placement=%s learns one factor for a query and its key (leave it "
            "at --n-head)",
            kv_heads, placements[model->placement].name);
    if (model->position == POSITION_ROPE && C / heads % 2)
        die(STATUS_USAGE,
            "--position=rope: needs an even number of channels per head, --n-embd=%lld / "
            "--n-head=%lld",
            C, heads);
}

/* Dies if a soft cap is so small that a real may not hold it: 0 means that there is none. */
static void check_softcap(const char *name, double cap) {
    const double least = 1e-6;
    if (cap > 0 && cap < least)
        die(STATUS_USAGE, "--%s=%g: must be at least %g, or 0 for no cap", name, cap, least);
}

/* Dies if values contradict each other. */
static void check(const struct config *given) {
    const struct plan plan = plan_of(given);
    const struct model_config *model = &plan.config.model;
    const struct schedule *schedule = &plan.config.schedule;
    check_whole_rows(model);
    check_connection(model);
    check_heads(model);
    check_softcap("attn-softcap", model->attn_softcap);
    check_softcap("logit-softcap", model->logit_softcap);
    if (schedule->rate_min > schedule->rate)
        die(STATUS_USAGE, "--min-lr=%g: must be at most --learning-rate=%g", schedule->rate_min,
            schedule->rate);
}

void config_start(struct config *config) {
    *config = (struct config){0};
    options_start(config_options, config);
}

static bool given(const char *name, int argc, char **argv) {
    return options_given(config_options, options_find(config_options, name), argc, argv);
}

void config_parse(struct config *config, int argc, char **argv) {
    config_start(config);
    options_arguments(config_options, config, argc, argv);
    if (config->help || config->version) return;
    if ((config->resume != NULL) + (config->generate != NULL) + (config->evaluate != NULL) > 1)
        die(STATUS_USAGE,
            "--resume, --generate, --evaluate: contradict each other (give one of them)");
    if (config->resume && (config->out || config->force))
        die(STATUS_USAGE, "--resume=%s: continues in that folder (leave out --out and --force)",
            config->resume);
    if (config_stored(config)) return;
    // the command line overrides a --config file, also if the file gives the other of the two
    const bool iters = given("max-iters", argc, argv), tokens = given("max-tokens", argc, argv);
    if (tokens && !iters) config->max_iters = OPTION_AUTO;
    if (iters && !tokens) config->max_tokens = OPTION_AUTO;
    check(config);
}

const char *config_stored(const struct config *config) {
    return config->resume ? config->resume : config->generate ? config->generate : config->evaluate;
}

/* Keeps what "auto" was in the run or model so far, if it would now become something else. A decay
   that has not begun may still end with the run. */
static void keep_automatic(struct config *config, const struct plan *before, int64_t steps,
                           int argc, char **argv) {
    const struct plan after = plan_of(config);
    const bool moves = config->max_tokens == OPTION_AUTO &&
                       schedule_kinds[after.config.schedule.kind].stable &&
                       schedule_is_stable(&before->config.schedule, steps);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        const union option_data *was = option_data_of(o, &before->config);
        const bool fixed = o->scope == OPTION_OF_RUN || o->scope == OPTION_OF_MODEL;
        if (!fixed || !option_is_auto(o, &before->given) ||
            options_given(config_options, o, argc, argv))
            continue;
        if (moves && was == (const void *)&before->config.schedule.decay) continue;
        if (memcmp(was, option_data_of(o, &after.config), sizeof *was) != 0)
            *option_data_of(o, config) = *was;
    }
}

void config_agree(const struct config *stored, struct config *config, enum option_scope scope,
                  const struct config_source *where, int argc, char **argv) {
    const struct plan plan = plan_of(stored);
    keep_automatic(config, &plan, where->steps, argc, argv);
    struct config before = plan.config;
    const struct config after = plan_of(config).config;
    const struct schedule *schedule = &after.schedule;
    if (scope == OPTION_OF_RUN && schedule_is_stable(&before.schedule, where->steps) &&
        schedule_kinds[schedule->kind].stable) {
        if (!schedule_is_stable(schedule, where->steps))
            die(STATUS_USAGE,
                "--decay-fraction=%g: decay would start after %lld updates, and %s has done %lld "
                "(try a smaller fraction, or a larger --max-iters)",
                schedule->fraction, (long long)schedule_begin(schedule), where->path,
                (long long)where->steps);
        before.schedule = *schedule;
        before.schedule.warmup = plan.config.schedule.warmup; // what the updates done depend on
        before.schedule.rate = plan.config.schedule.rate;
    }
    options_agree(config_options, &before, &after, scope, where->path, where->hint);
}

void config_continue(struct config *config, const struct config *stored, enum option_scope scope,
                     const struct config_source *where, int argc, char **argv) {
    *config = *stored;
    config->named = given("corpus", argc, argv);
    config->max_iters = OPTION_AUTO; // so that --max-tokens can replace the stored value
    options_arguments(config_options, config, argc, argv);
    if (config->max_iters == OPTION_AUTO && config->max_tokens == OPTION_AUTO)
        config->max_iters = stored->max_iters;
    config_agree(stored, config, scope, where, argc, argv);
    check(config);
}

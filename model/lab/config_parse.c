/* From the command line to a configuration: resolves "auto" and checks for contradictions. */
#include "data/die.h"
#include "model/lab/config.h"
#include "model/math/cores.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Sets the options at "auto" that are then products of others, once these are known. */
static void resolve_products(struct config *config) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        int64_t product = 1, *value = &option_data_of(o, config)->integer;
        bool known = o->automatic[0] && *value == OPTION_AUTO;
        for (int i = 0; known && i < 2 && o->automatic[i]; i++) {
            const struct option *factor = options_find(config_options, o->automatic[i]);
            product *= option_data_of(factor, config)->integer;
            known = option_data_of(factor, config)->integer != OPTION_AUTO;
        }
        if (known) *value = product;
    }
}

void config_set_updates(struct config *config, int64_t updates) {
    config->max_iters = updates;
    config->max_tokens = OPTION_AUTO;
    if (config->eval_interval == OPTION_AUTO)
        config->eval_interval = updates >= 8 * 250 ? 250 : updates >= 8 ? updates / 8 : 1;
    resolve_products(config);
}

/* --threads=auto, before the amount of work is known. */
static int auto_threads(void) {
    const char *given = getenv("OMP_NUM_THREADS");
    const int limit = given && atoi(given) > 0 ? MAX_THREADS : cores_usable();
    return (int)size_min(size_min(limit, MAX_THREADS), omp_get_max_threads());
}

/* Resolves "auto", except for what depends on --max-tokens. */
static void resolve_auto(struct config *config) {
    struct model_config *model = &config->model;
    resolve_products(config);
    struct schedule *schedule = &config->schedule;
    if (schedule->rate_min == OPTION_AUTO) schedule->rate_min = schedule->rate / 10;
    config->optimizer.peak = schedule->rate;
    if (config->max_tokens == OPTION_AUTO || config->generate || config->evaluate)
        config_set_updates(config, config->max_iters == OPTION_AUTO ? 2000 : config->max_iters);
    if (model->qk_scale_start == OPTION_AUTO) model->qk_scale_start = model_qk_scale_start(model);
    if (model->embd_scale_start == OPTION_AUTO)
        model->embd_scale_start = sqrt((double)model->n_embd);
    model->ffn_width = (int64_t)model_ffn_width(model);
    model->any_length = config->items && config->pad_to == PAD_TO_LONGEST;
    if (config->dump) model->micro_batch_tokens = 0; // the gradients are those of full batches
    // only training has probes
    model->norms.watch = config->probe_interval && !config->generate && !config->evaluate;
    config->team = config->threads == OPTION_AUTO ? 0 : config->threads;
    if (config->threads == OPTION_AUTO) config->threads = auto_threads();
    omp_set_num_threads((int)config->threads);
}

bool config_is_auto(const struct config *config, const struct option *o) {
    if (!o->start || strcmp(o->start, "auto") != 0) return false;
    const union option_data *value = option_data_of(o, config);
    if (o->kind == OPTION_CHOICE) return !strcmp(option_choice_of(o, value->integer).name, "auto");
    if (&value->integer == &config->threads) return !config->team;
    struct config automatic = *config;
    union option_data *given = option_data_of(o, &automatic);
    if (o->kind == OPTION_INT)
        given->integer = OPTION_AUTO;
    else
        given->real = OPTION_AUTO;
    resolve_auto(&automatic);
    if (o->kind == OPTION_INT) return given->integer == value->integer;
    return fabs(given->real - value->real) <= 1e-6 * fabs(value->real); // a person may round it
}

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
static void check(const struct config *config) {
    const struct model_config *model = &config->model;
    const struct schedule *schedule = &config->schedule;
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
    resolve_auto(config);
    check(config);
}

const char *config_stored(const struct config *config) {
    return config->resume ? config->resume : config->generate ? config->generate : config->evaluate;
}

void config_agree(const struct config *stored, const struct config *config, enum option_scope scope,
                  const struct config_source *where) {
    struct config before = *stored;
    const struct schedule *schedule = &config->schedule;
    if (scope == OPTION_OF_RUN && schedule_is_stable(&before.schedule, where->steps) &&
        schedule_kinds[schedule->kind].stable) {
        if (!schedule_is_stable(schedule, where->steps))
            die(STATUS_USAGE,
                "--decay-fraction=%g: decay would start after %lld updates, and %s has done %lld "
                "(try a smaller fraction, or a larger --max-iters)",
                schedule->fraction, (long long)schedule_begin(schedule), where->path,
                (long long)where->steps);
        before.schedule = *schedule;
        before.schedule.warmup = stored->schedule.warmup; // what the updates done depend on
        before.schedule.rate = stored->schedule.rate;
    }
    options_agree(config_options, &before, config, scope, where->path, where->hint);
}

void config_continue(struct config *config, const struct config *stored, enum option_scope scope,
                     const struct config_source *where, int argc, char **argv) {
    struct config before = *stored;
    resolve_auto(&before);
    *config = *stored;
    config->named = given("corpus", argc, argv);
    config->max_iters = OPTION_AUTO; // so that --max-tokens can replace the stored value
    options_arguments(config_options, config, argc, argv);
    if (config->max_iters == OPTION_AUTO && config->max_tokens == OPTION_AUTO)
        config->max_iters = stored->max_iters;
    // if a run that continues with a constant learning rate gets another end or another schedule, a
    // decay that counts from the end moves with it, unless it was given an end of its own
    const bool moves = given("max-iters", argc, argv) || given("schedule", argc, argv);
    const bool own_end =
        schedule_kinds[before.schedule.kind].from_end && before.schedule.decay != before.max_iters;
    if (moves && !own_end && !given("lr-decay-iters", argc, argv) &&
        config->max_tokens == OPTION_AUTO && schedule_kinds[config->schedule.kind].from_end &&
        schedule_is_stable(&before.schedule, where->steps))
        config->schedule.decay = OPTION_AUTO;
    resolve_auto(config);
    config_agree(&before, config, scope, where);
    check(config);
}

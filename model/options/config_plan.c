/* What follows from a configuration: the values that stand for "auto". */
#include "data/die.h"
#include "data/text/corpus.h"
#include "model/math/cgroup.h"
#include "model/math/ranks.h"
#include "model/options/config.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

/* --threads=auto, before the amount of work is known. Ranks on one machine share its cores. */
static int64_t auto_threads(void) {
    const char *given = getenv("OMP_NUM_THREADS");
    const int limit = given && atoi(given) > 0 ? MAX_THREADS : cgroup_cores();
    const size_t threads = size_min(size_min(limit, MAX_THREADS), omp_get_max_threads());
    const size_t share = size_max(1, (size_t)cgroup_cores() / size_max(1, ranks.here));
    return (int64_t)(ranks.here > 1 ? size_min(threads, share) : threads);
}

/* Sets the options at "auto" that are products of others, if these are known. */
static void set_products(struct config *config) {
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

struct plan plan_of(const struct config *given) {
    struct plan plan = {.given = *given, .config = *given};
    struct config *config = &plan.config;
    struct model_config *model = &config->model;
    struct schedule *schedule = &config->schedule;
    const bool used = given->generate || given->evaluate;
    if (used || given->max_tokens == OPTION_AUTO) {
        config->max_tokens = OPTION_AUTO;
        if (given->max_iters == OPTION_AUTO) config->max_iters = 2000;
    }
    set_products(config);
    const int64_t updates = config->max_iters;
    if (given->eval_interval == OPTION_AUTO && updates != OPTION_AUTO)
        config->eval_interval = updates >= 8 * 250 ? 250 : updates >= 8 ? updates / 8 : 1;
    if (given->schedule.rate_min == OPTION_AUTO) schedule->rate_min = schedule->rate / 10;
    config->optimizer.peak = schedule->rate;
    if (given->model.qk_scale_start == OPTION_AUTO)
        model->qk_scale_start = model_qk_scale_start(model);
    if (given->model.embd_scale_start == OPTION_AUTO)
        model->embd_scale_start = sqrt((double)model->n_embd);
    model->ffn_width = (int64_t)model_ffn_width(model);
    if (given->num_items == OPTION_AUTO) config->num_items = 20;
    model->any_length = config->items && config->pad_to == PAD_TO_LONGEST;
    model->norms.measures_positions =
        given->stats == STATISTICS_POSITION || given->stats == STATISTICS_SOURCES;
    if (config->dump) model->micro_batch_tokens = 0;      // the gradients are those of full batches
    model->whole_batch = config->probe_interval && !used; // only training has probes
    plan.team = given->threads == OPTION_AUTO ? 0 : (size_t)given->threads;
    if (!plan.team) config->threads = auto_threads();
    config->quiet |= ranks.number > 0; // the first rank alone prints messages
    return plan;
}

void config_settle_count(struct plan *plan, const struct corpus *corpus) {
    struct config *config = &plan->given;
    const int64_t tokens = config->max_tokens, given = config->max_iters;
    if (tokens == OPTION_AUTO) return;
    const uint64_t accum = config->grad_accum;
    const uint64_t batches =
        corpus_batches(corpus, config->seed, tokens, config->batch_size, config->model.block_size);
    const int64_t updates = (int64_t)((batches + accum - 1) / accum);
    if (updates > MAX_ITERS)
        die(STATUS_USAGE, "--max-tokens=%lld: needs more than %d updates (try a smaller N)",
            (long long)tokens, MAX_ITERS);
    if (given != OPTION_AUTO && given != updates)
        die(STATUS_USAGE,
            "--max-iters=%lld: contradicts --max-tokens=%lld, which needs %lld updates (try "
            "--max-iters=auto)",
            (long long)given, (long long)tokens, (long long)updates);
    config->max_iters = updates;
    config->max_tokens = OPTION_AUTO;
    *plan = plan_of(config);
}

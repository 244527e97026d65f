/* What a person who trains reads: first what will be trained on what, and which options have no
   effect; then losses; at the end how to go further. */
#include "model/app/messages.h"
#include "data/die.h"
#include "data/format.h"
#include "model/math/cgroup.h"
#include "model/math/ranks.h"
#include "model/partition.h"
#include <ctype.h>
#include <libgen.h>
#include <string.h>

/* A line on the text and the model, and one more if items are cut. */
static void say_corpus(struct progress *progress, const struct record *r) {
    const struct corpus *corpus = r->state.corpus;
    const struct config *config = r->config;
    const struct items_size size = items_size_of(corpus, (size_t)config->model.block_size);
    const struct norm_kind *norm = norm_kinds[config->model.norm];
    char items[128] = "";
    if (size.items)
        snprintf(items, sizeof items,
                 "%zu items, %zu of them for validation, the longest has %zu characters: ",
                 corpus->units, corpus->end - corpus->train, size.longest);
    progress_say(
        progress, "%s: %s%zu characters, %zu different; %s, %s: %zu parameters; %lld thread%s",
        corpus->name, items, corpus->characters, corpus->distinct,
        norm->typed ? "norm by a formula" : norm->name, placements[config->model.placement].name,
        model_parameters(r->model), (long long)config->threads, config->threads == 1 ? "" : "s");
    if (size.cut)
        progress_say(progress,
                     "%zu items and their end markers do not fit in a block of %lld and are cut "
                     "(--block-size=%zu keeps them whole)",
                     size.cut, (long long)config->model.block_size, size.longest + 1);
}

/* The formulas of norm and placement, and of a connection that the user chose; of attention and the
   MLP where they have placements of their own. */
static void say_formulas(struct progress *progress, const struct model_config *model) {
    const struct placement *attention = model_placement(model, SITE_ATTENTION);
    const struct placement *mlp = model_placement(model, SITE_FFN);
    const struct norm_kind *kind = norm_kinds[model->norm];
    const char *norm = kind->formula ? kind->formula : kind->words;
    if (attention == mlp && attention == &placements[model->placement])
        progress_say(progress, "norm %s; placement %s", norm, attention->formula);
    else
        progress_say(progress, "norm %s; placement of attention %s; of the MLP %s", norm,
                     attention->formula, mlp->formula);
    if (model->connection)
        progress_say(progress, "connection %s", connection_kinds[model->connection - 1]->formula);
}

/* Messages about how ranks share the work, if there are several. */
static void say_ranks(struct progress *progress, const struct record *r) {
    const struct config *config = r->config;
    const struct batch batch = {.B = (size_t)config->batch_size,
                                .T = (size_t)config->model.block_size};
    const struct parts parts = partition_parts(&config->model, &batch, &batch);
    const size_t count = ranks.count, busy = ranks_busy(parts_count(&parts));
    const size_t threads = ranks.here * (size_t)config->threads;
    if (count == 1) return;
    if (r->model->lists.undivided)
        progress_say(progress,
                     "each of the %zu ranks computes the full batch: one of the "
                     "norms pools in a way that ranks cannot share",
                     count);
    else if (busy < count)
        progress_say(progress,
                     "%zu of the %zu ranks have nothing to do: a batch of %zu sequences of %zu has "
                     "work for %zu (see --batch-parts)",
                     count - busy, count, batch.B, batch.T, busy);
    if (threads > (size_t)cgroup_cores())
        progress_say(
            progress,
            "%zu ranks of %lld threads share %d cores, which is slow (try a smaller --threads)",
            ranks.here, (long long)config->threads, cgroup_cores());
}

/* What a user may not expect of the run: options without an effect, values that exceed what the run
   has. */
static void say_warnings(struct progress *progress, const struct record *r, int argc, char **argv) {
    char text[1024];
    if (config_unused(r->config, argc, argv, text, sizeof text))
        progress_say(progress, "no effect: %s", text);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (config_exceeds(r->config, o, text, sizeof text))
            progress_say(progress, "--%s=%lld %s", o->name,
                         (long long)option_data_of(o, r->config)->integer, text);
}

void messages_start(struct progress *progress, const struct record *r, int argc, char **argv) {
    const struct config *config = r->config;
    say_corpus(progress, r);
    say_formulas(progress, &config->model);
    say_ranks(progress, r);
    say_warnings(progress, r, argc, argv);
    if (config->resume) progress_say(progress, "resuming at step %lld", (long long)r->state.step);
}

void messages_without_effect(const struct config *config, int argc, char **argv) {
    char unused[1024];
    if (config_unused(config, argc, argv, unused, sizeof unused)) notice("no effect: %s", unused);
}

/* The losses of the row, if it was evaluated. */
static void say_losses(struct progress *progress, const struct state *row) {
    const double loss = row->last_train_loss;
    char losses[1024] = "";
    if (row->val_loss < 0) return;
    if (loss >= 0) format_add(losses, sizeof losses, "train loss %.4f  ", loss); // of an update
    format_add(losses, sizeof losses, "val loss %.4f  ", row->val_loss);
    if (row->eval_train_loss >= 0)
        format_add(losses, sizeof losses, "eval train loss %.4f  ", row->eval_train_loss);
    progress_say(progress, "step %6lld  %s%.1f s", (long long)row->step, losses, row->seconds);
}

/* Adds a word in a form that a shell reads back, without control characters. */
static void add_word(char *text, size_t size, const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
    const char *quote = word[strspn(word, plain)] ? "'" : "", *controls = word;
    while (*controls && !iscntrl((unsigned char)*controls)) controls++;
    format_add(text, size, "%s%s", *controls ? "$" : "", quote);
    for (; *word; word++)
        if (*controls && (iscntrl((unsigned char)*word) || *word == '\'' || *word == '\\'))
            format_add(text, size, "\\%03o", (unsigned char)*word);
        else
            format_add(text, size, "%s", *word == '\'' ? "'\\''" : (char[]){*word, 0});
    format_add(text, size, "%s", quote);
}

/* Says a command of this program that takes the run's folder, after its purpose. */
static void say_command(struct progress *progress, const struct record *r, const char *purpose,
                        const char *program, const char *option) {
    char command[4096] = "", word[4096];
    snprintf(word, sizeof word, "--%s=%s", option, r->run.folder);
    add_word(command, sizeof command, program);
    format_add(command, sizeof command, " ");
    add_word(command, sizeof command, word);
    progress_say(progress, "%s: %s", purpose, command);
}

void messages_end(struct progress *progress, const struct record *r, const char *program) {
    const struct state *end = &r->state;
    const bool done = !strcmp(end->exit_reason, "done");
    const char *corpus = r->config->corpus;
    if (end->last_val_loss >= 0 && end->grammar_entropy >= 0)
        progress_say(progress, "final val loss %.4f (the entropy of the grammar is %.4f)",
                     end->last_val_loss, end->grammar_entropy);
    else if (end->last_val_loss >= 0)
        progress_say(progress, "final val loss %.4f", end->last_val_loss);
    if (done && end->step && state_stuck(end))
        progress_say(progress,
                     "stuck: the model has learned nothing beyond how frequent each character is, "
                     "a loss of %.4f (try more updates or another --learning-rate)",
                     state_of_frequencies(end));
    progress_say(progress, "%s after %lld steps, %.1f s, %.0f characters/s: %s", end->exit_reason,
                 (long long)end->step, end->seconds, end->speed, r->run.folder);
    if (!done)
        say_command(progress, r,
                    corpus && !strcmp(corpus, "-")
                        ? "to continue, with the same text on standard input"
                        : "to continue",
                    program, "resume");
    else if (end->step)
        say_command(progress, r, "to write text", program, "generate");
}

/* ---- --plot: the loss curves of the run so far, and of the runs of --plot-beside ---- */

/* Adds the losses of the row to these curves; `train` may be NULL. */
static void add_losses(struct curve *train, struct curve *validation, const struct state *row) {
    const double step = (double)row->step;
    if (train && !(row->train_loss < 0)) curve_add(train, step, row->train_loss);
    if (!(row->val_loss < 0)) curve_add(validation, step, row->val_loss);
}

/* Adds the losses in the log of a run; `train` may be NULL. */
static void add_log(const char *folder, struct curve *train, struct curve *validation) {
    char path[4096], line[512];
    struct state row;
    snprintf(path, sizeof path, "%s/log.csv", folder);
    FILE *file = file_open("log", path);
    while (fgets(line, sizeof line, file))
        if (columns_read(line, &row)) add_losses(train, validation, &row);
    fclose(file);
}

/* Names a curve after the last part of a path. */
static void name_curve(struct curve *curve, const char *path) {
    char copy[4096]; // which basename() may change
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(curve->name, sizeof curve->name, "%s", basename(copy));
}

void messages_plot_start(struct chart *chart, struct progress *progress,
                         const struct config *config) {
    const char *others = config->plot_beside;
    const bool shown = config->plot == PLOT_ON || (config->plot == PLOT_AUTO && progress->live);
    if (!progress->shown || !shown) return;
    *chart = (struct chart){.curves = 1,
                            .curve[0].name = "train",
                            .label = "nats per character",
                            .logarithmic = config->plot_scale == PLOT_LOG,
                            .utf8 = progress->utf8,
                            .colour = progress->colour};
    progress->chart = chart;
    for (; others; others = strchr(others, ',') ? strchr(others, ',') + 1 : NULL) {
        char folder[3072];
        struct curve *curve = &chart->curve[chart->curves++];
        if (chart->curves == CHART_CURVES)
            die(STATUS_USAGE, "--plot-beside: has more than %d folders", CHART_CURVES - 2);
        snprintf(folder, sizeof folder, "%.*s", (int)strcspn(others, ","), others);
        name_curve(curve, folder);
        add_log(folder, NULL, curve);
    }
    strcpy(chart->curve[chart->curves++].name, "val");
}

void messages_plot_resume(struct chart *chart, const struct config *config, const char *folder) {
    if (!chart->curves) return;
    struct curve *validation = &chart->curve[chart->curves - 1];
    if (config->plot_beside) name_curve(validation, folder);
    if (config->resume) add_log(folder, chart->curve, validation);
}

/* Adds the losses of the row. */
static void plot_add(struct chart *chart, const struct config *config, const struct state *row) {
    if (!chart->curves) return;
    add_losses(chart->curve, &chart->curve[chart->curves - 1], row);
    int64_t end = config->max_iters;
    while (end > 16 && end / 2 > row->step && !config->plot_beside) end /= 2;
    chart->end = end ? (double)end : 1;
}

void messages_progress(struct progress *progress, struct chart *chart, const struct record *r,
                       bool last) {
    const struct state *row = &r->state;
    plot_add(chart, r->config, row);
    say_losses(progress, row);
    if (last)
        progress_end(progress);
    else
        progress_step(progress, row, r->config->max_iters);
}

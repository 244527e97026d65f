/* --show-layer: the operations of a layer in the order of forward, from the lists that the model
   runs (model/block). Sub-layers with the same list are shown once. */
#include "data/die.h"
#include "data/format.h"
#include "model/options/config.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1000 };

/* What stands in a line for a letter of a formula. */
struct symbol {
    char letter;
    const char *text; // "" for a factor 1
};

/* Appends the formula. A letter that stands alone, as the x of x W^T, is replaced by its symbol. */
static void put_formula(char *line, const char *formula, size_t count,
                        const struct symbol *symbol) {
    for (const char *letter = formula; *letter; letter++) {
        const bool alone = (letter == formula || !isalnum((unsigned char)letter[-1])) &&
                           !isalnum((unsigned char)letter[1]);
        const char *text = (char[]){*letter, 0};
        for (size_t i = 0; alone && i < count; i++)
            if (symbol[i].letter == *letter) text = symbol[i].text;
        format_add(line, LINE, "%s", text);
        if (!*text && letter[1] == ' ') letter++;
    }
}

/* A constant factor. */
static const char *factor(double value, char text[32]) {
    if (value == 1) return "";
    snprintf(text, 32, "%.3g", value);
    return text;
}

/* The norms of queries, keys and values: "q, k = rms(q), rms(k)", and the learned scale t. */
static void put_qkv(char *line, const struct qkv_norm *qkv) {
    const char *before = "";
    for (int side = 0; side < 2; side++, before = " = ")
        for (int i = 0; i < QKV_COUNT; i++) {
            const struct norm *norm = &qkv->norm[i];
            if (!norm_present(norm)) continue;
            format_add(line, LINE, side ? "%s%s(%c)" : "%s%.0s%c", before, norm->kind->name,
                       "qkv"[i]);
            before = ", ";
        }
    if (qkv->scale.size) format_add(line, LINE, "%sq = t q", line[4] ? "; " : "");
}

/* What the operation computes. */
static void put_meaning(char *line, const struct sublayer *s, const struct op *op) {
    const struct connection *c = &s->connection;
    const struct norm *norm = op->self;
    char number[3][32], written[64];
    snprintf(written, sizeof written, op->kind == &op_write && s->dropout > 0 ? "drop(%s)" : "%s",
             op->in->name);
    const char *name = op->kind == &op_norm ? (norm->kind->typed ? "norm" : norm->kind->name)
                       : op->kind == &op_activation ? s->activation->name
                                                    : "";
    const struct symbol symbols[] = {{'x', written},
                                     {'y', op->out->name},
                                     {'N', name},
                                     {'F', name},
                                     {'s', factor(s->s_factor, number[0])}};
    const struct symbol sum[] = {{'f', written},
                                 {'a', factor((double)c->a, number[1])},
                                 {'b', factor((double)c->b, number[2])}};
    const bool same = op->kind == &op_read && !c->kind->functions->read;
    const char *formula = same ? "y = x" : op->kind->formula;
    if (op->kind == &op_qkv_norm) return put_qkv(line, op->self);
    if (op->kind != &op_write || c->kind->streams)
        return put_formula(line, formula, sizeof symbols / sizeof *symbols, symbols);
    char text[LINE];
    snprintf(text, LINE, "%s = %s", op->out->name, c->kind->formula);
    text[strcspn(text, ",")] = 0; // without what explains its letters
    put_formula(line, text, sizeof sum / sizeof *sum, sum);
}

static void put_parameter(char *line, const struct param *param) {
    const struct tensor *t = param->tensor;
    if (!param->size || !t) return;
    const char *name = t->name;
    for (int dots = 0; dots < 3 && !strncmp(t->name, "transformer.h.", 14); dots++)
        name = strchr(name, '.') + 1; // without the layer
    format_add(line, LINE, "  %s", name);
    if (t->dimensions == 1) format_add(line, LINE, " (%zu)", t->shape[0]);
    if (t->dimensions == 2) format_add(line, LINE, " (%zu,%zu)", t->shape[0], t->shape[1]);
}

static void put_norm(char *line, const struct norm *norm) {
    for (int i = 0; i < NORM_TENSORS; i++) put_parameter(line, &norm->param[i]);
}

static void put_parameters(char *line, const struct sublayer *s, const struct op *op) {
    const struct linear *linear = op->self;
    if (op->kind == &op_norm) put_norm(line, op->self);
    if (op->kind == &op_read) put_norm(line, &s->connection.norm);
    if (op->kind == &op_gain) put_parameter(line, &s->in_gain.param);
    if (op->kind == &op_linear) {
        put_parameter(line, &linear->weight);
        put_parameter(line, &linear->bias);
    }
    for (int i = 0; op->kind == &op_qkv_norm && i < QKV_COUNT; i++)
        put_norm(line, &s->qkv_norm.norm[i]);
    if (op->kind == &op_qkv_norm) put_parameter(line, &s->qkv_norm.scale);
    for (int i = 0; op->kind == &op_write && i < CONNECTION_PARAMS; i++)
        put_parameter(line, &s->connection.param[i]);
}

/* Where the value is in forward, in backward, and where its gradient is. */
static void put_places(char *line, const struct value *v) {
    static const char *const kept[KEPT_KINDS] = {"-", "sweep", "slabs", "all", "all", "all"};
    const enum kept forward = v->place[FORWARD].kept, backward = v->place[BACKWARD].kept;
    const bool again = forward != ALL && backward != NOT_KEPT;
    format_add(line, LINE, "%-8s %-6s %-6s %-9s", kept[forward], again ? "again," : kept[backward],
               again ? kept[backward] : "", kept[v->gradient.kept]);
}

static void put_operation(FILE *file, const struct sublayer *s, const struct op *op) {
    char line[LINE] = "    ", shape[32] = "in place";
    const bool attends = op == &s->chain.op[s->chain.heads];
    if (op->waits || attends)
        fprintf(file, "    ---- threads wait%s ----\n",
                attends ? ", unless each of them has full sequences" : " for all tokens");
    put_meaning(line, s, op);
    if (op->out != op->in) snprintf(shape, sizeof shape, "(B,T,%zu)", op->out->gradient.width);
    format_add(line, LINE, "%*s %-11s ", (int)(strlen(line) < 36 ? 36 - strlen(line) : 0), "",
               shape);
    if (op->out != op->in)
        put_places(line, op->out);
    else
        format_add(line, LINE, "%32s", "");
    put_parameters(line, s, op);
    for (size_t end = strlen(line); line[end - 1] == ' ';) line[--end] = 0;
    fprintf(file, "%s\n", line);
}

/* The list of a sub-layer, which the caller frees. */
static char *list_of(const struct layer *layer, int site) {
    const struct sublayer *s = site == SITE_ATTENTION ? &layer->attention : &layer->mlp;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (!file) die(STATUS_MACHINE, "memory: none left for the list of a layer");
    for (const struct op *op = s->chain.op; op < s->chain.op + s->chain.ops; op++)
        put_operation(file, s, op);
    fclose(file);
    return text;
}

/* Whether a layer has this list. */
static bool has_list(const struct layer *layer, int site, const char *list) {
    char *operations = list_of(layer, site);
    const bool same = !strcmp(operations, list);
    free(operations);
    return same;
}

void config_show_layer(const struct config *config) {
    static struct model m;
    model_init(&m, &config->model, 1, 1, 0);
    for (size_t first = 0, end; first < m.L; first = end) {
        char *list[] = {list_of(&m.layer[first], SITE_ATTENTION),
                        list_of(&m.layer[first], SITE_FFN)};
        for (end = first + 1; end < m.L && has_list(&m.layer[end], SITE_ATTENTION, list[0]) &&
                              has_list(&m.layer[end], SITE_FFN, list[1]);)
            end++;
        printf("layers %zu to %zu %32s %-8s %-13s %-10s %s\n", first, end - 1, "", "forward",
               "backward", "gradient", "parameters");
        printf("  attention\n%s  MLP\n%s\n", list[0], list[1]);
        free(list[0]);
        free(list[1]);
    }
    puts("forward: the tokens whose rows are stored. sweep: those that a thread works on. slabs: "
         "the last ones of\nbackward, for a weight's gradient. again: computed again from what is "
         "stored. -: not needed.");
    model_free(&m);
}

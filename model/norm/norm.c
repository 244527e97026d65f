/* What norms of all kinds share: memory, options, and the order of their functions. */
#include "model/norm/norm.h"
#include "model/math/profile.h"
#include "model/norm/formula.h"
#include "model/norm/pool.h"
#include <stdio.h>
#include <string.h>

static struct param take_param(const struct norm *norm, int i, const struct norm_options *options,
                               const char *name, const struct layout *layout) {
    const struct norm_tensor *t = &norm->kind->param[i];
    bool learned =
        t->role == NORM_OTHER || (options->affine && (options->bias || t->role != NORM_BETA));
    double start = norm->formula     ? formula_start(norm, i)
                   : t->start_option ? norm_option(norm, t->start_option).real
                                     : t->start;
    size_t rows = t->rows_of  ? t->rows_of(norm)
                  : t->scalar ? (size_t)t->dimensions // 0: the shape is ()
                              : norm->C;
    struct tensor_list *list = learned ? &layout->lists->param : &layout->lists->fixed;
    struct param param =
        tensor_take(list, name, t->name, rows, t->deviation > 0 ? norm->C : 0, start, t->deviation);
    tensor_sums(&param, layout);
    if (param.tensor && t->role == NORM_GAMMA && options->decay_gamma) {
        const double zero = start == 0 ? -1 : 0; // past.c learns a gamma's difference from 1
        param.tensor->decays = true;
        param.tensor->decay_target = options->decay_gamma == NORM_DECAY_ONE ? start : zero;
    }
    return param;
}

/* Declares state i: reals, or the number of batches. */
static void take_state(struct norm *norm, int i, const char *name, const struct layout *layout) {
    const struct norm_tensor *t = &norm->kind->state[i];
    struct tensor_list *list = &layout->lists->state;
    if (t->counts)
        norm->batches = tensor_take_count(list, name, t->name);
    else
        norm->state[i] =
            tensor_take(list, name, t->name, norm->pool.positions ? layout->T : norm->C,
                        norm->pool.positions ? norm->C : 0, t->start, 0)
                .value;
}

void norm_attach(struct norm *norm, const struct norm_kind *kind,
                 const struct norm_options *options, const char *name, size_t C,
                 const struct layout *layout) {
    size_t B = layout->B, T = layout->T;
    *norm = (struct norm){.kind = kind,
                          .formula = kind->by_formula ? formula_of(kind) : NULL,
                          .C = C,
                          .heads = (size_t)options->heads,
                          .attention = options->attention};
    for (int i = 0; kind->options[i]; i++)
        norm->option[i] = norm_setting(options, kind->options[i]);
    snprintf(norm->name, sizeof norm->name, "%s", name);
    if (kind->check) kind->check(norm);
    const bool partial = kind->partial && kind->partial(norm);
    const bool by_parts = kind->by_parts && !partial;
    norm->terms = partial ? NORM_TERMS_NONE : kind->terms;
    if (kind->statistics && !kind->causal) {
        if (!by_parts) layout->lists->undivided = true;
        if (!kind->by_formula) pool_attach(norm, options, layout);
    }
    for (int i = 0; kind->param[i].name; i++) {
        norm->param[i] = take_param(norm, i, options, name, layout);
        const struct param *param = &norm->param[i];
        if (kind->param[i].role == NORM_GAMMA) {
            norm->gamma = param->value;
            norm->dgamma = param->grad;
        } else if (kind->param[i].role == NORM_BETA) {
            norm->beta = param->value;
            norm->dbeta = param->grad;
        }
    }
    for (int i = 0; kind->state[i].name; i++) take_state(norm, i, name, layout);
    size_t saved = kind->saved_size ? kind->saved_size(norm, B, T) : kind->saved * B * T;
    if (saved) norm->saved = arena_reals(layout->arena, saved);
    if (norm->saved && norm->formula) formula_attached(norm);
}

void norm_statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    if (!norm_pools(norm)) return;
    team_barrier();
    norm->kind->statistics(norm, tokens, x);
    profile_lap(PROFILE_NORM);
    team_barrier();
}

void norm_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x) {
    if (!norm_pools(norm)) return;
    team_barrier();
    if (norm->kind->gradient_statistics) norm->kind->gradient_statistics(norm, tokens, dy, x);
    profile_lap(PROFILE_NORM);
    team_barrier();
}

const real *norm_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                         real *y, const real *x) {
    const size_t C = norm->C;
    if (!norm->kind->forward) return x;
    for (size_t n = rows.begin, offset = 0; n < rows.end; n += ROWS, offset += ROWS * C)
        norm->kind->forward(norm, tokens, team_row_block(n, rows), y + offset, x + offset);
    profile_lap(PROFILE_NORM);
    return y;
}

/* norm_backward() of one row block, whose part of the parameters' gradients is kept. */
static void block_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                           real *dx, const real *dy, const real *x) {
    real *sum[NORM_TENSORS] = {0};
    for (int i = 0; norm->kind->param[i].name; i++) {
        sum[i] = param_sums(&norm->param[i], rows.begin);
        memset(sum[i], 0, norm->param[i].size * sizeof(real));
    }
    norm->kind->backward(norm, tokens, rows, dx, dy, x, sum);
}

const real *norm_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                          real *dx, const real *dy, const real *x) {
    const size_t C = norm->C;
    if (!norm->kind->backward) return dy;
    for (size_t n = rows.begin, offset = 0; n < rows.end; n += ROWS, offset += ROWS * C)
        block_backward(norm, tokens, team_row_block(n, rows), dx + offset, dy + offset, x + offset);
    profile_lap(PROFILE_NORM);
    return dx;
}

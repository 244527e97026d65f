/* The table of norms, and what all of them share. To add one: write norm_x.c, declare its row here,
   list it. */
#include "model/norm/norm.h"
#include "model/math/profile.h"
#include "model/norm/watch.h"
#include <stdio.h>
#include <string.h>

extern const struct norm_kind norm_none, norm_layer, norm_batch, norm_rms, norm_dyt, norm_derf,
    norm_scale, norm_group, norm_instance, norm_power_v, norm_power, norm_prep;

const struct norm_kind *const norm_kinds[] = {
    &norm_none,  &norm_layer,    &norm_batch,   &norm_rms,   &norm_dyt,  &norm_derf, &norm_scale,
    &norm_group, &norm_instance, &norm_power_v, &norm_power, &norm_prep, NULL};

const struct norm_kind norm_none = {
    .name = "none", .full_name = "identity", .formula = "y = x", .source = "no norm"};

const struct norm_kind *norm_find(const char *name) {
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if (!strcmp((*kind)->name, name)) return *kind;
    return NULL;
}

/* The shape of a kind's tensor: rows and columns, 0 for none. */
static size_t rows_of(const struct norm_tensor *t, size_t T, size_t C) {
    if (t->scalar) return t->dimensions ? 1 : 0;
    return t->positions ? T : C;
}

static size_t columns_of(const struct norm_tensor *t, size_t C) {
    return t->positions ? C : 0;
}

static bool watched(const struct norm *norm) {
    return norm->options.watch && norm_is(norm);
}

void norm_attach(struct norm *norm, const struct norm_kind *kind,
                 const struct norm_options *options, const char *name, size_t C,
                 const struct layout *layout) {
    struct tensor_lists *lists = layout->lists;
    struct arena *arena = layout->arena;
    size_t B = layout->B, T = layout->T;
    if (options->bn_axis == BN_AXIS_BATCH && kind->by_position) kind = kind->by_position;
    *norm = (struct norm){.kind = kind, .options = *options, .C = C};
    if (kind->check) kind->check(options, C);
    char full[sizeof lists->param.tensor->name];
    for (int i = 0; kind->param[i].name; i++) {
        const struct norm_tensor *t = &kind->param[i];
        bool learned =
            t->role == NORM_OTHER || (options->affine && (options->bias || t->role != NORM_BETA));
        double start = t->start_of ? t->start_of(options, C) : t->start;
        snprintf(full, sizeof full, "%s.%s", name, t->name);
        norm->param[i] = tensor_take(learned ? &lists->param : &lists->fixed, full,
                                     rows_of(t, T, C), columns_of(t, C), start, 0);
        norm->sum[i] = arena_reals(arena, team_row_blocks(B * T) * (t->scalar ? 1 : C));
    }
    for (int i = 0; kind->state[i].name; i++) {
        const struct norm_tensor *t = &kind->state[i];
        snprintf(full, sizeof full, "%s.%s", name, t->name);
        if (t->counts) {
            norm->batches = tensor_take_count(&lists->state, full);
            continue;
        }
        norm->state[i] =
            tensor_take(&lists->state, full, rows_of(t, T, C), columns_of(t, C), t->start, 0).value;
    }
    if (watched(norm)) norm->watch = norm_watch_attach(name, C, layout);
    if (kind->saved) norm->saved = arena_reals(arena, kind->saved(norm, B, T));
}

bool norm_pools(const struct norm *norm) {
    return norm->kind->statistics || watched(norm);
}

void norm_statistics(const struct norm *norm, const struct tokens *tokens, const real *x) {
    if (!norm_pools(norm)) return;
    team_barrier();
    if (watched(norm) && tokens->training) norm_watch_forward(norm, tokens, x);
    if (norm->kind->statistics) norm->kind->statistics(norm, tokens, x);
    profile_lap(PROFILE_NORM);
    team_barrier();
}

void norm_gradient_statistics(const struct norm *norm, const struct tokens *tokens, const real *dy,
                              const real *x) {
    if (!norm_pools(norm)) return;
    team_barrier();
    if (watched(norm) && tokens->probe) norm_watch_backward(norm, tokens, dy, x);
    if (norm->kind->gradient_statistics) norm->kind->gradient_statistics(norm, tokens, dy, x);
    profile_lap(PROFILE_NORM);
    team_barrier();
}

const real *norm_forward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                         real *y, const real *x) {
    if (!norm->kind->forward) return x;
    norm->kind->forward(norm, tokens, rows, y, x);
    profile_lap(PROFILE_NORM);
    return y;
}

static size_t size_of(const struct norm *norm, int i) {
    return norm->kind->param[i].scalar ? 1 : norm->C;
}

const real *norm_backward(const struct norm *norm, const struct tokens *tokens, struct range rows,
                          real *dx, const real *dy, const real *x) {
    if (!norm->kind->backward) return dy;
    real *sum[NORM_TENSORS] = {0};
    for (int i = 0; norm->kind->param[i].name; i++) {
        sum[i] = norm->sum[i] + rows.begin / ROWS * size_of(norm, i);
        memset(sum[i], 0, size_of(norm, i) * sizeof(real));
    }
    norm->kind->backward(norm, tokens, rows, dx, dy, x, sum);
    profile_lap(PROFILE_NORM);
    return dx;
}

void norm_gradient(const struct norm *norm, size_t tokens) {
    for (int i = 0; norm->kind->param[i].name; i++)
        team_add_blocks(tokens, size_of(norm, i), norm->param[i].grad, norm->sum[i]);
}

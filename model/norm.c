/* The table of norms, and what all of them share. To add one: write norm_x.c, declare its row here,
   list it. */
#include "norm.h"
#include <stdio.h>
#include <string.h>

extern const struct norm_kind norm_none, norm_layer, norm_batch, norm_rms;

const struct norm_kind *const norm_kinds[] = {&norm_none, &norm_layer, &norm_batch, &norm_rms,
                                              NULL};

const struct norm_kind norm_none = {.name = "none", .formula = "y = x"};

const struct norm_kind *norm_find(const char *name) {
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        if (!strcmp((*kind)->name, name)) return *kind;
    return NULL;
}

void norm_attach(struct norm *norm, const struct norm_kind *kind,
                 const struct norm_options *options, const char *name, size_t tokens, size_t C,
                 struct tensor_lists *lists, struct arena *arena) {
    *norm = (struct norm){.kind = kind, .options = *options, .C = C};
    char full[sizeof lists->param.tensor->name];
    for (int i = 0; kind->param[i].name; i++) {
        const struct norm_tensor *t = &kind->param[i];
        bool learned = options->affine && (options->bias || strcmp(t->name, "bias") != 0);
        snprintf(full, sizeof full, "%s.%s", name, t->name);
        norm->param[i] = tensor_take(learned ? &lists->param : &lists->fixed, full,
                                     t->scalar ? 0 : C, 0, t->start, 0);
    }
    for (int i = 0; kind->state[i].name; i++) {
        const struct norm_tensor *t = &kind->state[i];
        snprintf(full, sizeof full, "%s.%s", name, t->name);
        norm->state[i] = tensor_take(&lists->state, full, t->scalar ? 0 : C, 0, t->start, 0).value;
    }
    if (kind->saved) norm->saved = arena_reals(arena, kind->saved(tokens, C));
}

real *norm_forward(const struct norm *norm, const struct tokens *tokens, real *y, real *x,
                   real *scratch) {
    if (!norm->kind->forward) return x;
    norm->kind->forward(norm, tokens, y, x, scratch);
    return y;
}

real *norm_backward(const struct norm *norm, const struct tokens *tokens, real *dx, real *dy,
                    const real *x, real *scratch) {
    if (!norm->kind->backward) return dy;
    norm->kind->backward(norm, tokens, dx, dy, x, scratch);
    return dx;
}

void norm_add_chunks(real *sum, const real *partial, size_t row, size_t C) {
    for (size_t chunk = 0; chunk < TOKEN_CHUNKS; chunk++)
#pragma omp simd
        for (size_t c = 0; c < C; c++) sum[c] += partial[chunk * row + c];
}

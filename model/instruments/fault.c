/* It looks on as probes do (op_observer, block/op.h). A formula is computed again in double, node by
   node, for the first rows of finite numbers from which a norm makes others. */
#include "model/instruments/fault.h"
#include "model/instruments/watch.h"
#include "model/norm/formula.h"
#include <stdio.h>

/* norm_observer */
static void see(void *fault, const struct norm *norm, const struct step *step,
                const struct tokens *tokens, const real *x, const real *dy) {
    struct fault *f = fault;
    const struct range rows = watch_rows(step, tokens);
    const size_t count = rows.end - rows.begin;
    const char *operation;
    if (!norm->name[0] || !x) return;
    for (size_t n = 0; n < count && !*f->site; n += ROWS) {
        const size_t N = size_min(ROWS, count - n), at = n * norm->C;
        if (!formula_fault(norm, N, x + at, step->backward ? dy + at : NULL, &operation)) continue;
        snprintf(f->site, sizeof f->site, "%s", norm->name);
        snprintf(f->operation, sizeof f->operation, "%s", operation);
        f->backward = step->backward;
    }
}

/* op_observer */
static void observe(void *fault, const struct op *op, const struct step *step) {
    watch_norms(op, step, see, fault);
}

struct fault fault_find(struct model *model, const struct batch *batch, uint64_t number) {
    struct fault found = {.site = ""};
    op_observer *before = model->observe;
    void *context = model->observer;
    const size_t threads = model->threads;
    if (model_shares(model)) return found;
    model->observe = observe, model->observer = &found, model->threads = 1;
    model_gradient(model, batch, number, 1);
    model->observe = before, model->observer = context, model->threads = threads;
    return found;
}

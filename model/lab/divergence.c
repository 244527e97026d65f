#include "model/lab/divergence.h"
#include "data/die.h"
#include "model/lab/save.h"
#include "model/math/ranks.h"
#include <math.h>

static _Noreturn void diverged(struct session *t, int64_t step, const char *what,
                               const char *value) {
    struct bad_tensor bad = session_bad_tensor(t, true);
    save_summary(t, "diverged");
    run_close(&t->run);
    ranks_first(0); // rank 0 has saved: all may die
    die(STATUS_DIVERGED,
        "diverged at step %lld: %s is %s, first bad tensor: %s%s (try a smaller --learning-rate, a "
        "longer --warmup-iters or another norm)",
        (long long)step, what, value, bad.of, bad.tensor ? bad.tensor->name : "logits");
}

void divergence_check(struct session *t, const struct log_row *row, bool last) {
    const struct {
        const char *name;
        double value;
    } measured[] = {{"the validation loss", row->val_loss},
                    {"the loss on the training slice", row->eval_train_loss},
                    {"the training loss", row->train_loss},
                    {"the gradient's norm", row->grad_norm}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (!isfinite(measured[i].value))
            diverged(t, row->step, measured[i].name, isnan(measured[i].value) ? "nan" : "infinite");
    if (last && session_bad_tensor(t, false).tensor)
        diverged(t, row->step, "a number that would be saved", "not finite");
}

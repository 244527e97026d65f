/* A norm gives the same bits for any number of threads. */
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

/* What a norm of a kind computes from `tokens` tokens on `threads` threads: y, dx, gradients,
   state. */
enum { WIDE = 134 }; // channels for every thread, in two groups of odd size
struct made {
    real *y, *dx, *grad, *state;
    size_t count, grads, states;
};

static struct made make(const struct norm_kind *kind, int threads, size_t tokens,
                        const unsigned char *valid, bool training) {
    struct lone_norm lone;
    size_t length = tokens % 10 ? tokens : 10; // of a sequence
    lone_norm_init(&lone, kind, tokens / length, length, WIDE);
    lone.threads = threads;
    lone.tokens.valid = valid;
    size_t count = tokens * WIDE;
    struct made made = {random_reals(count, 3), random_reals(count, 4), NULL, NULL, count,
                        lone.lists.param.size,  lone.lists.state.size};
    real *x = random_reals(count, 1), *dy = random_reals(count, 2);
    for (size_t i = 0; i < made.grads; i++) lone.lists.param.value[i] += (real)0.01 * (real)(i % 7);
    lone_norm_forward(&lone, made.y, x);
    lone.tokens.training = training;
    lone_norm_forward(&lone, made.y, x);
    lone_norm_backward(&lone, made.dx, dy, x);
    made.grad = malloc((made.grads + 1) * sizeof(real));
    made.state = malloc((made.states + 1) * sizeof(real));
    memcpy(made.grad, lone.lists.param.grad, made.grads * sizeof(real));
    memcpy(made.state, lone.lists.state.value, made.states * sizeof(real));
    lone_norm_free(&lone);
    free(x);
    free(dy);
    return made;
}

static void made_free(struct made made) {
    free(made.y);
    free(made.dx);
    free(made.grad);
    free(made.state);
}

static void check_same_bits_for_any_number_of_threads(const struct pair *pair) {
    const struct norm_kind *kind = norm_kinds[pair->norm];
    const size_t tokens[] = {1, 21, 64, 70, 100, 300}; // 300: more row blocks than threads
    const size_t from = sweep() ? 0 : 4;
    unsigned char valid[300];
    for (size_t n = 0; n < sizeof valid; n++) valid[n] = n % 11 > 3 && n / ROWS != 1;
    int compared = 0;
    for (size_t i = from; i < sizeof tokens / sizeof *tokens; i++)
        for (int way = 0; way < 4; way += sweep() ? 1 : 3) {
            const unsigned char *pads = way & 1 ? valid : NULL;
            struct made one = make(kind, 1, tokens[i], pads, way < 2);
            for (int threads = 2; threads <= 8; threads += sweep() ? 1 : 3, compared++) {
                struct made many = make(kind, threads, tokens[i], pads, way < 2);
                cr_expect(difference(one.count, one.y, many.y) == 0, "%d threads", threads);
                cr_expect(difference(one.count, one.dx, many.dx) == 0, "%d threads", threads);
                cr_expect(difference(one.grads, one.grad, many.grad) == 0, "%d threads", threads);
                cr_expect(difference(one.states, one.state, many.state) == 0, "%d threads",
                          threads);
                made_free(many);
            }
            made_free(one);
        }
    cr_expect_eq(compared, sweep() ? 6 * 4 * 7 : 2 * 2 * 3);
}

Test(norm, same_bits_for_any_number_of_threads) {
    every_norm(check_same_bits_for_any_number_of_threads);
}

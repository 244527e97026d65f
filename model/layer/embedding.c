/* x[b,t] = drop(wte[ids[b,t]] + wpe[t])

   Backward, with m the dropout factors: dwte[ids[b,t]] += m dx[b,t], dwpe[t] += m dx[b,t]. Threads
   share this work by channels, so each element is summed over the tokens in their order.

   wpe is learned, or fixed:

     wpe[t,2i] = r sin(t 10000^(-2i / C)),  wpe[t,2i+1] = r cos(t 10000^(-2i / C))

   Vaswani et al. 2017, section 3.5 (arXiv:1706.03762), with r = 1 and token embeddings times
   sqrt(C). */
#include "model/layer/embedding.h"
#include "model/math/profile.h"
#include <math.h>

void embedding_sinusoids(size_t T, size_t C, double rms, real *table) {
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++) {
            double angle = (double)t * pow(10000, -(double)(c / 2 * 2) / (double)C);
            table[t * C + c] = (real)(sqrt(2) * rms * (c % 2 ? cos(angle) : sin(angle)));
        }
}

void embedding_forward(const struct embedding *e, struct range rows, real *x) {
    size_t T = e->T, C = e->C;
    struct dropout dropout = e->dropout;
    for (size_t n = rows.begin; n < rows.end; n++) {
        const real *token = e->wte.value + e->ids[n] * C;
        const real *position = e->wpe.value ? e->wpe.value + n % T * C : NULL;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            x[n * C + c] =
                (position ? token[c] + position[c] : token[c]) * dropout_factor(dropout, n * C + c);
    }
    profile_lap(PROFILE_EMBEDDING);
}

/* The calling thread's channels of a gradient (rows,C), at the start of a piece and at its end. */

static void start_rows(const struct parts_piece *piece, const struct param *param, size_t rows,
                       size_t C, struct range channels) {
    for (size_t row = 0; row < rows; row++)
        parts_start(piece, param, (struct range){row * C + channels.begin, row * C + channels.end});
}

static void end_rows(const struct parts_piece *piece, const struct param *param, size_t rows,
                     size_t C, struct range channels) {
    for (size_t row = 0; piece->merges && row < rows; row++)
        parts_end(piece, param, (struct range){row * C + channels.begin, row * C + channels.end});
}

static void add_tokens(const struct embedding *e, const struct parts_piece *piece,
                       struct range channels, const real *dx) {
    size_t T = e->T, C = e->C;
    struct dropout dropout = e->dropout;
    real *wte = param_slot(&e->wte, piece->slot);
    real *wpe = e->wpe.grad ? param_slot(&e->wpe, piece->slot) : NULL;
    for (size_t n = piece->rows.begin; n < piece->rows.end; n++) {
        real *token = wte + e->ids[n] * C;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++)
            token[c] += dx[n * C + c] * dropout_factor(dropout, n * C + c);
        if (!wpe) continue;
        real *position = wpe + n % T * C;
#pragma omp simd
        for (size_t c = channels.begin; c < channels.end; c++)
            position[c] += dx[n * C + c] * dropout_factor(dropout, n * C + c);
    }
}

void embedding_backward(const struct embedding *e, const struct parts *parts, const real *dx) {
    size_t positions = e->wpe.grad ? e->T : 0, C = e->C;
    struct range channels = team_part(C, 64 / sizeof(real));
    struct parts_piece piece;
    for (size_t row = 0; row < parts->rows; row = piece.rows.end) {
        piece = parts_piece_at(parts, row, parts->rows);
        start_rows(&piece, &e->wte, e->V, C, channels);
        start_rows(&piece, &e->wpe, positions, C, channels);
        add_tokens(e, &piece, channels, dx);
        end_rows(&piece, &e->wte, e->V, C, channels);
        end_rows(&piece, &e->wpe, positions, C, channels);
    }
    profile_lap(PROFILE_EMBEDDING);
}

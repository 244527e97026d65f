/* What holds for every kind of corpus: updates are counted, and sampling allocates nothing. */
#include "model/app/session.h"
#include "tests/command.h"
#include "tests/runs.h"
#include "tests/support.h"
#include <stdlib.h>

TestSuite(corpus_kinds, .init = corpora_enter, .fini = folder_leave);

static const char *const kinds[] = {"text.txt", "--corpus=random", "--items items.txt",
                                    "--items --bucket items.txt",
                                    "--items --pad-to=block items.txt"};
enum { KINDS = sizeof kinds / sizeof *kinds, ACCUM = 3, UPDATES = 40 };

static void open_corpus(struct session *t, const char *options) {
    memory_start(t, say("--batch-size=4 --block-size=6 --grad-accum=3 --seed=5 %s", options));
}

Test(corpus_kinds, an_update_is_counted_before_it_is_made) {
    for (int k = 0; k < KINDS; k++) {
        struct session t;
        open_corpus(&t, kinds[k]);
        size_t pads = 0;
        for (int64_t step = 0; step < UPDATES; step++) {
            struct batch_count count = update_count_targets(&t.loader, step), sum = {0};
            for (int64_t i = 0; i < ACCUM; i++) {
                corpus_sample(&t.loader.corpus, 5, step * ACCUM + i, &t.loader.batch);
                size_t targets = batch_targets(&t.loader.batch);
                sum.targets += targets;
                sum.pads += t.loader.batch.B * t.loader.batch.T - targets;
            }
            cr_assert(count.targets == sum.targets && count.pads == sum.pads,
                      "%s, %d: %zu targets and %zu pads, not %zu and %zu", kinds[k], (int)step,
                      count.targets, count.pads, sum.targets, sum.pads);
            pads += sum.pads;
        }
        cr_expect(t.loader.corpus.kind->pads == (pads > 0), "%s: %zu pads", kinds[k], pads);
        memory_end(&t);
    }
}

/* Every allocation of this program is counted. A sanitizer has allocators of its own. */
#if defined __GLIBC__ && !SANITIZED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static _Thread_local size_t allocations;

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    allocations++;
    return __libc_realloc(memory, size);
}

Test(corpus_kinds, sampling_allocates_nothing) {
    for (int k = 0; k < KINDS; k++) {
        struct session t;
        open_corpus(&t, kinds[k]);
        allocations = 0;
        for (int64_t step = 0; step < UPDATES; step++) {
            update_count_targets(&t.loader, step);
            corpus_sample(&t.loader.corpus, 5, step, &t.loader.batch);
            corpus_validation(&t.loader.corpus, 0, 4, &t.loader.batch);
            corpus_slice(&t.loader.corpus, 8, 4, 4, &t.loader.batch);
        }
        cr_expect(!allocations, "%s: %zu allocations", kinds[k], allocations);
        memory_end(&t);
        void *volatile one = malloc(8); // volatile: compilers leave out what is freed at once
        free(one);
        cr_assert(allocations, "allocations are not counted");
    }
}
#endif

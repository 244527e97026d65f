/* What holds for every kind of corpus: batches are counted without being filled, and sampling
   allocates nothing. */
#include "data/text/items.h"
#include "model/lab/update.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#    include <malloc.h>
#endif

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
    items_put("items.txt", 200);
}

TestSuite(corpus_kinds, .init = enter, .fini = folder_leave);

static const char *const kinds[] = {"text.txt", "--corpus=random", "--items items.txt",
                                    "--items --bucket items.txt",
                                    "--items --pad-to=block items.txt"};
enum { KINDS = sizeof kinds / sizeof *kinds, ACCUM = 3, UPDATES = 40 };

/* The options and the corpus of a run. */
static void open_corpus(struct training *t, const char *options) {
    static char line[1024];
    char *words[64] = {"train"};
    snprintf(line, sizeof line, "--batch-size=4 --block-size=6 --grad-accum=3 --seed=5 %s",
             options);
    *t = (struct training){0};
    config_parse(&t->config, 1 + split(line, words + 1, 63), words);
    training_corpus(t, NULL);
    t->batch = batch_make(4, 6);
}

static void close_corpus(struct training *t) {
    batch_free(&t->batch);
    corpus_free(&t->corpus);
}

static size_t samples;

static void count_samples(const struct corpus *corpus, uint64_t seed, uint64_t number,
                          struct batch *batch) {
    samples++;
}

/* So that an update fills each of its batches once: what it must know of all of them beforehand,
   update_count() says. */
Test(corpus_kinds, an_update_is_counted_without_sampling) {
    for (int k = 0; k < KINDS; k++) {
        struct training t;
        open_corpus(&t, kinds[k]);
        const struct corpus_kind *kind = t.corpus.kind;
        struct corpus_kind counted = *kind;
        counted.sample = count_samples;
        samples = 0;
        size_t pads = 0;
        for (int64_t step = 0; step < UPDATES; step++) {
            t.corpus.kind = &counted;
            struct batch_count count = update_count(&t, step), sum = {0};
            cr_expect(!samples, "%s: %zu batches are filled to be counted", kinds[k], samples);
            t.corpus.kind = kind;
            for (int64_t i = 0; i < ACCUM; i++) {
                corpus_sample(&t.corpus, 5, step * ACCUM + i, &t.batch);
                size_t targets = batch_targets(&t.batch);
                sum.targets += targets;
                sum.pads += t.batch.B * t.batch.T - targets;
            }
            cr_assert(count.targets == sum.targets && count.pads == sum.pads,
                      "%s, %d: %zu targets and %zu pads, not %zu and %zu", kinds[k], (int)step,
                      count.targets, count.pads, sum.targets, sum.pads);
            pads += sum.pads;
        }
        cr_expect(corpus_has_pads(&t.corpus) == (pads > 0), "%s: %zu pads", kinds[k], pads);
        close_corpus(&t);
    }
}

#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
Test(corpus_kinds, sampling_allocates_nothing) {
    for (int k = 0; k < KINDS; k++) {
        struct training t;
        open_corpus(&t, kinds[k]);
        size_t before = mallinfo2().uordblks;
        for (int64_t step = 0; step < UPDATES; step++) {
            update_count(&t, step);
            corpus_sample(&t.corpus, 5, step, &t.batch);
            corpus_validation(&t.corpus, 0, 4, &t.batch);
            corpus_slice(&t.corpus, 8, 4, 4, &t.batch);
            cr_assert(mallinfo2().uordblks == before, "%s: %zu bytes", kinds[k],
                      mallinfo2().uordblks - before);
        }
        close_corpus(&t);
    }
}
#endif

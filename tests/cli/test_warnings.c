/* What a run says before it trains of options without an effect, of values that exceed what it has,
   and of norms that make the model constant. */
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(warnings, .init = corpora_enter, .fini = folder_leave);

/* Of TINY: 4 updates, batches of 2 sequences of 8 tokens, 8 channels, 2 heads, no warm-up. */
static const struct {
    const char *options, *line; // a line of the run's messages
    const char *more, *less;    // options with which it says nothing of the kind; or NULL
} cases[] = {
    {"--norm=bn --bn-shards=3", "--bn-shards=3 acts as 2, the number of sequences per batch",
     "--norm=bn --bn-shards=2", "--bn-shards=3"},
    {"--warmup-iters=4 --lr=0.5",
     "--warmup-iters=4 does not end in the run's 4 updates: the highest learning rate is 0.4",
     "--warmup-iters=3", "--warmup-iters=4 --max-iters=5"},
    {"--warmup-iters=100 --max-iters=50 --lr=1e-3",
     "--warmup-iters=100 does not end in the run's 50 updates: the highest learning rate is "
     "0.00049505",
     NULL, NULL},
    {"--lr-decay-iters=8 --schedule=linear --lr=0.8 --min-lr=0",
     "--lr-decay-iters=8 is after the run's 4 updates: the last learning rate is 0.5",
     "--lr-decay-iters=4", "--lr-decay-iters=8 --schedule=constant"},
    {"--norm=brn", "--brn-warmup=80 does not end in the run's 4 batches",
     "--norm=brn --brn-warmup=3", "--brn-warmup=80"},
    {"--norm=brn --brn-warmup=8 --grad-accum=2",
     "--brn-warmup=8 does not end in the run's 8 batches",
     "--norm=brn --brn-warmup=8 --grad-accum=3", NULL},
    {"--qk-norm=pn", "--pn-warmup=200 does not end in the run's 4 batches",
     "--qk-norm=pn --pn-warmup=3", NULL},
    {"--norm=prepbn --prepbn-steps=5", "--prepbn-steps=5 does not end in the run's 4 batches",
     "--norm=prepbn", NULL},
    {"--sample=0 --temperature=2 --top-k=3",
     "no effect: --temperature (only with --generate, --sample or --sample-interval), --top-k "
     "(only "
     "with --generate, --sample or --sample-interval)",
     "--sample=9 --temperature=2", "--sample=0 --sample-interval=9 --top-p=0.5 --min-p=0.1"},
};

/* What a run with these options says. */
static char *said(const char *options) {
    struct ending ending = train(TINY "--out=out --force %s text.txt", options);
    cr_assert(!ending.status, "%s: %s", options, ending.err);
    return say("%s", ending.err);
}

Test(warnings, values_that_exceed_the_run_and_options_without_effect) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const silent[] = {cases[i].more, cases[i].less};
        const char *words = strchr(cases[i].line, ' ');
        expect_part(said(cases[i].options), say("\n%s\n", cases[i].line));
        for (int k = 0; k < 2 && silent[k]; k++)
            cr_expect(!strstr(said(silent[k]), say("%.20s", words)), "%s: %s", silent[k], words);
    }
}

Test(warnings, what_force_needs) {
    struct ending ending = train(TINY "--force text.txt");
    expect_part(ending.err, "\nno effect: --force (only with --out)\n");
    expect_done(train("--evaluate=runs/ln-pre-s1"));
    ending = train("--evaluate=runs/ln-pre-s1 --dropout=0.5 --temperature=3");
    expect_part(ending.err, "--dropout (only in training)");
    expect_part(ending.err, "--temperature (only with --generate");
}

/* Scripts that reproduce a paper's figure: what they draw follows from the given options, and what
   cannot be drawn is refused before anything is trained. */
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <string.h>

static void enter(void) {
    folder_enter();
    corpus_put_tiny("text.txt", 2000);
}

TestSuite(papers, .init = enter, .fini = folder_leave);

#define SMALL "--seeds=1 --n-embd=8 --n-head=2 --block-size=8 --batch-size=2 --eval-iters=1 "

#define DRAWN "\nprobes,\"pre, n-layer 3\",grad_norm mlp.c_proj.weight step "

/* The steps that xiong.sh draws with these options. */
static void expect_steps(const char *options, const char *const *steps) {
    struct ending ending = script("xiong.sh --out=x %s " SMALL "text.txt", options);
    cr_assert(ending.status == 0, "%s: %s", options, ending.err);
    expect_picture("x/xiong.png", "\x89PNG", "IEND");
    const char *table = file_text("x/xiong.csv", NULL);
    cr_assert(table);
    int lines = 0, expected = 0;
    for (const char *line = table; (line = strstr(line, DRAWN)); line++) lines++;
    for (; steps[expected]; expected++) {
        char part[128];
        snprintf(part, sizeof part, DRAWN "%s,1,", steps[expected]);
        expect_part(table, part);
    }
    cr_expect(lines == 3 * expected, "%s: not three layers at %d steps: %d", options, expected,
              lines);
}

Test(papers, steps_of_xiong_follow_from_the_warm_up) {
    static const char options[] = "--max-iters=61 --warmup-iters=20";
    expect_steps(options, (const char *const[]){"0", "10", "60", NULL});
    // a run that diverged ended earlier
    struct ending ending =
        bash("cd x/runs/ln-post-n-layer=6-s1 && grep -v ^60, probes.csv >less && "
             "mv less probes.csv");
    cr_assert(ending.status == 0);
    expect_steps(options, (const char *const[]){"0", "10", "50", NULL});
}

Test(papers, steps_of_xiong_are_those_that_were_probed) {
    expect_steps("--max-iters=20 --warmup-iters=20 --probe-interval=4",
                 (const char *const[]){"0", "8", "16", NULL});
}

Test(papers, xiong_without_a_warm_up) {
    expect_steps("--max-iters=8 --warmup-iters=0", (const char *const[]){"0", "7", NULL});
}

Test(papers, nothing_is_trained_for_no_picture) {
    static const char *const wrong[][2] = {
        {"xiong.sh --max-iters=50",
         "xiong: --max-iters=50: must be above 50, half of the warm-up, at which the picture shows "
         "the gradients\n"},
        {"xiong.sh --max-tokens=500",
         "xiong: --max-tokens=500: the picture's steps follow from the "
         "number of updates (--max-iters=N)\n"},
        {"powernorm.sh --max-iters=auto", "powernorm: --max-iters=auto: the picture's steps follow "
                                          "from the number of updates (--max-iters=N)\n"},
        {"xiong.sh --probe-interval=0",
         "xiong: --probe-interval: must be 1 or more, since the picture shows what was probed\n"},
        {"powernorm.sh --probe-interval=0", "powernorm: --probe-interval: must be 1 or more, since "
                                            "the picture shows what was probed\n"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = script("%s --out=x text.txt", wrong[i][0]);
        cr_expect(ending.status == 2, "%s: %d", wrong[i][0], ending.status);
        cr_expect_str_eq(ending.err, wrong[i][1]);
        cr_expect(!file_there("x"));
    }
}

Test(papers, powernorm_writes_into_its_own_folder_only) {
    struct ending ending = bash("mkdir x && echo mine >x/mine");
    cr_assert(ending.status == 0);
    ending = script("powernorm.sh --out=x " SMALL "text.txt");
    cr_expect(ending.status == 2);
    cr_expect_str_eq(ending.err, "powernorm: x: is not an ablation's folder (another --out)\n");
    cr_expect(files_in("x") == 1 && files_in(".") == 2);
}

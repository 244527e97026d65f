/* What people who know other programs type, and what the program answers. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

TestSuite(first_day, .init = text_enter, .fini = folder_leave);

static void expect_line(const char *options, const char *line) {
    expect_done(train(TINY "--max-iters=0 --quiet --force --out=out %s", options));
    expect_part(file_text("out/config.ini", NULL), say("\n%s\n", line));
}

static void expect_refused(const char *options, const char *part) {
    train_refuses(STATUS_USAGE, part, "%s", options);
}

Test(first_day, other_names_of_options_and_values) {
    expect_line("--lr=3", "learning-rate = 3");
    expect_line("--lr 0.5", "learning-rate = 0.5");
    expect_line("--lr=2 --learning-rate=0.5", "learning-rate = 0.5");
    expect_line("--norm=layernorm", "norm = ln");
    expect_line("--norm=batchnorm", "norm = bn");
    expect_line("--norm-attn=rmsnorm", "norm-attn = rms");
    expect_line("--norm-ffn=groupnorm", "norm-ffn = gn");
    expect_line("--norm-final=scalenorm", "norm-final = scale");
    expect_line("--qk-norm=layernorm", "qk-norm = ln");
    expect_line("--qk-norm=auto", "qk-norm = off");
    expect_line("--v-norm=rmsnorm", "v-norm = rms");
    expect_line("--ffn-norm=powernorm", "ffn-norm = pn");
    expect_line("--placement=postln", "placement = post");
    struct ending ending = train(TINY "--norm=batchnorm --placement=postln --quiet --max-iters=0");
    cr_expect(ending.status == 0 && file_there("runs/bn-post-s1/config.ini"), "the folder's name");
    file_put("full.ini", "norm = rmsnorm\n", 15);
    expect_line("--config=full.ini", "norm = rms");
    file_put("lr.ini", "lr = 4\n", 7);
    expect_line("--config=lr.ini", "learning-rate = 4");
}

Test(first_day, whole_numbers_with_an_exponent) {
    expect_line("--warmup-iters=1e3", "warmup-iters = 1000");
    expect_line("--warmup-iters=2.5e3", "warmup-iters = 2500");
    expect_line("--warmup-iters=1E2", "warmup-iters = 100");
    expect_line("--warmup-iters=3.0", "warmup-iters = 3");
    expect_line("--seed=9007199254740991", "seed = 9007199254740991");
    static const char *const wrong[] = {"1.5",  "2.55e1", "1e",  "e3",     "1e3x", "1e10",
                                        "1e99", "1e-1",   "0x1", "1e9999", "-1e0", "1e3.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *option = say("--max-iters=%s", wrong[i]);
        expect_refused(option, say("%s: must be a whole number from 0", option));
    }
}

Test(first_day, a_run_is_evaluated_eight_times_or_every_250_updates) {
    static const char *const intervals[][2] = {
        {"0", "1"}, {"7", "1"}, {"24", "3"}, {"2008", "250"}};
    for (int i = 0; i < 4; i++) {
        const char *options =
            output_of("--show-options=json --eval-interval=auto --max-iters=%s", intervals[i][0]);
        expect_part(options, say("\"eval-interval\": {\"value\": %s,", intervals[i][1]));
    }
    expect_line("--eval-interval=auto", "eval-interval = auto");
}

Test(first_day, suggestions) {
    static const char *const cases[][2] = {
        {"--batch=3", "(did you mean --batch-size or --batch-parts?)"},
        {"--gc=3", "(did you mean --grammar-chars or --grad-clip?)"},
        {"--wd=3", "(did you mean --weight-decay?)"},
        {"--layer=3", "(did you mean --n-layer or --show-layer?)"},
        {"--n_layer=3", "(did you mean --n-layer?)"},
        {"--rate=3", "(did you mean --learning-rate?)"},
        {"--max-it=3", "(did you mean --max-iters?)"},
        {"--iters=3",
         "(did you mean --items, --max-iters, --warmup-iters, --lr-decay-iters or --eval-iters?)"},
        {"--lt=3", "(did you mean --lr?)"},
        {"--qq=3", "(--help=all lists them)"},
        {"--n=3", "(--help=all lists them)"},
        {"--no-bias-at-all=on", "--no-bias-at-all: no such option"},
        {"--=3", "no such option"},
        {"-c", "-c: options start with --"},
        {"-norm=ln", "(did you mean --norm=ln?)"},
        {"--norm=layernrom", "(did you mean layernorm?)"},
        {"--norm=LN", "(did you mean ln?)"},
        {"--norm=batch", "(did you mean batchnorm or batchrenorm?)"},
        {"--norm=nl", "(did you mean ln"},
        {"--qk-norm=rsm", "(did you mean rms?)"},
        {"--placement=sandwhich", "(did you mean sandwich?)"},
        {"--act=rlu", "(did you mean relu?)"},
        {"--schedule=const", "(did you mean constant?)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(cases[i][0], cases[i][1]);
    cr_expect(!strstr(train("--norm=xyzzy").err, "did you mean"));
}

Test(first_day, placements_that_contradict_each_other) {
    expect_refused("--postln --preln", "--preln: contradicts --postln (give one of them)");
    expect_refused("--placement=sandwich --preln", "--preln: contradicts --placement=sandwich");
    expect_refused("--preln --placement sandwich", "--placement: contradicts --preln");
    expect_refused("--preln --placement=postln", "--placement=postln: contradicts --preln");
    expect_line("--preln --preln", "placement = pre");
    expect_line("--postln --placement=post", "placement = post");
    expect_line("--postln --placement=postln", "placement = post");
    expect_line("--placement=mix --placement=lns", "placement = lns"); // the last one counts
    expect_line("--norm=ln --norm=bn", "norm = bn");
    file_put("post.ini", "placement = post\n", 17);
    expect_line("--config=post.ini --preln",
                "placement = pre"); // the command line overrides the file
}

Test(first_day, a_second_stream_is_for_all_sub_layers) {
    expect_refused(
        "--placement-attn=residual",
        "--placement-attn=residual: cannot be combined with --placement=pre, because all "
        "sub-layers must share the streams of residual");
    expect_refused("--placement=residual --placement-ffn=post",
                   "--placement-ffn=post: cannot be combined with --placement=residual");
    expect_line("--placement=residual --placement-attn=residual", "placement-attn = residual");
    expect_line("--placement-attn=preln --placement=post", "placement-attn = pre");
}

Test(first_day, a_combination_without_a_formula_is_refused) {
    expect_refused("--placement=deepnorm --connection=rezero",
                   "--connection=rezero: cannot be combined with --placement=deepnorm: its formula "
                   "has its own connection");
    expect_refused("--placement=ngpt --connection=plain", "--connection=plain: cannot be combined");
    expect_line("--placement=siamese --connection=siamese", "connection = siamese");
    expect_line("--placement-ffn=post --connection=residual", "connection = residual");
}

/* What ./train says of the options that have no effect; NULL: nothing. */
static const struct {
    const char *options, *line;
} effects[] = {
    {"--norm=ln --rbn-mean=1", "--rbn-mean (only with --norm=bn)"},
    {"--norm=rms --dyt-alpha=1", "--dyt-alpha (only with --norm=dyt|derf)"},
    {"--sample=5 --temperature=0 --top-k=3", "--top-k (only with nonzero --temperature)"},
    {"--norm=rms --norm-bias=off", "--norm-bias (only with a norm that learns beta)"},
    {"--norm=rms --norm-final=ln --norm-bias=off", NULL},
    {"--norm=bn --micro-batch-tokens=99",
     "--micro-batch-tokens (not with --probe-interval, batch statistics or "
     "--connection=admin)"},
    {"--random-chars=5", "--random-chars (only with --corpus=random)"},
    {"--corpus=random --val-fraction=0.2", "--val-fraction (not with --corpus=random)"},
    {"--schedule=constant --min-lr=1e-4", "--min-lr (not with --schedule=constant)"},
    {"--muon-momentum=0.5", "--muon-momentum (only with --optimizer=muon)"},
    {"--optimizer=sgd --beta1=0.5", "--beta1 (only with --optimizer=adamw|muon)"},
    {"--optimizer=muon --beta1=0.5 --muon-lr=0.02", NULL},
    {"--norm=none --norm-eps=1e-3 --bn-momentum=0.2 --probe-interval=1", NULL},
    {"--affine=off --decay-gamma=zero", "--decay-gamma (only with --affine)"},
    {"--norm=bn --weight-decay=0 --decay-gamma=zero",
     "--decay-gamma (only with nonzero --weight-decay)"},
    {"--bucket --pad-to=block --num-items=3 --num-chars=9",
     "--pad-to (only with --items), --bucket (only with --items), --num-chars (only with "
     "--generate), --num-items (only with --items, "
     "only with --generate, --sample or --sample-interval)"},
    {"--prompt=the --stop=x --stats=own --leak --vocabulary=text.txt",
     "--prompt (only with --generate), --stop (only with --generate), --stats (only with "
     "--evaluate), --leak (only with --evaluate), --vocabulary (only with --generate or "
     "--evaluate)"},
    {"--norm=ln --norm-attn=rms --norm-ffn=rms --norm-final=rms",
     "--norm (only where no other option overrides it)"},
    {"--norm=bn --rbn-mean=1", NULL},
    {"--norm=none --norm-attn=gn --norm-groups=2", NULL},
    {"--norm=none --norm-ffn=gn --norm-groups=2", NULL},
    {"--norm=none --norm-final=gn --norm-groups=2", NULL},
    {"--norm=dyt --dyt-alpha=2 --norm-attn=ln", NULL},
    {"--grammar-seed=3", NULL},
    {"--corpus=random --random-chars=5", NULL},
    {"--norm=ln --seed=2 --quiet", NULL},
    {"--norm-groups=2 --placement=pre --mix-fraction=0.5 text.txt --grammar-seed=3",
     "--grammar-seed (not with --corpus), --norm-groups (only with --norm=gn|ts), "
     "--mix-fraction (only with --placement=mix)"},
    {"--placement=post --norm-final=gn --norm-groups=2",
     "--norm-final (only with a norm before the output layer or after the embedding), "
     "--norm-groups (only with --norm=gn|ts)"},
    {"--placement=rezero --norm=bn --bn-momentum=0.2",
     "--norm (only where no other option overrides it), --bn-momentum (only "
     "with --norm=bn|brn|in|prepbn)"},
    {"--placement=skipinit --norm-attn=rms --norm-ffn=rms --qk-norm=on",
     "--norm-ffn (only with a norm in the MLP sub-layers)"},
    {"--lambda-start=0.1",
     "--lambda-start (only with --connection=rezero|skipinit|layerscale|interpolate)"},
    {"--connection=skipinit --lambda-start=0.1", NULL},
    {"--placement=rezero --connection=plain --lambda-start=0.1",
     "--lambda-start (only with --connection=rezero|skipinit|layerscale|interpolate)"},
    {"--placement=rezero --norm=bn --final-norm=on --lambda-start=0.1", NULL},
    {"--placement=skipinit --norm=ln --norm-attn=rms --ffn-norm=on",
     "--norm-attn (only with a norm in the attention sub-layers)"},
    {"--norm=none --qk-norm=gn --norm-groups=2", NULL},
    {"--placement=bare --norm=bn --norm-final=rms",
     "--norm (only where no other option overrides it)"},
    {"--qk-norm-over=width", "--qk-norm-over (only with --qk-norm or --v-norm)"},
    {"--placement=hybrid --qk-norm-over=width", NULL},
    {"--placement=ngpt --affine=off --lambda-start=0.1",
     "--affine (only with a norm that learns gamma or beta)"},
    {"--norm=none --decay-gamma=one", "--decay-gamma (only with a norm that learns gamma)"},
    {"--init=xavier --init-std=0.1 --init-embd-std=0.1",
     "--init-std (only with --init=gpt2), --init-embd-std (not with --init=xavier)"},
    {"--init=width --init-embd-std=0.1 --placement=tfixup", NULL},
    {"--norm=rms --qk-scale-start=3", "--qk-scale-start (only with --qk-scale=learned)"},
    {"--qk-norm=l2 --qk-scale=learned --qk-scale-start=3", NULL},
    {"--norm=none --v-norm=gn --norm-groups=2 --qk-norm-over=width", NULL},
    {"--norm=none --ffn-norm=dyt --dyt-alpha=2", NULL},
    {"--placement=post --final-norm=on --norm-final=gn --norm-groups=2", NULL},
    {"--placement=mix --mix-fraction=0.5", NULL},
    {"--placement-ffn=mix --mix-fraction=0.5", NULL},
    {"--placement=mix --placement-attn=pre --mix-fraction=0.5", NULL},
    {"--placement=mix --placement-attn=pre --placement-ffn=post --mix-fraction=0.5",
     "--mix-fraction (only with --placement=mix)"}};

static const char *said(const char *options) {
    return messages_of(TINY "--max-iters=0 --force --out=out %s", options);
}

Test(first_day, options_without_effect_are_said_in_one_line) {
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
        const char *text = said(effects[i].options);
        if (effects[i].line)
            expect_part(text, say("\nno effect: %s\n", effects[i].line));
        else
            cr_expect(!strstr(text, "no effect"), "%s: %s", effects[i].options, text);
    }
    // an option of a file is not said
    said("--norm=bn --rbn-mean=1");
    cr_expect(!strstr(said("--config=out/config.ini --norm=ln"), "no effect"));
}

/* The same where a stored model is used. */
Test(first_day, options_of_training_without_effect_are_said) {
    expect_done(train(TINY "--max-iters=0 --out=out"));
    static const char *const uses[] = {"--generate=out", "--evaluate=out"};
    for (int i = 0; i < 2; i++)
        expect_part(messages_of("%s --out=there --start=out --max-iters=7 --lr=1", uses[i]),
                    "no effect: --start (only in training), --max-iters (only in training), "
                    "--learning-rate (only in training), --out (only in training)\n");
}

/* The message names a command that the shell runs and that ends the run. */
static void check_continues(const char *folder, const char *quoted) {
    const struct ending ending = train_interrupted(
        SIGINT, say("%s/log.csv", folder),
        TINY "--max-iters=1000000000 --log-interval=1000000 --eval-interval=1000000 --out=%s "
             "text.txt",
        folder);
    cr_assert(ending.status == 130 && strstr(ending.err, "interrupted after "), "%s", ending.err);
    const char *line = strstr(ending.err, "\nto continue: ");
    cr_assert(line, "%s", ending.err);
    expect_part(line, say(" %s\n", quoted));
    cr_expect(!strchr(line + 1, '\n')[1], "%s", line);
    int steps = (int)summary_number(folder, "steps");
    char *command =
        say("%.*s --max-iters=%d --quiet", (int)strcspn(line + 14, "\n"), line + 14, steps + 2);
    expect_done(bash(command));
    cr_expect((int)summary_number(folder, "steps") == steps + 2);
}

Test(first_day, an_interrupted_run_says_how_to_continue) {
    check_continues("out", "--resume=out");
    check_continues("it's$1", "'--resume=it'\\''s$1'");
    check_continues("a\nb'\\\033c", "$'--resume=a\\012b\\047\\134\\033c'");
}

/* A name may hold a newline, or bytes that a terminal obeys. */
Test(first_day, a_message_is_one_line_whatever_the_corpus_is_called) {
    cr_assert(!rename("text.txt", "a\n\033[2Jb.txt"));
    const char *said = messages_of(TINY "--out=out a\n\033[2Jb.txt");
    cr_expect(!strncmp(said, "a??[2Jb.txt: 2000 characters", 28), "%s", said);
    cr_expect(!strchr(said, '\033'));
    output_of("--quiet --resume=out --max-iters=5");
}

Test(first_day, random_characters_and_a_model_s_vocabulary) {
    output_of(TINY "--quiet --corpus=random --random-chars=30 --out=random");
    output_of(TINY "--quiet --out=text text.txt");
    expect_part(output_of("--evaluate=random --corpus=random"), "loss: 3.4");
    output_of("--evaluate=random --corpus=random --random-chars=9");
    expect_refused("--evaluate=random --corpus=random --random-chars=31",
                   "--corpus=random: samples from 31 characters, U+0100 to U+011E, but the model's "
                   "vocabulary of 30 lacks U+011E");
    expect_refused("--evaluate=text --corpus=random --random-chars=14",
                   "but the model's vocabulary of 14 lacks U+0100");
    expect_refused(TINY "--corpus=random --level=byte",
                   "--level=byte: --corpus=random is made of characters");
}

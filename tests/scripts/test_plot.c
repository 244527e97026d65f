/* The scripts that draw runs, on logs written by hand: the numbers (--table), the pictures in each
   format, messages about malformed logs, runs under way. */
#include "tests/logs.h"
#include "tests/scripts.h"
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(plot, .init = folder_enter, .fini = folder_leave);

/* ---- numbers ---- */

Test(plot, means_and_bands_over_seeds) {
    // The third seed has fewer rows, the fourth diverged; both have rows that no other seed has.
    const double one[][3] = {{0, 4, 4}, {10, 3, 3}, {20, 2, 2}},
                 two[][3] = {{0, 6, 5}, {10, 5, 4}, {20, 3, 3}},
                 three[][3] = {{0, 5, 6}, {10, 4, 8}, {13, 1, -1}},
                 four[][3] = {{0, 4, 4}, {7, 900, NAN}};
    mkdir("A", 0777), mkdir("A/runs", 0777);
    log_put("A/runs/one", 3, one), summary_put("A/runs/one", "done", "ln", 0.01, 1);
    log_put("A/runs/two", 3, two), summary_put("A/runs/two", "done", "ln", 0.01, 2);
    log_put("A/runs/three", 3, three), summary_put("A/runs/three", "interrupted", "ln", 0.01, 3);
    log_put("A/runs/four", 2, four), summary_put("A/runs/four", "diverged", "ln", 0.01, 4);
    run_put("A/runs/other", "bn", 0.01, 1, 2.5);

    struct ending ending = script("plot.py A --chart=curves,dots -o mean.svg --table=-");
    expect_success(&ending);
    const char *text = ending.out;
    expect_line(text, "curves,ln,validation,0,5,4,6,3");
    expect_line(text, "curves,ln,validation,10,5,3,8,3");
    expect_line(text, "curves,ln,validation,20,2.5,2,3,2");
    expect_line(text, "curves,ln,training,10,4,3,5,3");
    cr_expect(!strstr(text, "training,13,") && !strstr(text, "900"), "%s", text);
    expect_line(text, "curves,ln,diverged,7,,,,");
    expect_line(text, "curves,bn,validation,10,2.5,,,1");
    expect_line(text, "curves,,entropy of the grammar,,0.527,,,");
    expect_line(text, "dots,ln,final,1,2,,,");
    expect_line(text, "dots,ln,final,3,8,,,");
    expect_line(text, "dots,ln,best,3,6,,,");
    expect_line(text, "dots,ln,diverged,4,,,,");
    expect_line(text, "dots,ln,mean,,2.5,,,2");
    char *picture = file_text("mean.svg", NULL);
    static const char *const labels[] = {">ln: 2.500 (1 of 4 diverged, 1 of 4 interrupted)<",
                                         ">bn: 2.500<",
                                         ">diverged<",
                                         ">paler: fewer seeds<",
                                         ">training step<",
                                         ">loss (nats per character)<",
                                         ">one seed<",
                                         ">final validation loss (nats per character)<",
                                         ">band: lowest to highest<",
                                         "entropy of the grammar"};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) expect_part(picture, labels[i]);
    cr_expect(!strstr(picture, ">validation"), "the legend's title says what the lines are");

    ending = script("plot.py A/runs/one A/runs/two A/runs/three --center=median --band=sd "
                    "--x=seconds --table=table.csv -o median.svg");
    expect_success(&ending);
    text = file_text("table.csv", NULL);
    expect_line(text, "curves,\"ln, pre\",validation,1,4,1.35424869,6.64575131,3"); // sd of 3, 4, 8
    expect_part(file_text("median.svg", NULL), ">time since the start (s)<");
    expect_part(file_text("median.svg", NULL), ">band: ± standard deviation<");
}

Test(plot, smoothing_is_stated_and_done) {
    const double rows[][3] = {{0, 8, 9},  {1, 2, -1}, {2, 5, -1},
                              {3, 2, -1}, {4, 2, -1}, {5, -1, 3}};
    log_put("a_run", 6, rows);
    summary_put("a_run", "done", "ln", 0.01, 1);
    cr_assert(rename("a_run", "a run") == 0);
    struct ending ending = script("plot.py a~run --smooth=3 --table=- -o its~picture.svg");
    expect_success(&ending);
    static const char *const lines[] = {"0,8", "1,5", "2,3", "3,3", "4,2"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[64];
        snprintf(line, sizeof line, "curves,a run,training,%s,,,1", lines[i]);
        expect_line(ending.out, line);
    }
    expect_line(ending.out, "curves,a run,validation,5,3,,,1");
    const char *picture = file_text("its picture.svg", NULL);
    expect_part(picture, ">training, running mean of 3"); // beside the chart in two lines
    expect_part(picture, "logged values<");
    expect_part(picture, ">a run: 3.000<");
}

/* ---- pictures ---- */

Test(plot, every_chart_in_every_format) {
    run_put("1", "ln", 0.01, 1, 3), run_put("2", "ln", 0.01, 2, 2.5);
    run_put("3", "ln", 0.1, 1, 2), run_put("4", "ln", 0.1, 2, 99); // off the scale
    run_put("5", "ln", 10, 1, 3), run_put("6", "ln", 10, 2, 3);
    run_put("7", "bn", 0.01, 1, 2.25);
    const double lost[][3] = {{0, 4, 4}, {3, NAN, -1}};
    log_put("5", 2, lost), summary_put("5", "diverged", "ln", 10, 1);
    log_put("6", 2, lost), summary_put("6", "diverged", "ln", 10, 2);

    struct ending ending = script("plot.py . -o all.svg --table=- --title=A~title");
    expect_success(&ending);
    expect_line(ending.out, "sweep,ln,final,0.01,2.5,,,");
    expect_line(ending.out, "sweep,ln,mean,0.01,2.75,2.5,3,2");
    expect_line(ending.out, "sweep,ln,mean,0.1,50.5,2,99,2");
    expect_line(ending.out, "sweep,ln,diverged,10,,,,2");
    expect_line(ending.out, "sweep,bn,mean,0.01,2.25,2.25,2.25,1");
    cr_expect(!strstr(ending.out, "ln,final,10,") && !strstr(ending.out, "ln,mean,10,"));
    static const char *const labels[] = {">learning rate<", ">diverged<",
                                         ">off the scale<", ">A title<",
                                         ">2/2<",           ">ln: lowest 2.750 at 0.01<"};
    char *picture = file_text("all.svg", NULL);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) expect_part(picture, labels[i]);
    expect_picture("all.svg", "<?xml", "</svg>");

    ending = script("plot.py . --chart=curves,dots,sweep --log-y -o all.png --dpi=50");
    expect_success(&ending);
    cr_expect_str_eq(ending.out, "all.png\n");
    expect_picture("all.png", "\x89PNG\r\n\x1a\n", "IEND");
    ending = script("plot.py . --chart=curves,dots,sweep --by=run --log-x -o all.pdf");
    expect_success(&ending);
    expect_picture("all.pdf", "%PDF-", "%%EOF");
}

Test(plot, a_picture_for_each_folder_of_runs) {
    mkdir("runs", 0777), mkdir("runs/two", 0777), mkdir("runs/none", 0777);
    run_put("runs/one", "ln", 0.01, 1, 3);
    run_put("runs/two/a", "ln", 0.01, 1, 3), run_put("runs/two/b", "ln", 0.01, 1, 3);
    struct ending ending = script("plot.py --each runs --dpi=20");
    cr_expect(ending.status == 0, "%s", ending.err);
    cr_expect_str_eq(ending.out, "runs/loss.png\nruns/two/loss.png\n");
    // a and b are not two seeds
    expect_part(ending.err, "have the same options and seed");
    expect_picture("runs/two/loss.png", "\x89PNG", "IEND");
}

Test(plot, names_are_no_mathematics) {
    mkdir("runs", 0777);
    run_put("runs/_a$x^$", "ln", 0.01, 1, 3), run_put("runs/b$\\frac$", "bn", 0.01, 1, 2);
    struct ending ending = script("plot.py runs --by=run --chart=curves,dots --title=$^$ -o a.svg");
    expect_success(&ending);
    static const char *const labels[] = {"> _a$x^$: 3.000<", ">b$\\frac$: 2.000<", ">$^$<"};
    const char *picture = file_text("a.svg", NULL);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) expect_part(picture, labels[i]);
}

Test(plot, a_long_legend_below_crosses_is_all_there) {
    mkdir("runs", 0777);
    for (int i = 0; i < 48; i++) {
        char folder[32], norm[32];
        snprintf(folder, sizeof folder, "runs/%d", i), snprintf(norm, sizeof norm, "n%d", i / 2);
        run_put(folder, norm, i % 2 ? 10 : 0.01, 1, 3);
        if (i % 2 && i < 16) summary_put(folder, "diverged", norm, 10, 1);
    }
    struct ending ending = script("plot.py runs --sweep=learning-rate -o a.svg");
    expect_success(&ending);
    const char *picture = file_text("a.svg", NULL), *box = strstr(picture, "viewBox=\"");
    const char *last = strstr(picture, ">diverged<"); // of the legend
    double width, height, y;
    cr_assert(last && box && sscanf(box, "viewBox=\"0 0 %lf %lf", &width, &height) == 2);
    while (last > picture && strncmp(last, " y=\"", 4)) last--;
    cr_assert(sscanf(last, " y=\"%lf", &y) == 1);
    cr_expect(y > 0 && y < height, "%g is not within %g", y, height);
}

/* ---- malformed logs ---- */

Test(plot, bad_logs_are_named_and_the_others_drawn) {
    static const struct {
        const char *folder, *log, *complaint;
    } bad[] = {
        {"empty", "", "empty/log.csv: empty"},
        {"header", LOG_HEADER, "header/log.csv: only the header"},
        {"cells", LOG_HEADER "0,0,0,1,4\n", "cells/log.csv: damaged: line 2 has 5 cells"},
        {"number", LOG_HEADER "0,0,0,1,x,,1,\n",
         "number/log.csv: damaged: line 2: could not convert"},
        {"columns", "step,loss\n0,4\n", "columns/log.csv: damaged: line 1 names no column"},
        {"bytes", "\xff\xfe\n", "bytes/log.csv: damaged: not a text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mkdir(bad[i].folder, 0777);
        text_put(bad[i].folder, "log.csv", bad[i].log);
    }
    run_put("good", "ln", 0.01, 1, 3), run_put("torn", "ln", 0.01, 1, 3);
    text_put("torn", "summary.json", "{\"exit_reason\": ");
    mkdir("hollow", 0777);
    struct ending ending =
        script("plot.py good empty header cells number columns bytes torn hollow nosuch -o a.svg");
    cr_expect(ending.status == 1, "%d", ending.status);
    cr_expect_str_eq(ending.out, "a.svg\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_part(ending.err, bad[i].complaint);
    expect_part(ending.err, "torn/summary.json: damaged");
    expect_part(ending.err, "hollow: no run in it");
    expect_part(ending.err, "nosuch: no such folder");
    cr_expect(!strstr(ending.err, "Traceback"));
    expect_part(file_text("a.svg", NULL), ">good: 3.000<");

    ending = script("plot.py nosuch -o b.svg");
    cr_expect(ending.status == 1 && !file_there("b.svg"), "%d", ending.status);
    cr_expect_str_eq(ending.err,
                     "plot: nosuch: no such folder (a RUN is a folder that ./train --out made)\n");
}

Test(plot, a_run_under_way) {
    mkdir("runs", 0777), mkdir("runs/next", 0777);
    const double rows[][3] = {{0, 4, 4}, {5, 3, -1}, {10, 2.5, 2.75}};
    log_put("runs/now", 3, rows);
    char *log = file_text("runs/now/log.csv", NULL), torn[1024];
    snprintf(torn, sizeof torn, "%s15,1.5,14", log);
    text_put("runs/now", "log.csv", torn);
    text_put("runs/now", "config.ini",
             "norm = ln\nplacement = pre\nlearning-rate = 0.01\nseed = 1\n");
    text_put("runs/next", "config.ini",
             "norm = ln\nplacement = pre\nlearning-rate = 0.01\nseed = 2\n");
    struct ending ending = script("plot.py runs -o now.svg --table=-");
    cr_expect(ending.status == 0, "%s", ending.err); // the other has not started
    expect_part(ending.err, "runs/next/log.csv: No such file");
    expect_line(ending.out, "curves,now,validation,10,2.75,,,1");
    expect_part(file_text("now.svg", NULL), ">now: 2.750 (running at step 10)<");
}

/* ---- the command ---- */

Test(plot, wrong_commands) {
    run_put("run", "ln", 0.01, 1, 3);
    static const struct {
        int status;
        const char *command, *complaint;
    } wrong[] = {
        {2, "plot.py run -o a.gif", "not a kind of picture (.png, .svg, .pdf)"},
        {2, "plot.py run --chart=bars", "'bars' is not one or more of curves, dots, sweep"},
        {1, "plot.py run --lines=eval-train",
         "none of these runs measured it (./train --eval-train"},
        {1, "plot.py run --sweep=norm", "these runs do not differ in a number"},
        {1, "plot.py run -o nosuch/a.png", "nosuch/a.png: No such file or directory"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ending ending = script("%s", wrong[i].command);
        const char *end = strchr(ending.err, '\n');
        cr_expect(ending.status == wrong[i].status, "%s: %d", wrong[i].command, ending.status);
        cr_expect(!strncmp(ending.err, "plot: ", 6) && end && !end[1], "%s", ending.err);
        expect_part(ending.err, wrong[i].complaint);
    }
    unsetenv("DISPLAY"), unsetenv("WAYLAND_DISPLAY"), unsetenv("MPLBACKEND");
    struct ending ending = script("plot.py run --show");
    cr_expect(ending.status == 1, "%d", ending.status);
    cr_expect_str_eq(ending.err,
                     "plot: --show: no window: there is no display (-o writes a file)\n");
}

/* ---- --watch ---- */

/* Waits until the picture is there; false after half a minute. */
static bool picture_there(const char *name) {
    for (int tries = 0; tries < 600 && !file_there(name); tries++) usleep(50000);
    return file_there(name);
}

/* Starts a process that does something once the script has drawn; then becomes the script. */
static void watch_while(void (*then)(pid_t)) {
    char line[] = "plot.py --watch run -o run.svg", *words[WORDS];
    split(line, words, WORDS);
    pid_t script_id = getpid();
    if (!fork()) {
        if (picture_there("run.svg")) then(script_id);
        _exit(0);
    }
    exec_script(words);
}

static void end_run(pid_t unused) {
    const double rows[][3] = {{0, 4, 4}, {5, 3, -1}, {10, -1, 2.75}};
    log_put("run", 3, rows);
    summary_put("run", "done", "ln", 0.01, 1);
}

static void interrupt_it(pid_t script_id) {
    kill(script_id, SIGINT);
}

static void watch_to_the_end(void *unused) {
    watch_while(end_run);
}

static void watch_and_interrupt(void *unused) {
    signal(SIGINT, SIG_DFL);
    watch_while(interrupt_it);
}

Test(plot, watch_draws_again_until_the_run_has_ended) {
    const double rows[][3] = {{0, 4, 4}, {5, 3, -1}};
    log_put("run", 2, rows);
    struct ending ending = call(watch_to_the_end, NULL);
    expect_success(&ending);
    expect_part(ending.out, "run  step 5  █▁  train 3.000  val 4.000\n");
    expect_part(ending.out, "run  step 10  █▁  train 3.000  val 2.750  done\n");
    expect_part(file_text("run.svg", NULL), ">run: 2.750<");
}

Test(plot, watch_ends_by_interrupt) {
    const double rows[][3] = {{0, 4, 4}};
    log_put("run", 1, rows);
    struct ending ending = call(watch_and_interrupt, NULL);
    cr_expect(ending.status == 130, "status %d", ending.status);
    cr_expect(!*ending.err, "%s", ending.err);
    cr_expect(files_in(".") == 2, "a file remains");
}

/* ---- TensorBoard ---- */

Test(plot, events_for_tensorboard) {
    // Replaces the package: writes down its calls.
    mkdir("tensorboardX", 0777);
    text_put("tensorboardX", "summary.py",
             "def hparams(options, metrics):\n"
             "    return [('options', options['norm'], options['corpus'], options['seed'])]\n");
    text_put("tensorboardX", "__init__.py",
             "class SummaryWriter:\n"
             "    def __init__(self, folder, filename_suffix):\n"
             "        self.file = open(f'{folder}/events.out.tfevents.1{filename_suffix}', 'a')\n"
             "    def __enter__(self): return self\n"
             "    def __exit__(self, *_): self.file.close()\n"
             "    def _get_file_writer(self): return self\n"
             "    def add_summary(self, record): print(*record, file=self.file)\n"
             "    def add_scalar(self, name, value, step, walltime):\n"
             "        self.start = getattr(self, 'start', walltime)\n"
             "        print(name, step, value, round(walltime - self.start, 3), file=self.file)\n");
    const double rows[][3] = {{0, 4, 4.5}, {5, 3, -1}, {10, NAN, 2.75}};
    mkdir("runs", 0777);
    log_put("runs/a", 3, rows), summary_put("runs/a", "diverged", "ln", 0.01, 7);
    text_put("runs/a", "probes.csv",
             "step,layer,site,metric,value\n0,1,ln_1,dist_mean,0.5\n0,,embd,stream_rms,2\n"
             "5,1,ln_1,dist_mean,nan\n10,1,ln_1,dist_mean,0.25\n");
    setenv("PYTHONPATH", ".", 1);
    struct ending ending = script("to_tensorboard.py runs");
    expect_success(&ending);
    cr_expect_str_eq(ending.out, "runs/a\n");
    ending = script("to_tensorboard.py runs --out=all~of~them"); // and once more in another place
    expect_success(&ending);
    ending = script("to_tensorboard.py runs");
    expect_success(&ending);
    static const char events[] =
        "options ln grammar 7\n"
        "train_loss 0 4.0 0.0\ntrain_loss 5 3.0 0.5\ntrain_loss 10 nan 1.0\n"
        "val_loss 0 4.5 0.0\nval_loss 10 2.75 1.0\n"
        "lr 0 0.01 0.0\nlr 5 0.01 0.5\nlr 10 0.01 1.0\n"
        "grad_norm 0 1.0 0.0\ngrad_norm 5 1.0 0.5\ngrad_norm 10 1.0 1.0\n"
        "tokens_per_second 0 960.0 0.0\ntokens_per_second 5 960.0 0.5\n"
        "tokens_per_second 10 960.0 1.0\n"
        "dist_mean/layer 1/ln_1 0 0.5 0.0\ndist_mean/layer 1/ln_1 10 0.25 1.0\n"
        "stream_rms/embd 0 2.0 0.0\n";
    cr_expect_str_eq(file_text("runs/a/events.out.tfevents.1.normlab", NULL), events);
    cr_expect_str_eq(file_text("all of them/a/events.out.tfevents.1.normlab", NULL), events);

    text_put("tensorboardX", "__init__.py", "raise ImportError('no tensorboardX')\n");
    file_put("torch.py", "raise ImportError('no torch')\n", 30);
    ending = script("to_tensorboard.py runs");
    cr_expect(ending.status == 1, "%d", ending.status);
    expect_part(ending.err, "to_tensorboard: no tensorboardX and no torch (");
    expect_part(ending.err, "pip install tensorboardX tensorboard");
}

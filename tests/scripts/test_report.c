/* scripts/report.py: its rules and tables on planted facts (tests/check_report.py), a whole report in
   miniature, and what it refuses. Skipped where its modules are missing (scripts/deps.sh report
   installs them). */
#define _GNU_SOURCE // setenv
#include "tests/scripts.h"
#include "tests/support.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void enter(void) {
    struct ending ending = bash("for python in python3 /usr/bin/python3; do $python -c "
                                "'import scipy, jinja2, matplotlib' && exit; done; exit 1");
    if (ending.status)
        skip("report", "no scipy or no jinja2 (scripts/deps.sh report installs them)");
    folder_enter();
}

TestSuite(report, .init = enter, .fini = folder_leave);

static void expect_done(const char *command) {
    struct ending ending = bash(command);
    cr_assert(ending.status == 0, "%s: status %d\n%s%s", command, ending.status, ending.out,
              ending.err);
}

/* Starts a report in miniature in FOLDER/r, in a session of its own. FOLDER/status is its exit status
   when it ends. Its progress is long, so it goes to a file. */
static void report_start(const char *folder) {
    char command[512];
    snprintf(command, sizeof command,
             "mkdir -p %s && cd %s && rm -f status && { setsid bash -c "
             "'$SCRIPTS/report.py --size=mini --out=r >out 2>messages; echo $? >status.new; "
             "mv status.new status' </dev/null >/dev/null 2>&1 & echo $! >session; }",
             folder, folder);
    expect_done(command);
}

/* Waits for its end. A command of a test has a minute, a report may take longer. */
static void report_finish(const char *folder) {
    char command[512];
    snprintf(command, sizeof command,
             "cd %s; for ((i = 0; i < 300; i++)); do [ ! -e status ] || break; sleep 0.1; done; "
             "[ -e status ]",
             folder);
    for (int tries = 0; tries < 20 && bash(command).status; tries++) continue;
    snprintf(command, sizeof command,
             "cd %s; [ \"$(cat status)\" = 0 ] && ! grep -a Traceback messages || "
             "{ cat status out; tail messages; exit 1; }",
             folder);
    expect_done(command);
}

Test(report, rules_and_tables) {
    struct ending ending = script("../tests/check_report.py");
    cr_expect(ending.status == 0, "%s%s", ending.out, ending.err);
}

Test(report, sentences) {
    struct ending ending = script("../tests/check_findings.py");
    cr_expect(ending.status == 0, "%s%s", ending.out, ending.err);
}

/* Every option of every run that could be planned, without updates. */
Test(report, commands_are_accepted) {
    text_put(".", "text.txt", "");
    expect_done("for i in {1..400}; do echo \"some words to learn from, line $i\"; done >text.txt");
    expect_done(
        "for python in python3 /usr/bin/python3; do $python $SCRIPTS/../tests/check_report.py "
        "--commands >commands 2>error && break; done; [ $(wc -l <commands) -gt 50 ]");
    expect_done(
        "while read -r words; do case $words in *random*) ;; *) words+=\" text.txt\" ;; esac; "
        "$TRAIN $words --n-layer=1 --n-embd=16 --batch-size=2 --block-size=8 --quiet --force "
        "--out=run >out 2>&1 || { echo \"$words\"; cat out; exit 1; }; done <commands");
}

/* --page gives the same bytes, and refuses another text. */
static void report_is_drawn(void) {
    expect_done("cd first && $SCRIPTS/report.py --size=mini --out=r --page >out && cmp report.html "
                "r/report.html");
    expect_done(
        "cd first && for i in {1..300}; do echo \"other words, line $i\"; done >else.txt && "
        "! $SCRIPTS/report.py --size=mini --out=r --page --corpus=else.txt 2>messages && "
        "grep -q '^report: r: its runs are of another text or size' messages && "
        "cmp report.html r/report.html");
}

/* What a repository keeps: from its facts follow the same verdicts, and its list has every run. */
static void report_is_published(void) {
    expect_done("cd first && for i in 1 2; do $SCRIPTS/report.py --size=mini --out=r --page "
                "--publish=p >out || exit 1; done && "
                "cmp report.html p/report.html && cmp verdicts.csv p/verdicts.csv && "
                "[ $(zcat p/facts.csv.gz | wc -l) -lt $(wc -l <facts.csv) ]");
    expect_done("cd first && $SCRIPTS/report.py --facts=p/facts.csv.gz --out=again >out && "
                "cmp verdicts.csv again/verdicts.csv");
    expect_done("cd first && cmp <(zcat p/grid.txt.gz | cut -d' ' -f1) "
                "<(ls r/ablation/runs | LC_ALL=C sort) && "
                "read -r name words < <(zcat p/grid.txt.gz) && eval \"$TRAIN $words --out=run\" "
                ">out 2>&1 && "
                "cmp run/model.safetensors r/ablation/runs/$name/model.safetensors");
}

/* Another report continues a published one: it repeats a run of each norm, and refuses if one has another
   loss. Runs of which nothing is measured, which E17 needs, are not run again. */
static void report_is_continued(void) {
    expect_done("$SCRIPTS/report.py --size=mini --only=E17 --continue=first/p/measured.jsonl.gz "
                "--out=next >out && [ $(ls next/ablation/runs | wc -l) = 4 ] && "
                "grep -q '<dt>Taken over' next/report.html && "
                "cmp <(grep ^E17, next/facts.csv) <(grep ^E17, first/facts.csv)");
    expect_done("gzip -dc first/p/measured.jsonl.gz | "
                "sed -E 's/\"val_loss\": [0-9.]+/\"val_loss\": 1/' >false.jsonl; "
                "! $SCRIPTS/report.py --size=mini --only=E15 --continue=false.jsonl --out=next "
                "2>messages && grep -q 'ended at 1 there and at' messages");
    expect_done("head -c 999 first/p/measured.jsonl.gz >cut.gz; "
                "! $SCRIPTS/report.py --size=mini --continue=cut.gz --out=next 2>messages && "
                "grep -q '^report: cut.gz: not a file of measurements' messages");
    expect_done("! $SCRIPTS/report.py --size=mini --continue=first/p/facts.csv.gz --out=next "
                "2>messages && grep -q 'facts.csv.gz: has no measurement' messages");
}

/* A whole report. With `make check-all` also its repetition, which runs and measures nothing; what draws it
   again; and a second one that is killed on its way and started again: the same facts, except for times
   (E12), and with the first one's times the same bytes. */
Test(report, miniature) {
    report_start("first"), report_finish("first");
    expect_done("cd first && $SCRIPTS/../tests/check_report.py r");
    if (!sweep()) return;
    expect_done("cd first && cp r/report.html r/facts.csv r/verdicts.csv r/measured.jsonl . && "
                "find r/ablation/runs -name summary.json -printf '%p %T@\\n' | sort >before");
    report_start("first"), report_finish("first");
    expect_done(
        "cd first && find r/ablation/runs -name summary.json -printf '%p %T@\\n' | sort >after "
        "&& cmp before after && for i in report.html facts.csv verdicts.csv measured.jsonl; do "
        "cmp $i r/$i || exit 1; done && ! grep measuring messages");
    report_is_drawn();
    report_is_published();
    report_is_continued();
    report_start("second");
    expect_done("cd second; for ((i = 0; i < 2000; i++)); do "
                "ended=$(find r/ablation/runs -name summary.json 2>/dev/null | wc -l); "
                "[ $ended -lt 40 ] || break; sleep 0.02; done; "
                "kill -KILL -- -$(cat session); [ ! -e r/report.html ]");
    report_start("second"), report_finish("second");
    expect_done("for i in first second; do grep -v ^E12, $i/r/facts.csv >$i/untimed; done; "
                "cmp first/untimed second/untimed && ! cmp -s first/untimed first/facts.csv");
    expect_done("grep '\"measure\": \"profile\"' first/r/measured.jsonl >times && "
                "[ $(wc -l <times) -ge 10 ] && cat times >>second/r/measured.jsonl");
    report_start("second"), report_finish("second");
    expect_done("for i in report.html facts.csv; do cmp first/$i second/r/$i || exit 1; done");
}

/* The page follows from the facts, and says when a rule is younger than they are. */
Test(report, facts_decide) {
    text_put(".", "make.py",
             "print('experiment,corpus,size,variant,seed,metric,value')\n"
             "for seed in range(1, 9):\n"
             "    for norm, more in ('bn', 0.3), ('ln', 0), ('rms', 0.001):\n"
             "        loss = 2 + 0.01 * seed + more + 0.002 * (seed % 3)* (norm == 'bn')\n"
             "        print(f'E20,text,S,norm={norm} recipe=best,{seed},val_loss,{loss}')\n"
             "        print(f'E1,text,S,norm={norm} rate=tuned,{seed},val_loss,{loss}')\n"
             "        print(f'E23,text,S,norm={norm},{seed},val_loss,{loss}')\n"
             "    print(f'E20,text,S,norm=bn recipe=best,{seed},rate_at_end,1')\n"
             "    for copy in 1, 2:\n"
             "        print(f'canary,text,S,copy={copy},{seed},val_loss,{2 + 0.01 * seed}')\n");
    expect_done("python3 make.py >facts.csv");
    expect_done(
        "$SCRIPTS/report.py --facts=facts.csv --out=a >out && grep -q '^N14 .* true in a weaker "
        "sense' out && "
        "grep -q 'rate is an end of the grid: norm=bn recipe=best (E20, S)' a/report.html && "
        "grep -q '0.302' a/report.html && ! grep -q 'after their facts were made: ' a/report.html");
    expect_done(
        "sed 's/norm=bn recipe=best,3,val_loss,.*/norm=bn recipe=best,3,val_loss,9.5/' facts.csv "
        ">other.csv && $SCRIPTS/report.py --facts=other.csv --out=b >out && "
        "! grep -q '0.302' b/report.html");
    expect_done(
        "sed -i 's/^E20,N14,.*/E20,N14,00000000/' a/rules.csv && "
        "$SCRIPTS/report.py --facts=facts.csv --out=a >out && "
        "grep -q 'after their facts were made: N14' a/report.html && "
        "grep '^N14' out | grep -q 'rule changed' && ! grep -q 'code that makes' a/report.html");
    expect_done("sed -i 's/^E20,code,.*/E20,code,00000000/' a/rules.csv && "
                "$SCRIPTS/report.py --facts=facts.csv --out=a >out && "
                "grep -q 'code that judges facts was changed after the first facts of E20' "
                "a/report.html");
    expect_done(
        "grep -q '<h3 id=\"h-rms\">RMSNorm equals LayerNorm</h3>' a/report.html && "
        "grep -q '<td>equal within 0.02: +0.001 \\[.*</td><td>higher: +0.302 \\[' a/report.html");
    expect_done("grep -q 'Rules that were changed' a/report.html && "
                "grep -q 'id=\"r-A14\"' a/report.html");
    expect_done("$SCRIPTS/report.py --facts=facts.csv --out=a --claim=A21 >out && "
                "grep -q '^A21 .* not measured' out && grep -q 'Run E3 to measure it.' out");
    expect_done("sed 's/copy=1,1,val_loss,.*/copy=1,1,val_loss,9/' facts.csv >broken.csv");
    struct ending ending = script("report.py --facts=broken.csv --out=c");
    cr_expect(ending.status == 1, "status %d", ending.status);
    expect_part(ending.err, "report: canary K1 failed: ");
    expect_part(file_text("c/report.html", NULL), "A canary failed (K1)");
}

/* What --list prints, done by a make-believe Slurm; then the report takes these runs as they are. */
Test(report, runs_may_be_done_elsewhere) {
    command_put("sbatch", "#!/bin/bash\n"
                          "last=${1#--array=1-} last=${last%\\%*}\n"
                          "for ((i = 1; i <= last; i++)); do SLURM_ARRAY_TASK_ID=$i "
                          "SLURM_CPUS_PER_TASK=1 bash \"$3\" \"$4\" || exit 1; done\n");
    expect_done("$SCRIPTS/report.py --size=mini --only=E15 --list --out=$PWD/r >list");
    expect_done("grep -q '^sbatch --array' list");
    expect_done(
        "here=$PWD; cd $SCRIPTS/.. && tail -n +2 $here/list | PATH=$here/bin:$PATH bash -e");
    expect_done("ls r/ablation/runs/*/summary.json | wc -l >elsewhere; [ $(cat elsewhere) -ge 2 ]");
    expect_done(
        "$SCRIPTS/report.py --size=mini --only=E15 --out=$PWD/r >out 2>messages && "
        "! grep -F -f <(awk '{print $1}' r/wanted.txt | head -1) messages | grep -q failed");
    expect_done("grep -q '^E15,toy,mini,.*val_loss' r/facts.csv");
}

/* A folder that has the name of a run and is another. */
Test(report, somebody_elses_run) {
    expect_done("$SCRIPTS/report.py --size=mini --only=E15 --list --out=r");
    expect_done("read -r name words <r/wanted.txt && mkdir -p r/ablation/runs && "
                "eval $TRAIN $words --seed=77 --quiet --out=r/ablation/runs/$name");
    struct ending ending = script("report.py --size=mini --only=E15 --out=r");
    cr_expect(ending.status == 1, "status %d", ending.status);
    expect_part(ending.err, "is another run: its seed is 77, not ");
    cr_expect(!strstr(ending.err, "Traceback"), "%s", ending.err);
}

/* Runs that cannot be done, since a file is where their folder would be. */
Test(report, runs_that_failed) {
    expect_done("$SCRIPTS/report.py --size=mini --only=E13,E15 --list --out=r && : >r/ablation");
    struct ending ending = script("report.py --size=mini --only=E13,E15 --out=r");
    cr_expect(ending.status == 1, "status %d, %s", ending.status, ending.err);
    expect_part(ending.err, "report: 2 runs failed ");
    expect_part(file_text("r/facts.csv", NULL), "E13,");
}

static void expect_refused(int status, const char *command, const char *complaint) {
    struct ending ending = script("%s", command);
    cr_expect(ending.status == status, "%s: %d", command, ending.status);
    expect_part(ending.err, complaint);
    cr_expect(!strstr(ending.err, "Traceback"), "%s", ending.err);
    const char *end = strchr(ending.err, '\n');
    cr_expect(end && !end[1], "%s: not one line: %s", command, ending.err);
}

#define HEADER "experiment,corpus,size,variant,seed,metric,value\n"

Test(report, bad_facts) {
    text_put(".", "facts.csv", "experiment,seed,value\nE1,1,2\n");
    text_put(".", "row.csv", HEADER "E1,t,S,norm=ln,1,val_loss,two\n");
    text_put(".", "seed.csv", HEADER "E1,t,S,norm=ln,x,val_loss,2\n");
    text_put(".", "unknown.csv", HEADER "E99,t,S,norm=ln,1,val_loss,2\n");
    text_put(".", "empty.csv", HEADER);
    text_put(".", "mark.csv", "\xef\xbb\xbf" HEADER "E1,t,S,norm=ln,1,val_loss,2\n");
    expect_done("$SCRIPTS/report.py --facts=mark.csv --out=rules && echo claim >rules/rules.csv");
    static const struct {
        const char *command, *complaint;
    } wrong[] = {
        {"report.py --facts=facts.csv --out=x", "facts.csv: line 1 must be " HEADER},
        {"report.py --facts=row.csv --out=x", "row.csv: line 2 is no fact: E1,t,S,norm=ln,1"},
        {"report.py --facts=seed.csv --out=x",
         "seed.csv: line 2: the seed must be a number or -, not x"},
        {"report.py --facts=unknown.csv --out=x",
         "unknown.csv: line 2: there is no experiment E99"},
        {"report.py --facts=empty.csv --out=x", "report: empty.csv: has no facts"},
        {"report.py --facts=mark.csv --out=rules",
         "report: rules/rules.csv: line 1 must be experiment,claim,checksum"},
        {"report.py --facts=empty.csv --out=x --page", "report: empty.csv: has no facts"},
        {"report.py --size=mini --out=y --page",
         "report: y: has no facts (the same command without --page measures some)"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(1, wrong[i].command, wrong[i].complaint);
    struct ending ending = bash("ls x/report.html y/report.html");
    cr_expect(ending.status != 0, "a page of nothing");
}

Test(report, bad_input) {
    text_put(".", "short.txt", "too short");
    expect_done("mkdir -p else other/texts && touch else/file other/texts/poem.txt");
    static const struct {
        int status;
        const char *command, *complaint;
    } wrong[] = {
        {2, "report.py --only=E99", "no experiment E99 (there are E1 to E25)"},
        {2, "report.py --only=,", "--only=,: names no experiment (there are E1 to E25)"},
        {2, "report.py --claim=Z1", "--claim=Z1: no such claim"},
        {2, "report.py --claim=N3", "no experiment decides it"},
        {2, "report.py --size=huge", "'huge' is no size"},
        {2, "report.py --jobs=0", "--jobs: must be at least 1"},
        {1, "report.py --only=E3 --out=x",
         "data/corpora has no text (make data gets some, or --corpus=FILE)"},
        {1, "report.py --corpus=nosuch.txt --out=x",
         "report: nosuch.txt: No such file or directory"},
        {1, "report.py --corpus=short.txt --out=x", "short.txt: 9 characters are too few"},
        {2, "report.py --size=mini --full", "--size=mini goes without --full"},
        {2, "report.py --long", "--long needs --full"},
        {2, "report.py --size=XS", "--size needs --full"},
        {2, "report.py --full --size=XS --long", "--long: size M has the long runs"},
        {2, "report.py --full --size=M --only=E3", "--size=M: E3 has no run of this size"},
        {2, "report.py --full --size=mini,", "'mini' is no size"},
        {2, "report.py --full --size=XS,L",
         "--size=XS,L: 'L' is no size (XS, S, M, or mini alone)"},
        {2, "report.py --full --size=", "--size=: '' is no size"},
        {2, "report.py --publish=p --facts=f.csv", "--publish takes a whole report"},
        {2, "report.py --publish=p --only=E3", "--publish takes a whole report"},
        {2, "report.py --continue=", "--continue=: names no file"},
        {2, "report.py --continue=m --facts=f.csv", "--continue: with --facts nothing is measured"},
        {1, "report.py --size=mini --continue=nosuch --out=y",
         "report: nosuch: No such file or directory"},
        {1, "report.py --size=mini --publish=else", "else: is not a published report"},
        {2, "report.py --list --page", "--list: with --page or --facts nothing is run"},
        {1, "report.py --size=mini --out=short.txt", "short.txt: is not a folder"},
        {2, "report.py --seeds=1", "--seeds: must be from 2 to 100"},
        {1, "report.py --size=mini --out=else",
         "report: else: is not a report's folder (another --out)"},
        {1, "report.py --size=mini --out=other",
         "report: other: is not a report's folder (another --out)"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(wrong[i].status, wrong[i].command, wrong[i].complaint);
    struct ending ending;
    bash("printf '#!/bin/sh\necho \"  --norm=NORM\"\n' >old && chmod +x old");
    ending = bash("TRAIN=$PWD/old $SCRIPTS/report.py --size=mini --out=z");
    cr_expect(ending.status == 1, "status %d", ending.status);
    expect_part(ending.err, "old: has no --dump, so it is older than the report (make)");
    bash("mkdir -p bad/scipy && echo 'raise ImportError(\"No module named scipy\")' "
         ">bad/scipy/__init__.py");
    ending = bash("PYTHONPATH=$PWD/bad $SCRIPTS/report.py --size=mini");
    cr_expect(ending.status == 1, "status %d", ending.status);
    expect_part(ending.err, "(scripts/deps.sh report installs it)");
}

/* Options on the command line: the mechanism of data/files/options.h on the tests' own table. */
#include "tests/command.h"
#include "tests/data/settings.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(options, .init = folder_enter, .fini = folder_leave);

Test(options, defaults) {
    const struct settings *s = settings_parse("");
    cr_expect(s->count == 3 && s->chosen == OPTION_AUTO && s->colour == 1 && s->lit == 1);
    cr_expect(s->rate == 0.25 && s->fraction == OPTION_AUTO);
    cr_expect(!s->loud && !s->stop && !s->file && !s->title && !s->config);
}

Test(options, values_after_an_equals_sign_or_a_blank) {
    for (int form = 0; form < 2; form++) {
        char words[] = "--count=-5 --chosen=9 --rate=1e-3 --fraction=1 --colour=red --lit=off "
                       "--title=a=b --file=x";
        for (char *c = words; form && *c; c++)
            if (!strncmp(c, "--", 2)) *strchr(c, '=') = ' ';
        const struct settings *s = settings_parse(words);
        cr_expect(s->count == -5 && s->chosen == 9 && s->colour == 0 && s->lit == 0);
        cr_expect(s->rate == 1e-3 && s->fraction == 1);
        cr_expect_str_eq(s->title, "a=b");
        cr_expect_str_eq(s->file, "x");
    }
}

Test(options, the_later_one_counts) {
    const struct settings *s =
        settings_parse("--count=1 --colour=blue --lit=off --count=2 --colour=red --lit");
    cr_expect(s->count == 2 && s->colour == 0 && s->lit == 1);
}

Test(options, flags_aliases_and_auto) {
    const struct settings *s = settings_parse("--loud --blue --chosen=auto --fraction auto");
    cr_expect(s->loud == 1 && s->colour == 2 && s->chosen == OPTION_AUTO);
    cr_expect(s->fraction == OPTION_AUTO);
}

Test(options, operands) {
    cr_expect_str_eq(settings_parse("--count 4 name")->file, "name");
    cr_expect_str_eq(settings_parse("- --count=4")->file, "-");
    cr_expect_str_eq(settings_parse("--count=4 -- --loud")->file, "--loud");
    cr_expect(settings_parse("-- --loud")->loud == 0);
    settings_expect_wrong("one two", "two: is a second corpus (give only one; the first is one)");
    settings_expect_wrong("-- one --", "--: is a second corpus");
}

Test(options, nothing_after_a_stop_is_read) {
    cr_expect(settings_parse("--stop --nonsense --count=x")->stop == 1);
    settings_expect_wrong("--nonsense --stop", "--nonsense");
}

Test(options, unknown_names) {
    settings_expect_wrong("--cuont=3", "--cuont: no such option (did you mean --count?)");
    settings_expect_wrong("--Colour=red", "did you mean --colour?");
    settings_expect_wrong("--coun=3", "did you mean --count?");
    settings_expect_wrong("--counts=3", "did you mean --count?");
    settings_expect_wrong("--something-else",
                          "--something-else: no such option (--help=all lists them)");
    settings_expect_wrong("--=3", "no such option");
    settings_expect_wrong("-c", "-c: options start with --");
}

Test(options, a_switch_alone_is_on) {
    cr_expect(settings_parse("--lit=off --lit")->lit == 1);
    cr_expect(settings_parse("--lit --count=2")->lit == 1 &&
              settings_parse("--lit --count=2")->count == 2);
    cr_expect(settings_parse("--lit off")->lit == 0 &&
              settings_parse("--lit off --lit on")->lit == 1);
    struct settings *s = settings_parse("--lit=off --lit poem.txt");
    cr_expect(s->lit == 1);
    cr_expect_str_eq(s->file, "poem.txt");
}

Test(options, wrong_values) {
    settings_expect_wrong("--count=1001", "--count=1001: must be a whole number from -5 to 1000");
    settings_expect_wrong("--count=-6", "from -5 to 1000");
    settings_expect_wrong("--count=1.5", "--count=1.5");
    settings_expect_wrong("--count=auto", "--count=auto");
    settings_expect_wrong("--chosen=-1", "from 0 to 9, or auto");
    settings_expect_wrong("--rate=10.001", "--rate=10.001: must be a number from 0 to 10");
    settings_expect_wrong("--rate=nan", "--rate=nan");
    settings_expect_wrong("--fraction=-1", "from 0 to 1, or auto");
    settings_expect_wrong("--colour=pink", "--colour=pink: must be one of red|green|blue");
    settings_expect_wrong("--lit=yes", "--lit=yes: must be one of on|off");
    settings_expect_wrong("--title=", "--title: must not be empty");
    settings_expect_wrong("--loud=on", "--loud: takes no value");
    settings_expect_wrong("--count", "--count: needs a value");
}

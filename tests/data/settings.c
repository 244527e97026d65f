#include "tests/data/settings.h"
#include "data/die.h"
#include "tests/command.h"
#include <stdio.h>

static const char *colour(int64_t i) {
    static const char *const names[] = {"red", "green", "blue", NULL};
    return names[i];
}

#define AT(member)       .offset = offsetof(struct settings, member)
#define RANGE(low, high) .min = low, .max = high

const struct option settings_table[] = {
    {"page", OPTION_HEADING, .help = "A heading"},
    {"file", OPTION_OPERAND, AT(file), .metavar = "FILE", .help = "what to read"},
    {"title", OPTION_TEXT, AT(title), .help = "a text"},
    {"count", OPTION_INT, AT(count), "3", RANGE(-5, 1000), .help = "how many"},
    {"chosen", OPTION_INT, AT(chosen), "auto", RANGE(0, 9), .help = "a digit"},
    {"rate", OPTION_REAL, AT(rate), "0.25", RANGE(0, 10), .help = "how fast"},
    {"fraction", OPTION_REAL, AT(fraction), "auto", RANGE(0, 1), .help = "a part"},
    {"colour", OPTION_CHOICE, AT(colour), "green", .choice = colour, .help = "of the page"},
    {"blue", OPTION_ALIAS, .start = "colour=blue", .help = "--colour=blue"},
    {"lit", OPTION_SWITCH, AT(lit), "on", .help = "whether it shines"},
    {"loud", OPTION_FLAG, AT(loud), .scope = OPTION_OF_CALL, .help = "with noise"},
    {"config", OPTION_FILE, AT(config), .scope = OPTION_OF_CALL, .metavar = "FILE",
     .help = "options"},
    {"stop", OPTION_STOP, AT(stop), .scope = OPTION_OF_CALL, .help = "nothing after it is read"},
    {.kind = OPTION_END},
};

struct settings *settings_parse(const char *words) {
    static char line[4096], *argv[64] = {"program"};
    static struct settings s;
    snprintf(line, sizeof line, "%s", words);
    s = (struct settings){0};
    options_start(settings_table, &s);
    options_arguments(settings_table, &s, 1 + split(line, argv + 1, 63), argv);
    return &s;
}

void settings_parse_child(void *words) {
    settings_parse(words);
}

void settings_expect_wrong(const char *words, const char *part) {
    struct ending ending = call(settings_parse_child, (void *)words);
    expect_refusal(&ending, STATUS_USAGE, part);
}

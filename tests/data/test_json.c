/* Strings written as JSON, and the JSON reader. */
#include "data/die.h"
#include "data/files/json.h"
#include "tests/death.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct json json_of(char *text) {
    return (struct json){text, text, text + strlen(text), "it"};
}

/* Calls the function. Returns its problem, "byte 3 of the header: expected {", or NULL. */
static const char *problem_of(void (*function)(void *), void *json) {
    const struct death *death = caught(function, json);
    cr_expect(!death->status ||
              (death->status == STATUS_MACHINE && !strncmp(death->line, "it: ", 4)));
    return death->status ? death->line + strlen("it: ") : NULL;
}

static char *written(const char *text) {
    char *json = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&json, &size);
    json_string(file, text);
    fclose(file);
    return json;
}

Test(json, strings_are_written) {
    static const char *const pairs[][2] = {
        {"", "\"\""},
        {"plain /'", "\"plain /'\""},
        {"\"\\", "\"\\\"\\\\\""},
        {"\n\t\x01\x1f\x7f", "\"\\u000a\\u0009\\u0001\\u001f\\u007f\""},
        {"\u00e9\u20ac\U0001f600", "\"\u00e9\u20ac\U0001f600\""},
        {"\xff", "\"\ufffd\""},
        {"a\xc3", "\"a\ufffd\""},
        {"\xe2\x82z", "\"\ufffd\ufffdz\""},
        {"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""}, // a surrogate
        {"\xc0\xaf", "\"\ufffd\ufffd\""},           // overlong
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *json = written(pairs[i][0]);
        cr_expect_str_eq(json, pairs[i][1]);
        free(json);
    }
}

Test(json, what_is_written_is_read) {
    char text[256] = "\U0010ffff\ud7ff\ue000";
    size_t length = strlen(text);
    for (int c = 1; c < 128; c++) text[length++] = (char)c;
    char *json = written(text);
    struct json at = json_of(json);
    cr_expect_str_eq(json_text(&at), text);
    cr_expect(json_done(&at));
    free(json);
}

static const char *got;

static void read_text(void *json) {
    got = json_text(json);
}

/* Reads a string alone: its meaning or, with `problem`, what is wrong at which byte. */
static void expect_text(const char *text, const char *want, const char *problem, int byte) {
    char *copy =
        strdup(text); // a buffer of exactly this length, so that a sanitizer sees reads beyond it
    char line[128];
    struct json json = json_of(copy);
    const char *found = problem_of(read_text, &json);
    snprintf(line, sizeof line, "byte %d of the header: %s", byte, problem ? problem : "");
    if (want) {
        cr_assert(!found, "%s: %s", text, found);
        cr_expect_str_eq(got, want);
    } else {
        cr_assert(found, "%s: was read as %s", text, got);
        cr_expect_str_eq(found, line, "%s", text);
    }
    free(copy);
}

Test(json, strings_are_read) {
    expect_text("\"\"", "", NULL, 0);
    expect_text(" \t\r\n\"a b\"", "a b", NULL, 0);
    expect_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", NULL, 0);
    expect_text("\"\\u0041\\u00e9\\u00E9\\u20aC\\uFFFF\"", "A\u00e9\u00e9\u20ac\uffff", NULL, 0);
    expect_text("\"\\ud800\\udc00\\uDBFF\\uDFFF\"", "\U00010000\U0010ffff", NULL, 0);
    expect_text("\"\\ud7ff\\ue000\"", "\ud7ff\ue000", NULL, 0);
    expect_text("\"\x7f\u00e9\U0001f600\"", "\x7f\u00e9\U0001f600", NULL, 0);
    expect_text("\"\\\\\"", "\\", NULL, 0);
}

Test(json, strings_that_are_none) {
    static const char escape[] = "an invalid escape";
    expect_text("", NULL, "expected \"", 0);
    expect_text("  a", NULL, "expected \"", 2);
    expect_text("\"abc", NULL, "an unterminated string", 4);
    expect_text("\"abc\\", NULL, "an unterminated string", 5);
    expect_text("\"abc\\\"", NULL, "an unterminated string", 6);
    expect_text("\"a\nb\"", NULL, "a control character in a string", 2);
    expect_text("\"a\xff\"", NULL, "not UTF-8", 2);
    expect_text("\"\xc3\"", NULL, "not UTF-8", 1);
    expect_text("\"\xe2\x82", NULL, "not UTF-8", 1);
    expect_text("\"\xc0\xaf\"", NULL, "not UTF-8", 1);
    expect_text("\"\\a\"", NULL, escape, 3);
    expect_text("\"\\U0041\"", NULL, escape, 3);
    expect_text("\"\\u0000\"", NULL, escape, 7);
    expect_text("\"\\u004\"", NULL, escape, 6);
    expect_text("\"\\u", NULL, escape, 3);
    expect_text("\"\\u+041\"", NULL, escape, 3);
    expect_text("\"\\ud800\"", NULL, escape, 7);
    expect_text("\"\\ud800x\"", NULL, escape, 7);
    expect_text("\"\\ud800\\u", NULL, escape, 7);
    expect_text("\"\\ud800\\ud800\"", NULL, escape, 13);
    expect_text("\"\\ud800\\u00e9\"", NULL, escape, 13);
    expect_text("\"\\udc00\\ud800\"", NULL, escape, 7);
}

static uint64_t counted;

static void read_count(void *json) {
    counted = json_count(json);
}

static void expect_count(const char *text, uint64_t want, const char *problem) {
    char *copy = strdup(text);
    struct json json = json_of(copy);
    const char *found = problem_of(read_count, &json);
    cr_expect(!found == !problem, "%s: %s", text, found ? found : "no error");
    if (problem)
        cr_expect(found && strstr(found, problem), "%s: %s", text, found);
    else
        cr_expect(counted == want && json_done(&json), "%s", text);
    free(copy);
}

Test(json, whole_numbers) {
    expect_count("0", 0, NULL);
    expect_count(" 10", 10, NULL);
    expect_count("9007199254740991", 9007199254740991, NULL);
    expect_count("9007199254740992", 0, "a number that is too large");
    expect_count("18446744073709551616", 0, "a number that is too large");
    expect_count("99999999999999999999999999999999999999999", 0, "a number that is too large");
    expect_count("", 0, "expected a whole number");
    expect_count("-1", 0, "expected a whole number");
    expect_count("+1", 0, "expected a whole number");
    expect_count("\"1\"", 0, "expected a whole number");
    expect_count("00", 0, "a number that starts with 0");
    expect_count("01", 0, "a number that starts with 0");
}

/* Counts the members of a list of numbers. */
static int members;

static void read_list(void *json) {
    members = 0;
    json_take(json, '[');
    for (; json_more(json, ']', !members); members++) json_count(json);
}

Test(json, lists) {
    static const struct {
        const char *text;
        int count;
        const char *problem;
    } list[] = {{"[]", 0, NULL},
                {" [ ] ", 0, NULL},
                {"[1]", 1, NULL},
                {"[ 1 ,\t2\n,3 ]", 3, NULL},
                {"", 0, "expected ["},
                {"{}", 0, "expected ["},
                {"[", 0, "expected a whole number"},
                {"[,1]", 0, "expected a whole number"},
                {"[1,]", 1, "expected a whole number"},
                {"[1,,2]", 1, "expected a whole number"},
                {"[1", 1, "neither a comma nor the end of a list"},
                {"[1 2]", 1, "neither a comma nor the end of a list"},
                {"[1}", 1, "neither a comma nor the end of a list"},
                {"[1.5]", 1, "neither a comma nor the end of a list"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char *copy = strdup(list[i].text);
        struct json json = json_of(copy);
        const char *problem = problem_of(read_list, &json), *want = list[i].problem;
        cr_expect(members == list[i].count, "%s: %d members", list[i].text, members);
        cr_expect(!problem == !want && (!problem || strstr(problem, want)), "%s: %s", list[i].text,
                  problem ? problem : "no error");
        free(copy);
    }
}

static void take_brace(void *json) {
    json_take(json, '}');
}

Test(json, the_end) {
    char text[] = "} \t\r\n", more[] = "} x", nul[] = "}\0";
    struct json json = json_of(text);
    cr_expect(!json_done(&json) && !problem_of(take_brace, &json) && json_done(&json));
    cr_expect_str_eq(problem_of(take_brace, &json), "byte 5 of the header: expected }");
    json = json_of(more);
    cr_expect(!problem_of(take_brace, &json) && !json_done(&json));
    json = (struct json){nul, nul, nul + 2, "it"};
    cr_expect(!problem_of(take_brace, &json) && !json_done(&json)); // a NUL is not a blank
}

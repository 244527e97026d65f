/* Strings written as JSON, and the JSON reader. */
#include "data/die.h"
#include "data/files/json.h"
#include "tests/death.h"
#include "tests/support.h"
#include <stdlib.h>
#include <string.h>

/* What readers found. */
static const char *found_text;
static uint64_t found_count;

static void read_text(void *json) {
    found_text = json_text(json);
}

static void read_count(void *json) {
    found_count = json_count(json);
}

/* Counts the members of a list of numbers. */
static void read_list(void *json) {
    found_count = 0;
    json_take(json, '[');
    for (; json_more(json, ']', !found_count); found_count++) json_count(json);
}

static void take_brace(void *json) {
    json_take(json, '}');
}

static struct json json_of(char *text) {
    return (struct json){text, text, text + strlen(text), "it"};
}

/* Calls the function. Returns its problem, "byte 3 of the header: expected {", or NULL. */
static const char *problem_of(void (*function)(void *), struct json *json) {
    const struct death *death = caught(function, json);
    cr_expect(!death->status ||
              (death->status == STATUS_MACHINE && !strncmp(death->line, "it: ", 4)));
    return death->status ? death->line + strlen("it: ") : NULL;
}

/* Reads the text, in memory of exactly its length, so that a sanitizer sees reads beyond it. Fails
   unless the problem is `want`; NULL: there is none, and the text ends where the value does. */
static void expect_problem(void (*function)(void *), const char *text, const char *want) {
    struct json json = json_of(strcpy(hold(strlen(text) + 1), text));
    const char *problem = problem_of(function, &json);
    cr_expect(want ? problem && strstr(problem, want) : !problem && json_done(&json),
              "%s: %s, not %s", text, problem ? problem : "no problem", want ? want : "none");
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
        {"plain /'", "\"plain /'\""},
        {"\"\\", "\"\\\"\\\\\""},
        {"\n\t\x01\x1f\x7f", "\"\\u000a\\u0009\\u0001\\u001f\\u007f\""},
        {"\u00e9\u20ac\U0001f600", "\"\u00e9\u20ac\U0001f600\""},
        {"a\xc3", "\"a\ufffd\""}, // not UTF-8
        {"\xe2\x82z", "\"\ufffd\ufffdz\""},
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
    struct json reader = json_of(json);
    cr_expect_str_eq(json_text(&reader), text);
    cr_expect(json_done(&reader));
    free(json);
}

Test(json, strings_are_read) {
    static const char *const pairs[][2] = {
        {" \t\r\n\"\"", ""},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u00E9\\u20aC\\uFFFF\"", "A\u00e9\u00e9\u20ac\uffff"},
        {"\"\\ud800\\udc00\\uDBFF\\uDFFF\\ud7ff\\ue000\"", "\U00010000\U0010ffff\ud7ff\ue000"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        expect_problem(read_text, pairs[i][0], NULL);
        cr_expect_str_eq(found_text, pairs[i][1]);
    }
}

Test(json, strings_that_are_none) {
    static const char *const pairs[][2] = {
        {"  a", "byte 2 of the header: expected \""},
        {"\"abc", "byte 4 of the header: an unterminated string"},
        {"\"abc\\\"", "byte 6 of the header: an unterminated string"},
        {"\"a\nb\"", "byte 2 of the header: a control character in a string"},
        {"\"a\xff\"", "byte 2 of the header: not UTF-8"},
        {"\"\xe2\x82", "byte 1 of the header: not UTF-8"},
        {"\"\\a\"", "byte 3 of the header: an invalid escape"},
        {"\"\\u0000\"", "byte 7 of the header: an invalid escape"},
        {"\"\\u004\"", "byte 6 of the header: an invalid escape"},
        {"\"\\u+041\"", "byte 3 of the header: an invalid escape"},
        {"\"\\ud800x\"", "byte 7 of the header: an invalid escape"},
        {"\"\\ud800\\u", "byte 7 of the header: an invalid escape"},
        {"\"\\ud800\\ud800\"", "byte 13 of the header: an invalid escape"},
        {"\"\\udc00\\ud800\"", "byte 7 of the header: an invalid escape"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        expect_problem(read_text, pairs[i][0], pairs[i][1]);
}

Test(json, whole_numbers_and_lists) {
    static const struct {
        void (*function)(void *);
        const char *text;
        uint64_t count;
        const char *problem;
    } cases[] = {{read_count, "0", 0, NULL},
                 {read_count, " 10", 10, NULL},
                 {read_count, "9007199254740991", 9007199254740991, NULL},
                 {read_count, "9007199254740992", 0, "a number that is too large"},
                 {read_count, "18446744073709551616", 0, "a number that is too large"},
                 {read_count, "", 0, "expected a whole number"},
                 {read_count, "-1", 0, "expected a whole number"},
                 {read_count, "01", 0, "a number that starts with 0"},
                 {read_list, " [ ] ", 0, NULL},
                 {read_list, "[ 1 ,\t2\n,3 ]", 3, NULL},
                 {read_list, "{}", 0, "expected ["},
                 {read_list, "[", 0, "expected a whole number"},
                 {read_list, "[1,]", 0, "expected a whole number"},
                 {read_list, "[1", 0, "neither a comma nor the end of a list"},
                 {read_list, "[1 2]", 0, "neither a comma nor the end of a list"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_problem(cases[i].function, cases[i].text, cases[i].problem);
        if (!cases[i].problem) cr_expect_eq(found_count, cases[i].count);
    }
}

Test(json, the_end) {
    expect_problem(take_brace, "} \t\r\n", NULL);
    char more[] = "} x", nul[] = "}\0";
    struct json json = json_of(more);
    cr_expect(!problem_of(take_brace, &json) && !json_done(&json));
    json = (struct json){nul, nul, nul + 2, "it"};
    cr_expect(!problem_of(take_brace, &json) && !json_done(&json)); // a NUL is not a blank
}

/* Verbs of the built-in grammar agree with their subjects, as a parser of English with a lexicon of
   its own finds: nothing here uses the sampler's reading of the rules. */
#include "tests/data/sentences.h"
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Each subject waits on a stack for its verb, so that clauses may nest. A noun after a verb with an
   object or after a preposition is not a subject; a noun before "that" and a verb is a subject once
   more; "does", "will", ... pass the subject on to a bare verb. */

enum number { NEITHER, ONE, MANY, BARE };

static const char nouns[] = " dog cat bird horse rabbit duck frog tiger monkey zebra owl squirrel "
                            "beetle whale lizard pig eagle ";
static const char names[] = " Anna Ben Clara David Emma Felix Grace Hugo Iris Jack Kim Laura ";
static const char adjectives[] = " old young happy small lazy quick brown clever hungry brave grey "
                                 "white the every this one another some these many two ";
static const char verbs[] = " chase see follow like help fear find hear greet trust avoid visit "
                            "sleep run sing wait jump dance dream listen swim laugh "
                            "think know hope believe say whisper shout explain ask ";
static const char with_object[] = " chase see follow like help fear find hear greet trust avoid "
                                  "visit chases sees follows likes helps fears finds hears greets "
                                  "trusts avoids visits near behind beside with ";

static bool in_list(const char *list, const char *word, size_t length) {
    char key[32];
    snprintf(key, sizeof key, " %.*s ", (int)length, word);
    return length && strstr(list, key);
}

/* The number of a word that is in the list, or that is in the list with an s added: then nouns are
   MANY and verbs ONE. */
static enum number number_of(const char *list, const char *word, enum number with_s) {
    size_t length = strlen(word);
    if (in_list(list, word, length)) return with_s == ONE ? MANY : ONE;
    return length && word[length - 1] == 's' && in_list(list, word, length - 1) ? with_s : NEITHER;
}

static size_t checked, far; // verbs, and those at least 5 words after their noun

static bool is_in(const char *list, const char *word) {
    return in_list(list, word, strlen(word));
}

static enum number noun_number(const char *word) {
    if (is_in(" mice geese foxes oxen ", word)) return MANY;
    if (is_in(" mouse goose fox ox ", word) || is_in(names, word)) return ONE;
    return number_of(nouns, word, MANY);
}

/* The number that a finite verb shows; BARE if it fits both. */
static enum number verb_number(const char *word) {
    if (is_in(" will can ", word)) return BARE;
    if (is_in(" is does ", word)) return ONE;
    return is_in(" are do ", word) ? MANY : number_of(verbs, word, ONE);
}

static void check_agreement(const char *sentence, size_t length) {
    struct {
        enum number number;
        size_t at;
    } waiting[200] = {0}; // subjects
    enum { START, NOUN, TAKER, THAT, OTHER } last = START;
    enum number number, noun = NEITHER, verb = NEITHER, inverted = NEITHER; // before its noun
    bool helper = false; // whether a bare verb must follow the inverted one
    size_t depth = 0, at = 0;
    char word[32];
    for (const char *c = sentence; c < sentence + length; c += strspn(c, " \n"), at++) {
        size_t size = 1;
        for (word[0] = *c; isalpha(*c) && isalpha(c[size]); size++) word[size] = c[size];
        word[size] = 0;
        c += size;
        if (!is_in(names, word)) word[0] = (char)tolower(word[0]);
        if (is_in(adjectives, word)) {
            if (last == THAT) last = OTHER;
        } else if ((number = noun_number(word))) {
            if (inverted) {
                cr_assert(inverted == number, "%s in: %.*s", word, (int)length, sentence);
                if (helper) waiting[depth++].number = BARE;
                inverted = NEITHER;
            } else if (last != TAKER) {
                waiting[depth].at = at;
                waiting[depth++].number = number;
            }
            noun = number;
            last = NOUN;
        } else if ((number = verb_number(word))) {
            bool passes = is_in(" does do will can ", word);
            if (last == START) {
                inverted = number;
                helper = passes;
            } else {
                if (last == THAT) { // the noun before it is the subject
                    waiting[depth].at = at - 2;
                    waiting[depth++].number = noun;
                }
                cr_assert(depth > 0 && depth < 199, "%s in: %.*s", word, (int)length, sentence);
                verb = waiting[--depth].number;
                cr_assert(number == BARE || number == (verb == BARE ? MANY : verb),
                          "%s, word %zu of: %.*s", word, at, (int)length, sentence);
                checked += number != BARE && verb != BARE;
                far += number != BARE && verb != BARE && at >= waiting[depth].at + 5;
                if (passes) waiting[depth++].number = BARE;
            }
            last = is_in(with_object, word) ? TAKER : OTHER;
        } else if (is_in(" itself themselves ", word)) {
            cr_assert(verb == (*word == 'i' ? ONE : MANY), "%.*s", (int)length, sentence);
        } else {
            last = !strcmp(word, "that") && last == NOUN  ? THAT
                   : is_in(with_object, word)             ? TAKER
                   : is_in(" \" ' why when where ", word) ? START
                                                          : OTHER;
        }
    }
    cr_assert(depth == 0, "%zu nouns without a verb in: %.*s", depth, (int)length, sentence);
}

Test(grammar, verbs_agree_with_their_nouns) {
    sentence_each(5, 1000000, check_agreement);
    cr_expect(checked > 20000 && far > 2000, "%zu verbs, %zu of them far from their nouns", checked,
              far);
}

/* The list of the options of all kinds, in which each option stands once, by its rank. */
#include "model/kind_option.h"
#include "data/die.h"
#include <string.h>

/* Inserts the option after those of the same or a lower rank, unless the list has it. */
static void insert(const struct kind_option **list, const struct kind_option *option) {
    size_t count = 0, place = 0;
    for (; list[count]; count++) {
        if (list[count] == option) return;
        if (list[count]->rank <= option->rank) place = count + 1;
    }
    if (count == KIND_OPTIONS_MAX)
        die(STATUS_USAGE, "--%s: kinds have too many options (raise KIND_OPTIONS_MAX)",
            option->name);
    memmove(list + place + 1, list + place, (count - place) * sizeof *list);
    list[place] = option;
}

void kind_options_add(const struct kind_option **list, const struct kind_option *const *options) {
    for (; *options; options++) insert(list, *options);
}

size_t kind_options_place(const struct kind_option *const *list, const struct kind_option *option) {
    for (size_t i = 0; list[i]; i++)
        if (list[i] == option) return i;
    die(STATUS_USAGE, "--%s: no kind in a list.h has this option", option->name);
}

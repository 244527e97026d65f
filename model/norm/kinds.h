/* The kinds of norms, and the options that they list. A kind is a file of this folder and a line in
   list.h. */
#ifndef NORM_KINDS_H
#define NORM_KINDS_H

#include "model/norm/kind.h"

/* In the order of list.h, ended by NULL. */
extern const struct norm_kind *const norm_kinds[];

const struct norm_kind *norm_find(const char *name); // by its short name; NULL if there is none

/* Every option that some kind lists, once, by rank; ended by NULL. The first call makes the list,
   before there are threads. */
const struct kind_option *const *norm_option_list(void);

/* The value of an option. This searches the list: norms read norm->option[] instead. */
union kind_value norm_option_value(const struct norm_options *options,
                                   const struct kind_option *option);

/* The settings of a norm of rows that have this many of the model's heads. An option whose "auto"
   is the number of heads (--norm-groups) becomes smaller in the same ratio, rounded down, and is 1
   in a single head; so a group of keys has as many channels as one of queries. */
struct norm_options norm_options_of_heads(const struct norm_options *options, size_t heads);

#endif

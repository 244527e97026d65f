/* The kinds of optimizers, and the options that they list. A kind is a file of this folder and a
   line in list.h. */
#ifndef OPTIMIZER_KINDS_H
#define OPTIMIZER_KINDS_H

#include "model/optimizer/kind.h"

/* In the order of list.h, ended by NULL. */
extern const struct optimizer_kind *const optimizer_kinds[];

/* Every option that some kind lists, once, in the order of the kinds; ended by NULL. The first call
   makes the list, before there are threads. */
const struct kind_option *const *optimizer_option_list(void);

/* The name of option i of an optimizer of this kind, NULL after the last. The options are its own,
   and AdamW's if AdamW updates the tensors that it does not take. */
const char *optimizer_option_name(const struct optimizer_kind *kind, size_t i);

/* The rule of the chosen kind with these settings. */
struct optimizer_rule optimizer_rule(const struct optimizer_kind *kind,
                                     const struct optimizer_options *options);

#endif

/* The settings of the norms of a model, and options that several kinds list. */
#ifndef NORM_OPTION_H
#define NORM_OPTION_H

#include "model/kind_option.h"

/* What weight decay does to gamma. */
enum norm_decay { NORM_DECAY_OFF, NORM_DECAY_ZERO, NORM_DECAY_ONE };

/* The settings of all norms of a model. */
struct norm_options {
    int64_t affine;                           // gamma and beta are learned
    int64_t bias;                             // beta is learned
    int64_t decay_gamma;                      // enum norm_decay
    int64_t heads;                            // of attention
    int64_t attention;                        // norms of an attention sub-layer
    int64_t watch;                            // norms are watched (watch.h)
    union kind_value value[KIND_OPTIONS_MAX]; // in the order of norm_option_list() in kinds.h
};

/* Dies with status 2 unless the C channels of the norm at the site `name` can be split into this
   many equal groups. */
void norm_check_groups(const char *name, int64_t groups, size_t C);

/* Options of several kinds. */
extern const struct kind_option norm_eps;      // inside the square root
extern const struct kind_option norm_momentum; // weight of the batch in the running statistics
extern const struct kind_option norm_groups;   // groups of channels

#endif

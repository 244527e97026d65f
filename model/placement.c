#include "placement.h"
#include <stddef.h>

const struct placement placements[] = {
    // Xiong et al. 2020, table 1 right (arXiv:2002.04745); Radford et al. 2019
    {"pre", "x + F(N(x)), N before the head", .pre = true, .final = true, .a = 1},
    // Vaswani et al. 2017, section 3.1 (arXiv:1706.03762)
    {"post", "N(x + F(x))", .post = true, .a = 1},
    {.name = NULL},
};

/* Which norm made NaN or infinity of numbers, for the message of a run that diverges. */
#pragma once

#include "model/model_pass.h"

struct fault {
    char site[TENSOR_NAME]; // of the norm; "": none was found
    char operation[64];     // of its formula
    bool backward;
};

/* Computes the gradient of the batch again, and looks at its norms that have a formula. Finds nothing
   where ranks share the batch. */
struct fault fault_find(struct model *model, const struct batch *batch, uint64_t number);

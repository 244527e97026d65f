/* One element of a stored array, from its bytes. `type` is a numeric one (safetensors.h). */
#ifndef ELEMENT_H
#define ELEMENT_H

#include "safetensors.h"

double element_number(int type, const unsigned char *bytes);

/* INT64_MIN for a number that is no integer. */
int64_t element_integer(int type, const unsigned char *bytes);

#endif

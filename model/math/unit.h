/* Matrices whose rows or columns keep unit length while they are learned. tensor.h declares which
   (tensor_keep_unit()). */
#ifndef UNIT_H
#define UNIT_H

#include "model/math/tensor.h"

/* Divides each row or column that keeps unit length by its length; zeros stay zeros. Every
   thread of the team calls it, between barriers, and takes its own rows or columns. The caller
   increments the list's version. */
void unit_normalize(const struct tensor_list *list);

#endif

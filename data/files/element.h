/* One element of a stored array, read from its bytes. */
#ifndef ELEMENT_H
#define ELEMENT_H

#include <stdint.h>

/* The types of elements. The first five can be read as numbers. */
enum stored_type {
    STORED_F32,
    STORED_F64,
    STORED_F16,
    STORED_BF16,
    STORED_I64,
    STORED_OTHER, // this and all later types in safetensors.c
};

/* `type` is one of the numeric types. */
double element_number(int type, const unsigned char *bytes);

/* INT64_MIN if the number is not an integer. */
int64_t element_integer(int type, const unsigned char *bytes);

#endif

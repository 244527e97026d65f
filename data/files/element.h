/* One element of a stored array, read from its bytes. */
#ifndef ELEMENT_H
#define ELEMENT_H

#include <stdint.h>

/* What arrays can be made of; the first five can be read as numbers. */
enum stored_type {
    STORED_F32,
    STORED_F64,
    STORED_F16,
    STORED_BF16,
    STORED_I64,
    STORED_OTHER, // and all types behind it in safetensors.c
};

/* `type` is one of the numeric types. */
double element_number(int type, const unsigned char *bytes);

/* INT64_MIN for a number that is no integer. */
int64_t element_integer(int type, const unsigned char *bytes);

#endif

#include "data/files/element.h"
#include <math.h>
#include <string.h>

/* IEEE 754 half precision: 1 bit of sign, 5 of exponent, 10 of fraction. */
static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return bits >> 15 ? -value : value;
}

double element_number(int type, const unsigned char *bytes) {
    uint16_t two;
    uint32_t four;
    int64_t whole;
    float single;
    double value;
    switch (type) {
    case STORED_F64: memcpy(&value, bytes, sizeof value); return value;
    case STORED_I64: memcpy(&whole, bytes, sizeof whole); return (double)whole;
    case STORED_F16: memcpy(&two, bytes, sizeof two); return half(two);
    case STORED_BF16: // the upper half of a float
        memcpy(&two, bytes, sizeof two);
        four = (uint32_t)two << 16;
        memcpy(&single, &four, sizeof single);
        return (double)single;
    default: memcpy(&single, bytes, sizeof single); return (double)single;
    }
}

int64_t element_integer(int type, const unsigned char *bytes) {
    int64_t whole;
    if (type == STORED_I64) { // exact beyond 2^53 too
        memcpy(&whole, bytes, sizeof whole);
        return whole;
    }
    double value = element_number(type, bytes);
    return fabs(value) < 0x1p63 && value == floor(value) ? (int64_t)value : INT64_MIN;
}

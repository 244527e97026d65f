/* SANITIZED: whether the tests run under the address sanitizer. Tests that repeat the same code on
   many numbers then take a sample of these: every line still runs, and the other programs check
   every number. */
#ifndef SANITIZER_H
#define SANITIZER_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__)
#    define SANITIZED true
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define SANITIZED true
#    endif
#endif
#ifndef SANITIZED
#    define SANITIZED false
#endif

#endif

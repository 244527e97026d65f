/* Numbers computed with PyTorch, in tests/golden/, made by scripts/pytorch/make_golden.py. The
   files hold results only: both sides compute the inputs from the same formula. */
#pragma once

#include "tests/support.h"

/* Reads the `count` values of `key` from the golden file; fails if they are not there. */
void golden_read(const char *path, const char *key, size_t count, real *values);

/* Fails unless the values agree with the file's to within `tolerance` of the largest of these, or
   of `typical` if that is larger. */
#define golden_expect(...) cr_expect(golden_agrees(__VA_ARGS__), "%s", case_failure())
bool golden_agrees(const char *path, const char *key, size_t count, const real *got,
                   double tolerance, double typical);

enum { GOLDEN_V = 7, GOLDEN_B = 3, GOLDEN_T = 5 }; // sizes of the golden models' batches

/* Initial values of parameters: 0.4 sin(1.3 i + s), where s is the sum of the name's bytes, plus 1
   in a norm's weight. */
void golden_start(struct tensor_list *list);

/* Batch number k, held. */
struct batch golden_batch(int k);

/* The dot products of x with the waves cos(0.7 i) and sin(0.7 i). */
void golden_dots(size_t count, const real *x, real dots[2]);

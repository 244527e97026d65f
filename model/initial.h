/* Initial weights: the standard deviations of --init. Each rule is a row of initial_rules:

              a matrix (out,in)     into the stream     untied head   token embedding   position embedding
     gpt2     std                   std / sqrt(2L)      std           embd_std          embd_std
     xavier   sqrt(2 / (in + out))  as other matrices   1 / sqrt(C)   1 / sqrt(C)       1
     width    1 / sqrt(in)          / sqrt(2L) too      1 / sqrt(C)   embd_std          embd_std

   If embd_std is not given, it is the standard deviation of a matrix that reads the stream: std, or
   with `width` 1 / sqrt(C), because the head shares the token embedding. So with `width` and
   `xavier` the logits initially have a variance of about 1. The matrices into the stream are the
   last ones of attention and of the MLP. Placements multiply these numbers by their own factors
   (placement.h). If these depend on depth, they replace 1 / sqrt(2L).

   gpt2: Radford et al. 2019, section 2.3. xavier: Glorot and Bengio 2010, equation 12, as a normal
   distribution; q, k and v count as three matrices (C,C), also with fewer heads of k and v, and a
   gate as a matrix of its own. With learned or sinusoidal positions the stream then starts with
   unit variance, with --position=rope or none with 1 / C. width: LeCun et al. 1998, equation 16. */
#ifndef INITIAL_H
#define INITIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INIT_GPT2, INIT_XAVIER, INIT_WIDTH }; // rows of initial_rules

struct initial_rule;

struct initial {
    const struct initial_rule *rule;
    double std, embd_std; // embd_std: not positive means not given
};

/* The standard deviation of a matrix with `in` inputs and `out` outputs. Each rule has a row of
   such functions. */
typedef double initial_std(const struct initial *initial, size_t in, size_t out);

struct initial_rule {
    const char *name; // as in --init=NAME
    initial_std *matrix, *head;
    initial_std *token, *position; // embeddings, as matrices that read the stream: in = C
    bool by_depth;                 // matrices into the stream are divided by sqrt(2L)
};

extern const struct initial_rule initial_rules[]; // ended by a row without a name

#endif

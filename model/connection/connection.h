/* Residual connections behind one interface. A kind is one file and one line in list.h; a file may
   have several kinds that share functions.

   A sub-layer with the function F, attention or the MLP, is

     u = READ(streams)                 its input
     f = OUT(F(s PRE(u)))              PRE, OUT, POST are norms or the identity: see placement.h
     streams = WRITE(streams, drop(f))
     y = POST(sum)                     the next sub-layer's x

   The main stream is x before the sub-layer and `sum` after WRITE; y takes the place of `sum`. Most
   kinds have no other stream and u = x. A kind with `streams` keeps further ones in buffers of its
   own, and all sub-layers of the model have this kind. Then the head reads READ(streams) too, by
   one more connection, the `end`, which has no sub-layer.

   Backward, from dy: dsum = POST'(dy), df = drop(WRITE'(dsum)), du = PRE'(..), dx from dsum and du.
   The gradients of further streams are in the kind's buffers. */
#pragma once

#include "model/layer/dropout.h"
#include "model/norm/norm.h"

/* Maximum numbers of parameters and of buffers of a connection. */
enum { CONNECTION_PARAMS = 8, CONNECTION_BUFFERS = 8 };

/* The settings of all connections of a model. */
struct connection_options {
    union option_data value[KIND_OPTIONS_MAX + 1]; // in the order of connection_option_list()
};

/* One connection: that of a sub-layer, or the end. The caller of connection_attach() sets all
   members before `u`. */
struct connection {
    const struct connection_kind *kind;
    struct connection_options options;
    struct connection *previous; // that of the sub-layer before; NULL: this is the first
    bool end;
    size_t C, site,
        depth;            // site 0, 1, ... in the order of forward: attention and MLP of each layer
    real a, b;            // constant factors of x and of f in `sum` (placement.h)
    const real *x;        // (B,T,C) the main stream, not owned
    const real *embedded; // (B,T,C) the embeddings, before a norm
    struct norm norm;     // of READ, if the kind has one
    real *u;              // (B,T,C) what READ makes; NULL: x itself
    bool keeps_f;         // whether write_backward reads f
    real *f;              // (B,T,C) f, if the kind keeps it; from the sub-layer, as `sum`
    real *sum;            // (B,T,C) the main stream after WRITE
    const real *norm_in;  // (B,T,C) what this norm reads, not owned
    struct param param[CONNECTION_PARAMS]; // learned
    bool starts, ends; // whether backward starts the parameters' sums here, and ends them: both,
                       // unless two sub-layers share a parameter
    real *buffer[CONNECTION_BUFFERS]; // the kind's own
    const real *dembedded; // (B,T,C) of the first: a gradient that reaches the embeddings beside
                           // that of x; NULL: none
};

/* The functions of a kind. Every thread of the team calls all but attach. It calls read, write and
   their backward for its own rows, which are full row blocks in backward. f, df, dsum, du and dx
   point to the first of the rows; `scratch` is (rows,C). */
struct connection_functions {
    /* Declares the parameters, takes memory for buffers from layout->arena, and sets keeps_f.
       NULL: there are none. */
    void (*attach)(struct connection *c, const struct layout *layout);
    /* Called after a change of the parameters, to compute what depends on them only. Each thread
       computes its own channels (team_part()); a barrier follows. NULL: nothing to do. */
    void (*prepare)(const struct connection *c);
    /* Computes u of these rows. NULL: u = x. */
    void (*read)(const struct connection *c, const struct tokens *tokens, struct range rows);
    /* Computes dx from dsum and du. The `end` has no dsum and works in place: dx is du. */
    void (*read_backward)(const struct connection *c, const struct tokens *tokens,
                          struct range rows, real *dx, const real *dsum, const real *du,
                          real *scratch);
    /* Computes `sum`, and the further streams. */
    void (*write)(const struct connection *c, struct range rows, const real *f,
                  struct dropout drop);
    /* Computes df from dsum, and the sums of the parameters' gradients over each row block
       (param_sums()), which are not cleared before (`starts`). df is NULL if it equals dsum:
       unless connection_has_df(). */
    void (*write_backward)(const struct connection *c, struct range rows, real *df,
                           const real *dsum, struct dropout drop);
    bool writes_df; // df is more than drop(b dsum)
    /* Element i of `sum` without what the sub-layer added. NULL: a x. */
    double (*kept)(const struct connection *c, size_t i);
};

struct connection_kind {
    const char *name;                               // as in --connection=NAME
    const char *formula;                            // in a line
    const char *source;                             // the paper, in a line
    const struct option *options[KIND_OPTIONS + 1]; // NULL ends the list
    const char *norm;  // READ has a norm: the end of its name; NULL: none
    bool final;        // READ has a norm at the end, which is the norm before the head
    bool streams;      // there are streams beside x
    bool without_post; // there is no single stream that POST could normalize
    const struct connection_functions *functions;
    const void *data; // data of the kind for these functions
    /* NULL unless the kind has initial values from the first batch. One thread calls it to set
       them, when the forward of all sub-layers before this one is done. */
    void (*set_initial)(struct connection *c, const struct tokens *tokens);
};

extern const struct connection_kind *const connection_kinds[]; // as list.h, ended by NULL

const struct connection_kind *connection_find(const char *name); // NULL if there is none

/* Every option that some kind lists, once, in the order of the kinds; ended by NULL. The first call
   makes the list, before there are threads. */
const struct option *const *connection_option_list(void);

/* The value of an option, by the address of its row. */
union option_data connection_option(const struct connection *c, const struct option *option);

/* Sets the members from `u` on, except for `f` and `sum`. */
void connection_attach(struct connection *c, const struct layout *layout);

/* Declares parameter i, (rows,columns) or (rows), with one initial value. `name` is what follows
   "transformer.h.0.", or at the end "transformer.". */
void connection_param(struct connection *c, size_t i, const char *name, size_t rows, size_t columns,
                      double start, const struct layout *layout);

/* ---- what several kinds share ---- */

/* The write_backward() of branches with the factor b. */
void connection_branch_backward(const struct connection *c, struct range rows, real *df,
                                const real *dsum, struct dropout drop);

/* ---- what the sub-layer asks ---- */

static inline void connection_prepare(const struct connection *c) {
    if (c->kind->functions->prepare) c->kind->functions->prepare(c);
}

/* Element i of `sum` without what the sub-layer added. */
static inline double connection_kept(const struct connection *c, size_t i) {
    if (c->kind->functions->kept) return c->kind->functions->kept(c, i);
    return (double)c->a * (double)c->x[i];
}

/* What the sub-layer reads, (B,T,C). */
static inline const real *connection_u(const struct connection *c) {
    return c->u ? c->u : c->x;
}

/* Whether df and dsum are different arrays, in a pass with dropout or without. */
static inline bool connection_has_df(const struct connection *c, bool dropout) {
    return c->kind->functions->writes_df || c->b != 1 || dropout;
}

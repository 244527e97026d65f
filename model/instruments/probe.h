/* Probes: what a normalization does during training, as rows of probes.csv. A probe only measures:
   the run is the same to the bit without it.

   `layer` and `site` say where: a norm or a weight by its name in the state dict ("ln_1",
   "mlp.c_proj.weight"), "attn" and "mlp" for whole sub-layers, "head.0" for an attention head.
   Layers count from 0; a site outside of the layers has none. The metrics:

     site        metric          meaning
     norms       dist_mean, dist_var, tid_mean, tid_var, g_mean, g_var, penalty, saturation: see
                 watch.h
                 alpha, ...      each learned number of the norm by its name, before the update
     sub-layers  stream_rms      root mean square of the residual stream after the sub-layer
                 output_rms      the same of what the sub-layer adds to the stream
                 stream_grad     L2 norm of the loss's gradient with respect to that stream
     "embd"      stream_rms,     the same of the first layer's input
                 stream_grad
     "second"    stream_rms      of the second stream at its end (placements residual and siamese)
     heads       logit_max       largest attention score of a query and a key that it may see
                 entropy         of a query's attention weights, in nats, mean over queries
                 saturated       fraction of queries with a weight above 0.99
     weights     weight_norm     L2 norm before the update
                 grad_norm       L2 norm of the gradient before clipping
                 update_ratio    |update| / |weights|

   A root mean square is over valid tokens and channels. entropy and saturated count only queries
   that see more than one key. With --grad-accum, activations and their gradients are those of the
   update's last batch; the gradients are scaled to the mean loss of that batch. */
#pragma once

#include "model/instruments/watch.h"

/* Receives a row. `layer` is negative outside of the layers. */
typedef void probe_row(void *context, int64_t step, int layer, const char *site, const char *metric,
                       double value);

struct probe {
    struct watch watch;
    probe_row *row;
    void *context;
    real *weights; // before the update, laid out as the parameters
    double *heads; // (B,NH,3)
    /* What the rows of one probe share. */
    const struct model *model;
    struct tokens tokens;
    int64_t step;
    double scale;
};

/* Takes memory for probes of the model, and looks on from now on. */
void probe_init(struct probe *probe, struct model *model, probe_row *row, void *context);
void probe_free(struct probe *probe);

/* Copies the weights; to be called between watch_batch() and the update. */
void probe_keep(struct probe *probe, const struct model *model);

/* After the update: writes the rows of the last batch, whose forward and backward ran with
   model->probing set, and watch_batch() after them. `scale` is that of backward, `step` the number
   of updates before this one. */
void probe_write(struct probe *probe, const struct model *model, const struct batch *batch,
                 double scale, int64_t step);

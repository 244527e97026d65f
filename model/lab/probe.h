/* Probes: what a normalization does while it trains, as rows of probes.csv. A probed update is an
   update like any other: nothing that is measured is used.

   layer and site say where: a norm or a weight by its name in the state dict ("ln_1",
   "mlp.c_proj.weight"), "attn" and "mlp" for whole sub-layers, "head.0" for a head; layers count
   from 0, what lies outside of them has none. Metrics:

     norms       dist_mean dist_var tid_mean tid_var g_mean g_var penalty  see norm_watch.h
     sub-layers  stream_rms, output_rms     root mean square, over valid tokens and channels, of the
                                            residual stream behind it and of what it adds to that
                 stream_grad                L2 norm of the loss's gradient by that stream
     "embd"      stream_rms, stream_grad    of the first layer's input
     "second"    stream_rms                 of the second stream's end (placement residual)
     heads       logit_max                  the largest logit that a query gives a key it may see
                 entropy                    of a query's weights, in nats, and
                 saturated                  share of queries with a weight above 0.99: of the
   queries that see more than one key weights     weight_norm, grad_norm     L2 norms before the
   update; of the gradient before clipping update_ratio               |update| / |weights|

   Activations are those of the update's last batch (--grad-accum), gradients by activations are
   scaled to that batch's mean loss. */
#ifndef PROBE_H
#define PROBE_H

#include "model/model.h"

struct probe {
    real *weights; // as the parameters: before the update
    double *heads; // (B,NH,3)
    struct arena arena;
};

/* Where a row goes: `layer` is negative outside of the layers. */
struct probe_sink {
    void (*row)(void *context, int64_t step, int layer, const char *site, const char *metric,
                double value);
    void *context;
};

/* For a model with watched norms (norm_options.watch). */
void probe_init(struct probe *probe, const struct model *model);
void probe_free(struct probe *probe);

/* Between backward and update: keeps the weights. */
void probe_keep(struct probe *probe, const struct model *model);

/* After the update, of the batch that was forward's and backward's last, with model->probing set;
   `scale` was backward's. `step` updates were done before. */
void probe_write(struct probe *probe, const struct model *model, const struct batch *batch,
                 double scale, int64_t step, const struct probe_sink *sink);

#endif

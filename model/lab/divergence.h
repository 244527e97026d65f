/* What happens when a loss, the gradient or a weight becomes NaN or infinite. */
#ifndef DIVERGENCE_H
#define DIVERGENCE_H

#include "model/lab/session.h"

/* If a number of the row is not finite, or at the last step one of the model, writes summary.json
   and dies with status 3; the message names the first tensor that holds such a number. The row is
   in the log already. */
void divergence_check(struct session *t, const struct log_row *row, bool last);

#endif

/* The list of optimizers: OPTIMIZER(mine) lists the kind optimizer_mine, which
   model/optimizer/mine.c defines. The first updates the tensors that the chosen kind does not take.
   --help keeps this order. optimizer.c includes this file twice, so it has no #pragma once. */
OPTIMIZER(adamw)
OPTIMIZER(sgd)
OPTIMIZER(muon)

/* The list of norms: NORM(mine) lists the kind norm_mine, which model/norm/mine.c defines. --help
   keeps this order. kinds.c includes this file twice, so it has no include guard. */
NORM(none)
NORM(layer)
NORM(batch)
NORM(rms)
NORM(dyt)
NORM(derf)
NORM(scale)
NORM(group)
NORM(instance)
NORM(power_v)
NORM(power)
NORM(prep)

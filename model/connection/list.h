/* The list of residual connections: CONNECTION(mine) lists the kind connection_mine, which a file
   of this folder defines. --help keeps this order. connection.c includes this file twice, so it has
   no #pragma once. */
CONNECTION(plain)
CONNECTION(rezero)
CONNECTION(skipinit)
CONNECTION(layerscale)
CONNECTION(admin)
CONNECTION(interpolate)
CONNECTION(residual)
CONNECTION(siamese)
CONNECTION(hyper)
CONNECTION(hyper_static)
CONNECTION(mhc)
CONNECTION(attnres)

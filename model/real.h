/* The number that the whole model computes with: float, or double under -DREAL=double, where the
   tests check every gradient against differences. */
#ifndef REAL_H
#define REAL_H

#ifndef REAL
#    define REAL float
#endif

typedef REAL real;

#endif

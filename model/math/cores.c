/* The smaller of what the system and what cgroups allow. */
#include "model/math/cores.h"
#include "model/math/cgroup.h"
#include <math.h>
#include <omp.h>

int cores_usable(void) {
    const int cores = omp_get_num_procs();
    const double quota = cgroup_processors("");
    return quota < cores ? (int)ceil(quota) : cores;
}

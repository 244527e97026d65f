/* /proc/self/cgroup names the cgroups of the process, one on each line:

     0::/user/job              version 2, in /sys/fs/cgroup/user/job
     4:cpu,cpuacct:/user/job   version 1, in /sys/fs/cgroup/cpu/user/job
     5:memory:/user/job        version 1, in /sys/fs/cgroup/memory/user/job

   Every cgroup on the way up to the mount point may have a limit, and the smallest one counts.

     limit of          version 2                             version 1
     processor time    cpu.max: quota and period, or "max"   cpu.cfs_quota_us (-1: none), cpu.cfs_period_us
     memory            memory.max: bytes, or "max"           memory.limit_in_bytes (none: more than any machine has)

   In a container the names may be those of the host; folders that do not exist here are passed over,
   until the container's own cgroup is reached at the mount point. */
#include "model/math/cgroup.h"
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 8192 };

/* Reads up to two numbers from a file of the folder; returns how many there are. */
static int read_numbers(const char *folder, const char *name, double *one, double *two) {
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    const int count = fscanf(file, "%lf %lf", one, two);
    fclose(file);
    return count;
}

/* The limits of one cgroup. */
typedef double limit_in(const char *folder);

static double processors_in(const char *folder) {
    double quota = -1, period = 0, nothing;
    if (read_numbers(folder, "cpu.max", &quota, &period) != 2) {
        read_numbers(folder, "cpu.cfs_quota_us", &quota, &nothing);
        read_numbers(folder, "cpu.cfs_period_us", &period, &nothing);
    }
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

static double memory_in(const char *folder) {
    double bytes, nothing;
    const bool limited = read_numbers(folder, "memory.max", &bytes, &nothing) == 1 ||
                         read_numbers(folder, "memory.limit_in_bytes", &bytes, &nothing) == 1;
    return limited ? bytes : INFINITY;
}

/* The smallest limit of the cgroup `path` and of those above it. */
static double limit_up(limit_in *limit, const char *mount, const char *path) {
    char folder[PATH_SIZE];
    double least = INFINITY;
    if (snprintf(folder, sizeof folder, "%s%s", mount, path) >= PATH_SIZE) return least;
    char *below = folder + strlen(mount);
    for (char *end = below + strlen(below); end; end = strrchr(below, '/')) {
        *end = 0;
        least = fmin(least, limit(folder));
    }
    return least;
}

/* Whether the list "cpu,cpuacct" has this controller. */
static bool has_controller(char *list, const char *name) {
    for (char *one; (one = strsep(&list, ","));)
        if (!strcmp(one, name)) return true;
    return false;
}

/* The smallest limit of a controller of version 1, or of version 2. */
static double smallest(limit_in *limit, const char *controller, const char *root) {
    char name[PATH_SIZE], line[PATH_SIZE / 2], controllers[256], path[PATH_SIZE / 2];
    double least = INFINITY;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file)) {
        const bool version2 = sscanf(line, "0::%[^\n]", path) == 1;
        const bool version1 = sscanf(line, "%*d:%255[^:]:%[^\n]", controllers, path) == 2;
        if (!version2 && !(version1 && has_controller(controllers, controller))) continue;
        snprintf(name, sizeof name, "%s/sys/fs/cgroup%s%s", root, version2 ? "" : "/",
                 version2 ? "" : controller);
        least = fmin(least, limit_up(limit, name, path));
    }
    if (file) fclose(file);
    return least;
}

double cgroup_processors(const char *root) {
    return smallest(processors_in, "cpu", root);
}

double cgroup_memory(const char *root) {
    return smallest(memory_in, "memory", root);
}

int cgroup_cores(void) {
    const int cores = omp_get_num_procs();
    const double quota = cgroup_processors("");
    return quota < cores ? (int)ceil(quota) : cores;
}

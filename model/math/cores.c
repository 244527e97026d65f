/* The processors that a process may use.

   /proc/self/cgroup names the cgroups of the process, one on each line:

     0::/user/job              version 2, in /sys/fs/cgroup/user/job
     4:cpu,cpuacct:/user/job   version 1, in /sys/fs/cgroup/cpu/user/job

   Every cgroup on the way up to the mount point may have a quota, and the smallest one counts. In
   version 2 the file cpu.max has the quota and the period in which it may be used, "150000 100000",
   or "max" for no limit. In version 1 there is a file for each of the two numbers, and -1 means no
   limit. In a container the names may be those of the host; folders that do not exist here are
   passed over, until the container's own cgroup is reached at the mount point. */
#include "model/math/cores.h"
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

/* The quota of one cgroup. */
static double quota_in(const char *folder) {
    double quota = -1, period = 0, nothing;
    if (read_numbers(folder, "cpu.max", &quota, &period) != 2) {
        read_numbers(folder, "cpu.cfs_quota_us", &quota, &nothing);
        read_numbers(folder, "cpu.cfs_period_us", &period, &nothing);
    }
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/* The smallest quota of the cgroup `path` and of those above it. */
static double quota_up(const char *mount, const char *path) {
    char folder[PATH_SIZE];
    double least = INFINITY;
    if (snprintf(folder, sizeof folder, "%s%s", mount, path) >= PATH_SIZE) return least;
    char *below = folder + strlen(mount);
    for (char *end = below + strlen(below); end; end = strrchr(below, '/')) {
        *end = 0;
        least = fmin(least, quota_in(folder));
    }
    return least;
}

/* Whether the list "cpu,cpuacct" has the controller of processor time. */
static bool has_cpu(char *controllers) {
    for (char *one; (one = strsep(&controllers, ","));)
        if (!strcmp(one, "cpu")) return true;
    return false;
}

double cores_quota(const char *root) {
    char name[PATH_SIZE], line[PATH_SIZE / 2], controllers[256], path[PATH_SIZE / 2];
    double least = INFINITY;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file)) {
        const bool version2 = sscanf(line, "0::%[^\n]", path) == 1;
        const bool version1 = sscanf(line, "%*d:%255[^:]:%[^\n]", controllers, path) == 2;
        if (!version2 && !(version1 && has_cpu(controllers))) continue;
        snprintf(name, sizeof name, "%s/sys/fs/cgroup%s", root, version2 ? "" : "/cpu");
        least = fmin(least, quota_up(name, path));
    }
    if (file) fclose(file);
    return least;
}

int cores_usable(void) {
    const int cores = omp_get_num_procs();
    const double quota = cores_quota("");
    return quota < cores ? (int)ceil(quota) : cores;
}

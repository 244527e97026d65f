/* --threads=auto: the processors that the process may use, or OMP_NUM_THREADS. */
#include "model/lab/config.h"
#include "model/math/cores.h"
#include "tests/command.h"
#include "tests/runs.h"
#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <string.h>

TestSuite(threads, .init = folder_enter, .fini = folder_leave);

/* A file of the folder `root`, which stands for "/". */
static void put(const char *name, const char *text) {
    const char *path = say("root/%s", name);
    cr_assert(!bash(say("mkdir -p \"$(dirname '%s')\"", path)).status);
    file_put(path, text, strlen(text));
}

static void put_quota(const char *group, const char *quota, const char *period) {
    put(say("sys/fs/cgroup/cpu/%s/cpu.cfs_quota_us", group), say("%s\n", quota));
    put(say("sys/fs/cgroup/cpu/%s/cpu.cfs_period_us", group), say("%s\n", period));
}

Test(threads, without_a_quota) {
    cr_expect(isinf(cores_quota("nothing")));
    put("proc/self/cgroup", "0::/user/job\n");
    cr_expect(isinf(cores_quota("root")));
    put("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
    cr_expect(isinf(cores_quota("root")));
    put("sys/fs/cgroup/user/cpu.max", "");
    cr_expect(isinf(cores_quota("root")));
    put("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
    put_quota("job", "-1", "100000");
    cr_expect(isinf(cores_quota("root")));
}

Test(threads, the_smallest_quota_of_version_2_counts) {
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/user/job/below/cpu.max", "10000 100000\n");
    put("sys/fs/cgroup/other/cpu.max", "10000 100000\n");
    cr_expect(cores_quota("root") == 1.5);
    put("sys/fs/cgroup/user/cpu.max", "50000 50000\n");
    cr_expect(cores_quota("root") == 1);
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    cr_expect(cores_quota("root") == 1);
    put("sys/fs/cgroup/cpu.max", "25000 100000\n"); // as a container sees its own
    cr_expect(cores_quota("root") == 0.25);
}

Test(threads, the_smallest_quota_of_version_1_counts) {
    put("proc/self/cgroup",
        "9:cpuset:/deep\n4:cpuacct,cpu:/user/a:b\n1:name=systemd:/deep\n0::/\n");
    put_quota("deep", "1000", "100000");
    put_quota("user/a:b", "300000", "100000");
    cr_expect(cores_quota("root") == 3);
    put_quota("user", "-1", "100000");
    cr_expect(cores_quota("root") == 3);
    put_quota(".", "200000", "100000");
    cr_expect(cores_quota("root") == 2);
}

/* A container may see the host's names, but only its own cgroup, at the mount point. */
Test(threads, a_container_with_names_of_the_host) {
    put("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n0::/docker/0123\n");
    put_quota(".", "100000", "100000");
    cr_expect(cores_quota("root") == 1);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n");
    cr_expect(cores_quota("root") == 0.5);
}

/* Fails unless a run with this environment says that it has this number of threads. */
static void expect_threads(const char *environment, int threads) {
    expect_done(bash(say("%s \"$TRAIN\" " TINY "--quiet --force --out=out", environment)));
    cr_expect(summary_number("out", "threads") == threads, "%s: %g threads, not %d", environment,
              summary_number("out", "threads"), threads);
}

Test(threads, the_environment_chooses_up_to_the_limit) {
    expect_threads("OMP_NUM_THREADS=3", 3);
    expect_threads("OMP_NUM_THREADS=32000", MAX_THREADS);
    expect_threads("env -u OMP_NUM_THREADS", cores_usable());
    expect_threads("OMP_NUM_THREADS=none", cores_usable());
}

Test(threads, a_quota_limits_auto) {
    put("cgroup/cpu.max", "100000 100000\n");
    put("cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    put("cgroup/cpu/cpu.cfs_period_us", "100000\n");
    const char *limited =
        "unshare -m bash -c 'mount --bind root/cgroup /sys/fs/cgroup && exec \"$@\"' -";
    if (bash(say("%s true", limited)).status)
        skip("threads", "this system lets nobody mount a folder over its cgroups");
    expect_threads(say("env -u OMP_NUM_THREADS %s", limited), 1);
    expect_threads(say("OMP_NUM_THREADS=2 %s", limited), 2);
}

/* What the process may use of the machine. --threads=auto: the processors, or OMP_NUM_THREADS. And
   its memory. */
#include "data/die.h"
#include "model/math/cgroup.h"
#include "model/math/cores.h"
#include "model/options/config.h"
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
    cr_expect(isinf(cgroup_processors("nothing")));
    put("proc/self/cgroup", "0::/user/job\n");
    cr_expect(isinf(cgroup_processors("root")));
    put("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
    cr_expect(isinf(cgroup_processors("root")));
    put("sys/fs/cgroup/user/cpu.max", "");
    cr_expect(isinf(cgroup_processors("root")));
    put("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
    put_quota("job", "-1", "100000");
    cr_expect(isinf(cgroup_processors("root")));
}

Test(threads, the_smallest_quota_of_version_2_counts) {
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/user/job/below/cpu.max", "10000 100000\n");
    put("sys/fs/cgroup/other/cpu.max", "10000 100000\n");
    cr_expect(cgroup_processors("root") == 1.5);
    put("sys/fs/cgroup/user/cpu.max", "50000 50000\n");
    cr_expect(cgroup_processors("root") == 1);
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    cr_expect(cgroup_processors("root") == 1);
    put("sys/fs/cgroup/cpu.max", "25000 100000\n"); // as a container sees its own
    cr_expect(cgroup_processors("root") == 0.25);
}

Test(threads, the_smallest_quota_of_version_1_counts) {
    put("proc/self/cgroup",
        "9:cpuset:/deep\n4:cpuacct,cpu:/user/a:b\n1:name=systemd:/deep\n0::/\n");
    put_quota("deep", "1000", "100000");
    put_quota("user/a:b", "300000", "100000");
    cr_expect(cgroup_processors("root") == 3);
    put_quota("user", "-1", "100000");
    cr_expect(cgroup_processors("root") == 3);
    put_quota(".", "200000", "100000");
    cr_expect(cgroup_processors("root") == 2);
}

/* A container may see the host's names, but only its own cgroup, at the mount point. */
Test(threads, a_container_with_names_of_the_host) {
    put("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n0::/docker/0123\n");
    put_quota(".", "100000", "100000");
    cr_expect(cgroup_processors("root") == 1);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n");
    cr_expect(cgroup_processors("root") == 0.5);
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

/* Before a command: runs it where root/cgroup stands for the system's cgroups. */
static const char *limited =
    "unshare -m bash -c 'mount --bind root/cgroup /sys/fs/cgroup && exec \"$@\"' -";

static void skip_unless_limited(const char *suite) {
    if (bash(say("%s true", limited)).status)
        skip(suite, "no right to mount a folder over the cgroups (root)");
}

Test(threads, a_quota_limits_auto) {
    put("cgroup/cpu.max", "100000 100000\n");
    put("cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    put("cgroup/cpu/cpu.cfs_period_us", "100000\n");
    skip_unless_limited("threads");
    expect_threads(say("env -u OMP_NUM_THREADS %s", limited), 1);
    expect_threads(say("OMP_NUM_THREADS=2 %s", limited), 2);
}

TestSuite(memory_limit, .init = folder_enter, .fini = folder_leave);

Test(memory_limit, the_smallest_one_counts) {
    cr_expect(isinf(cgroup_memory("nothing")));
    put("proc/self/cgroup", "9:cpu:/deep\n4:hugetlb,memory:/user/a:b\n0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/cpu/deep/memory.limit_in_bytes", "1\n");
    put("sys/fs/cgroup/other/memory.max", "1\n");
    cr_expect(isinf(cgroup_memory("root")));
    put("sys/fs/cgroup/memory/user/a:b/memory.limit_in_bytes", "9223372036854771712\n");
    cr_expect(cgroup_memory("root") > 9e18, "version 1's way to say that there is none");
    put("sys/fs/cgroup/memory/user/memory.limit_in_bytes", "3000000000\n");
    cr_expect(cgroup_memory("root") == 3e9);
    put("sys/fs/cgroup/user/memory.max", "2000000000\n");
    cr_expect(cgroup_memory("root") == 2e9);
    put("sys/fs/cgroup/memory.max", "1000000000\n"); // as a container sees its own
    cr_expect(cgroup_memory("root") == 1e9);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    cr_expect(cgroup_memory("root") == 5e6);
}

/* Before the system kills the process, which needs more. */
Test(memory_limit, a_model_that_needs_more_is_refused) {
    put("cgroup/memory.max", "1000000\n");
    put("cgroup/memory/memory.limit_in_bytes", "1000000\n");
    skip_unless_limited("memory_limit");
    expect_refusal(bash(say("%s \"$TRAIN\" --quiet --max-iters=1 --out=out", limited)),
                   STATUS_MACHINE, "in use, but the cgroup of this process may have 0.0 GiB (try");
    cr_expect(!file_there("out"));
    expect_done(bash(say("%s \"$TRAIN\" " TINY "--quiet --out=out", limited)));
}

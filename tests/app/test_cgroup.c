/* What a process's cgroups allow, where a folder stands for the system's. tests/cli/test_limits.py
   tests what the program makes of it. */
#include "model/math/cgroup.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cgroup, .init = folder_enter, .fini = folder_leave);

/* A file of the folder `root`, which stands for "/". */
static void put(const char *name, const char *text) {
    const char *path = say("root/%s", name);
    cr_assert(!system(say("mkdir -p \"$(dirname '%s')\"", path)));
    file_put(path, text, strlen(text));
}

static void put_quota(const char *group, const char *quota, const char *period) {
    put(say("sys/fs/cgroup/cpu/%s/cpu.cfs_quota_us", group), say("%s\n", quota));
    put(say("sys/fs/cgroup/cpu/%s/cpu.cfs_period_us", group), say("%s\n", period));
}

Test(cgroup, without_a_quota) {
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

Test(cgroup, the_smallest_quota_of_version_2_counts) {
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

Test(cgroup, the_smallest_quota_of_version_1_counts) {
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
Test(cgroup, a_container_with_names_of_the_host) {
    put("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n0::/docker/0123\n");
    put_quota(".", "100000", "100000");
    cr_expect(cgroup_processors("root") == 1);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n");
    cr_expect(cgroup_processors("root") == 0.5);
}

Test(cgroup, the_smallest_limit_of_memory_counts) {
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

/* What the process's cgroups allow, as containers and batch systems limit it: the smallest limit of
   its own cgroup and of those above it, INFINITY if none has one. The system's files are read in the
   folder `root`, which is "" except in tests. */
#pragma once

/* How many processors this process may use: those it is bound to, or fewer if a cgroup limits its
   processor time. At least 1. A quota of 1.5 processors counts as 2, because one thread would leave a
   third of it unused. */
int cgroup_cores(void);

/* Processor time, in processors. */
double cgroup_processors(const char *root);

/* Memory, in bytes. */
double cgroup_memory(const char *root);

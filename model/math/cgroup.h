/* What the process's cgroups allow, as containers and batch systems limit it: the smallest limit of
   its own cgroup and of those above it, INFINITY if none has one. The system's files are read in the
   folder `root`, which is "" except in tests. */
#pragma once

/* Processor time, in processors. */
double cgroup_processors(const char *root);

/* Memory, in bytes. */
double cgroup_memory(const char *root);

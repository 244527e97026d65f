/* How many processors this process may use. */
#pragma once

/* The processors that the process is bound to, or fewer if a cgroup limits its processor time, as
   containers and batch systems do. At least 1. A quota of 1.5 processors counts as 2, because one
   thread would leave a third of it unused. */
int cores_usable(void);

/*
 * base/cpus.h: how many CPUs this process may use.
 */
#ifndef WF_BASE_CPUS_H
#define WF_BASE_CPUS_H

/* By affinity and by the quota of its cgroup (version 2, or 1), rounded up; at least 1. */
unsigned wf_cpus(void);

#endif

/*
 * task/async.h: the pool of weft_executor_async, as tests see it.
 */
#ifndef WF_TASK_ASYNC_H
#define WF_TASK_ASYNC_H

#include <stdint.h>

#include <weft/executor.h>

#include "base/compiler.h"

/* How long a thread stays without work. atomic: tests make it short */
extern WF_HIDDEN int64_t wf_async_idle_ns;

/* How many threads a pool has. */
unsigned wf_async_threads(const weft_executor *x);

#endif

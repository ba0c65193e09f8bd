/*
 * weft/weft.h: all of weft, and <errno.h> for the codes that the calls return.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <errno.h>

#include <weft/alarm.h>
#include <weft/api.h>
#include <weft/chan.h>
#include <weft/context.h>
#include <weft/coro.h>
#include <weft/cxx.h>
#include <weft/executor.h>
#include <weft/fiber.h>
#include <weft/file.h>
#include <weft/hook.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/offload.h>
#include <weft/process.h>
#include <weft/sched.h>
#include <weft/scope.h>
#include <weft/stack.h>
#include <weft/sync.h>
#include <weft/task.h>
#include <weft/time.h>
#include <weft/timer.h>
#include <weft/watch.h>

#endif

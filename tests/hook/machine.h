/*
 * tests/hook/machine.h: how much of the time that something took the machine is to blame for, as it had no CPU to give.
 *
 * There are two ways to go without: a thread waits in the queue of a CPU that others use, which the kernel counts for each
 * thread; or the whole CPU stands still, as the machine is a guest and others use the host. The second is seen by a thread
 * that does nothing but sleep 1 ms over and over on the CPU that the watched thread was last seen on: what is too long of
 * its sleep, and is not its own waiting in the queue, was taken from that CPU. A thread that is blocked in a call, or that
 * computes, is not waiting in a queue, and its CPU does not stand still: nothing of that is ever put down to the machine.
 */
#ifndef TESTS_HOOK_MACHINE_H
#define TESTS_HOOK_MACHINE_H

/* The monotonic clock, in milliseconds and parts of them. */
double now_ms(void);

/* Begins and ends the watch. What is noted stays until the next one begins. The thread blocks all signals if its maker does. */
void machine_watch(void);
void machine_unwatch(void);

/* The watched thread: calls `see` as often as it can between the two others. */
struct machine_seen {
    int fd;        /* its schedstat */
    double at;     /* when it was seen last */
    double waited; /* in queues, until then, in milliseconds */
};
void machine_seen_first(struct machine_seen *seen);
void machine_see(struct machine_seen *seen);
void machine_seen_last(struct machine_seen *seen);

/* How long, in milliseconds, the watched thread waited in queues between two times, and its CPU stood still. All of that is
 * known some milliseconds after `to`. */
double machine_queued(double from, double to);
double machine_stopped(double from, double to);

#endif

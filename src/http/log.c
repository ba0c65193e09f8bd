/*
 * http/log.c: see log.h.
 */
#include "http/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/sched.h>
#include <weft/sync.h>
#include <weft/time.h>

#include "http/date.h"
#include "http/log_line.h"
#include "http/memory.h"
#include "http/server.h"

enum {
    URGENT = WH_LOG_BUFFER / 4, /* so many bytes are written before the second has passed */
    SPINS = 200,
    PATIENCE = 3, /* seconds that each write may still take once the log is to stop */
};

#define SHIELD (30 * WEFT_SEC)

struct wh_log {
    int fd;             /* const */
    atomic_uint lock;   /* 1: held, for the copy of a line. Not a byte: riscv64 would need libatomic to exchange it */
    char *collected;    /* guarded by: lock */
    size_t used;        /* of `collected`. guarded by: lock */
    uint64_t dropped;   /* dropped lines that the log has not yet reported. guarded by: lock */
    char *spare;        /* owner: the writer, or wh_log_free */
    char note[96];      /* owner: the writer, or wh_log_free */
    bool is_torn;       /* the file ends inside a line. owner: the writer, or wh_log_free */
    weft_event filled;  /* set: there are lines, or the writer must stop */
    weft_event urgent;  /* set: there are URGENT bytes, or the writer must stop */
    weft_mutex life;    /* for starts and stops */
    unsigned users;     /* starts without their stops. guarded by: life */
    weft_fiber *writer; /* guarded by: life */
    atomic_bool is_stopping; /* set before the events; the writer resets the events, then reads it */
};

/* A spinlock, because a mutex of the C library may be hooked, and would then let other fibers run. */
static void lock(struct wh_log *log)
{
    for (unsigned tries = 0; atomic_exchange_explicit(&log->lock, 1, memory_order_acquire); tries++) {
        if (tries >= SPINS) /* the thread that holds it does not run */
            syscall(SYS_sched_yield);
    }
}

static void unlock(struct wh_log *log)
{
    atomic_store_explicit(&log->lock, 0, memory_order_release); /* pairs with lock */
}

int wh_log_new(struct wh_log **out, int fd)
{
    struct wh_log *log = wh_alloc_zero(sizeof *log);
    char *buffers = log ? wh_pages(2 * (size_t)WH_LOG_BUFFER) : NULL;
    if (!buffers) {
        wh_free(log);
        return -ENOMEM;
    }
    log->fd = fd;
    log->collected = buffers;
    log->spare = buffers + WH_LOG_BUFFER;
    *out = log;
    return 0;
}

void wh_log_add(struct wh_log *log, const char *text, size_t size)
{
    lock(log);
    size_t before = log->used;
    bool fits = size <= WH_LOG_BUFFER - before;
    if (fits) {
        memcpy(log->collected + before, text, size);
        log->used += size;
    } else {
        log->dropped++;
    }
    unlock(log);
    if (fits && before == 0)
        weft_event_set(&log->filled);
    if (fits && before < URGENT && before + size >= URGENT)
        weft_event_set(&log->urgent);
}

/* ---- the lines of requests ----------------------------------------------------------------------------------- */

static int64_t this_second(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

static void add_line(struct wh_log *log, const struct wh_log_line *line)
{
    char text[WH_LOG_LINE];
    wh_log_add(log, text, wh_log_format(text, line));
}

void wh_log_request(struct wh_log *log, weft_exchange *x, int status, uint64_t bytes)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    bool has_peer = weft_http_peer(x, (struct sockaddr *)&peer, &size) == 0;
    add_line(log, &(struct wh_log_line){
                      .peer = has_peer ? (const struct sockaddr *)&peer : NULL,
                      .peer_size = size,
                      .second = this_second(),
                      .method = weft_http_method(x),
                      .path = weft_http_path(x),
                      .query = weft_http_query_text(x),
                      .version = weft_http_version(x),
                      .status = status,
                      .bytes = bytes,
                  });
}

void wh_log_refused(struct wh_log *log, const struct sockaddr *peer, socklen_t size, int status, uint64_t bytes)
{
    add_line(log, &(struct wh_log_line){
                      .peer = peer, .peer_size = size, .second = this_second(), .status = status, .bytes = bytes});
}

/* ---- the writer ---------------------------------------------------------------------------------------------- */

static bool is_stopping(struct wh_log *log)
{
    return atomic_load_explicit(&log->is_stopping, memory_order_acquire); /* pairs with stop_waiting */
}

/* Writes to the file. False: the file takes no more. *done: how many bytes it has taken. */
static bool write_text(struct wh_log *log, const char *text, size_t size, size_t *done)
{
    unsigned late = 0; /* seconds since the log was to stop */
    *done = 0;
    while (*done < size) {
        size_t part = 0;
        ptrdiff_t rc = weft_write_all(log->fd, text + *done, size - *done, &part, weft_in(WEFT_SEC));
        *done += part;
        if (rc < 0 && rc != -ETIMEDOUT)
            return false;
        if (rc < 0 && is_stopping(log) && ++late == PATIENCE)
            return false;
    }
    return true;
}

static uint64_t count_lines(const char *text, size_t size)
{
    uint64_t lines = 0;
    const char *end = text + size;
    for (; (text = memchr(text, '\n', (size_t)(end - text))); text++)
        lines++;
    return lines;
}

/* Writes whole lines. Returns how many of them the file has not taken. */
static uint64_t write_lines(struct wh_log *log, const char *text, size_t size)
{
    size_t done;
    if (size > 0 && log->is_torn && !write_text(log, "\n", 1, &done))
        return count_lines(text, size);
    log->is_torn = log->is_torn && size == 0;
    if (write_text(log, text, size, &done))
        return 0;
    log->is_torn = done > 0 && text[done - 1] != '\n';
    return count_lines(text + done, size - done);
}

/* Writes the line that says how many lines are missing. */
static bool write_note(struct wh_log *log, uint64_t dropped)
{
    char date[WH_LOG_DATE_SIZE];
    wh_date_write_log(date, this_second());
    int size = snprintf(log->note, sizeof log->note, "[%.*s] %llu lines dropped\n", WH_LOG_DATE_SIZE, date,
                        (unsigned long long)dropped);
    return write_lines(log, log->note, (size_t)size) == 0;
}

/* Writes what was collected, also in a cancelled fiber. */
static void write_collected(struct wh_log *log)
{
    lock(log);
    char *text = log->collected;
    size_t size = log->used;
    uint64_t dropped = log->dropped;
    log->collected = log->spare;
    log->used = 0;
    log->dropped = 0;
    unlock(log);
    log->spare = text;
    int begun = weft_shield_begin(weft_in(SHIELD));
    uint64_t lost = write_lines(log, text, size);
    if (lost == 0 && dropped > 0 && write_note(log, dropped))
        dropped = 0;
    if (begun == 0)
        weft_shield_end();
    lock(log);
    log->dropped += dropped + lost;
    unlock(log);
}

/* The writer. It resets the events before it takes the lines, so a line that comes later sets them again. */
static void *write_log(void *arg)
{
    struct wh_log *log = arg;
    bool is_last = false;
    while (!is_last) {
        int rc = weft_event_wait(&log->filled, WEFT_FOREVER);
        if (rc == 0)
            rc = weft_event_wait(&log->urgent, weft_in(WEFT_SEC));
        weft_event_reset(&log->filled);
        weft_event_reset(&log->urgent);
        is_last = rc == -ECANCELED || is_stopping(log);
        write_collected(log);
    }
    return NULL;
}

/* ---- starts and stops ---------------------------------------------------------------------------------------- */

/* Lines may be left from before the start, so `filled` is set, and the writer looks for them. */
static int start_writer(struct wh_log *log, weft_sched *sched)
{
    atomic_store_explicit(&log->is_stopping, false, memory_order_relaxed);
    weft_event_set(&log->filled);
    weft_attr attr = {.size = sizeof attr, .name = "access log"};
    return weft_sched_go(sched, &log->writer, &attr, write_log, log);
}

/* Ends the writer's waits. From now on it gives up on a file that takes no lines for PATIENCE. */
static void stop_waiting(struct wh_log *log)
{
    atomic_store_explicit(&log->is_stopping, true, memory_order_release); /* pairs with is_stopping */
    weft_event_set(&log->filled);
    weft_event_set(&log->urgent);
}

int wh_log_start(struct wh_log *log, weft_sched *sched)
{
    int rc = weft_mutex_lock(&log->life, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    rc = log->users == 0 ? start_writer(log, sched) : 0;
    if (rc == 0)
        log->users++;
    weft_mutex_unlock(&log->life);
    return rc;
}

void wh_log_stop(struct wh_log *log)
{
    if (weft_mutex_lock(&log->life, WEFT_FOREVER) != 0)
        wh_lock(&log->life); /* a cancelled caller cannot wait, so it tries and yields */
    if (--log->users == 0) {
        stop_waiting(log);
        wh_join(log->writer);
    }
    weft_mutex_unlock(&log->life);
}

void wh_log_free(struct wh_log *log)
{
    if (!log)
        return;
    stop_waiting(log);
    write_collected(log);
    char *buffers = log->spare < log->collected ? log->spare : log->collected;
    wh_pages_free(buffers, 2 * (size_t)WH_LOG_BUFFER);
    wh_free(log);
}

/*
 * weft/context.h: context values, such as a request id, a trace id or a user. They flow to children. Each child of a
 * scope, and each task, begins with the values that its starter (a fiber or a task) has at that moment. Fibers of
 * weft_go, timers and watches begin without values.
 *
 * Reading a value is one array access. Starting a child or a task copies one pointer. Setting a value copies the array
 * if another fiber or task shares it, so no other fiber or task sees the change.
 *
 * The library keeps only the pointer; the value itself is the caller's. A value must live as long as anything that may
 * read it. A value in a frame is safe for the children of a scope that the same frame closes.
 */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include <weft/api.h>

WEFT_BEGIN_DECLS

/** A key of context values. */
typedef struct weft_context_key {
    unsigned index;
} weft_context_key;

/**
 * Makes a key. Keys are never released. There are 64 keys.
 *
 * Returns: 0, -EAGAIN all keys are in use, -EINVAL no out
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_context_new(weft_context_key *out);

/**
 * Sets a value of the calling fiber or task. Children and tasks that it starts from now on inherit the value.
 *
 * Returns: 0, -ENXIO neither a fiber nor a task, -EINVAL not a key, -ENOMEM (the value is as it was)
 * Context: fiber | task
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_context_set(weft_context_key key, void *value);

/**
 * The value of a key in the calling fiber or task.
 *
 * Returns: the value; NULL if none was set, or if the caller is neither a fiber nor a task
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void *weft_context_get(weft_context_key key);

WEFT_END_DECLS

#endif

/*
 * task/task_error.c: how a task has failed: notes, messages and the chain of them; see weft/task.h.
 *
 * While it runs, a task keeps one note, and the code that the note is for. The note is the message of the task's last
 * weft_fail, or of the last failed task that it awaited. If the task fails with that code, its message is its name and
 * then the note.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/errno.h"
#include "base/panic.h"
#include "base/sys.h"
#include "sched/slice.h"
#include "task/task.h"

/* printf into memory of its own; NULL: no memory. */
WF_PRINTF(1, 0) static char *print(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n >= 0 ? wf_sys_malloc((size_t)n + 1) : NULL;
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

/* The task takes `text`. If `text` is NULL (no memory), the code is noted without a text. */
static void set_note(weft_task *t, int code, char *text)
{
    wf_sys_free(t->note);
    t->note = text;
    t->noted_code = code;
}

void wf_task_note(weft_task *t, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_note(t, code, print(format, args));
    va_end(args);
}

int weft_fail(int code, const char *format, ...)
{
    wf_slice_here();
    weft_task *t = weft_task_current();
    if (t && format) {
        int kept = errno; /* %m may be in the format */
        va_list args;
        va_start(args, format);
        set_note(t, code, print(format, args));
        va_end(args);
        errno = kept;
    }
    return code;
}

static const char *message_of(const weft_task *t)
{
    return t->code == 0 ? "" : t->message ? t->message : weft_strerror(t->code);
}

void wf_task_pass_on(weft_task *to, const weft_task *failed)
{
    wf_task_note(to, failed->code, "%s", message_of(failed));
}

void wf_task_make_message(weft_task *t)
{
    char *note = t->noted_code == t->code ? t->note : NULL;
    if (!t->name) {
        t->message = note; /* moved */
        if (note)
            t->note = NULL;
        return;
    }
    const char *text = note ? note : weft_strerror(t->code);
    size_t bytes = strlen(t->name) + strlen(text) + sizeof ": ";
    t->message = wf_sys_malloc(bytes);
    if (t->message)
        snprintf(t->message, bytes, "%s: %s", t->name, text);
}

int weft_task_error(const weft_task *t, weft_error *out)
{
    wf_slice_here();
    if (!t || !out)
        return -EINVAL;
    weft_task *mine = (weft_task *)(uintptr_t)t; /* not const: takes its lock, and sets `looked` */
    if (!wf_task_is_readable(mine))
        return -EAGAIN;
    wf_store(&mine->looked, 1);
    *out = (weft_error){.code = t->code, .message = message_of(t)};
    return 0;
}

/* The failure of a task that is released. A cancelled task was expected to fail. */
void wf_task_report(const weft_task *t)
{
    if (!WF_DEBUG || t->code == 0 || wf_load(&t->looked) || wf_flow_is_cancelled(&t->flow))
        return;
    char line[512];
    snprintf(line, sizeof line,
             "weft: a task%s%.100s%s failed and nobody looked: %.300s (await it, or add a weft_task_catching)\n",
             t->name ? " \"" : "", t->name ? t->name : "", t->name ? "\"" : "", message_of(t));
    wf_say(line);
}

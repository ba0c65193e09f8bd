/*
 * http/methods.c: see methods.h.
 */
#include "http/methods.h"

#include <errno.h>
#include <string.h>

#include "http/memory.h"

enum { KNOWN = 9 };
static const char *const known[KNOWN] = {"GET",   "HEAD",   "OPTIONS", "POST", "PUT",
                                         "PATCH", "DELETE", "CONNECT", "TRACE"};

struct wh_allow {
    struct wh_allow *next; /* const once this is in the list */
    uint64_t set;
    char text[];
};

int wh_methods_init(struct wh_methods *m)
{
    for (unsigned i = 0; i < KNOWN; i++) {
        m->of[i].text = known[i];
        m->of[i].size = strlen(known[i]);
    }
    m->count = KNOWN;
    m->allows = wh_alloc_zero(sizeof *m->allows);
    return m->allows ? 0 : -ENOMEM;
}

void wh_methods_destroy(struct wh_methods *m)
{
    for (unsigned i = KNOWN; i < m->count; i++)
        wh_free((char *)m->of[i].text);
    struct wh_allow *a = m->allows ? atomic_load_explicit(m->allows, memory_order_relaxed) : NULL;
    for (struct wh_allow *next; a; a = next) {
        next = a->next;
        wh_free(a);
    }
    wh_free(m->allows);
}

unsigned wh_methods_find(const struct wh_methods *m, const char *text, size_t size)
{
    for (unsigned i = 0; i < m->count; i++) {
        if (m->of[i].size == size && memcmp(m->of[i].text, text, size) == 0)
            return i;
    }
    return WH_METHODS;
}

int wh_methods_add(struct wh_methods *m, const char *text, size_t size)
{
    unsigned found = wh_methods_find(m, text, size);
    if (found < WH_METHODS)
        return (int)found;
    if (m->count == WH_METHODS)
        return -EINVAL;
    char *copy = wh_copy_part(text, size);
    if (!copy)
        return -ENOMEM;
    m->of[m->count].text = copy;
    m->of[m->count].size = size;
    return (int)m->count++;
}

static struct wh_allow *make_allow(const struct wh_methods *m, uint64_t set)
{
    size_t size = 1;
    for (unsigned i = 0; i < m->count; i++)
        size += set & wh_method_bit(i) ? m->of[i].size + 2 : 0;
    struct wh_allow *a = wh_alloc(sizeof *a + size);
    if (!a)
        return NULL;
    a->set = set;
    char *end = a->text;
    for (unsigned i = 0; i < m->count; i++) {
        if (!(set & wh_method_bit(i)))
            continue;
        if (end != a->text)
            end = stpcpy(end, ", ");
        end = stpcpy(end, m->of[i].text);
    }
    *end = '\0';
    return a;
}

/* Two threads may make the string of the same set. Then both strings stay, and both are right. */
const char *wh_methods_allow(const struct wh_methods *m, uint64_t set)
{
    struct wh_allow *first = atomic_load_explicit(m->allows, memory_order_acquire); /* pairs with the exchange below */
    for (struct wh_allow *a = first; a; a = a->next) {
        if (a->set == set)
            return a->text;
    }
    struct wh_allow *made = make_allow(m, set);
    if (!made)
        return NULL;
    made->next = first;
    while (!atomic_compare_exchange_weak_explicit(m->allows, &made->next, made, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return made->text;
}

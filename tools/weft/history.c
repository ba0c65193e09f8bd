/*
 * history.c: see history.h. A ring of points of one size, which depends on the number of workers.
 */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>

bool history_init(struct history *h, size_t workers)
{
    size_t size = sizeof(struct point) + workers * sizeof(float), align = _Alignof(struct point);
    *h = (struct history){.workers = workers, .point_size = (size + align - 1) / align * align};
    h->points = calloc(HISTORY_SECONDS, h->point_size);
    return h->points != NULL;
}

void history_destroy(struct history *h)
{
    free(h->points);
}

static struct point *point_at(const struct history *h, unsigned i)
{
    return (struct point *)(void *)(h->points + h->point_size * (i % HISTORY_SECONDS));
}

void history_add(struct history *h, const struct figures *before, const struct figures *now)
{
    point_take(point_at(h, h->next), before, now);
    h->next = (h->next + 1) % HISTORY_SECONDS;
    if (h->count < HISTORY_SECONDS)
        h->count++;
}

char *history_text(const struct history *h)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    fputc('[', to);
    for (unsigned i = 0; i < h->count; i++) {
        if (i > 0)
            fputc(',', to);
        point_print(to, point_at(h, h->next + HISTORY_SECONDS - h->count + i), h->workers);
    }
    fputc(']', to);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

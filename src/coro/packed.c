/*
 * coro/packed.c: see packed.h.
 */
#include "coro/packed.h"

#include "base/sys.h"

enum { WORD = sizeof(uint64_t), MOST_WORDS = 64 }; /* a bit for each */

/* After so many copies in a row that are not like the image, the stack takes a new image. */
#define MISSES 8

static bool may_be_packed(const weft_coro *c, size_t bytes)
{
    uint32_t mode = wf_mode(c);
    return WF_PACKS && mode & WF_BASE && (mode & WF_STATE) == WEFT_CORO_READY && bytes <= MOST_WORDS * WORD;
}

/*
 * A packed copy: this header, then the words that are far from the image's, then the differences of the near words.
 * Most words are near: records of fibers lie close to each other, and so do those of descriptors.
 */
struct packed {
    uint64_t differs; /* a bit for each word that is not as in the image */
    uint64_t is_far;  /* of these: the difference does not fit into 32 bits */
};

static size_t size_of(const struct packed *p)
{
    size_t all = (size_t)__builtin_popcountll(p->differs), far = (size_t)__builtin_popcountll(p->is_far);
    return sizeof *p + far * sizeof(uint64_t) + (all - far) * sizeof(int32_t);
}

WF_RAW_MEMORY static struct packed compare(const struct wf_image *image, const uint64_t *live)
{
    struct packed p = {0};
    for (size_t i = 0; i < image->bytes / WORD; i++) {
        int64_t away = (int64_t)(live[i] - image->words[i]);
        p.differs |= (uint64_t)(away != 0) << i;
        p.is_far |= (uint64_t)(away != (int32_t)away) << i;
    }
    return p;
}

size_t wf_packed_bytes(const weft_coro *c, const char *low, size_t bytes)
{
    const struct wf_image *image = c->shared->image;
    if (!may_be_packed(c, bytes) || !image || image->bytes != bytes)
        return 0;
    struct packed p = compare(image, (const uint64_t *)low);
    size_t size = size_of(&p);
    return size <= bytes / 2 ? size : 0;
}

static void unref(struct wf_image *image)
{
    if (image && --image->refs == 0)
        wf_sys_free(image);
}

/* Without memory it keeps the old image; a later copy tries again. */
WF_RAW_MEMORY static void take_image(struct wf_shared *s, const uint64_t *live, size_t bytes)
{
    struct wf_image *image = wf_sys_malloc(sizeof *image + bytes);
    if (!image)
        return;
    image->refs = 1;
    image->bytes = bytes;
    for (size_t i = 0; i < bytes / WORD; i++)
        image->words[i] = live[i];
    unref(s->image);
    s->image = image;
}

size_t wf_packed_prepare(weft_coro *c, const char *low, size_t bytes)
{
    struct wf_shared *s = c->shared;
    size_t size = wf_packed_bytes(c, low, bytes);
    if (size == 0 && may_be_packed(c, bytes) && ++s->misses >= MISSES) {
        take_image(s, (const uint64_t *)low, bytes);
        size = wf_packed_bytes(c, low, bytes);
    }
    if (size > 0)
        s->misses = 0;
    return size;
}

WF_RAW_MEMORY void wf_pack(weft_coro *c, const char *low, size_t bytes)
{
    const uint64_t *live = (const uint64_t *)low;
    struct wf_image *image = c->shared->image;
    struct packed *to = c->saved;
    *to = compare(image, live);
    uint64_t *far = (uint64_t *)(to + 1);
    for (uint64_t left = to->is_far; left; left &= left - 1)
        *far++ = live[__builtin_ctzll(left)];
    int32_t *near = (int32_t *)far;
    for (uint64_t left = to->differs & ~to->is_far; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        *near++ = (int32_t)(live[i] - image->words[i]);
    }
    image->refs++;
    c->image = image;
    c->saved_bytes = (uint32_t)bytes;
    c->room |= WF_ROOM_PACKED;
}

WF_RAW_MEMORY void wf_unpack(weft_coro *c, char *low)
{
    const struct packed *from = c->saved;
    const struct wf_image *image = c->image;
    uint64_t *live = (uint64_t *)low;
    for (size_t i = 0; i < image->bytes / WORD; i++)
        live[i] = image->words[i];
    const uint64_t *far = (const uint64_t *)(from + 1);
    for (uint64_t left = from->is_far; left; left &= left - 1)
        live[__builtin_ctzll(left)] = *far++;
    const int32_t *near = (const int32_t *)far;
    for (uint64_t left = from->differs & ~from->is_far; left; left &= left - 1)
        live[__builtin_ctzll(left)] += (uint64_t)(int64_t)*near++;
    wf_packed_drop(c);
}

size_t wf_packed_size(const weft_coro *c)
{
    return size_of(c->saved);
}

void wf_packed_drop(weft_coro *c)
{
    if (!wf_packed(c))
        return;
    unref(c->image);
    c->image = NULL;
    c->room &= ~WF_ROOM_PACKED;
}

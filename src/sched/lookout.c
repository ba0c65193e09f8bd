/*
 * sched/lookout.c: see lookout.h.
 */
#include "sched/lookout.h"

#include "sched/sched.h"

/* Whether the worker offers something now, or has offered something since a lookout last looked at it. */
static bool has_news(const struct wf_worker *of)
{
    return wf_load(&of->offered) != NULL || wf_load(&of->offers) != wf_load(&of->seen_offers);
}

bool wf_lookout_sees_offer(const struct wf_worker *w)
{
    const weft_sched *s = w->sched;
    for (unsigned i = 0; i < s->workers; i++) {
        if (s->worker[i] != w && wf_load(&s->worker[i]->offered) != NULL)
            return true;
    }
    return false;
}

/* A changed count of offers is news too: most offers are gone before the worker that they wake comes to look. */
static bool sees_news(const struct wf_worker *w)
{
    const weft_sched *s = w->sched;
    for (unsigned i = 0; i < s->workers; i++) {
        if (s->worker[i] != w && has_news(s->worker[i]))
            return true;
    }
    return false;
}

bool wf_lookout_begin(struct wf_worker *w)
{
    uint32_t nobody = 0;
    if (w->lookout)
        return true;
    if (!sees_news(w) || wf_load(&w->sched->lookout) || !wf_cas(&w->sched->lookout, &nobody, 1)) /* acquire: see end */
        return false;
    w->lookout = true;
    return true;
}

void wf_lookout_end(struct wf_worker *w)
{
    w->lookout = false;
    w->ripe = NULL;
    wf_store_release(&w->sched->lookout, 0); /* pairs with wf_lookout_begin: hands over the seen_ fields */
}

enum wf_sight wf_lookout_look(struct wf_worker *w)
{
    const weft_sched *s = w->sched;
    enum wf_sight sight = WF_SIGHT_NOTHING;
    w->ripe = NULL;
    for (unsigned i = 0; i < s->workers; i++) {
        struct wf_worker *of = s->worker[i];
        if (of == w || !has_news(of))
            continue;
        uint32_t offers = wf_load(&of->offers);
        uint64_t switches = wf_load(&of->counts.switches);
        bool same = offers == of->seen_offers && switches == of->seen_switches;
        sight = sight == WF_SIGHT_NOTHING ? WF_SIGHT_NEWS : sight;
        wf_store(&of->seen_offers, offers);
        of->seen_switches = switches;
        if (same && wf_load(&of->offered) != NULL) {
            w->ripe = of;
            sight = WF_SIGHT_RIPE;
        }
    }
    return sight;
}

weft_fiber *wf_lookout_take(struct wf_worker *w)
{
    struct wf_worker *of = w->ripe;
    w->ripe = NULL;
    if (!of || wf_load(&of->counts.switches) != of->seen_switches)
        return NULL;
    weft_fiber *f = wf_load(&of->offered);
    if (!f || !wf_cas(&of->offered, &f, NULL)) /* acquire: pairs with offer_next in pick.c */
        return NULL;
    wf_store(&w->counts.stolen, w->counts.stolen + 1);
    return f;
}

/*
 * own-policy.c: a scope with a policy of your own. A value is stored in five replicas, and three must confirm it (a
 * quorum). The wait ends as soon as the outcome is certain. Replicas that have not answered by then are cancelled.
 *
 * Prints: stored: 3 confirmed, 0 failed, 2 cancelled; then not stored: 1 confirmed, 3 failed, 1 cancelled
 */
#include <stdio.h>

#include <weft/weft.h>

/* A policy with data is a struct that begins with the table of the policy's functions. */
struct quorum {
    weft_scope_policy table;
    size_t needed, of;
};

/* Called after each child. True: the outcome is certain, and the scope cancels the rest. */
static bool is_certain(const weft_scope_policy *self, const weft_scope_tally *so_far)
{
    const struct quorum *q = (const struct quorum *)self;
    return so_far->succeeded >= q->needed || so_far->failed > q->of - q->needed;
}

/* Called after the last child: what weft_scope_wait returns. */
static int outcome(const weft_scope_policy *self, const weft_scope_tally *all)
{
    return all->succeeded >= ((const struct quorum *)self)->needed ? 0 : all->error != 0 ? all->error : -EAGAIN;
}

/* What a replica answers: 0 it has stored the value, or a negative errno. A replica with 1 never answers. */
static int store(void *replica)
{
    return *(int *)replica == 1 ? weft_sleep_until(WEFT_FOREVER) : *(int *)replica;
}

static void store_in(int *replicas, size_t count)
{
    struct quorum quorum = {{sizeof quorum.table, "quorum", is_certain, outcome}, 3, count};
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "store", .policy = &quorum.table}) {
        for (size_t i = 0; i < count; i++)
            weft_scope_go(&s, store, &replicas[i]);
        int rc = weft_scope_wait(&s);
        weft_scope_tally all = {.size = sizeof all};
        weft_scope_counts(&s, &all);
        printf("%s: %zu confirmed, %zu failed, %zu cancelled\n", rc == 0 ? "stored" : "not stored", all.succeeded,
               all.failed, all.started - all.succeeded - all.failed);
    }
}

static void *first(void *arg)
{
    store_in((int[]){1, 1, 0, 0, 0}, 5);
    store_in((int[]){1, 0, -EIO, -EIO, -EIO}, 5);
    return arg;
}

int main(void)
{
    return weft_run(first, NULL, NULL, NULL) < 0;
}

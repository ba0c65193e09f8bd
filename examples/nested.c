/*
 * nested.c: coroutines inside coroutines. A tree is walked by one coroutine per node: each resumes its children and passes
 * on what they yield. A yield always goes to whoever resumed, one level up, however deep it happens.
 */
#include <stdio.h>

#include <weft/weft.h>

struct node {
    const char *name;
    struct node *left, *right;
};

/* Runs `child` to its end and yields everything that it yields, from here. */
static void pass_on(struct node *child, weft_fn *walk)
{
    weft_coro *c;
    void *value;
    if (!child || weft_coro_new(&c, walk, child, NULL) < 0)
        return;
    while (weft_coro_resume(c, NULL, &value) == 1)
        weft_coro_yield(value);
    weft_coro_free(c);
}

/* Yields the names below `arg` from left to right. */
static void *in_order(void *arg)
{
    struct node *node = arg;
    pass_on(node->left, in_order);
    weft_coro_yield((void *)node->name);
    pass_on(node->right, in_order);
    return NULL;
}

int main(void)
{
    struct node a = {"a", NULL, NULL}, c = {"c", NULL, NULL}, e = {"e", NULL, NULL};
    struct node b = {"b", &a, &c}, d = {"d", &b, &e};
    weft_coro *walk;
    void *name;
    if (weft_coro_new(&walk, in_order, &d, NULL) < 0)
        return 1;
    while (weft_coro_resume(walk, NULL, &name) == 1)
        printf("%s ", (const char *)name);
    printf("\n");
    weft_coro_free(walk);
    return 0;
}

/*
 * Running a scheduler: weft_run and the default runtime, weft_sched_run from outside, threads and their names, several
 * schedulers at once, and work from everywhere.
 */
#include <sched.h>

#include "base/cpus.h"
#include "unit/sched/ground.h"
#include "unit/sched/heard.h"

static void *runs_another(void *arg)
{
    void *value = ptr(1);
    CHECK_INT(weft_run(returns_at_once, NULL, &value, NULL), ==, -EDEADLK);
    CHECK_PTR(value, ==, ptr(1));
    return arg;
}

TEST(a_run_inside_a_fiber_is_edeadlk)
{
    void *value = NULL;
    CHECK_INT(weft_run(runs_another, ptr(5), &value, NULL), ==, 0);
    CHECK_PTR(value, ==, ptr(5));
}

static void *runs_on_a_thread(void *arg)
{
    (void)arg;
    return ptr(weft_run(returns_at_once, NULL, NULL, NULL));
}

static void *lets_a_thread_run_another(void *arg)
{
    void *rc;
    pthread_join(new_thread(runs_on_a_thread, NULL), &rc);
    CHECK_INT((intptr_t)rc, ==, -EBUSY);
    return arg;
}

TEST(a_second_run_meanwhile_is_ebusy)
{
    in_a_fiber(1, lets_a_thread_run_another, NULL);
    in_a_fiber(1, returns_at_once, NULL);
}

TEST(a_run_on_a_thread_that_is_a_worker_0_is_ebusy)
{
    weft_sched *s = new_sched(1, true);
    CHECK_INT(weft_run(returns_at_once, NULL, NULL, NULL), ==, -EBUSY);
    CHECK_INT(weft_sched_free(s), ==, 0);
    in_a_fiber(1, returns_at_once, NULL);
}

TEST(go_without_a_runtime_is_enxio)
{
    weft_fiber *f = ptr(1);
    CHECK_INT(weft_go(returns_at_once, NULL), ==, -ENXIO);
    CHECK_INT(weft_go_with(&f, NULL, returns_at_once, NULL), ==, -ENXIO);
    CHECK_INT(weft_go(NULL, NULL), ==, -EINVAL);
    CHECK_PTR(f, ==, ptr(1));
    CHECK_PTR(weft_sched_current(), ==, NULL);
    in_a_fiber(2, returns_at_once, NULL);
    CHECK_INT(weft_go(returns_at_once, NULL), ==, -ENXIO);
    CHECK_PTR(weft_sched_current(), ==, NULL);
}

/* In a child: nothing has been said there yet. */
static void goes_without_a_runtime(void *arg)
{
    struct heard h;
    char line[200];
    weft_fiber *f;
    (void)arg;
    hear(&h);
    CHECK_INT(weft_go(NULL, NULL), ==, -EINVAL); /* not the reason */
    CHECK_STR(so_far(&h), "");
    CHECK_INT(weft_go(returns_at_once, NULL), ==, -ENXIO);
    snprintf(line, sizeof line, "weft: weft_go at %s:%d: there is no runtime", __FILE__, __LINE__ - 1);
    CHECK_INT(weft_go(returns_at_once, NULL), ==, -ENXIO);
    CHECK_INT(weft_go_with(&f, NULL, returns_at_once, NULL), ==, -ENXIO);
    heard(&h);
    CHECK_INT(how_often(h.text, line), ==, 1);
    CHECK_INT(how_often(h.text, "call weft_run first"), ==, 1);
    CHECK_INT(how_often(h.text, "\n"), ==, 1);
}

TEST(the_first_go_without_a_runtime_says_so_once)
{
    CHECK_CHILD(goes_without_a_runtime, NULL, 0, NULL);
}

struct visit {
    int ran;
    weft_sched *sched;
};

static void *goes_on_a_thread(void *arg)
{
    struct visit *v = arg;
    weft_fiber *f;
    CHECK_PTR(weft_sched_current(), ==, v->sched);
    CHECK_INT(weft_go(counts, &v->ran), ==, 0);
    CHECK_INT(weft_go_with(&f, NULL, counts, &v->ran), ==, 0);
    CHECK_PTR(ended(f), ==, &v->ran);
    return NULL;
}

static void *lets_a_thread_go(void *arg)
{
    struct visit *v = arg;
    v->sched = weft_sched_current();
    pthread_t other = new_thread(goes_on_a_thread, v);
    AWAIT(seen(&v->ran) == 2);
    pthread_join(other, NULL);
    return NULL;
}

TEST(while_a_run_is_under_way_go_works_on_every_thread)
{
    for (int i = 0; i < 50; i++) { /* the thread may be there before the run's own call goes on */
        struct visit v = {0};
        in_a_fiber(1 + i % 3, lets_a_thread_go, &v);
        CHECK_INT(v.ran, ==, 2);
    }
}

static void *goes_on_and_on(void *arg)
{
    int *left = arg;
    if (__atomic_sub_fetch(left, 1, __ATOMIC_ACQ_REL) >= 0) {
        CHECK_INT(weft_go(goes_on_and_on, left), ==, 0);
        CHECK_INT(weft_go(goes_on_and_on, left), ==, 0);
    }
    return NULL;
}

TEST(a_run_lets_every_fiber_end)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        int left = 2000;
        in_a_fiber(workers, goes_on_and_on, &left);
        CHECK_INT(seen(&left), ==, -2001);
    }
}

TEST(sched_run_from_outside_waits_until_no_fiber_is_left)
{
    int over = 0;
    weft_sched *s = new_sched(2, false);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0); /* starts it */
    CHECK_INT(weft_sched_start(s), ==, -EALREADY);
    CHECK_INT(weft_sched_go(s, NULL, NULL, spins, &over), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, -EAGAIN);
    weft_time until = weft_in(5 * WEFT_MS);
    CHECK_INT(weft_sched_run(s, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    put(&over, 1);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sched_run(s, (weft_time){1}), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* Nothing else orders the two: who runs the scheduler sees what its fibers did. */
static void *writes_plainly(void *arg)
{
    *(int *)arg += 1;
    return NULL;
}

TEST(when_no_fiber_is_left_all_that_they_did_is_seen)
{
    int written = 0;
    weft_sched *s = running_sched(2);
    for (unsigned i = 1; i <= 100; i++) {
        CHECK_INT(weft_sched_go(s, NULL, NULL, writes_plainly, &written), ==, 0);
        AWAIT(weft_sched_run(s, WEFT_NOW) == 0); /* not figures(): its lock would order the two */
        CHECK_INT(written, ==, i);
    }
    end_sched(s);
}

TEST(by_default_there_are_as_many_workers_as_cpus)
{
    cpu_set_t all, one;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    weft_sched *s = new_sched(0, false);
    CHECK_INT(figures(s).workers, ==, wf_cpus());
    CHECK_INT(figures(s).workers, <=, CPU_COUNT(&all));
    CHECK_INT(weft_sched_free(s), ==, 0);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    s = new_sched(0, false);
    CHECK_INT(figures(s).workers, ==, 1);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(sched_setaffinity(0, sizeof all, &all), ==, 0);
}

/* Whether some thread of this process has that name. */
static bool is_there_a_thread(const char *name)
{
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks)) != NULL && !found;) {
        char path[300], line[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "re");
        if (f && fgets(line, sizeof line, f))
            found = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == '\n';
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

TEST(workers_are_named_after_their_scheduler)
{
    weft_sched *s, *plain = running_sched(2);
    REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = 11, .name = "loom"}) == 0);
    CHECK(!is_there_a_thread("loom_0"));
    CHECK_INT(weft_sched_start(s), ==, 0);
    CHECK(is_there_a_thread("loom_0"));
    CHECK(is_there_a_thread("loom_10"));
    CHECK(!is_there_a_thread("loom_11"));
    CHECK(is_there_a_thread("weft_0"));
    CHECK(is_there_a_thread("weft_1"));
    end_sched(s);
    end_sched(plain);
    CHECK(!is_there_a_thread("loom_0"));
}

TEST(of_a_long_name_the_number_is_kept)
{
    weft_sched *s;
    REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = 11, .name = "a-name-of-20-letters"}) == 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    CHECK(is_there_a_thread("a-name-of-20-_0"));
    CHECK(is_there_a_thread("a-name-of-20_10"));
    end_sched(s);
}

enum { SCHEDS = 3, EACH = 100 };

/* Of one scheduler: brings work to itself and to the others, and knows where it is. */
struct post {
    weft_sched *all[SCHEDS];
    int ran[SCHEDS], of;
};

static void *came_from_far(void *arg)
{
    struct post *p = arg;
    for (int i = 0; i < SCHEDS; i++) {
        if (weft_sched_current() == p->all[i])
            more(&p->ran[i]);
    }
    return NULL;
}

static void *brings_work(void *arg)
{
    struct post *p = arg;
    for (int i = 0; i < EACH; i++) {
        weft_fiber *f = NULL;
        CHECK_INT(weft_sched_go(p->all[i % SCHEDS], &f, NULL, came_from_far, p), ==, 0);
        if (i % 2 == 0)
            ended(f);
        else
            CHECK_INT(weft_detach(f), ==, 0);
        CHECK_INT(weft_sched_go(p->all[i % SCHEDS], NULL, NULL, came_from_far, p), ==, 0);
        if (weft_fiber_current())
            CHECK_INT(weft_go(came_from_far, p), ==, 0);
    }
    return NULL;
}

TEST(work_comes_from_fibers_threads_and_other_schedulers)
{
    struct post p = {.of = SCHEDS};
    weft_fiber *first[SCHEDS];
    pthread_t threads[2];
    for (int i = 0; i < SCHEDS; i++)
        p.all[i] = running_sched(1 + (unsigned)i);
    for (int i = 0; i < 2; i++)
        threads[i] = new_thread(brings_work, &p);
    for (int i = 0; i < SCHEDS; i++)
        first[i] = go_on(p.all[i], brings_work, &p);
    for (int i = 0; i < SCHEDS; i++)
        ended(first[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SCHEDS; i++)
        end_sched(p.all[i]);
    int all = 0;
    for (int i = 0; i < SCHEDS; i++) {
        CHECK_INT(p.ran[i], >=, (SCHEDS + 2) * 2 * (EACH / SCHEDS) + EACH);
        all += p.ran[i];
    }
    CHECK_INT(all, ==, (SCHEDS + 2) * 2 * EACH + SCHEDS * EACH);
}

TESTS(sched_run, the_first_go_without_a_runtime_says_so_once, a_run_inside_a_fiber_is_edeadlk,
      a_second_run_meanwhile_is_ebusy, a_run_on_a_thread_that_is_a_worker_0_is_ebusy, go_without_a_runtime_is_enxio,
      while_a_run_is_under_way_go_works_on_every_thread, a_run_lets_every_fiber_end,
      sched_run_from_outside_waits_until_no_fiber_is_left, when_no_fiber_is_left_all_that_they_did_is_seen,
      by_default_there_are_as_many_workers_as_cpus, workers_are_named_after_their_scheduler,
      of_a_long_name_the_number_is_kept, work_comes_from_fibers_threads_and_other_schedulers)

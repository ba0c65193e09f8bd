/*
 * Files: by the ring, by a try that does not wait, by a helper; and what a call that has begun means for its deadline.
 */
#include <sys/stat.h>

#include <weft/file.h>

#include "io/fd.h"
#include "unit/io/ground.h"
#include "unit/offload/ground.h"

static char folder[] = "/tmp/weft-file-XXXXXX";

static void in_folder(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static int new_file(void)
{
    char path[64];
    in_folder(path, sizeof path, "file");
    int fd = weft_open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600, WEFT_FOREVER);
    CHECK_INT(fd, >=, 0);
    return fd;
}

/* As on a file system that cannot say whether it would wait: everything is for a helper. */
static void never_in_memory(int fd)
{
    wf_or(&wf_fd_of(fd)->word, WF_FD_NO_NOWAIT | WF_FD_NO_NOWAIT_OUT);
}

static bool has_ring(void)
{
    return strcmp(weft_io_backend(), "io_uring") == 0;
}

enum { BIG = 300000 };

static void write_and_read_back(int fd)
{
    char *out = malloc(BIG), *in = malloc(BIG);
    REQUIRE(out && in);
    for (int i = 0; i < BIG; i++)
        out[i] = (char)(i * 7 + i / 251);
    memset(in, 0, BIG);
    CHECK_INT(weft_pwrite(fd, out, BIG, 100, WEFT_FOREVER), ==, BIG);
    CHECK_INT(weft_fsync(fd, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_pread(fd, in, BIG, 100, weft_in(100 * WEFT_SEC)), ==, BIG);
    CHECK_INT(memcmp(in, out, BIG), ==, 0);
    CHECK_INT(weft_pread(fd, in, BIG, BIG, WEFT_FOREVER), ==, 100);
    CHECK_INT(memcmp(in, out + BIG - 100, 100), ==, 0);
    CHECK_INT(weft_pread(fd, in, BIG, BIG + 100, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_pread(fd, in, 10, 0, WEFT_NOW), ==, 10);
    CHECK_INT(weft_pread(fd, in, 10, 0, weft_in(-1)), >=, has_ring() ? -ETIMEDOUT : 10);
    CHECK_INT(weft_pread(fd, in, 0, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(lseek(fd, 0, SEEK_CUR), ==, 0); /* where the file is has not changed */
    free(out);
    free(in);
}

IN_FIBER(a_file_is_written_and_read_back)
{
    int fd = new_file();
    write_and_read_back(fd);
    never_in_memory(fd);
    write_and_read_back(fd);
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

IN_FIBER(a_file_that_is_not_in_memory_is_read_in_order)
{
    int fd = new_file();
    char a[3], b[4];
    struct iovec parts[] = {{a, sizeof a}, {b, sizeof b}};
    never_in_memory(fd);
    CHECK_INT(weft_write(fd, "one two", 7, WEFT_FOREVER), ==, 7);
    CHECK_INT(weft_writev(fd, (struct iovec[]){{(char *)" and", 4}, {(char *)" three", 6}}, 2, WEFT_FOREVER), ==, 10);
    CHECK_INT(lseek(fd, 4, SEEK_SET), ==, 4);
    CHECK_INT(weft_readv(fd, parts, 2, weft_in(100 * WEFT_SEC)), ==, 7);
    CHECK(memcmp(a, "two", 3) == 0 && memcmp(b, " and", 4) == 0);
    CHECK_INT(weft_read(fd, b, 3, WEFT_FOREVER), ==, 3);
    CHECK_INT(memcmp(b, " th", 3), ==, 0);
    CHECK_INT(weft_read(fd, b, 4, WEFT_NOW), ==, 3);
    CHECK_INT(weft_read(fd, b, 4, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

IN_FIBER(what_the_system_refuses_is_told)
{
    char byte = 0, path[64];
    struct pair p = pipe_pair(0);
    CHECK_INT(weft_pread(p.a, &byte, 1, 0, WEFT_FOREVER), ==, -ESPIPE);
    CHECK_INT(weft_fsync(p.a, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_pwrite(p.b, &byte, 1, -1, WEFT_FOREVER), ==, -EINVAL);
    close_pair(p);
    CHECK_INT(weft_pread(p.a, &byte, 1, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_pwrite(-1, &byte, 1, 0, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_fsync(-1, WEFT_FOREVER), ==, -EBADF);
    in_folder(path, sizeof path, "nothing");
    CHECK_INT(weft_open(path, O_RDONLY, 0, WEFT_FOREVER), ==, -ENOENT);
    CHECK_INT(weft_open(path, O_RDONLY, 0, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_open(NULL, O_RDONLY, 0, WEFT_FOREVER), ==, -EFAULT);
    return arg;
}

/* Everything on a shared stack: path, buffers, parts. */
static void *uses_a_file_on_a_shared_stack(void *arg)
{
    char path[64], name[16], out[100], in[100] = "";
    snprintf(name, sizeof name, "shared%d", (int)(intptr_t)arg);
    in_folder(path, sizeof path, name);
    int fd = weft_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600, WEFT_FOREVER);
    CHECK_INT(fd, >=, 0);
    memset(out, 'a' + (int)(intptr_t)arg, sizeof out);
    for (int round = 0; round < 4; round++) {
        never_in_memory(fd);
        struct iovec parts[] = {{in, 40}, {in + 40, 60}};
        CHECK_INT(weft_pwrite(fd, out, sizeof out, round * 100, WEFT_FOREVER), ==, sizeof out);
        CHECK_INT(weft_readv(fd, parts, 2, WEFT_FOREVER), ==, sizeof in);
        CHECK_INT(memcmp(in, out, sizeof in), ==, 0);
        memset(in, 0, sizeof in);
        CHECK_INT(weft_pread(fd, in, sizeof in, 0, WEFT_FOREVER), ==, sizeof in);
        CHECK_INT(memcmp(in, out, sizeof in), ==, 0);
        CHECK_INT(weft_fsync(fd, WEFT_FOREVER), ==, 0);
    }
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(unlink(path), ==, 0);
    return NULL;
}

TEST(fibers_on_shared_stacks_use_files)
{
    enum { MANY = 8 };
    weft_stacks *pool = NULL;
    weft_fiber *f[MANY];
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    weft_sched *s = running_sched(1);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_sched_go(s, &f[i], &(weft_attr){.shared = pool}, uses_a_file_on_a_shared_stack, ptr(i)), ==, 0);
    for (int i = 0; i < MANY; i++)
        ended(f[i]);
    end_sched(s);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

static void *holds_the_helper(void *arg)
{
    return ptr(weft_offload_with(&(weft_offload_opts){.kind = WEFT_OFFLOAD_FILE}, passes, arg, NULL, WEFT_FOREVER));
}

static void *reads_a_byte(void *arg)
{
    char byte;
    return ptr(weft_pread(*(int *)arg, &byte, 1, 0, WEFT_FOREVER));
}

/* The only helper is taken: what waits for it can give up. */
IN_FIBER(a_call_that_waits_for_a_helper_may_give_up)
{
    if (has_ring()) /* and needs no helper */
        return arg;
    int fd = new_file(), other = new_file();
    never_in_memory(fd);
    never_in_memory(other);
    char byte = 'x';
    struct gate g = {0};
    CHECK_INT(weft_pwrite(fd, &byte, 1, 0, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_FILE, 1), ==, 0);
    weft_fiber *holder = go(holds_the_helper, &g);
    AWAIT(seen(&g.begun) == 1);
    weft_time until = weft_in(5 * WEFT_MS);
    CHECK_INT(weft_pwrite(fd, "y", 1, 0, until), ==, -ETIMEDOUT);
    CHECK_INT(real_now(), >=, until.ns);
    weft_fiber *f = go(reads_a_byte, &fd), *late = go(reads_a_byte, &other);
    AWAIT(is_parked(f) && is_parked(late));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    CHECK_INT(weft_close(other), ==, 0); /* does not wait for what is queued */
    put(&g.open, 1);
    CHECK_PTR(ended(holder), ==, ptr(0));
    CHECK_PTR(ended(late), ==, ptr(-EBADF));
    CHECK_INT(weft_pread(fd, &byte, 1, 0, WEFT_FOREVER), ==, 1);
    CHECK_INT(byte, ==, 'x');
    default_limits();
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

/* What is a pipe now was a file when the number was last used. */
IN_FIBER(a_number_that_is_no_file_any_more_is_not_taken_for_one)
{
    struct pair p = pipe_pair(0);
    char byte = 0;
    never_in_memory(p.a);
    wf_or(&wf_fd_of(p.a)->word, WF_FD_NO_SOCKET | WF_FD_FILE);
    CHECK_INT(weft_read(p.a, &byte, 1, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(write(p.b, "z", 1), ==, 1);
    CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(byte, ==, 'z');
    CHECK_INT(helpers().busy, ==, 0);
    close_pair(p);
    return arg;
}

IN_FIBER(without_a_helper_the_call_is_made_all_the_same)
{
    int fd = new_file();
    char byte = 'q';
    never_in_memory(fd);
    CHECK_INT(weft_pwrite(fd, &byte, 1, 0, WEFT_FOREVER), ==, 1);
    wf_sys_fail(1u << WF_SYS_MALLOC | 1u << WF_SYS_THREAD, 1, 1000);
    byte = 0;
    CHECK_INT(weft_pread(fd, &byte, 1, 0, WEFT_FOREVER), ==, 1);
    CHECK_INT(byte, ==, 'q');
    CHECK_INT(weft_fsync(fd, WEFT_FOREVER), ==, 0);
    if (!has_ring())
        CHECK_INT(weft_open("/dev/null", O_RDONLY, 0, WEFT_FOREVER), ==, -ENOMEM);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

static void *opens_to_read(void *path)
{
    return ptr(weft_open(path, O_RDONLY | O_CLOEXEC, 0, WEFT_FOREVER));
}

/* Opening a FIFO takes as long as it takes the other end to come. */
IN_FIBER(opening_waits_for_the_other_end)
{
    char path[64];
    in_folder(path, sizeof path, "fifo");
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    weft_fiber *f = go(opens_to_read, path);
    AWAIT(is_parked(f));
    struct pair p = {.b = weft_open(path, O_WRONLY | O_CLOEXEC, 0, WEFT_FOREVER)};
    CHECK_INT(p.b, >=, 0);
    p.a = (int)(intptr_t)ended(f);
    CHECK_INT(p.a, >=, 0);
    close_pair(p);
    CHECK_INT(unlink(path), ==, 0);
    return arg;
}

/* How many descriptors this process has of a file. */
static int count_open(const char *path)
{
    struct stat st, of;
    int count = 0;
    CHECK_INT(stat(path, &of), ==, 0);
    for (int fd = 0; fd < 1000; fd++)
        count += fstat(fd, &st) == 0 && st.st_ino == of.st_ino && st.st_dev == of.st_dev;
    return count;
}

IN_FIBER(opening_ends_at_its_deadline_and_when_cancelled)
{
    char path[64];
    in_folder(path, sizeof path, "fifo");
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    weft_time until = weft_in(5 * WEFT_MS);
    CHECK_INT(weft_open(path, O_RDONLY, 0, until), ==, -ETIMEDOUT);
    CHECK_INT(real_now(), >=, until.ns);
    weft_fiber *f = go(opens_to_read, path);
    AWAIT(is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    int other = open(path, O_RDWR | O_CLOEXEC); /* helpers that are still opening it go on, and close what they got */
    AWAIT(helpers().busy == 0);
    AWAIT(count_open(path) == 1);
    close(other);
    CHECK_INT(unlink(path), ==, 0);
    return arg;
}

/* No thread can be made: what has no other end to wait for is opened here. */
static void open_without_helper(void)
{
    char path[64], fifo[64];
    in_folder(path, sizeof path, "new");
    in_folder(fifo, sizeof fifo, "fifo");
    weft_time soon = weft_in(100 * WEFT_SEC);
    CHECK_INT(mkfifo(fifo, 0600), ==, 0);
    const struct {
        const char *path;
        int flags;
    } opened[] = {
        {path, O_RDWR | O_CREAT | O_EXCL}, {path, O_RDONLY}, {folder, O_RDONLY | O_DIRECTORY},
        {fifo, O_RDONLY | O_NONBLOCK},     {fifo, O_PATH},   {"/dev/null", O_WRONLY | O_NONBLOCK},
    };
    for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++) {
        int fd = weft_open(opened[i].path, opened[i].flags | O_CLOEXEC, 0600, soon);
        CHECK_INT(fd, >=, 0);
        if (fd >= 0)
            CHECK_INT(weft_close(fd), ==, 0);
    }
    CHECK_INT(weft_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, soon), ==, -EEXIST);
    CHECK_INT(weft_open(fifo, O_RDONLY, 0, soon), ==, -EAGAIN);
    CHECK_INT(weft_open("/dev/null", O_RDONLY, 0, soon), ==, -EAGAIN);
    CHECK_INT(weft_open(path, O_RDONLY, 0, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_open(path, O_RDONLY, 0, weft_in(-1)), ==, -ETIMEDOUT);
    CHECK_INT(unlink(path), ==, 0);
    CHECK_INT(unlink(fifo), ==, 0);
}

static void *opens_without_helper(void *arg)
{
    char fifo[64];
    if (has_ring()) /* and needs no helper */
        return arg;
    open_without_helper();
    in_folder(fifo, sizeof fifo, "fifo");
    CHECK_INT(mkfifo(fifo, 0600), ==, 0);
    CHECK_INT(weft_open(fifo, O_RDONLY, 0, WEFT_FOREVER), ==, -EAGAIN); /* rather than hold up the worker */
    CHECK_INT(unlink(fifo), ==, 0);
    return arg;
}

TEST(without_a_helper_a_file_is_opened_on_the_callers_thread)
{
    end_helpers();
    weft_sched *s = running_sched(1); /* its thread is there before none can be made */
    weft_fiber *f = NULL;
    wf_sys_fail(1u << WF_SYS_THREAD, 1, 100000);
    open_without_helper();
    CHECK_INT(weft_sched_go(s, &f, NULL, opens_without_helper, NULL), ==, 0);
    ended(f);
    wf_sys_fail(0, 0, 0);
    end_sched(s);
}

TEST(plain_threads_use_files_too)
{
    int fd = new_file();
    write_and_read_back(fd);
    CHECK_INT(weft_close(fd), ==, 0);
    fd = weft_open("/dev/null", O_RDONLY | O_CLOEXEC, 0, weft_in(100 * WEFT_SEC));
    CHECK_INT(fd, >=, 0);
    CHECK_INT(weft_close(fd), ==, 0);
    char path[64];
    in_folder(path, sizeof path, "fifo");
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    CHECK_INT(weft_open(path, O_RDONLY, 0, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    int other = open(path, O_RDWR | O_CLOEXEC);
    AWAIT(helpers().busy == 0);
    close(other);
    CHECK_INT(unlink(path), ==, 0);
}

TEST(the_folder_is_made)
{
    CHECK(mkdtemp(folder) != NULL);
}

TEST(the_folder_is_empty_again)
{
    char path[64];
    in_folder(path, sizeof path, "file");
    CHECK_INT(unlink(path), ==, 0);
    CHECK_INT(rmdir(folder), ==, 0);
}

TESTS(io_file, the_folder_is_made, a_file_is_written_and_read_back, a_file_that_is_not_in_memory_is_read_in_order,
      what_the_system_refuses_is_told, fibers_on_shared_stacks_use_files, a_call_that_waits_for_a_helper_may_give_up,
      a_number_that_is_no_file_any_more_is_not_taken_for_one, without_a_helper_the_call_is_made_all_the_same,
      without_a_helper_a_file_is_opened_on_the_callers_thread, opening_waits_for_the_other_end,
      opening_ends_at_its_deadline_and_when_cancelled, plain_threads_use_files_too, the_folder_is_empty_again)

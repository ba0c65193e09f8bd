/*
 * tests/clients/python.c: CPython's main in a fiber. Its signal handlers run between two instructions of its own: a
 * call that waits must return EINTR, so that it looks, and then the call goes on, or the handler's exception ends it.
 */
#include <Python.h>

#include <signal.h>

#include "clients/interpreter.h"

static int run(int argc, char **argv)
{
    return Py_BytesMain(argc, argv);
}

/* What all of them begin with: a handler of SIGALRM that raises, and calls that wait for ever. */
#define BEGIN                                                                                                          \
    "import os, select, signal, socket, sys, time\n"                                                                   \
    "class Alarm(Exception): pass\n"                                                                                   \
    "def ring(number, frame): raise Alarm\n"                                                                           \
    "signal.signal(signal.SIGALRM, ring)\n"                                                                            \
    "server = socket.create_server(('127.0.0.1', 0))\n"                                                                \
    "a, b = socket.socketpair()\n"                                                                                     \
    "r, w = os.pipe()\n"                                                                                               \
    "poller = select.poll(); poller.register(r, select.POLLIN)\n"                                                      \
    "epoll = select.epoll(); epoll.register(r, select.EPOLLIN)\n"                                                      \
    "limited = socket.socketpair(); limited[0].settimeout(50)\n"                                                       \
    "ways = dict(accept=server.accept, sleep=lambda: time.sleep(50), recv=lambda: a.recv(1),\n"                        \
    "            select=lambda: select.select([r], [], []), read=lambda: os.read(r, 1), poll=lambda: poller.poll(),\n" \
    "            epoll=lambda: epoll.poll(), limited=lambda: limited[0].recv(1))\n"

TEST(a_handler_that_raises_ends_every_call_that_waits)
{
    CHECK_RUNS(BEGIN "for name, way in ways.items():\n"
                     "    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)\n"
                     "    try:\n"
                     "        way()\n"
                     "        sys.exit(f'{name} was not interrupted')\n"
                     "    except Alarm:\n"
                     "        print(name, flush=True)\n"
                     "    finally:\n"
                     "        signal.setitimer(signal.ITIMER_REAL, 0)\n"
                     "print('done')",
               true);
}

TEST(a_handler_that_does_not_raise_lets_the_call_go_on)
{
    CHECK_RUNS(BEGIN "count = 0\n"
                     "def note(number, frame):\n"
                     "    global count\n"
                     "    count += 1\n"
                     "    if count == 5: os.write(w, b'x')\n"
                     "signal.signal(signal.SIGALRM, note)\n"
                     "signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)\n"
                     "assert os.read(r, 1) == b'x'\n"
                     "assert count >= 5, count\n"
                     "start = time.monotonic()\n"
                     "time.sleep(0.4)\n"
                     "assert time.monotonic() - start >= 0.4\n"
                     "assert count > 6, count\n"
                     "signal.setitimer(signal.ITIMER_REAL, 0)\n"
                     "print('done')",
               true);
}

TEST(control_c_ends_accept)
{
    CHECK_SIGNAL(BEGIN "print('ready', flush=True)\n"
                       "try:\n"
                       "    server.accept()\n"
                       "except KeyboardInterrupt:\n"
                       "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                       "    print('interrupted', flush=True)",
                 SIGINT, 0, "interrupted");
}

TEST(sigterm_ends_it)
{
    CHECK_SIGNAL(BEGIN "print('ready', flush=True)\nserver.accept()", SIGTERM, SIGTERM, "ready");
}

TEST(a_handler_of_sigterm_that_exits_ends_it)
{
    CHECK_SIGNAL(BEGIN "def leave(number, frame):\n"
                       "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" /* it comes again while python ends */
                       "    sys.exit(7)\n"
                       "signal.signal(signal.SIGTERM, leave)\n"
                       "print('ready', flush=True)\n"
                       "select.select([r], [], [])",
                 SIGTERM, EXITED(7), "ready");
}

TEST(it_waits_for_children_and_is_interrupted)
{
    CHECK_RUNS(BEGIN "import subprocess\n"
                     "child = subprocess.Popen(['sleep', '300'], stdout=subprocess.DEVNULL)\n"
                     "for way in (lambda: child.wait(), lambda: os.waitpid(-1, 0)):\n"
                     "    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)\n"
                     "    try:\n"
                     "        way()\n"
                     "        sys.exit('not interrupted')\n"
                     "    except Alarm:\n"
                     "        pass\n"
                     "    finally:\n"
                     "        signal.setitimer(signal.ITIMER_REAL, 0)\n"
                     "child.kill()\n"
                     "assert child.wait() == -9\n"
                     "print('done')",
               true);
}

int main(int argc, char **argv)
{
    static const struct interpreter python = {"python", "-c", run};
    static const struct test tests[] = {
        {"a_handler_that_raises_ends_every_call_that_waits", a_handler_that_raises_ends_every_call_that_waits},
        {"a_handler_that_does_not_raise_lets_the_call_go_on", a_handler_that_does_not_raise_lets_the_call_go_on},
        {"control_c_ends_accept", control_c_ends_accept},
        {"sigterm_ends_it", sigterm_ends_it},
        {"a_handler_of_sigterm_that_exits_ends_it", a_handler_of_sigterm_that_exits_ends_it},
        {"it_waits_for_children_and_is_interrupted", it_waits_for_children_and_is_interrupted},
    };
    return interpreter_main(&python, argc, argv, tests, sizeof tests / sizeof tests[0]);
}

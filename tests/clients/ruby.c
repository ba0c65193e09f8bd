/*
 * tests/clients/ruby.c: Ruby's main in a fiber. Its Timeout, and its handlers, end a call that waits by a signal to the
 * main thread, sent again until the call has returned.
 */
#include <ruby.h>

#include <signal.h>

#include "clients/interpreter.h"

static int run(int argc, char **argv)
{
    ruby_sysinit(&argc, &argv);
    RUBY_INIT_STACK;
    ruby_init();
    return ruby_run_node(ruby_options(argc, argv));
}

#define BEGIN                                                                                                          \
    "require 'socket'; require 'timeout'\n"                                                                            \
    "$stdout.sync = true\n"                                                                                            \
    "server = TCPServer.new('127.0.0.1', 0)\n"                                                                         \
    "a, b = UNIXSocket.pair\n"                                                                                         \
    "r, w = IO.pipe\n"

TEST(timeout_ends_every_call_that_waits)
{
    CHECK_RUNS(BEGIN "child = spawn('sleep 300', out: File::NULL)\n"
                     "ways = {accept: -> { server.accept }, recv: -> { a.recv(1) }, read: -> { r.read(1) },\n"
                     "        select: -> { IO.select([r]) }, sleep: -> { sleep }, gets: -> { a.gets },\n"
                     "        wait: -> { Process.wait(child) }}\n"
                     "ways.each do |name, way|\n"
                     "  begin\n"
                     "    Timeout.timeout(0.2) { way.call }\n"
                     "    abort \"#{name} was not interrupted\"\n"
                     "  rescue Timeout::Error\n"
                     "    puts name\n"
                     "  end\n"
                     "end\n"
                     "Process.kill('KILL', child)\n"
                     "abort unless Process.wait(child) == child\n"
                     "puts 'done'",
               true);
}

TEST(sigterm_ends_it)
{
    CHECK_SIGNAL(BEGIN "puts 'ready'\nserver.accept", SIGTERM, SIGTERM, "ready");
}

TEST(a_trap_of_sigterm_that_exits_ends_it)
{
    CHECK_SIGNAL(BEGIN "trap('TERM') { exit 7 }\nputs 'ready'\nIO.select([r])", SIGTERM, EXITED(7), "ready");
}

TEST(control_c_ends_accept)
{
    CHECK_SIGNAL(BEGIN "puts 'ready'\n"
                       "begin\n"
                       "  server.accept\n"
                       "rescue Interrupt\n"
                       "  trap('INT', 'IGNORE')\n"
                       "  puts 'interrupted'\n"
                       "end",
                 SIGINT, 0, "interrupted");
}

TEST(its_own_threads_run_beside_a_call_that_waits)
{
    CHECK_RUNS(BEGIN "t = Thread.new { sleep 0.2; w.write 'x'; 40 }\n"
                     "abort unless r.read(1) == 'x'\n"
                     "abort unless t.value == 40\n"
                     "puts 'done'",
               true);
}

int main(int argc, char **argv)
{
    static const struct interpreter ruby = {"ruby", "-e", run};
    static const struct test tests[] = {
        {"timeout_ends_every_call_that_waits", timeout_ends_every_call_that_waits},
        {"sigterm_ends_it", sigterm_ends_it},
        {"a_trap_of_sigterm_that_exits_ends_it", a_trap_of_sigterm_that_exits_ends_it},
        {"control_c_ends_accept", control_c_ends_accept},
        {"its_own_threads_run_beside_a_call_that_waits", its_own_threads_run_beside_a_call_that_waits},
    };
    return interpreter_main(&ruby, argc, argv, tests, sizeof tests / sizeof tests[0]);
}

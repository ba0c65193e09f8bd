#!/usr/bin/env python3
"""The command line of `weft`, and what cannot be served: messages that help, and exit status.

    command.py WEFT [EMULATOR...]
"""
import contextlib
import ctypes
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile

from program import PATIENCE, Program, Serve, Skip, case, first_line, main, plain_user, run, site

WEFT = os.path.abspath(sys.argv[1])
IO_URING_SETUP = 425  # on every processor


def weft(*words, **options):
    return run(WEFT, *words, **options)


def fails(status, pattern, *words, **options):
    """The command ends with this status, says what the pattern says on stderr, and nothing on stdout."""
    ended, out, err = weft(*words, **options)
    assert ended == status and out == "" and re.search(pattern, err), (words, ended, out, err)
    return err


@contextlib.contextmanager
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# ---- the command line


@case
def the_version_is_printed():
    for word in ("version", "--version"):
        status, out, err = weft(word)
        assert status == 0 and re.fullmatch(r"weft \d+\.\d+\.\d+\n", out) and err == "", (out, err)


@case
def the_help_goes_to_stdout_and_is_no_failure():
    for words in (["help"], ["--help"], ["-h"]):
        status, out, err = weft(*words)
        assert status == 0 and "weft serve [DIR]" in out and err == ""
    for words in (["help", "serve"], ["serve", "--help"], ["serve", "-h"], ["serve", "/nowhere", "--help"]):
        status, out, err = weft(*words)
        assert status == 0 and "--port N" in out and err == ""


@case
def the_help_fits_a_terminal():
    for words in (["help"], ["serve", "--help"]):
        assert max(len(line) for line in weft(*words)[1].splitlines()) <= 100


@case
def no_command_at_all_prints_the_help_on_stderr():
    fails(2, r"weft serve \[DIR\]")


@case
def a_wrong_command_line_is_2_and_says_what_was_meant():
    for pattern, *words in (
            (r'no command "sevre": did you mean serve\?\nTry: weft help', "sevre"),
            (r'no command "nothing of the kind"\nTry', "nothing of the kind"),
            (r'no command "/tmp": did you mean weft serve /tmp\?\nTry: weft help', "/tmp"),
            (r'no command "--status": did you mean weft serve --status\?\nTry: weft help', "--status"),
            (r"no option --prot: did you mean --port\?\nTry: weft serve --help", "serve", "--prot", "1"),
            (r"no option --tls\n", "serve", "--tls"),
            (r"no option -p\n", "serve", "-p", "80"),
            (r"--port needs a value: --port N", "serve", "--port"),
            (r'--port takes a number from 0 to 65535, not "x"', "serve", "--port", "x"),
            (r'not "65536"', "serve", "--port=65536"),
            (r'not "-1"', "serve", "--port", "-1"),
            (r'not "80 "', "serve", "--port", "80 "),
            (r'not "99999999999999999999"', "serve", "--port", "99999999999999999999"),
            (r'--workers takes a number from 1 to 1024, not "0"', "serve", "--workers", "0"),
            (r'--io takes epoll or uring, not "select"', "serve", "--io", "select"),
            (r"--addr needs a value", "serve", "--addr="),
            (r"--status takes no value", "serve", "--status=yes"),
            (r"the name of the folder is empty", "serve", ""),
            (r'one folder, but got two: "a" and "b"', "serve", "a", "b"),
            (r'version takes no argument, but got "x"', "version", "x"),
            (r'help takes no argument, but got "x"', "help", "x")):
        fails(2, pattern, *words)


@case
def an_option_takes_its_value_in_both_ways():
    with site() as folder:
        for words in (["--addr", "127.0.0.1"], ["--addr=127.0.0.1"], ["--workers=1", "--io=epoll"]):
            with Serve(folder, *words) as served:
                assert served.get()[0] == 200 and served.stop()[0] == 0


@case
def after_two_dashes_a_word_is_a_folder():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "--status"))
        with Program(WEFT, "serve", "--port", "0", "--", "--status", cwd=folder) as program:
            assert "serving --status at" in program.line()


@case
def without_a_folder_the_current_one_is_served():
    with site() as folder, Program(WEFT, "serve", "--port=0", cwd=folder) as program:
        assert "serving . at" in program.line()


@case
def words_that_cannot_be_written_are_a_failure():
    with open("/dev/full", "w", encoding="ascii") as full:
        status, _, err = weft("version", stdout=full)
    assert status == 1 and "cannot write to the standard output: No space left" in err, err
    status, _, err = weft("help", stdout=None, preexec_fn=lambda: os.close(1))
    assert status == 1 and "cannot write to the standard output" in err, err


# ---- what cannot be served


@case
def a_folder_that_is_not_there_is_named():
    fails(1, "there is no folder /nowhere/at/all", "serve", "/nowhere/at/all")


@case
def a_file_is_not_a_folder():
    fails(1, "is not a folder: weft serve takes the folder", "serve", WEFT)


@case
def a_folder_that_may_not_be_read_is_named():
    with plain_user(WEFT) as (program, how), tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o300)
        status, out, err = run(program, "serve", folder, **how)
    assert status == 1 and "may not read the folder" in err and out == "", err


@case
def a_port_that_is_taken_is_told_with_its_owner():
    with site() as folder, taken_port() as port:
        err = fails(1, rf"port {port} of 127\.0\.0\.1 is in use by .*\(pid {os.getpid()}\)\nTry: another --port, or --port 0",
                    "serve", folder, "--port", str(port))
        assert "python" in err, err
        fails(1, rf"\(pid {os.getpid()}\)", "serve", folder, "--port", str(port), "--addr", "0.0.0.0")


LISTENER = """
import socket
listener = socket.create_server(("127.0.0.3", 0))
print(listener.getsockname()[1], flush=True)
listener.accept()
"""


@contextlib.contextmanager
def port_of_two_owners():
    """A port that this process has on 127.0.0.2, and another process on 127.0.0.3; and that process."""
    while True:
        with subprocess.Popen([sys.executable, "-c", LISTENER], stdout=subprocess.PIPE, text=True) as other:
            try:
                port = int(other.stdout.readline())
                try:
                    ours = socket.create_server(("127.0.0.2", port))
                except OSError:
                    continue  # a connection of another program has it
                with ours:
                    yield port, other.pid
                return
            finally:
                other.kill()


@case
def the_owner_of_the_port_on_another_address_is_not_named():
    with site() as folder, port_of_two_owners() as (port, other):
        fails(1, rf"\(pid {other}\)", "serve", folder, "--port", str(port), "--addr", "127.0.0.3")
        fails(1, rf"\(pid {os.getpid()}\)", "serve", folder, "--port", str(port), "--addr", "127.0.0.2")


def rename_self(name):
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


@case
def the_name_of_an_owner_cannot_command_the_terminal():
    with open("/proc/self/comm", encoding="ascii") as file:
        before = file.read()
    rename_self("\x1b[31mred")
    try:
        with site() as folder, taken_port() as port:
            fails(1, rf"in use by \?\[31mred \(pid {os.getpid()}\)\n", "serve", folder, "--port", str(port))
    finally:
        rename_self(before)


@case
def an_owner_that_belongs_to_another_user_is_left_out():
    if os.geteuid() != 0:
        raise Skip("only root can be another user")
    with plain_user(WEFT) as (program, how), site() as folder, taken_port() as port:
        status, _, err = run(program, "serve", folder, "--port", str(port), **how)
    assert status == 1 and f"port {port} of 127.0.0.1 is in use\nTry:" in err, err


@case
def a_privileged_port_names_the_first_free_one():
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        first = int(file.read())
    if first < 2:
        raise Skip("every user may listen on every port here")
    with plain_user(WEFT) as (program, how), site() as folder:
        status, out, err = run(program, "serve", folder, "--port", "1", **how)
    assert status == 1 and re.search(rf"may not listen on port 1\nTry: .* from {first} on", err) and out == "", err


@case
def an_address_that_is_not_of_this_machine_is_told():
    with site() as folder:
        fails(1, r"does not have the address 192\.0\.2\.1\nTry: --addr 127\.0\.0\.1", "serve", folder, "--addr", "192.0.2.1")
        for wrong in ("999.1.1.1", "not a host", "unix:/tmp/x", "a" * 400):
            fails(1, "there is no host .*\nTry: --addr 127", "serve", folder, "--port", "0", "--addr", wrong)


@case
def a_log_that_cannot_be_written_is_told():
    with site() as folder:
        fails(1, r"cannot write the log /nowhere/log: there is no such folder", "serve", folder, "--log", "/nowhere/log")
        fails(1, r"it is a folder, and --log takes a file", "serve", folder, "--log", folder)
        with plain_user(WEFT) as (program, how), tempfile.TemporaryDirectory() as closed:
            os.chmod(closed, 0o500)
            log = os.path.join(closed, "log")
            status, _, err = run(program, "serve", folder, "--log", log, **how)
            assert status == 1 and f"cannot write the log {log}: this user may not" in err, err
        status, _, err = weft("serve", folder, "--log", "-", stdout=None, preexec_fn=lambda: os.close(1))
        assert status == 1 and "cannot write the log to the standard output: it is closed" in err, err


class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filters", ctypes.POINTER(Filter))]


def forbid_io_uring():
    """In the child: io_uring_setup fails with EPERM, as it does in many containers."""
    filters = (Filter * 4)(Filter(0x20, 0, 0, 0), Filter(0x15, 0, 1, IO_URING_SETUP), Filter(0x06, 0, 0, 0x00050001),
                           Filter(0x06, 0, 0, 0x7FFF0000))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(FilterProgram(4, filters)), 0, 0) != 0:
        os._exit(99)


@case
def io_uring_that_is_asked_for_and_not_there_is_a_failure():
    with site() as folder:
        fails(1, r"--io uring: .*io_uring \(.*\)\nTry: --io epoll", "serve", folder, "--port=0", "--io", "uring",
              preexec_fn=forbid_io_uring)


@case
def io_uring_that_the_environment_asks_for_falls_back_and_says_so():
    with site() as folder:
        with Serve(folder, preexec_fn=forbid_io_uring, env={**os.environ, "WEFT_IO": "uring"}) as served:
            assert served.said["io"] == "epoll" and served.get()[0] == 200
            status, _, err = served.stop()
    assert status == 0 and "io_uring cannot be had" in err, err


@case
def a_driver_that_is_asked_for_is_used():
    with site() as folder:
        with Serve(folder, "--io", "epoll", env={**os.environ, "WEFT_IO": "uring"}) as served:
            assert served.said["io"] == "epoll" and served.get()[0] == 200
        err = fails(1, "", "serve", folder, "--io=uring", "--addr=192.0.2.1")
        if "--io uring: " in err:
            raise Skip(f"there is no io_uring here: {err.splitlines()[0]}")
        with Serve(folder, "--io=uring") as served:
            assert served.said["io"] == "io_uring" and served.get()[0] == 200
            assert served.stop() == (0, "", "")


def limit_descriptors(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


@case
def too_few_descriptors_are_told():
    with site() as folder:
        fails(1, r"may have 20 descriptors, and needs at least \d+\nTry: ulimit -n 1024", "serve", folder, "--port=0",
              preexec_fn=limit_descriptors(20))


@case
def connections_that_there_are_no_descriptors_for_get_503():
    with site() as folder, Serve(folder, "--workers", "2", preexec_fn=limit_descriptors(100)) as served:
        connections = [socket.create_connection(("127.0.0.1", served.port), PATIENCE) for _ in range(80)]
        for connection in connections:
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers = [first_line(connection) for connection in connections]
        for connection in connections:
            connection.close()
        assert served.stop()[0] == 0
    assert set(answers) == {b"HTTP/1.1 200 OK", b"HTTP/1.1 503 Service Unavailable"}, set(answers)


main()

#!/usr/bin/env python3
"""What `make run` runs, for a second instead of ten: what it shows, and that it leaves nothing behind.

    first_run.py FIRST_RUN WEFT SITE
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

import program
from program import NOBODY, PATIENCE, Program, case, is_served, main, site
from terminal import Terminal, children_of, wait_until_gone

FIRST_RUN, WEFT, SITE = (os.path.abspath(word) for word in sys.argv[1:4])
program.EMULATOR = []  # it starts another program, and knows of no emulator
COLUMNS = 100
LINE = re.compile(r"^ +(\d+) +([\d,]+) +([\d.]+ [um]s) +([\d.]+ [um]s) +(\d+) +(n/a|only root|[\d.]+) +([\d.]+) MB$", re.M)


def start(*options, weft=WEFT, folder=SITE, port="0", **how):
    return Program(FIRST_RUN, weft, folder, "--seconds", "1", "--connections", "20", "--port", port, *options, **how)


def show(*options, **how):
    """Exit status and words of a run without a terminal."""
    with start(*options, **how) as running:
        return running.end()


def number(text):
    return int(text.replace(",", ""))


def port_of(said):
    return int(re.search(r"at http://127\.0\.0\.1:(\d+)/", said).group(1))


def check_shown(said):
    assert max(len(line) for line in said.splitlines() if SITE not in line and WEFT not in line) <= COLUMNS, said
    names = " second +requests/s +latency 50 % +latency 99 % +fibers +system calls/request +memory\n"
    assert re.search(names, said), said
    seconds = LINE.findall(said)
    assert [line[0] for line in seconds] == ["1"] and number(seconds[0][1]) > 0, said
    assert 20 < number(seconds[0][4]) < 40, said  # one for each connection, and a few
    answers = re.search(r"^([\d,]+) answers on 20 connections in \d+\.\d s\. Each was compared .*: none was wrong\.$", said, re.M)
    assert number(answers.group(1)) > 0, said
    place = f"http://127.0.0.1:{port_of(said)}/"
    assert re.search(rf"^  the site +{place}$", said, re.M) and re.search(rf"^  its live state +{place}_weft$", said, re.M), said


# ---- without a terminal


@case
def it_shows_what_the_load_takes_and_ends():
    status, out, err = show()
    assert status == 0 and err == "", (status, out, err)
    check_shown(out)
    assert "There is no terminal, so the server ends here." in out and not is_served(port_of(out))


@case
def io_uring_is_used_if_it_is_asked_for():
    status, out, _ = show(env={**os.environ, "WEFT_IO": "uring"})
    assert status == 0, out
    check_shown(out)


@case
def a_plain_user_is_told_that_only_root_counts_system_calls():
    with tempfile.TemporaryDirectory() as folder:  # the build may lie where others cannot look
        os.chmod(folder, 0o755)
        copies = [shutil.copy(what, folder) for what in (FIRST_RUN, WEFT)]
        shutil.copytree(SITE, os.path.join(folder, "site"))
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        env = {**os.environ, "LD_LIBRARY_PATH": libraries()}
        with Program(*copies, os.path.join(folder, "site"), "--seconds", "1", "--port", "0", "--connections", "20", env=env,
                     **how) as running:
            status, out, err = running.end()
    if os.geteuid() == 0 and "error while loading shared libraries" in err:
        raise program.Skip("another user may not read the library that was built")
    assert status == 0, (out, err)
    check_shown(out)
    assert "only root" in out and "not counted: " in out, out


def libraries():
    """The folders of the libraries that the program is linked with."""
    words = subprocess.run(["ldd", FIRST_RUN], stdout=subprocess.PIPE, text=True, check=False).stdout
    return ":".join(sorted({os.path.dirname(path) for path in re.findall(r"=> (/.*libweft\S*)", words)}))


@case
def root_sees_the_system_calls_that_the_kernel_has_counted():
    tracing = "mount -t tracefs tracefs /sys/kernel/tracing && [ -e /sys/kernel/tracing/events/raw_syscalls ]"
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "sh", "-c", tracing], stderr=subprocess.PIPE, check=False).returncode:
        raise program.Skip("this user has no mounts of its own, or the kernel has no trace points")
    with Program(FIRST_RUN, WEFT, SITE, "--seconds", "1", "--connections", "20", "--port", "0") as running:
        status, out, err = running.end()
    assert status == 0, (out, err)
    check_shown(out)
    if "perf_event" in out or "does not let this user" in out:
        raise program.Skip("the kernel lets nobody count")
    calls = float(LINE.search(out).group(6))
    assert 1 < calls < 100 and re.search(r"^  system calls +[\d.]+ for a request, counted by the kernel$", out, re.M), out


@case
def a_port_that_is_taken_is_passed_over():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, out, _ = show(port=str(port))
    assert status == 0 and f"Port {port} is in use: this is port {port_of(out)}." in out and port_of(out) > port, out


@case
def a_wrong_command_line_is_told():
    for words in (["--seconds", "0"], ["--seconds"], ["--seconds", "x"], ["--second", "1"], ["--port", "65536"]):
        status, _, err = show(*words)
        assert status == 1 and "usage: first-run WEFT DIR" in err, err
    assert show(folder="/nowhere")[0] == 1 and show(weft="/nowhere")[0] == 1


@case
def a_wrong_answer_is_found():
    with site(a__txt="first") as folder, tempfile.TemporaryDirectory() as other:
        liar = os.path.join(other, "weft")  # serves another folder than it is told to
        with open(liar, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nshift 2\nexec {WEFT} serve {other} "$@"\n')
        os.chmod(liar, 0o755)
        shutil.copy(os.path.join(folder, "index.html"), other)
        for content, what in ((None, "status of an answer is not 200"), ("longer than", "longer or shorter than the file"),
                              ("fir_t", "not what is in the file")):
            if content:
                with open(os.path.join(other, "a.txt"), "w", encoding="ascii") as file:
                    file.write(content)
            status, out, err = show(weft=liar, folder=folder)
            assert status == 1 and what in err and "none was wrong" not in out, (out, err)


@case
def a_server_that_dies_is_a_failure():
    with start("--seconds", "100") as running:
        running.line_like(LINE)
        os.kill(children_of(running.process.pid)[0], signal.SIGKILL)
        status, out, err = running.end()
    assert status == 1 and err and "none was wrong" not in out, (out, err)


@case
def an_interrupt_ends_both_processes():
    for number_of in (signal.SIGINT, signal.SIGTERM):
        with start("--seconds", "100") as running:
            running.line_like(LINE)
            server = children_of(running.process.pid)[0]
            running.signal(number_of)
            status, out, err = running.end()
            assert status == 128 + number_of and err == "" and out.endswith("\nThe server has ended.\n"), (status, out, err)
            assert "none was wrong" not in out, out
            wait_until_gone(server)


@case
def a_kill_leaves_no_server_behind():
    with start("--seconds", "100") as running:
        running.line_like(LINE)
        server = children_of(running.process.pid)[0]
        running.signal(signal.SIGKILL)
        running.end()
        wait_until_gone(server)


# ---- on a terminal


def on_terminal(seconds):
    return Terminal(FIRST_RUN, WEFT, SITE, "--seconds", seconds, "--connections", "20", "--port", "0")


@case
def on_a_terminal_it_goes_on_serving_until_ctrl_c():
    with on_terminal("1") as running:
        running.read_until("until Ctrl-C.")
        check_shown(running.said.replace("\r\n", "\n"))
        url = f"http://127.0.0.1:{port_of(running.said)}/"
        server = children_of(running.pid)[0]
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            assert answer.status == 200
        with urllib.request.urlopen(url + "_weft", timeout=PATIENCE) as answer:
            assert answer.status == 200
        running.type(b"\x03")
        assert running.end() == 0 and "The server has ended." in running.said, running.said
        wait_until_gone(server)


@case
def ctrl_c_in_the_middle_ends_both_processes():
    with on_terminal("100") as running:
        running.read_until(" MB\r\n")
        server = children_of(running.pid)[0]
        running.type(b"\x03")
        assert running.end() == 128 + signal.SIGINT, running.said
        wait_until_gone(server)


@case
def ctrl_c_twice_ends_both_processes():
    with on_terminal("1") as running:
        running.read_until("until Ctrl-C.")
        port, server = port_of(running.said), children_of(running.pid)[0]
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            client.sendall(b"GET /_weft/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(1)
            running.type(b"\x03")
            running.type(b"\x03")
            assert running.end() == 0, running.said
        wait_until_gone(server)


@case
def a_terminal_that_goes_away_ends_both_processes():
    running = on_terminal("1")
    running.read_until("until Ctrl-C.")
    server = children_of(running.pid)[0]
    os.close(running.fd)
    os.waitpid(running.pid, 0)
    wait_until_gone(server)


main()

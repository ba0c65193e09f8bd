#!/usr/bin/env python3
"""`weft serve` as its user sees it: what it serves, what it says, and how it ends.

    serve.py WEFT [EMULATOR...]
"""
import contextlib
import os
import re
import signal
import socket
import sys
import tempfile

from program import PATIENCE, Program, Serve, Skip, case, first_line, is_served, main, plain_user, site, wait

WEFT = os.path.abspath(sys.argv[1])
LARGE = 32 << 20  # bytes that no buffer of a socket holds


# ---- serving


@case
def it_serves_and_says_where():
    with site(hello__txt="hello\n") as folder, Serve(folder) as served:
        assert served.said["dir"] == folder and served.said["url"] == f"http://127.0.0.1:{served.port}/"
        assert served.said["status"] is None
        assert served.get() == (200, b"<h1>weft</h1>\n") and served.get("/hello.txt") == (200, b"hello\n")
        assert served.get("/nothing")[0] == 404 and served.get("/_weft")[0] == 404
        assert served.stop() == (0, "", "")


@case
def the_address_that_it_prints_can_be_opened():
    with site() as folder:
        for addr, host in (("localhost", "localhost"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")):
            with Serve(folder, "--addr", addr) as served:
                assert served.host == host and served.get()[0] == 200
                assert bool(served.said["open"]) == (addr == "0.0.0.0")
        with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError as why:
                raise Skip(f"no IPv6 here: {why}") from why
        for addr in ("::1", "[::1]", "::"):
            with Serve(folder, "--addr", addr) as served:
                assert served.said["url"].startswith("http://[::1]:") and served.get()[0] == 200
                assert bool(served.said["open"]) == (addr == "::")


@case
def a_plain_user_serves():
    with plain_user(WEFT) as (program, how), site() as folder, Serve(folder, "--status", program=program, **how) as served:
        assert served.get()[0] == 200 and served.get("/_weft/status.json")[0] == 200
        assert served.stop() == (0, "", "")


@case
def workers_are_as_many_as_asked_for():
    with site() as folder:
        for count in ("1", "3"):
            with Serve(folder, "--workers", count) as served:
                assert served.said["workers"] == count and served.get()[0] == 200


@case
def the_status_page_is_there_if_asked_for():
    with site() as folder, Serve(folder, "--status") as served:
        assert served.said["status"] == f"http://127.0.0.1:{served.port}/_weft"
        assert served.get("/_weft")[0] == 200 and b'"driver"' in served.get("/_weft/status.json")[1]


@case
def folders_are_listed_and_hidden_files_served_if_asked_for():
    with tempfile.TemporaryDirectory() as folder:
        for name in (".secret", "a.txt"):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(name)
        with Serve(folder) as served:
            assert served.get()[0] == 404 and served.get("/.secret")[0] == 404
        with Serve(folder, "--list") as served:
            status, body = served.get()
            assert status == 200 and b"a.txt" in body and b".secret" not in body
        with Serve(folder, "--hidden") as served:
            assert served.get("/.secret") == (200, b".secret")


@case
def a_folder_without_an_index_is_told():
    with tempfile.TemporaryDirectory() as folder:
        with Serve(folder) as served:
            status, _, err = served.stop()
            assert status == 0 and f"{folder} has no index.html" in err and "Try: --list" in err, err
        with Serve(folder, "--list") as served:
            assert served.stop() == (0, "", "")


@case
def the_log_is_added_to_a_file():
    with site() as folder, tempfile.TemporaryDirectory() as logs:
        log = os.path.join(logs, "access.log")
        for path in ("/", "/nothing"):
            with Serve(folder, "--log", log) as served:
                served.get(path)
                assert served.stop() == (0, "", "")
        with open(log, encoding="ascii") as file:
            lines = file.read()
    assert re.fullmatch(r'127\.0\.0\.1 - - \[.*\] "GET / HTTP/1\.1" 200 14\n.*"GET /nothing HTTP/1\.1" 404 \d+\n', lines), lines


@case
def the_log_goes_to_stdout_if_asked_for():
    with site() as folder, Serve(folder, "--log", "-") as served:
        served.get()
        assert '"GET / HTTP/1.1" 200 14' in served.line()
        assert served.stop() == (0, "", "")


@case
def a_reader_of_stdout_that_leaves_does_not_end_it():
    with site() as folder, Serve(folder, "--log", "-") as served:
        served.process.stdout.close()
        assert served.get()[0] == 200
        served.signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0


def unused_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@case
def a_closed_stream_does_not_become_a_connection():
    with site() as folder:
        for streams in ((1,), (0, 1, 2)):
            port = unused_port()
            with Program(WEFT, "serve", folder, f"--port={port}", stdout=None, stderr=None,
                         preexec_fn=lambda streams=streams: [os.close(fd) for fd in streams]) as program:
                wait(lambda program=program, port=port: program.process.poll() is not None or is_served(port), "a listener")
                for fd in streams:
                    assert os.readlink(f"/proc/{program.process.pid}/fd/{fd}") == "/dev/null", fd
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    assert first_line(connection) == b"HTTP/1.1 200 OK"
                program.signal(signal.SIGTERM)
                assert program.process.wait(PATIENCE) == 0


# ---- the end


@contextlib.contextmanager
def waiting_client(*options):
    """A server, and a client that has begun to read an answer and waits."""
    with site() as folder:
        with open(os.path.join(folder, "large"), "wb") as file:
            file.truncate(LARGE)
        with Serve(folder, *options) as served, socket.socket() as client:
            client.settimeout(PATIENCE)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", served.port))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(1)
            yield served, client


def wait_until_stopping(served):
    wait(lambda: not is_served(served.port), "the end of the listener")


@case
def each_signal_ends_it_with_status_0():
    with site() as folder:
        for number in (signal.SIGINT, signal.SIGTERM):
            with Serve(folder) as served:
                assert served.get()[0] == 200 and served.stop(number) == (0, "", "")


@case
def a_signal_as_soon_as_it_serves_is_no_failure():
    with site() as folder:
        for _ in range(20):
            with Serve(folder) as served:
                assert served.stop() == (0, "", "")


@case
def a_request_is_finished_before_the_end():
    with waiting_client("--grace", "3600") as (served, client):
        served.signal(signal.SIGTERM)
        wait_until_stopping(served)
        got = 1
        while part := client.recv(1 << 20):
            got += len(part)
        assert got > LARGE and served.end() == (0, "", "")


@case
def a_second_signal_ends_it_at_once_with_status_1():
    for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT)):
        with waiting_client("--grace", "3600") as (served, _):
            served.signal(first)
            wait_until_stopping(served)
            served.signal(second)
            status, _, err = served.end()
            assert status == 1 and "ended before all requests were answered" in err, err


@case
def without_grace_it_does_not_wait_for_requests():
    with waiting_client("--grace", "0") as (served, _):
        assert served.stop() == (0, "", "")


main()

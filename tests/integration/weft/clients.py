#!/usr/bin/env python3
"""Clients that people use, against `weft serve`: curl, wrk, ab, and clients that speak HTTP/1.0. What they print is checked:
all requests complete, none failed. `make test-full` runs it.

    clients.py WEFT
"""
import contextlib
import gzip
import os
import socket
import subprocess

import outside
from program import PATIENCE, Serve, case, main, site

TEXT = "a file of the site\n" * 500
REQUESTS, CLIENTS = 2000, 20
DRIVERS = ("epoll", "uring")


@contextlib.contextmanager
def served():
    """The site, served on each driver in turn."""
    with site(file__txt=TEXT, packed__txt=TEXT) as folder:
        with gzip.open(os.path.join(folder, "packed.txt.gz"), "wt", encoding="ascii") as file:
            file.write(TEXT)
        with contextlib.ExitStack() as servers:
            yield [servers.enter_context(Serve(folder, "--status", env={**os.environ, "WEFT_IO": driver})) for driver in DRIVERS]


def curl(server, path, *options, status=0):
    return outside.curl(f"{server.said['url']}{path}", *options, status=status)


def ends_well(server):
    status, out, err = server.stop()
    assert status == 0 and out == "" and (err == "" or "io_uring cannot be had" in err), err


@case
def curl_gets_files():
    with served() as servers:
        for server in servers:
            assert curl(server, "file.txt") == TEXT and curl(server, "packed.txt", "--compressed") == TEXT
            assert curl(server, "file.txt", "-r", "2-5") == TEXT[2:6] and curl(server, "file.txt", "--http1.0") == TEXT
            assert f"Content-Length: {len(TEXT)}\n" in curl(server, "file.txt", "-I")
            assert curl(server, "nothing", "-f", status=22).startswith("curl: (22)")
            ends_well(server)


@case
def curl_gets_two_files_on_one_connection():
    with served() as servers:
        for server in servers:
            url = server.said["url"] + "file.txt"
            said = curl(server, "file.txt", "-w", "%{http_code} %{num_connects}\n", "-o", "/dev/null", "-o", "/dev/null", url)
            assert said == "200 1\n200 0\n", said
            ends_well(server)


@case
def curl_is_told_what_it_may_not_do():
    with served() as servers:
        for server in servers:
            for path, status, *options in (("file.txt", "405", "-d", "x=1"), ("../etc/passwd", "400"), ("nothing", "404"),
                                           ("file.txt", "416", "-r", "100000-"), ("%2e%2e/etc/passwd", "400"),
                                           ("file.txt", "304", "-z", server.said["dir"] + "/file.txt")):
                said = curl(server, path, "-o", "/dev/null", "-w", "%{http_code}", *options)
                assert said == status, (path, said)
            ends_well(server)


@case
def curl_reads_the_events_of_the_status_page():
    with served() as servers:
        for server in servers:
            with subprocess.Popen(["curl", "-sSN", "--noproxy", "*", f"{server.said['status']}/events"], text=True,
                                  stdout=subprocess.PIPE) as program:
                lines = [program.stdout.readline() for _ in range(5)]
                assert lines[0] == "event: history\n" and lines[1].startswith("data: ["), lines
                assert any(line.startswith('data: {"version"') for line in lines[2:]), lines
                ends_well(server)  # the stream ends with it
                program.stdout.read()
                assert program.wait(PATIENCE) == 0


@case
def wrk_sees_no_error():
    with served() as servers:
        for server in servers:
            for path in ("", "file.txt"):
                outside.wrk(f"{server.said['url']}{path}", CLIENTS)
            ends_well(server)


@case
def ab_completes_all_requests():
    with served() as servers:
        for server in servers:
            for keep in (False, True):
                outside.ab(f"{server.said['url']}file.txt", REQUESTS, CLIENTS, len(TEXT), keep)
            ends_well(server)


@case
def a_client_of_http_1_0_is_served_and_the_connection_ends():
    with served() as servers:
        for server in servers:
            client = outside.Old(server.host, server.port, timeout=PATIENCE)
            with contextlib.closing(client):
                client.request("GET", "/file.txt")
                answer = client.getresponse()
                assert answer.status == 200 and answer.read().decode() == TEXT and answer.will_close
            ends_well(server)


@case
def a_request_line_alone_is_served():
    with served() as servers:
        for server in servers:
            with socket.create_connection((server.host, server.port), PATIENCE) as client:
                client.sendall(b"GET /file.txt HTTP/1.0\r\n\r\n")
                got = b"".join(iter(lambda: client.recv(65536), b""))
            assert got.startswith(b"HTTP/1.1 200 OK\r\n") and got.endswith(b"\r\n\r\n" + TEXT.encode()), got[:200]
            ends_well(server)


@case
def a_client_of_http_1_0_may_keep_its_connection():
    with served() as servers:
        for server in servers:
            client = outside.Old(server.host, server.port, timeout=PATIENCE)
            with contextlib.closing(client):
                for turn in range(3):
                    client.request("GET", "/file.txt", headers={"Connection": "keep-alive"})
                    answer = client.getresponse()
                    assert answer.status == 200 and answer.read().decode() == TEXT
                    assert answer.getheader("Connection") == "keep-alive" and not answer.will_close
                    first = first if turn else client.sock
                    assert client.sock is first
            ends_well(server)


main()

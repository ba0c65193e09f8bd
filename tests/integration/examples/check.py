#!/usr/bin/env python3
"""The examples that serve, dial or read files do what their header comments say, as seen from outside.

    check.py EXAMPLE FOLDER [EMULATOR...]    0: it does; else not. FOLDER has the programs.
"""
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 60  # seconds: what has not come by then never will


class Program:
    """An example that runs; at the end of its `with` it is ended, with all that it forked."""

    def __init__(self, name, *args):
        self.name = name
        self.process = subprocess.Popen(sys.argv[3:] + [os.path.join(sys.argv[2], name), *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        said = self.process.communicate(timeout=PATIENCE)[0]
        print(f"{self.name}: {said}")
        assert not re.search("Sanitizer|runtime error", said), said

    def line(self):
        line = self.process.stdout.readline()
        print(f"{self.name}: {line}", end="")
        return line

    def port(self):
        return int(re.search(r"^serving at .*, port (\d+)", self.line()).group(1))

    def end(self):
        """Waits for its end; returns its exit status and what it has said since the last line."""
        said = self.process.communicate(timeout=PATIENCE)[0]
        print(f"{self.name}: {said}", end="")
        assert not re.search("Sanitizer|runtime error", said), said
        return self.process.returncode, said


def run(name, *args):
    """Exit status and words of an example that ends by itself."""
    with Program(name, *args) as program:
        return program.end()


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read(connection, count):
    """So many bytes, or all until the end."""
    got = b""
    while len(got) < count:
        part = connection.recv(count - len(got))
        if not part:
            break
        got += part
    return got


def read_until(connection, end):
    got = b""
    while end not in got:
        part = connection.recv(4096)
        assert part, got
        got += part
    return got


def line_of(connection):
    got = b""
    while not got.endswith(b"\n"):
        byte = connection.recv(1)
        assert byte, got
        got += byte
    return got.decode()


def answers(connection):
    """Whether it echoes: False if the other side has ended instead."""
    try:
        connection.sendall(b"hello")
        got = read(connection, 5)
    except ConnectionError:
        return False
    assert got in (b"hello", b""), got
    return got == b"hello"


def client_is_answered(port):
    status, said = run("echo-client", f"127.0.0.1:{port}", "100")
    assert status == 0 and "100 of 100 clients were answered" in said, said


def unused_port():
    """A port that refuses, as long as the socket is there."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound, bound.getsockname()[1]


def echo_server():
    def fibers(server):
        server.process.send_signal(signal.SIGUSR1)
        return int(re.fullmatch(r"(\d+) fibers\n", server.line()).group(1))

    with Program("echo-server", "127.0.0.1:0") as server:
        port = server.port()
        alone = fibers(server)
        connections = [connect(port) for _ in range(3)]
        assert all(answers(c) for c in connections)
        assert fibers(server) == alone + 3  # one for each connection
        client_is_answered(port)
        status, said = run("echo-server", f"127.0.0.1:{port}")
        assert status == 1 and "in use" in said, said
        for c in connections:
            c.close()
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == (0, "")


def echo_client():
    bound, port = unused_port()
    with bound:
        status, said = run("echo-client", f"127.0.0.1:{port}", "2")
    assert status == 1 and "refused" in said and "0 of 2 clients were answered" in said, said
    with socket.create_server(("127.0.0.1", 0)) as listener:
        liar = threading.Thread(target=answer_wrongly, args=(listener,))
        liar.start()
        status, said = run("echo-client", f"127.0.0.1:{listener.getsockname()[1]}", "1")
        liar.join()
    assert status == 1 and "0 of 1 clients were answered" in said, said


def answer_wrongly(listener):
    with listener.accept()[0] as connection:
        while connection.recv(64, socket.MSG_WAITALL):
            connection.sendall(b"x" * 64)


def echo_watches():
    with Program("echo-watches", "127.0.0.1:0") as server:
        port = server.port()
        with connect(port) as silent:
            client_is_answered(port)
            assert answers(silent)
        with connect(port) as big:  # sends more than there is room for between, and only then reads
            text, sent = os.urandom(1 << 20) * 32, 0
            big.setblocking(False)
            while select.select([], [big], [], 0.5)[1]:
                sent += big.send(text[sent:sent + 65536])
            assert 0 < sent < len(text)
            big.settimeout(PATIENCE)
            assert read(big, sent) == text[:sent]
            assert answers(big)


def echo_forked():
    # Each process has 8 fibers: 24 connections are served at a time, and one that is killed ends 8 of them.
    name = f"weft-echo-forked-{os.getpid()}"

    def dial():
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(f"\0{name}")
        return connection

    def dial_when_there():
        while True:
            try:
                return dial()
            except ConnectionRefusedError:
                time.sleep(0.01)  # it does not say when it listens

    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]

    # At another name: the kernel takes its time to end the rings of killed processes, and with them the listener.
    assert run("echo-forked", f"unix:@{name}-itself", "--self-test") == (0, "hello\n" * 3)
    with Program("echo-forked", f"unix:@{name}") as server:
        served = [dial_when_there()] + [dial() for _ in range(23)]
        assert all(answers(c) for c in served)
        os.kill(children(server.process.pid)[0], signal.SIGKILL)
        left = [c for c in served if answers(c)]
        assert len(left) == 16, len(left)
        next_one = dial()
        left[0].close()  # somebody is free
        assert answers(next_one) and all(answers(c) for c in left[1:])


def chat():
    with Program("chat", "127.0.0.1:0") as server:
        port = server.port()
        guests = []
        for _ in range(3):
            guests.append(connect(port))
            for guest in guests:
                assert line_of(guest) == "a guest comes\n"
        guests[0].sendall(b"hello\n")
        assert [line_of(g) for g in guests] == ["hello\n"] * 3
        guests[1].sendall(b"one ")
        guests[2].sendall(b"another\n")  # may come between, but not into the line
        assert [line_of(g) for g in guests] == ["another\n"] * 3
        guests[1].sendall(b"line\n")
        assert [line_of(g) for g in guests] == ["one line\n"] * 3
        guests.pop().close()
        assert [line_of(g) for g in guests] == ["a guest goes\n"] * 2


def proxy():
    with Program("echo-server", "127.0.0.1:0") as server:
        with Program("proxy", "127.0.0.1:0", f"127.0.0.1:{server.port()}") as passes:
            client_is_answered(passes.port())
    with socket.create_server(("127.0.0.1", 0)) as target:
        target.settimeout(PATIENCE)
        with Program("proxy", "127.0.0.1:0", f"127.0.0.1:{target.getsockname()[1]}") as passes:
            with connect(passes.port()) as near, target.accept()[0] as far:
                far.settimeout(PATIENCE)
                near.sendall(b"question")
                near.shutdown(socket.SHUT_WR)
                assert read(far, 100) == b"question"  # and the end
                far.sendall(b"answer")
                far.close()
                assert read(near, 100) == b"answer"
    bound, port = unused_port()
    with bound, Program("proxy", "127.0.0.1:0", f"127.0.0.1:{port}") as passes:
        with connect(passes.port()) as near:
            assert read(near, 1) == b""


def idle():
    with Program("idle", "127.0.0.1:0") as server:
        port = server.port()
        start = time.monotonic()
        with connect(port) as silent, connect(port) as busy:
            silent.settimeout(0.1)  # so often the busy one speaks
            while True:
                assert answers(busy)
                try:
                    assert silent.recv(1) == b""
                    break
                except socket.timeout:
                    pass
            assert time.monotonic() - start >= 2
            last = time.monotonic()
            assert answers(busy) and read(busy, 1) == b""
            assert time.monotonic() - last >= 2


def serve_page(listener):
    connection = listener.accept()[0]
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(1000)
    assert request.startswith(b"GET / HTTP/1.0\r\nHost: 127.0.0.1"), request
    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 10000)
    connection.close()


def fetch():
    bound, refusing = unused_port()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as silent, bound:
        good, mute = (f"127.0.0.1:{s.getsockname()[1]}" for s in (listener, silent))
        server = threading.Thread(target=serve_page, args=(listener,))
        server.start()
        start = time.monotonic()
        status, said = run("fetch", mute, f"127.0.0.1:{refusing}", good)
        took = time.monotonic() - start
        server.join()
    *first_two, last = said.splitlines()
    assert status == 0
    assert sorted(first_two) == sorted([f"127.0.0.1:{refusing}: Connection refused after 0 bytes",
                                        f"{good}: HTTP/1.0 200 OK, 10019 bytes"]), said
    assert last == f"{mute}: Connection timed out after 0 bytes", said
    assert 2 <= took < 20


def first_answer():
    left = "the client left."
    assert run("first-answer") == (0, f"server 1: {left}\nserver 2: the first answer.\nserver 3: {left}\n")


def retry():
    assert run("retry") == (0, "the late server: connected at try 4. "
                               "The server that never comes: the deadline has passed\n")


def timeout():
    assert run("timeout") == (0, "read_rows: cancelled, the scope's deadline has passed\n"
                                 "roll_back: could wait\nrequest: Connection timed out\n")


def shutdown():
    def converse(connection, request):
        connection.sendall(request)
        return read(connection, len(request))

    with Program("shutdown", "127.0.0.1:0") as server:
        port = server.port()
        with connect(port) as idle_one, connect(port) as busy:
            assert converse(idle_one, b"1\n") == b"1\n" and converse(busy, b"1\n") == b"1\n"
            busy.sendall(b"1000\n")
            server.process.send_signal(signal.SIGTERM)
            assert read(idle_one, 1) == b""
            assert read(busy, 100) == b"1000\n"  # and the end
        assert server.end() == (0, "every request was answered\n")
    # A request that takes longer than the grace is cut off.
    with Program("shutdown", "127.0.0.1:0") as server:
        with connect(server.port()) as endless:
            assert converse(endless, b"1\n") == b"1\n"
            endless.sendall(b"100000000\n")
            server.process.send_signal(signal.SIGTERM)
            start = time.monotonic()
            assert read(endless, 1) == b""
            assert time.monotonic() - start > 2
        assert server.end() == (0, "some requests were cut off\n")


def web():
    def ask(connection, text):
        connection.sendall(text.encode())

    with Program("web", "127.0.0.1:0") as server:
        port = server.port()
        with connect(port) as asking, connect(port) as watching:
            ask(asking, "GET /hello/J%C3%BCrgen HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_until(asking, b"hello, J\xc3\xbcrgen\n").startswith(b"HTTP/1.1 200 OK\r\n")
            ask(asking, "POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\none\ntwo\n")
            assert read_until(asking, b"8 bytes\n").startswith(b"HTTP/1.1 200 OK\r\n")
            ask(watching, "GET /ticks HTTP/1.1\r\nHost: x\r\n\r\n")
            events = read_until(watching, b"event: tick\ndata: 3\n\n")
            assert b"Content-Type: text/event-stream\r\n" in events and b"event: tick\ndata: 2\n\n" in events
            server.process.send_signal(signal.SIGTERM)
            assert read(asking, 1) == b""
            assert read_until(watching, b"0\r\n\r\n")  # told, it has ended its stream
        assert server.end()[0] == 0


def files():
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("empty", "small", "big", "missing")]
        for path, text in zip(paths, ("", "one\ntwo", "line\n" * 20000)):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        expected = f"0 lines, 0 bytes: {paths[0]}\n1 lines, 7 bytes: {paths[1]}\n20000 lines, 100000 bytes: {paths[2]}\n"
        assert run("files", *paths[:3]) == (0, expected)
        status, said = run("files", *paths)
        assert status == 1 and "missing: No such file or directory" in said and expected in said, said


FALSE_SERVER = """#!{python}
# An echo server as the show starts it, for one connection, which does something wrong at the tenth message.
import os, signal, socket, sys, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def answer(): # on a thread of its own: a handler would not run before the main one has left its call
    while signal.sigwait([signal.SIGUSR1]):
        os.write(1, b"3 fibers\\n")
threading.Thread(target=answer, daemon=True).start()
listener = socket.create_server(("127.0.0.1", 0))
print("serving at 127.0.0.1:0, port %d, by mistake" % listener.getsockname()[1], flush=True)
connection = listener.accept()[0]
for i in range(1000000):
    message = connection.recv(64, socket.MSG_WAITALL)
    if i == 9 and "{wrong}" == "byte":
        message = message[:-1] + bytes([message[-1] ^ 1])
    elif i == 9 and "{wrong}" == "end":
        break
    elif i == 9 and "{wrong}" == "death":
        sys.exit(0)
    elif not message:
        connection.sendall(b"more")
        break
    connection.sendall(message)
connection.close()
signal.pause()
"""


def show():
    status, said = run("show", "--seconds", "1", "--connections", "50")
    assert status == 0, said
    # The server's own fibers are few, and each connection has one.
    seen = re.search(r"^  1 s +([\d,]+) messages/s +(\d+) fibers +(n/a|[\d.]+) calls/message +([\d.]+) MB$", said, re.M)
    assert int(seen.group(1).replace(",", "")) > 0 and 50 < int(seen.group(2)) < 60 and float(seen.group(4)) > 1, said
    assert seen.group(3) == "n/a" or 0 < float(seen.group(3)) < 20, said
    assert re.search(r"^[\d,]+ messages of 64 bytes on 50 connections in \d+\.\d s; every byte came back", said, re.M), said
    assert f"{sys.argv[2]}/echo-server 127.0.0.1:7000" in said or "examples/echo-server 127.0.0.1:7000" in said, said
    for wrong, what in (("byte", "what came back is not what was sent"), ("end", "the server has hung up"),
                        ("death", "hung up|says nothing more"), ("more", "more came back than was asked for")):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(sys.argv[2], "show"), folder)
            path = os.path.join(folder, "echo-server")
            with open(path, "w", encoding="ascii") as file:
                file.write(FALSE_SERVER.format(python=sys.executable, wrong=wrong))
            os.chmod(path, 0o755)
            status, said = run(os.path.join(folder, "show"), "--seconds", "1", "--connections", "1")
            assert status == 1 and re.search(what, said), (wrong, status, said)
    assert run("show", "--seconds", "0")[0] == 1


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")]()

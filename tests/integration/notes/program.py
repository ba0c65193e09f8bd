"""examples/notes as its tests see it: the program, its two kinds of database, and requests."""
import asyncio
import contextlib
import http.client
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = int(os.environ.get("WEFT_PATIENCE", 60))  # seconds: what has not come by then never will
HERE = os.path.dirname(os.path.abspath(__file__))


def wait(condition, what):
    """Waits until a function returns something true, and returns that."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.01)
    return value


class Program:
    """The program, as a command of several words, with options; ended with its `with`."""

    def __init__(self, command, *options):
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said, self.lines = "", threading.Thread(target=self.read)
        self.lines.start()
        self.port = 0

    def __enter__(self):
        try:
            self.port = int(wait(lambda: self.find(r"^serving at http://127.0.0.1:(\d+)/$"), "the program serves")[0])
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, traceback):
        if self.process.poll() is None and kind:
            self.process.kill()
        status = self.end()
        if kind:
            print(self.said)
        else:
            assert status == 0, (status, self.said)

    def read(self):
        for line in self.process.stdout:
            self.said += line

    def find(self, pattern):
        """What the pattern finds in what the program has said."""
        assert self.process.poll() is None, self.said
        return re.findall(pattern, self.said, re.M)

    def stop(self, number=signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def end(self):
        """Ends it, if nobody has. Returns its exit status."""
        if self.process.poll() is None:
            self.stop()
        status = self.process.wait(PATIENCE)
        self.lines.join(PATIENCE)
        self.process.stdout.close()
        assert not re.search("Sanitizer|runtime error|definitely lost: [1-9]|panic", self.said), self.said
        return status

    def descriptors(self):
        """How many sockets and files it has open. The library has others, which it makes when it first needs them."""
        folder, count = f"/proc/{self.process.pid}/fd", 0
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                count += os.readlink(os.path.join(folder, name)).startswith(("socket:", "/"))
        return count

    def idle(self):
        """A connection that has been answered, and may ask again."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/")
        assert connection.getresponse().read()
        return connection.sock

    # ---- requests ----

    def ask(self, method, path, body=None, **headers):
        """One request on a connection of its own. Returns an Answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            if body is not None and "Content-Type" not in headers:
                headers["Content-Type"] = "application/json"
            if isinstance(body, dict):
                body = json.dumps(body)
            connection.request(method, path, body, {k: v for k, v in headers.items() if v is not None})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def create(self, title="title", text="text"):
        answer = self.ask("POST", "/notes", {"title": title, "text": text})
        assert answer.status == 201, (answer.status, answer.body, title)
        return answer.json()

    def list(self, before=None):
        return self.ask("GET", "/notes" + (f"?before={before}" if before else "")).json()

    def begin(self, title):
        """A request to create a note that the program is handling: it has asked for the body, which is sent."""
        return Begun(self.port, json.dumps({"title": title, "text": ""}).encode())


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        assert self.headers["Content-Type"] == "application/json", (self.status, self.body)
        return json.loads(self.body)


class Begun:
    """A request whose answer has not been read."""

    def __init__(self, port, body):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.sendall(b"POST /notes HTTP/1.1\r\nHost: notes\r\nExpect: 100-continue\r\n"
                            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        told = b""
        while not told.endswith(b"\r\n\r\n"):
            part = self.socket.recv(1)
            assert part, told
            told += part
        assert told.startswith(b"HTTP/1.1 100 "), told
        self.socket.sendall(body)

    def answer(self):
        response = http.client.HTTPResponse(self.socket, method="POST")
        response.begin()
        answer = Answer(response)
        self.socket.close()
        return answer

    def reset(self):
        """Hangs up, so that the other side sees it at once."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def at_once(count, work):
    """Runs work(i) in so many threads. Returns what they have returned."""
    results = [None] * count

    def run(i):
        results[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# ---- the databases ----


class SQLite:
    """A file in a folder of its own."""

    ends_queries = False  # when it goes

    def __enter__(self):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk takes its time for each commit
        self.folder = tempfile.mkdtemp(prefix="notes-", dir=memory)
        self.place = os.path.join(self.folder, "place")
        self.file = os.path.join(self.place, "notes.db")
        os.mkdir(self.place)
        return self

    def __exit__(self, kind, value, traceback):
        shutil.rmtree(self.folder)

    @staticmethod
    def is_there():
        return True  # python has it

    def stop(self):
        os.rename(self.place, self.place + " that is not mounted")

    def start(self):
        shutil.copytree(self.place + " that is not mounted", self.place)  # as from a backup: it is another file
        shutil.rmtree(self.place + " that is not mounted")

    def options(self):
        return ["--db", self.file]

    def reset(self):
        """Nothing is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.file)

    def unreachable(self):
        return ["--db", os.path.join(self.folder, "missing", "notes.db")]

    def execute(self, statement):
        """Rows as tuples of strings."""
        connection = sqlite3.connect(self.file, timeout=PATIENCE)
        try:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return [tuple(str(value) for value in row) for row in rows]
        finally:
            connection.close()

    @contextlib.contextmanager
    def locked(self):
        """Nobody else reads or writes."""
        connection = sqlite3.connect(self.file, timeout=PATIENCE, isolation_level=None)
        try:
            connection.execute("begin exclusive")
            yield
            connection.execute("rollback")
        finally:
            connection.close()

    def wait_for_queries(self, count):
        """SQLite does not tell who waits."""

    def connections(self):
        return 0


class Postgres:
    """A server of its own, as tests/clients/servers makes it."""

    ends_queries = True

    def __init__(self):
        sys.dont_write_bytecode = True
        loader = importlib.machinery.SourceFileLoader("servers", os.path.join(HERE, "../../clients/servers"))
        spec = importlib.util.spec_from_loader("servers", loader)
        self.module = importlib.util.module_from_spec(spec)
        loader.exec_module(self.module)
        self.psql = self.module.find("psql")
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def wait_for(self, work):
        return self.loop.run_until_complete(asyncio.wait_for(work, PATIENCE))

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="notes-")
        self.servers = self.module.Servers(self.folder)
        self.port = self.wait_for(self.servers.postgres()).get("WEFT_POSTGRES_PORT")
        self.where = f"host=127.0.0.1 port={self.port} user=weft dbname=postgres"
        return self

    def __exit__(self, kind, value, traceback):
        self.wait_for(self.servers.stop())
        self.loop.close()
        shutil.rmtree(self.folder)

    def is_there(self):
        return bool(self.psql and self.port)

    def stop(self):
        process = self.servers.running.pop()[0]
        process.send_signal(signal.SIGINT)  # it ends its connections, and ends in order
        self.wait_for(process.wait())

    def start(self):
        self.wait_for(self.servers.serve(*self.servers.postgres_command))

    def options(self):
        return ["--postgres", self.where + " application_name=notes"]

    def reset(self):
        self.execute("drop table if exists notes")

    def unreachable(self):
        return ["--postgres", "host=127.0.0.1 port=1 user=weft password=secret"]

    def execute(self, statement):
        done = subprocess.run([self.psql, "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", self.where,
                               "-c", statement], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    @contextlib.contextmanager
    def locked(self):
        with subprocess.Popen([self.psql, "-X", "-q", "-A", "-t", "-d", self.where], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as psql:
            psql.stdin.write("begin; lock table notes; select 'locked';\n")
            psql.stdin.flush()
            assert psql.stdout.readline() == "locked\n"
            try:
                yield
            finally:
                psql.stdin.close()  # it rolls back, and ends

    def wait_for_queries(self, count):
        """Waits until so many statements of the program are at work, or wait for a lock, in the server."""
        query = "select count(*) from pg_stat_activity where application_name = 'notes' and state = 'active'"
        wait(lambda: self.execute(query) == [(str(count),)], f"{count} statements")

    def connections(self):
        return int(self.execute("select count(*) from pg_stat_activity where application_name = 'notes'")[0][0])

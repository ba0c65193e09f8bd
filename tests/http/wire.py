"""A connection to an HTTP/1.1 server as bytes, and a strict reader of answers. See must.py and odd.py, which use it.

What a server sends must match the grammar of RFC 9112: anything else is an error (Wrong), not something to be guessed at.
"""
import re
import socket

PATIENCE = 60  # seconds: what has not come by then never will
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9]) ([\t -~\x80-\xff]*)")
FIELD_LINE = re.compile(rb"(" + TOKEN + rb"):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")


class Wrong(Exception):
    """The server has sent something that it must not."""


class Answer:
    """One answer: `head` are its bytes up to the empty line, `fields` pairs of a name in lower case and a value."""

    def __init__(self, head):
        self.head = head
        lines = head.split(b"\r\n")
        match = STATUS_LINE.fullmatch(lines[0])
        if not match:
            raise Wrong(f"status line {lines[0]!r}")
        self.minor = int(match[1])
        self.status = int(match[2])
        self.reason = match[3].decode("latin-1")
        self.fields = []
        for line in lines[1:]:
            match = FIELD_LINE.fullmatch(line)
            if not match:
                raise Wrong(f"field line {line!r}")
            self.fields.append((match[1].decode().lower(), match[2].decode("latin-1")))
        self.body = b""
        self.framing = "none"  # or "length", "chunks", "close"

    def all(self, name):
        return [value for field, value in self.fields if field == name.lower()]

    def get(self, name):
        """The value of a field that is there at most once; None: it is not there."""
        values = self.all(name)
        if len(values) > 1:
            raise Wrong(f"{name} is there {len(values)} times")
        return values[0] if values else None

    def text(self):
        return self.body.decode("latin-1")


class Connection:
    """To 127.0.0.1. `with Connection(port) as c:`"""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.bytes = b""
        self.has_ended = self.was_reset = False

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.socket.close()

    def send(self, *parts):
        """A server that has closed already may refuse what still comes: that is no error here."""
        try:
            self.socket.sendall(b"".join(part if isinstance(part, bytes) else part.encode("latin-1") for part in parts))
        except (BrokenPipeError, ConnectionResetError):
            self.was_reset = True
        return self

    def end(self):
        """Ends the sending half."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.was_reset = True
        return self

    def more(self):
        """Reads more. False: the server has ended."""
        if not self.has_ended:
            try:
                got = self.socket.recv(1 << 16)
            except ConnectionResetError:
                self.was_reset = True
                got = b""
            self.bytes += got
            self.has_ended = not got
        return not self.has_ended

    def take(self, count):
        while len(self.bytes) < count:
            if not self.more():
                raise Wrong(f"the server ended after {len(self.bytes)} of {count} bytes")
        taken, self.bytes = self.bytes[:count], self.bytes[count:]
        return taken

    def line(self):
        """A line without its CR LF."""
        while b"\r\n" not in self.bytes:
            if not self.more():
                raise Wrong("the server ended inside a line")
        line, self.bytes = self.bytes.split(b"\r\n", 1)
        return line

    def chunks(self):
        body = b""
        while True:
            size = self.line()
            if not re.fullmatch(rb"[0-9A-Fa-f]+", size):
                raise Wrong(f"chunk size {size!r}")
            body += self.take(int(size, 16))
            if self.take(2) != b"\r\n":
                raise Wrong("no CR LF behind a chunk")
            if int(size, 16) == 0:
                return body

    def frame(self, answer, method):
        """Sets the answer's framing and reads its body."""
        length, coding = answer.get("Content-Length"), answer.get("Transfer-Encoding")
        if length is not None and coding is not None:
            raise Wrong("Content-Length beside Transfer-Encoding")
        if answer.status < 200 or answer.status in (204, 304) or method == "HEAD":
            return
        if coding is not None:
            if coding != "chunked":
                raise Wrong(f"transfer coding {coding!r}")
            answer.framing, answer.body = "chunks", self.chunks()
        elif length is not None:
            if not re.fullmatch("[0-9]+", length):
                raise Wrong(f"Content-Length {length!r}")
            answer.framing, answer.body = "length", self.take(int(length))
        else:
            answer.framing = "close"
            while self.more():
                pass
            answer.body, self.bytes = self.bytes, b""

    def answer(self, method="GET"):
        """The next answer, to a request of this method. An interim answer is one of its own."""
        while b"\r\n\r\n" not in self.bytes:
            if not self.more():
                raise Wrong(f"the server ended instead of an answer, with {self.bytes[:200]!r}")
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        answer = Answer(head)
        self.frame(answer, method)
        return answer

    def rest(self):
        """All that comes until the server ends."""
        while self.more():
            pass
        rest, self.bytes = self.bytes, b""
        return rest

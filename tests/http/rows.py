"""The rows of the first table of docs/http-conformance.md: tests/http/requirements/*.py declare them, must.py runs them.

    @row("9112 5.1", "MUST", "A request with white space before a field's colon is refused with 400.")
    def a_space_before_a_colon_is_400(s):
        refused(s, ...)

A row is the section, the level (LEVELS), what it requires of a server in our own words, and the test: it
sends bytes to the server `s` and looks at the bytes that come back. `by` says who fulfils the row: weft; or the program's
handler, and then the test shows that the API makes it possible. `stricter` says what weft does beyond the row; if it begins
with "otherwise", it says what weft does instead.
"""
from wire import Connection, Wrong

ROWS = []
LEVELS = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "defined")  # "defined": the text says so without a key word


class Row:
    def __init__(self, section, level, text, by, stricter, test):
        self.section, self.level, self.text, self.by, self.stricter, self.test = section, level, text, by, stricter, test
        self.name = test.__name__


def row(section, level, text, by="weft", stricter=""):
    assert level in LEVELS and by in ("weft", "handler")

    def declare(test):
        assert all(test.__name__ != other.name for other in ROWS), test.__name__
        ROWS.append(Row(section, level, text, by, stricter, test))
        return test

    return declare


# What tests say.


def request(method, target, *fields, host="a", version="1.1", body=None):
    """The bytes of a request; `host` None: without Host. A body brings its Content-Length."""
    lines = [f"{method} {target} HTTP/{version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    lines += fields
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def chunked(*chunks, trailer=b""):
    """A chunked body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n" + trailer + b"\r\n"


def ask_raw(s, raw, method="GET"):
    """The answer to these bytes, sent on a connection of their own."""
    with Connection(s.port) as c:
        return c.send(raw).answer(method)


def ask(s, method, target, *fields, **more):
    return ask_raw(s, request(method, target, *fields, **more), method)


def same(is_there, wanted, what=""):
    if is_there != wanted:
        raise Wrong(f"{what} {is_there!r}, not {wanted!r}")


def holds(condition, what):
    if not condition:
        raise Wrong(what)


def status(answer, wanted):
    same((answer.minor, answer.status), (1, wanted), "minor version and status")
    return answer


def refused(s, raw, wanted=400, method="GET"):
    """These bytes get an answer of this status that says "close", and then the end, though a good request follows them."""
    with Connection(s.port) as c:
        c.send(raw, request("GET", "/probe"))
        answer = status(c.answer(method), wanted)
        same(answer.get("Connection"), "close", "Connection")
        same(c.rest(), b"", "behind the last answer")
    return answer


def is_kept(c):
    """The connection takes another request."""
    same(c.send(request("GET", "/probe")).answer().text(), "probe\n")


def is_closed(c):
    """The server ends the connection and sends nothing more."""
    same(c.rest(), b"", "behind the last answer")


def sees(s, *fields, target="/show", **more):
    """What the handler of /show sees of a request: its lines."""
    return status(ask(s, "GET", target, *fields, **more), 200).text().split("\n")[:-1]

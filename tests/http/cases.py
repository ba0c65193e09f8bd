"""The odd requests of the second table of docs/http-conformance.md: tests/http/odd_requests/*.py declare them, odd.py sends them.

    odd("two equal Content-Lengths", post("Content-Length: 2", "Content-Length: 2", body=b"hi"),
        "weft and nginx refuse what servers may understand differently; Go takes equal lengths for one.")

A case has a name, the bytes that are sent, and, if the servers differ, a sentence that says why. What each server did is
in odd_requests/outcomes.txt.
"""
GROUPS = []  # pairs of a title and its cases


class Case:
    def __init__(self, name, raw, why, is_cut, methods):
        self.name, self.raw, self.why, self.is_cut, self.methods = name, raw, why, is_cut, methods


def group(title):
    GROUPS.append((title, []))


def odd(name, raw, why="", cut=False, methods=()):
    """`cut`: the request is not complete, and nothing follows it. `methods`: of the requests, if they are not GET or POST."""
    assert all(case.name != name for _, cases in GROUPS for case in cases), name
    GROUPS[-1][1].append(Case(name, raw, why, cut, methods))


def to_bytes(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


def line(request_line, *fields, host="a", body=b""):
    """A request with this request line."""
    lines = [request_line] + ([] if host is None else [f"Host: {host}"]) + list(fields)
    return b"".join(to_bytes(part) + b"\r\n" for part in lines) + b"\r\n" + body


def get(*fields, target="/", version="1.1", host="a"):
    return line(f"GET {target} HTTP/{version}", *fields, host=host)


def post(*fields, body=b"", version="1.1", target="/echo"):
    """A POST whose fields say how long its body is."""
    return line(f"POST {target} HTTP/{version}", *fields, body=body)


def chunks(body, *fields):
    """A POST with Transfer-Encoding: chunked and these bytes as its body."""
    return post("Transfer-Encoding: chunked", *fields, body=body)

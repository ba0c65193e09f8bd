"""Odd methods, conditions, ranges, pipelines, and bytes of other protocols."""
from cases import get, group, line, odd, post

FILE = "/files/file.txt"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


def file(*fields):
    return get(*fields, target=FILE)


group("Methods")
odd("HEAD", line("HEAD / HTTP/1.1"), methods=("HEAD",))
odd("HEAD of what is not there", line("HEAD /none HTTP/1.1"), methods=("HEAD",))
odd("get in lower case", line("get / HTTP/1.1"),
    why="A method may have any character of a token; nginx accepts only capital letters, dash and underscore.")
odd("a method that nobody knows", line("BREW / HTTP/1.1"))
odd("a method of 40 letters", line("A" * 40 + " / HTTP/1.1"),
    why="A method that is longer than all known methods should get 501 (RFC 9112, 3); nginx and Go say 405.")
odd("a method of 5,000 letters", line("A" * 5000 + " / HTTP/1.1"),
    why="A method that is longer than all known methods should get 501 (RFC 9112, 3); nginx and Go say 405.")
odd("a method with a digit and a dash", line("M-1 / HTTP/1.1"),
    why="A method may have any character of a token; nginx accepts only capital letters, dash and underscore.")
odd("a method with a colon", line("GE:T / HTTP/1.1"))
odd("a method with octets above ASCII", line("G\xc9T / HTTP/1.1"))
odd("TRACE", line("TRACE / HTTP/1.1"),
    why="nginx closes after it has refused TRACE.")
odd("CONNECT to a host and port", line("CONNECT a:80 HTTP/1.1"),
    why="weft makes no tunnels and says 501, then closes, because what follows may be meant for the tunnel; nginx "
        "says 400, and Go looks for a handler.")
odd("CONNECT to a path", line("CONNECT / HTTP/1.1"),
    why="CONNECT takes a host and a port, so this target is malformed; the others say 405, as to any method that the "
        "path does not have.")
odd("CONNECT without a port", line("CONNECT a HTTP/1.1"),
    why="CONNECT must name a port; Go does not check that.")
odd("OPTIONS of a path", line("OPTIONS / HTTP/1.1"),
    why="weft answers OPTIONS of a path by itself; the others have no handler for it.")
odd("DELETE", line("DELETE / HTTP/1.1"))
odd("PUT of a file", line("PUT " + FILE + " HTTP/1.1", "Content-Length: 2", body=b"hi"))
odd("POST of a file", line("POST " + FILE + " HTTP/1.1", "Content-Length: 2", body=b"hi"))
odd("GET of what takes POST", get(target="/echo"))
odd("X-HTTP-Method-Override", get("X-HTTP-Method-Override: POST", target="/echo"))

group("Conditions and ranges of a file")
odd("If-Modified-Since its date", file(f"If-Modified-Since: {DATE}"))
odd("If-Modified-Since its date, as RFC 850 writes it", file("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"))
odd("If-Modified-Since its date, as asctime writes it", file("If-Modified-Since: Sun Nov  6 08:49:37 1994"))
odd("If-Modified-Since a later date", file("If-Modified-Since: Mon, 07 Nov 1994 08:49:37 GMT"),
    why="The file is not modified since a later date either; nginx compares for equality unless it is configured "
        "otherwise.")
odd("If-Modified-Since the future", file("If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"),
    why="The file is not modified since a later date either; nginx compares for equality unless it is configured "
        "otherwise.")
odd("If-Modified-Since with a wrong day of the week", file("If-Modified-Since: Mon, 06 Nov 1994 08:49:37 GMT"))
odd("If-Modified-Since in another time zone", file("If-Modified-Since: Sun, 06 Nov 1994 09:49:37 CET"))
odd("If-Modified-Since that is no date", file("If-Modified-Since: yesterday"))
odd("If-Modified-Since twice", file(f"If-Modified-Since: {DATE}", f"If-Modified-Since: {DATE}"),
    why="A repeated date must be ignored (RFC 9110, 13.1.3); nginx refuses it, and Go takes the first date.")
odd("If-Unmodified-Since its date", file(f"If-Unmodified-Since: {DATE}"))
odd("If-Unmodified-Since an earlier date", file("If-Unmodified-Since: Sat, 05 Nov 1994 08:49:37 GMT"),
    why="nginx closes after a 412.")
odd("If-Match of another tag", file('If-Match: "a"'),
    why="nginx closes after a 412.")
odd("If-Match: *", file("If-Match: *"))
odd("If-Match without quotes", file("If-Match: a"),
    why="nginx closes after a 412.")
odd("If-None-Match of another tag", file('If-None-Match: "a"'))
odd("If-None-Match: *", file("If-None-Match: *"))
odd("If-None-Match beside If-Modified-Since", file('If-None-Match: "a"', f"If-Modified-Since: {DATE}"))
odd("If-Match of another tag, where there is no file", get('If-Match: "a"', target="/files/none.txt"))
odd("a range", file("Range: bytes=2-4"))
odd("a range to the end", file("Range: bytes=8-"))
odd("a range beyond the end", file("Range: bytes=8-99"))
odd("a range of the last bytes", file("Range: bytes=-3"))
odd("a range of more last bytes than there are", file("Range: bytes=-99"))
odd("a range of no last bytes", file("Range: bytes=-0"),
    why="The request asks for no byte, which cannot be satisfied; Go answers with an empty part.")
odd("a range behind the end", file("Range: bytes=10-"))
odd("a range that runs backwards", file("Range: bytes=4-2"),
    why="A malformed Range may be ignored, as weft does, or get 416.")
odd("a range of letters", file("Range: bytes=a-b"),
    why="A malformed Range may be ignored, as weft does, or get 416.")
odd("a range without numbers", file("Range: bytes=-"),
    why="A malformed Range may be ignored, as weft does, or get 416.")
odd("a range of another unit", file("Range: lines=0-1"),
    why="A unit that is not known must be ignored (RFC 9110, 14.2); Go says 416.")
odd("a range in upper case", file("Range: BYTES=0-1"),
    why="Names of units have no case, but Go compares them with case.")
odd("a range with spaces", file("Range: bytes = 0 - 1"),
    why="A malformed Range may be ignored, as weft and nginx do, or get 416.")
odd("a range of 2^64", file("Range: bytes=18446744073709551616-"))
odd("two ranges", file("Range: bytes=0-1,4-5"),
    why="A server may send the whole file for several ranges, and weft does; the others send several parts.")
odd("two ranges that overlap", file("Range: bytes=0-5,3-8"))
odd("200 ranges", file("Range: bytes=" + ",".join(["0-0"] * 200)))
odd("Range twice", file("Range: bytes=0-1", "Range: bytes=4-5"),
    why="Range must not be repeated; weft ignores both, nginx and Go take the first.")
odd("a range of HEAD", line("HEAD " + FILE + " HTTP/1.1", "Range: bytes=0-1"), methods=("HEAD",),
    why="Range means nothing with HEAD and must be ignored (RFC 9110, 14.2); the others answer as for GET.")
odd("a range with If-Range of another tag", file("Range: bytes=0-1", 'If-Range: "a"'))
odd("a range with If-Range of its date", file("Range: bytes=0-1", f"If-Range: {DATE}"))
odd("a range with If-Range of a later date", file("Range: bytes=0-1", "If-Range: Mon, 07 Nov 1994 08:49:37 GMT"))
odd("a range of what has none", get("Range: bytes=0-1"))

group("Pipelines and other protocols")
odd("ten requests at once", get() * 10)
odd("three posts at once", post("Content-Length: 2", body=b"hi") * 3)
odd("an empty line between two requests", get() + b"\r\n" + get(),
    why="Go accepts no empty line before a request, not even after another request.")
odd("a line of spaces between two requests", get() + b"  \r\n" + get())
odd("HEAD, then GET", line("HEAD / HTTP/1.1") + get(), methods=("HEAD", "GET"))
odd("a NUL between two requests", get() + b"\0" + get())
odd("the beginning of TLS", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
odd("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    why="weft answers that it does not have this version; nginx and Go answer that the request is malformed.")
odd("a message of SIP", b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/TCP c\r\n\r\n")
odd("a message of RTSP", b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
odd("a command of SMTP", b"EHLO a\r\n", cut=True)
odd("a command of Redis", b"*1\r\n$4\r\nPING\r\n")
odd("an answer instead of a request", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
odd("a header of the PROXY protocol", b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + get())
odd("the same, version 2", b"\r\n\r\n\0\r\nQUIT\n \x00\x00\x00" + get())
odd("a thousand zero bytes", b"\0" * 1000)
odd("a thousand letters", b"A" * 1000, cut=True,
    why="weft knows no method of more than 32 letters, so it does not wait for the rest; Go answers the cut request "
        "with 400, and nginx closes.")
odd("UTF-16", "GET / HTTP/1.1\r\nHost: a\r\n\r\n".encode("utf-16"))
odd("UTF-8 with a byte order mark", b"\xef\xbb\xbf" + get())

"""Odd request lines, line ends and versions."""
from cases import get, group, line, odd

group("Request lines and line ends")
odd("one empty line before the request", b"\r\n" + get(),
    why="A server should ignore at least one empty line; weft takes one and no more, nginx any number, and Go none.")
odd("two empty lines before the request", b"\r\n\r\n" + get(),
    why="A server should ignore at least one empty line; weft takes one and no more, nginx any number, and Go none.")
odd("a bare LF before the request", b"\n" + get(),
    why="A server may accept LF alone as a line end; weft does not, because servers that disagree about line ends "
        "can be tricked.")
odd("a bare CR before the request", b"\r" + get(),
    why="nginx skips each CR and LF before a request; weft skips one CR LF, and Go nothing.")
odd("a space before the request", b" " + get())
odd("every line ends with LF alone", get().replace(b"\r\n", b"\n"),
    why="A server may accept LF alone as a line end; weft does not, because servers that disagree about line ends "
        "can be tricked.")
odd("the request line ends with LF alone", get().replace(b"\r\n", b"\n", 1),
    why="A server may accept LF alone as a line end; weft does not, because servers that disagree about line ends "
        "can be tricked.")
odd("one field ends with LF alone", b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    why="A server may accept LF alone as a line end; weft does not, because servers that disagree about line ends "
        "can be tricked.")
odd("the head ends with LF alone", b"GET / HTTP/1.1\r\nHost: a\r\n\n",
    why="A server may accept LF alone as a line end; weft does not, because servers that disagree about line ends "
        "can be tricked.")
odd("the head ends with LF CR LF", b"GET / HTTP/1.1\r\nHost: a\n\r\n",
    why="A server may accept LF alone as a line end; weft does not, because servers that disagree about line ends "
        "can be tricked.")
odd("lines end with CR alone", get().replace(b"\r\n", b"\r"))
odd("lines end with CR CR LF", b"GET / HTTP/1.1\r\r\nHost: a\r\r\n\r\r\n")
odd("lines end with LF CR", b"GET / HTTP/1.1\n\rHost: a\n\r\n\r")
odd("a CR inside the request line", b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n")
odd("two spaces before the target", line("GET  / HTTP/1.1"),
    why="nginx accepts extra spaces in a request line; the grammar has exactly one space between two words.")
odd("two spaces before the version", line("GET /  HTTP/1.1"),
    why="nginx accepts extra spaces in a request line; the grammar has exactly one space between two words.")
odd("a space behind the version", line("GET / HTTP/1.1 "),
    why="nginx accepts extra spaces in a request line; the grammar has exactly one space between two words.")
odd("a TAB before the target", line("GET\t/ HTTP/1.1"))
odd("a TAB before the version", line("GET /\tHTTP/1.1"))
odd("a vertical TAB before the target", line("GET\x0b/ HTTP/1.1"))
odd("a form feed before the version", line("GET /\x0cHTTP/1.1"))
odd("no target", line("GET HTTP/1.1"))
odd("no target, but its spaces", line("GET  HTTP/1.1"))
odd("no method", line("/ HTTP/1.1"))
odd("an empty method", line(" / HTTP/1.1"))
odd("four words", line("GET / x HTTP/1.1"))
odd("a NUL in the request line", line("GET /\0 HTTP/1.1"))
odd("nothing but an empty line", b"\r\n", cut=True,
    why="Go answers 400 to a head that is cut; weft and nginx close, because no request has come yet.")
odd("nothing at all", b"", cut=True)
odd("half a request line", b"GET /", cut=True,
    why="Go answers 400 to a head that is cut; weft and nginx close, because no request has come yet.")
odd("half a head", b"GET / HTTP/1.1\r\nHost: a\r\n", cut=True,
    why="Go answers 400 to a head that is cut; weft and nginx close, because no request has come yet.")
odd("a head without its last LF", b"GET / HTTP/1.1\r\nHost: a\r\n\r", cut=True,
    why="Go answers 400 to a head that is cut; weft and nginx close, because no request has come yet.")

group("Versions")
odd("HTTP/1.0", get(version="1.0"))
odd("HTTP/1.0 without Host", get(version="1.0", host=None))
odd("HTTP/1.0 that says keep-alive", get("Connection: keep-alive", version="1.0"))
odd("HTTP/1.0 that says Keep-Alive in a field of its own", get("Keep-Alive: 300", version="1.0"))
odd("HTTP/1.2", get(version="1.2"),
    why="weft refuses minor versions that do not exist; the others handle them as 1.1, as RFC 9110 suggests.")
odd("HTTP/1.9", get(version="1.9"),
    why="weft refuses minor versions that do not exist; the others handle them as 1.1, as RFC 9110 suggests.")
odd("HTTP/2.0", get(version="2.0"))
odd("HTTP/0.9 with a version", get(version="0.9"),
    why="A version below 1.0 is another version, so weft and Go say 505; nginx says 400.")
odd("HTTP/0.9 without one", b"GET /\r\n",
    why="nginx still speaks HTTP/0.9, whose answers have no head; weft and Go do not.")
odd("HTTP/0.9, with fields", b"GET /\r\nHost: a\r\n\r\n",
    why="nginx still speaks HTTP/0.9, whose answers have no head; weft and Go do not.")
odd("HTTP/3", get(version="3"),
    why="The grammar has one digit, a dot and one digit; nginx reads as many digits as there are, or none.")
odd("HTTP/1", get(version="1"))
odd("HTTP/1.", get(version="1."))
odd("HTTP/1.01", get(version="1.01"),
    why="The grammar has one digit, a dot and one digit; nginx reads as many digits as there are, or none.")
odd("HTTP/01.1", get(version="01.1"))
odd("HTTP/1.10", get(version="1.10"),
    why="The grammar has one digit, a dot and one digit; nginx reads as many digits as there are, or none.")
odd("HTTP/11.1", get(version="11.1"),
    why="The grammar has one digit, a dot and one digit; nginx reads as many digits as there are, or none.")
odd("HTTP/1,1", get(version="1,1"))
odd("http/1.1 in lower case", line("GET / http/1.1"))
odd("HTTPS/1.1", line("GET / HTTPS/1.1"))
odd("ICY/1.1", line("GET / ICY/1.1"))
odd("HTTP /1.1", line("GET / HTTP /1.1"))
odd("HTTP/1.1 with a text behind it", line("GET / HTTP/1.1x"))

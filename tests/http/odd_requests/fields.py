"""Odd fields, connections and expectations."""
from cases import get, group, line, odd, post

group("Fields")
odd("a field folded by a space", get("X: a\r\n b"),
    why="A server must refuse a folded field, or replace the fold by spaces; weft and nginx refuse it, and Go "
        "replaces it.")
odd("a field folded by a TAB", get("X: a\r\n\tb"),
    why="A server must refuse a folded field, or replace the fold by spaces; weft and nginx refuse it, and Go "
        "replaces it.")
odd("a Host folded in two", b"GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n",
    why="A server must refuse a folded field, or replace the fold by spaces; weft and nginx refuse it, and Go "
        "replaces it.")
odd("a space before the first field", b"GET / HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n")
odd("a space before a colon", get("X : a"))
odd("a TAB before a colon", get("X\t: a"))
odd("a space inside a name", get("X Y: a"))
odd("an empty name", get(": a"),
    why="A field must have a name; Go accepts a line that begins with a colon.")
odd("a field without a colon", get("X"),
    why="A field must have a colon; nginx ignores a line without one.")
odd("a field without a value", get("X:"))
odd("a name with a slash", get("X/Y: a"),
    why="A name cannot have this byte; nginx ignores a field with such a name.")
odd("a name with an underscore", get("X_Y: a"))
odd("a name with octets above ASCII", get("X\xe9: a"),
    why="A name cannot have this byte; nginx ignores a field with such a name.")
odd("a name with parentheses", get("X(Y): a"),
    why="A name cannot have this byte; nginx ignores a field with such a name.")
odd("a name with a NUL", get("X\0: a"))
odd("a value with a NUL", get("X: a\0b"))
odd("a value with a CR", get("X: a\rb"))
odd("a value with a control character", get("X: a\x01b"),
    why="A value has no control characters but TAB; nginx refuses NUL, CR and LF only.")
odd("a value with a DEL", get("X: a\x7fb"),
    why="A value has no control characters but TAB; nginx refuses NUL, CR and LF only.")
odd("a value with octets above ASCII", get("X: \xe9\xff"))
odd("a value with a TAB", get("X: a\tb"))
odd("a value with a vertical TAB before it", get("X:\x0ba"),
    why="A value has no control characters but TAB; nginx refuses NUL, CR and LF only.")
odd("a value of 8,000 bytes", get("X: " + "a" * 8000))
odd("a value of 40,000 bytes", get("X: " + "a" * 40000),
    why="431 is the status for fields that are too large; nginx has its own status for this, 494, and sends it as "
        "400.")
odd("90 fields", get(*(f"X-{i}: a" for i in range(90))))
odd("150 fields", get(*(f"X-{i}: a" for i in range(150))),
    why="weft takes at most 100 fields by default; nginx and Go do not limit the number.")
odd("a cookie in two fields", get("Cookie: a=b", "Cookie: c=d"))
odd("fields of an answer", get("Date: x", "ETag: x", "Location: x"))

group("Connections and expectations")
odd("Connection: close", get("Connection: close"))
odd("Connection: close among others", get("Connection: keep-alive, close"))
odd("Connection: close in a second field", get("Connection: keep-alive", "Connection: close"))
odd("Connection with empty elements", get("Connection: ,close, ,"))
odd("Connection with a malformed element", get("Connection: a b"),
    why="A connection option is a token, so weft refuses other text; nginx and Go only look for the words that they "
        "know.")
odd("Connection: host", get("Connection: host"))
odd("Connection: content-length, with a length", post("Connection: content-length", "Content-Length: 2", body=b"hi"))
odd("Proxy-Connection: close", get("Proxy-Connection: close"))
odd("Keep-Alive: timeout=0", get("Keep-Alive: timeout=0"))
odd("an upgrade to WebSocket", get("Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
odd("an upgrade to h2c", get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"))
odd("an upgrade to TLS", line("OPTIONS * HTTP/1.1", "Connection: upgrade", "Upgrade: TLS/1.0"),
    why="OPTIONS * is about the whole server; weft answers with Allow, Go with an empty answer, and nginx does not know "
        "this form.")
odd("100-continue, and the body with the head", post("Expect: 100-continue", "Content-Length: 2", body=b"hi"),
    why="The body has come with the head, so the client does not wait for 100, and weft does not send it; nginx and "
        "Go always send it.")
odd("100-continue without a body", post("Expect: 100-continue"),
    why="Without a body there is nothing to wait for, so weft and Go send no 100; nginx does.")
odd("100-continue with an empty body", post("Expect: 100-continue", "Content-Length: 0"),
    why="Without a body there is nothing to wait for, so weft and Go send no 100; nginx does.")
odd("100-continue of HTTP/1.0", post("Expect: 100-continue", "Content-Length: 2", body=b"hi", version="1.0"))
odd("100-continue of a GET", get("Expect: 100-continue"),
    why="Without a body there is nothing to wait for, so weft and Go send no 100; nginx does.")
odd("another expectation", post("Expect: 200-ok", "Content-Length: 2", body=b"hi"),
    why="A server may answer an expectation that it does not know with 417; nginx ignores it.")
odd("100-continue and another expectation", post("Expect: 100-continue, x", "Content-Length: 2", body=b"hi"),
    why="A server may answer an expectation that it does not know with 417; nginx ignores it, and Go only looks for "
        "100-continue.")
odd("an empty expectation", post("Expect:", "Content-Length: 2", body=b"hi"))

"""Odd framing: lengths, codings, chunks, and pairs of requests that servers may part differently."""
from cases import chunks, get, group, line, odd, post

HI = b"2\r\nhi\r\n0\r\n\r\n"
HIDDEN = b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n"  # its answer is a 404

group("Lengths")
odd("no length", post())
odd("length 0", post("Content-Length: 0"))
odd("two equal lengths", post("Content-Length: 2", "Content-Length: 2", body=b"hi"),
    why="Equal lengths may count as one, as in Go; weft and nginx refuse the request, because two lengths show that "
        "somebody has joined messages.")
odd("two lengths", post("Content-Length: 2", "Content-Length: 3", body=b"hi!"))
odd("two equal lengths in one field", post("Content-Length: 2, 2", body=b"hi"))
odd("two lengths in one field", post("Content-Length: 2, 3", body=b"hi!"))
odd("a length with a sign", post("Content-Length: +2", body=b"hi"))
odd("a negative length", post("Content-Length: -2", body=b"hi"))
odd("a hexadecimal length", post("Content-Length: 0x2", body=b"hi"))
odd("a length with a fraction", post("Content-Length: 2.0", body=b"hi"))
odd("a length with an exponent", post("Content-Length: 2e0", body=b"hi"))
odd("a length with leading zeros", post("Content-Length: 0002", body=b"hi"))
odd("a length with a space inside", post("Content-Length: 2 2", body=b"hi"))
odd("a length with a letter behind", post("Content-Length: 2a", body=b"hi"))
odd("an empty length", post("Content-Length:", body=b"hi"),
    why="An empty length is no number and must be refused; Go reads it as 0, and the body as a second request.")
odd("a length in quotes", post('Content-Length: "2"', body=b"hi"))
odd("a length of 2^64 + 2", post("Content-Length: 18446744073709551618", body=b"hi"))
odd("a length of 2^63", post("Content-Length: 9223372036854775808", body=b"hi"))
odd("a length of 2 MB", post("Content-Length: 2000000", body=b"hi"),
    why="The length is above the limit, so weft and nginx refuse it at once; Go's handler first reads the body, and "
        "finds that it is cut.")
odd("a length with a space before its colon", post("Content-Length : 2", body=b"hi"))
odd("a length with an underscore in its name", post("Content_Length: 2", body=b"hi"),
    why="All three read the bytes behind the request as the next request, with the method \"hiGET\"; nginx refuses "
        "methods with lower-case letters.")
odd("a body that is shorter than its length", post("Content-Length: 5", body=b"hi"), cut=True,
    why="A server may answer a request that is cut; weft and Go say 400, nginx closes.")
odd("a body that is longer than its length", post("Content-Length: 2", body=b"hi!!"),
    why="All three read the bytes behind the length as the next request, with the method \"!!GET\"; nginx refuses "
        "methods with such marks.")
odd("a GET with a body", line("GET / HTTP/1.1", "Content-Length: 2", body=b"hi"))
odd("a GET with a request as its body", line("GET / HTTP/1.1", f"Content-Length: {len(HIDDEN)}", body=HIDDEN))
odd("a refused POST with a request as its body", post(f"Content-Length: {len(HIDDEN)}", body=HIDDEN, target="/"))

group("Transfer codings")
odd("chunked", chunks(HI))
odd("CHUNKED", post("Transfer-Encoding: CHUNKED", body=HI))
odd("chunked twice in one field", post("Transfer-Encoding: chunked, chunked", body=HI),
    why="A request that applies chunked twice is invalid; the others answer as for an unknown coding.")
odd("chunked in two fields", post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=HI),
    why="weft and nginx refuse several Transfer-Encoding fields; Go refuses them as an unknown coding.")
odd("gzip, chunked", post("Transfer-Encoding: gzip, chunked", body=HI))
odd("chunked, gzip", post("Transfer-Encoding: chunked, gzip", body=HI),
    why="Without chunked at the end, the length of the body is not known, so the answer must be 400 (RFC 9112, 6.3); "
        "the others answer 501 to every coding but chunked.")
odd("gzip alone", post("Transfer-Encoding: gzip", body=HI),
    why="Without chunked at the end, the length of the body is not known, so the answer must be 400 (RFC 9112, 6.3); "
        "the others answer 501 to every coding but chunked.")
odd("identity", post("Transfer-Encoding: identity", body=HI),
    why="Without chunked at the end, the length of the body is not known, so the answer must be 400 (RFC 9112, 6.3); "
        "the others answer 501 to every coding but chunked.")
odd("identity, chunked", post("Transfer-Encoding: identity, chunked", body=HI))
odd("identity and chunked in two fields", post("Transfer-Encoding: identity", "Transfer-Encoding: chunked", body=HI),
    why="weft and nginx refuse several Transfer-Encoding fields; Go refuses them as an unknown coding.")
odd("an unknown coding", post("Transfer-Encoding: xchunked", body=HI),
    why="Without chunked at the end, the length of the body is not known, so the answer must be 400 (RFC 9112, 6.3); "
        "the others answer 501 to every coding but chunked.")
odd("an empty coding", post("Transfer-Encoding:", body=HI),
    why="Without chunked at the end, the length of the body is not known, so the answer must be 400 (RFC 9112, 6.3); "
        "the others answer 501 to every coding but chunked.")
odd("an empty element before chunked", post("Transfer-Encoding: ,chunked", body=HI),
    why="weft refuses a value that servers may read in two ways; the others answer 501 to every value but chunked.")
odd("chunked with a parameter", post("Transfer-Encoding: chunked;a=b", body=HI),
    why="weft refuses a value that servers may read in two ways; the others answer 501 to every value but chunked.")
odd("chunked in quotes", post('Transfer-Encoding: "chunked"', body=HI),
    why="Without chunked at the end, the length of the body is not known, so the answer must be 400 (RFC 9112, 6.3); "
        "the others answer 501 to every coding but chunked.")
odd("chunked behind a vertical TAB", post("Transfer-Encoding:\x0bchunked", body=HI),
    why="Without chunked at the end, the length of the body is not known, so the answer must be 400 (RFC 9112, 6.3); "
        "the others answer 501 to every coding but chunked.")
odd("chunked with a space before its colon", post("Transfer-Encoding : chunked", body=HI))
odd("chunked in HTTP/1.0", post("Transfer-Encoding: chunked", "Connection: keep-alive", body=HI, version="1.0"),
    why="HTTP/1.0 has no transfer codings: weft and nginx refuse the request; Go ignores the field, so the chunks "
        "become the next request.")
odd("chunked of a GET", line("GET / HTTP/1.1", "Transfer-Encoding: chunked", body=HI))

group("Smuggling")
odd("a length, then chunked", post("Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN),
    why="Requests with both fields are the classic smuggling attack; weft and nginx refuse them, and Go uses the "
        "coding, so the hidden request gets an answer.")
odd("chunked, then a length", post("Transfer-Encoding: chunked", "Content-Length: 3", body=b"0\r\n\r\n" + HIDDEN),
    why="Requests with both fields are the classic smuggling attack; weft and nginx refuse them, and Go uses the "
        "coding, so the hidden request gets an answer.")
odd("a length and a coding that is not known", post("Content-Length: 5", "Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    why="Such a coding makes the length unknown, so the answer must be 400; the others answer as for an unknown "
        "coding.")
odd("a length and a coding with a space before its colon", post("Content-Length: 5", "Transfer-Encoding : chunked", body=b"0\r\n\r\n"))
odd("a length and a folded coding", post("Content-Length: 5", "Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"),
    why="Go joins the folded lines and then uses the coding; weft and nginx refuse the fold.")
odd("a length and a coding behind a bare LF", post("Content-Length: 5", "X: a\nTransfer-Encoding: chunked", body=b"0\r\n\r\n"),
    why="Go accepts the LF as a line end and then uses the coding; weft refuses the LF, and nginx refuses the length "
        "beside the coding.")
odd("a length and a coding behind a bare CR", post("Content-Length: 5", "X: a\rTransfer-Encoding: chunked", body=b"0\r\n\r\n"))
odd("a length and a coding with a NUL", post("Content-Length: 5", "Transfer-Encoding: chunked\0", body=b"0\r\n\r\n"),
    why="weft and nginx refuse a NUL anywhere; Go answers as for an unknown coding.")
odd("a length of 0 that hides a request", post("Content-Length: 0", body=HIDDEN))
odd("a length before the first field, behind a space", b"POST /echo HTTP/1.1\r\n Content-Length: 2\r\nHost: a\r\n\r\nhi")
odd("a chunked body that hides a request behind its end", chunks(HI + HIDDEN))
odd("a chunk with a request inside", chunks(b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)))
odd("a chunk's size with a CR that hides its end", chunks(b"2\rX\r\nhi\r\n0\r\n\r\n"))
odd("a chunk extension with a bare LF that hides a chunk", chunks(b"2;a\nhi\r\n0\r\n\r\n"),
    why="A size line ends with CR LF; nginx and Go accept LF alone, which another server may read as part of an "
        "extension.")
odd("a request behind one that says close", get("Connection: close") + HIDDEN)
odd("a request behind one of HTTP/1.0", get(version="1.0") + HIDDEN)
odd("a request behind a malformed one", b"bad\r\n\r\n" + HIDDEN)
odd("a request behind one that is not found", get(target="/none") + HIDDEN)

group("Chunks")
odd("no chunks but the last", chunks(b"0\r\n\r\n"))
odd("a last chunk of many zeros", chunks(b"2\r\nhi\r\n0000\r\n\r\n"))
odd("sizes with leading zeros and of both cases", chunks(b"00a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"))
odd("a size of 17 digits", chunks(b"00000000000000002\r\nhi\r\n0\r\n\r\n"),
    why="weft and Go accept at most 16 digits; nginx does not count leading zeros.")
odd("a size that overflows to 2", chunks(b"10000000000000002\r\nhi\r\n0\r\n\r\n"))
odd("a size of 2^63", chunks(b"8000000000000000\r\nhi\r\n0\r\n\r\n"))
odd("an empty size", chunks(b"\r\nhi\r\n0\r\n\r\n"))
odd("a size with 0x", chunks(b"0x2\r\nhi\r\n0\r\n\r\n"))
odd("a size with a sign", chunks(b"+2\r\nhi\r\n0\r\n\r\n"))
odd("a negative size", chunks(b"-2\r\nhi\r\n0\r\n\r\n"))
odd("a size behind a space", chunks(b" 2\r\nhi\r\n0\r\n\r\n"))
odd("a size before a space", chunks(b"2 \r\nhi\r\n0\r\n\r\n"),
    why="No byte may stand between a size and its line end or extension; nginx and Go skip white space.")
odd("a size before a TAB", chunks(b"2\t\r\nhi\r\n0\r\n\r\n"),
    why="No byte may stand between a size and its line end or extension; nginx and Go skip white space.")
odd("a size with a letter that is no digit", chunks(b"2g\r\nhi\r\n0\r\n\r\n"))
odd("a size with an underscore", chunks(b"0_2\r\nhi\r\n0\r\n\r\n"))
odd("a size line that ends with LF alone", chunks(b"2\nhi\r\n0\r\n\r\n"),
    why="A size line ends with CR LF; nginx and Go accept LF alone, which another server may read as part of an "
        "extension.")
odd("a size line that ends with CR alone", chunks(b"2\rhi\r\n0\r\n\r\n"))
odd("a size line that ends with CR CR LF", chunks(b"2\r\r\nhi\r\n0\r\n\r\n"),
    why="Go removes white space from a size line, and counts a CR as white space.")
odd("data that ends with LF alone", chunks(b"2\r\nhi\n0\r\n\r\n"),
    why="Data ends with CR LF; nginx accepts LF alone here too.")
odd("data that ends with nothing", chunks(b"2\r\nhi0\r\n\r\n"))
odd("data that is longer than its size", chunks(b"2\r\nhi!\r\n0\r\n\r\n"))
odd("a last chunk whose line ends with LF alone", chunks(b"2\r\nhi\r\n0\n\r\n"),
    why="A size line ends with CR LF; nginx and Go accept LF alone, which another server may read as part of an "
        "extension.")
odd("a body that ends with LF alone", chunks(b"2\r\nhi\r\n0\r\n\n"),
    why="A size line ends with CR LF; nginx and Go accept LF alone, which another server may read as part of an "
        "extension.")
odd("an extension", chunks(b"2;a=b\r\nhi\r\n0\r\n\r\n"))
odd("an extension in quotes", chunks(b'2;a="b;c"\r\nhi\r\n0\r\n\r\n'))
odd("an extension in quotes that do not end", chunks(b'2;a="b\r\nhi\r\n0\r\n\r\n'),
    why="weft checks the grammar of extensions; nginx and Go skip to the end of the line.")
odd("an extension without a name", chunks(b"2;\r\nhi\r\n0\r\n\r\n"),
    why="weft checks the grammar of extensions; nginx and Go skip to the end of the line.")
odd("an extension behind a space", chunks(b"2 ;a\r\nhi\r\n0\r\n\r\n"),
    why="White space before an extension is an old error that weft and Go refuse; nginx skips it.")
odd("an extension with a NUL", chunks(b"2;a\0\r\nhi\r\n0\r\n\r\n"),
    why="weft checks the grammar of extensions; nginx and Go skip to the end of the line.")
odd("an extension of 300 bytes", chunks(b"2;" + b"a" * 300 + b"\r\nhi\r\n0\r\n\r\n"),
    why="weft takes size lines of at most 256 bytes; nginx and Go take longer ones.")
odd("extensions of 40,000 bytes together", chunks(b"1;aaaaaaaaaaaaaaaaaaa\r\nx\r\n" * 2000 + b"0\r\n\r\n"),
    why="weft takes at most 16 KiB of extensions in a body, so that no client can send frames without data for ever; "
        "these versions of nginx and Go have no such limit.")
odd("a trailer", chunks(b"2\r\nhi\r\n0\r\nX: a\r\n\r\n"))
odd("a trailer with a length", chunks(b"2\r\nhi\r\n0\r\nContent-Length: 5\r\n\r\n"),
    why="A trailer must not change how a message is framed or routed; weft refuses such a field, nginx and Go drop "
        "it.")
odd("a trailer with a Host", chunks(b"2\r\nhi\r\n0\r\nHost: b\r\n\r\n"),
    why="A trailer must not change how a message is framed or routed; weft refuses such a field, nginx and Go drop "
        "it.")
odd("a trailer without a colon", chunks(b"2\r\nhi\r\n0\r\nX\r\n\r\n"),
    why="A trailer consists of fields; nginx skips it without a check.")
odd("a trailer with a space before its colon", chunks(b"2\r\nhi\r\n0\r\nX : a\r\n\r\n"),
    why="A trailer has the grammar of a head, so weft refuses this; nginx and Go do not check it.")
odd("a folded trailer", chunks(b"2\r\nhi\r\n0\r\nX: a\r\n b\r\n\r\n"),
    why="A trailer has the grammar of a head, so weft refuses this; nginx and Go do not check it.")
odd("a trailer of 20,000 bytes", chunks(b"2\r\nhi\r\n0\r\nX: " + b"a" * 20000 + b"\r\n\r\n"),
    why="weft takes trailers of at most 8 KiB, and Go has a limit too; nginx skips any length.")
odd("chunks without the last one", chunks(b"2\r\nhi\r\n"), cut=True,
    why="A server may answer a request that is cut; weft and Go say 400, nginx closes.")
odd("a chunk that is cut", chunks(b"5\r\nhi"), cut=True,
    why="A server may answer a request that is cut; weft and Go say 400, nginx closes.")

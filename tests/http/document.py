#!/usr/bin/env python3
"""Makes docs/http-conformance.md from the rows in requirements/ and the odd requests in odd_requests/.

    document.py --check    0: the committed document is what would be written
    document.py --write    writes it
"""
import difflib
import os
import sys

sys.dont_write_bytecode = True

import must  # noqa: E402
import odd  # noqa: E402

PATH = os.path.join(must.HERE, "..", "..", "docs", "http-conformance.md")

INTRO = """# HTTP conformance

This document has two tables. The first one lists what RFC 9110 (HTTP semantics) and RFC 9112 (HTTP/1.1) require of an
origin server, with the test of each requirement. The second one lists odd requests, and what weft, nginx and Go's net/http
do with each of them.

`tests/http/document.py --write` makes this document from the tests: do not edit it. A test fails if the document is not
what the tests say.
"""

ROWS_INTRO = """
## Requirements

{count} rows: {must} with MUST or MUST NOT, {defined} that the RFC defines without such a word ("defined": grammar, case of names,
and so on), and {other} with SHOULD or MAY that matter to weft. Rules that are only for clients, proxies, gateways and caches
are left out.

The column "weft" says how weft answers:

- "yes": the server fulfils the requirement by itself.
- "the handler": the program that uses weft fulfils the requirement. The test shows that the API makes it possible.
- "stricter" or "otherwise": weft differs on purpose. Where the RFC allows a server to accept a malformed request, weft refuses
  it, because servers that disagree about a request can be tricked into serving one client's request to another client.

Each test is a function in `tests/http/requirements/`. It sends bytes to a real server (`tests/http/server.c`) over a
socket, and reads the answer with a strict parser.
"""

ODD_INTRO = """
## Odd requests

The tests send {count} requests to three servers with the same resources (`tests/http/server.c`, `tests/http/peers/`): "hello" at
`/`, an echo of POST at `/echo`, and a file at `/files/file.txt`. nginx and Go are those of Debian 12. To {same} requests all
three answer in the same way. To the other {differ} they do not, and a sentence says why.

A cell has the status of each answer, sometimes its body, and whether the connection is then "kept" or "closed". If a cell has
two final answers, the server has read the bytes as two requests. If a cell has neither "kept" nor "closed", the request is cut: the
client ends its sending half in the middle of the request. The bytes of each request are in `tests/http/odd_requests/`.
"""


def section_key(row):
    rfc, section = row.section.split()
    return int(rfc), [int(part) for part in section.split(".")]


def cell(text):
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def how(row):
    if row.by == "handler":
        return "the handler"
    return (row.stricter if row.stricter.startswith("otherwise") else "stricter: " + row.stricter) if row.stricter else "yes"


def requirements(rows):
    yield ROWS_INTRO.format(count=len(rows), must=sum(row.level in ("MUST", "MUST NOT") for row in rows),
                            defined=sum(row.level == "defined" for row in rows),
                            other=sum(row.level in ("SHOULD", "SHOULD NOT", "MAY") for row in rows))
    for rfc, title in (("9110", "RFC 9110, HTTP Semantics"), ("9112", "RFC 9112, HTTP/1.1")):
        yield f"\n### {title}\n\n| section | level | requirement | weft | test |\n|---|---|---|---|---|\n"
        for row in sorted((row for row in rows if row.section.startswith(rfc)), key=section_key):
            yield f"| {row.section.split()[1]} | {row.level} | {cell(row.text)} | {cell(how(row))} | `{row.name}` |\n"


def odd_requests(groups, outcomes):
    all_cases = [case for _, part in groups for case in part]
    differ = sum(bool(case.why) for case in all_cases)
    yield ODD_INTRO.format(count=len(all_cases), differ=differ, same=len(all_cases) - differ)
    for title, part in groups:
        yield f"\n### {title}\n\n| request | weft | nginx | Go | why they differ |\n|---|---|---|---|---|\n"
        for case in part:
            columns = [case.name, *(outcomes[case.name][server] for server in odd.SERVERS), case.why]
            yield "| " + " | ".join(cell(text) for text in columns) + " |\n"


def make():
    return INTRO + "".join(requirements(must.load())) + "".join(odd_requests(odd.load(), odd.read_outcomes()))


def check(wanted):
    with open(PATH, encoding="utf-8") as f:
        found = f.read()
    if found == wanted:
        return 0
    sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), "committed", "made"))
    print("docs/http-conformance.md is not what the tests say: run tests/http/document.py --write")
    return 1


def main():
    if sys.argv[1:] == ["--write"]:
        with open(PATH, "w", encoding="utf-8") as f:
            f.write(make())
        return 0
    if sys.argv[1:] == ["--check"]:
        return check(make())
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""examples/notes from outside, on one kind of database.

    check.py sqlite|postgres PROGRAM    ONLY=TEST in the environment: that test alone

Closes with "notes: N passed, N failed, N skipped".
"""
import os
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

from program import PATIENCE, Postgres, Program, SQLite, at_once, wait  # pylint: disable=wrong-import-position

NASTY = ["'; drop table notes; --", "' or '1'='1", "$1", "%s %n \\", '"', "\\'", "a\tb\r\nc", "/* */ --", "\x7f\x01",
         "<script>alert(1)</script>", "</title><img src=x onerror=alert(1)>", "&lt;&#39;", "{{7*7}}", "null", "0",
         "日本語 ελληνικά עברית", "👩‍👩‍👧 e\u0301", "\u202e\u2028\u2029\ufeff\ufffe", "\U0010ffff", " "]
NO_STRING = [b"null", b"true", b"1", b"1.5", b"[]", b'["a"]', b"{}", b"'a'", b"a", b'"a', b'"a" "b"', b'"\n"', b'"a\x00b"',
             b'"\\u0000"', b'"a\\u0000b"', b'"\\ud800"', b'"\\x"', b'"\xff"', b'"\xe4"', b'"\xc0\xaf"', b'"\xed\xa0\x80"',
             b'"\xf4\x90\x80\x80"', b'"\xf9\x88\x80\x80\x80"', b'"%s"' % (b"a" * 30001)]
NO_NOTE = [b'{"title":"a","text":%s}' % string for string in NO_STRING] + \
          [b'{"title":%s,"text":""}' % string for string in [*NO_STRING, b'""', '"{}"'.format("ä" * 301).encode()]] + \
          [b"", b" ", b"{", b"}", b"[]", b"null", b"true", b"1", b'"title"', b"[{}]", b"{}", b'{"title":"a"}', b'{"text":"a"}',
           b'{"title":"a","text":""}\x00', b'{"title":"a","text":""} x', b'{"title":"a","text":""}{}',
           b'{"title":"a","text":"",}', b"{'title':\"a\",\"text\":\"\"}",
           b'{title:"a","text":""}', b'/**/{"title":"a","text":""}', b'\xef\xbb\xbf{"title":"a","text":""}',
           '{"title":"a","text":""}'.encode("utf-16"), b'{"title":"a","text":"","title":"b"}', b'{"title":"a","text":"","more":' + b"[" * 30000, b'{"a":' * 13000,
           b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 60000]
DEEPEST = 2000  # what the JSON library still takes
NO_NUMBER = ["abc", "-1", "+1", "1.0", "0x1", "1e3", "1%20or%201=1", "1;", "%D9%A1", "1" * 19, "%20", "1%2F2"]


def notes_are_created_read_changed_and_deleted(program, database):
    made = program.ask("POST", "/notes", {"title": "milk", "text": "two litres\n", "version": "7", "id": "9"})
    note = made.json()
    assert made.status == 201 and made.headers["Location"] == f"/notes/{note['id']}" and made.headers["X-Request-Id"]
    assert note == {"id": note["id"], "title": "milk", "text": "two litres\n", "version": "1"}
    path = made.headers["Location"]
    assert program.ask("GET", path).json() == note
    head = program.ask("HEAD", path)
    assert head.status == 200 and head.body == b""
    changed = program.ask("PUT", path, {"title": "bread", "text": "", "version": "1"})
    assert changed.status == 200 and changed.json() == {**note, "title": "bread", "text": "", "version": "2"}
    assert program.ask("GET", path).json() == changed.json()
    assert database.execute("select title, version from notes") == [("bread", "2")]
    gone = program.ask("DELETE", path)
    assert gone.status == 204 and gone.body == b""
    assert [program.ask(method, path, body).status for method, body in
            (("GET", None), ("DELETE", None), ("PUT", {"title": "a", "text": "", "version": "2"}))] == [404] * 3
    assert program.create()["id"] != note["id"]  # a number is never given twice


def a_change_of_an_old_version_is_409_with_the_note_as_it_is(program, database):
    note = program.create()
    path = f"/notes/{note['id']}"
    new = program.ask("PUT", path, {**note, "text": "mine"}).json()
    late = program.ask("PUT", path, {**note, "text": "theirs"})
    assert late.status == 409 and late.json() == new == {**note, "text": "mine", "version": "2"}
    for version in (None, 2, ["2"], "2.0", "", "-2", "2 or 1=1", "9" * 19):
        assert program.ask("PUT", path, {"title": "a", "text": "b", "version": version}).status == 400, version
    assert program.ask("PUT", path, {"title": "a", "text": "b"}).status == 400
    assert program.ask("GET", path).json() == new


def of_many_changes_at_once_one_wins(program, database):
    note = program.create()
    answers = at_once(12, lambda i: program.ask("PUT", f"/notes/{note['id']}", {**note, "text": str(i)}))
    assert sorted(a.status for a in answers) == [200] + [409] * 11
    [winner] = [a.json() for a in answers if a.status == 200]
    assert program.ask("GET", f"/notes/{note['id']}").json() == winner


def lists_come_in_pages_the_newest_first(program, database):
    assert program.list() == []
    made = [program.create(str(i)) for i in range(45)][::-1]
    pages = [program.list()]
    while len(pages[-1]) == 20:
        pages.append(program.list(pages[-1][-1]["id"]))
    assert [len(page) for page in pages] == [20, 20, 5] and sum(pages, []) == made
    assert program.list("0") == [] and program.list("9" * 18) == pages[0]
    program.ask("DELETE", f"/notes/{pages[0][-1]['id']}")  # the place in the list is still a place
    assert program.list(pages[0][-1]["id"]) == pages[1]


def what_looks_like_code_stays_text(program, database):
    for text in NASTY:
        note = program.create(text, text * 3)
        assert (note["title"], note["text"]) == (text, text * 3)
        assert program.ask("GET", f"/notes/{note['id']}").json() == note
        changed = program.ask("PUT", f"/notes/{note['id']}", {**note, "title": text + "!"}).json()
        assert changed["title"] == text + "!"
    assert database.execute("select count(*) from notes") == [(str(len(NASTY)),)]
    longest = program.create("\u20ac" * 200, "\x01" * 10000)  # as JSON six times as long; the page allows that
    assert program.ask("GET", f"/notes/{longest['id']}").json() == longest


def a_body_that_is_no_note_is_400(program, database):
    note = program.create()
    for body in NO_NOTE:
        answers = [program.ask("POST", "/notes", body), program.ask("PUT", f"/notes/{note['id']}", body)]
        assert [a.status for a in answers] == [400, 400], body[:100]
    assert program.list() == [note]
    for inner in (b'{"a":' * DEEPEST + b"1" + b"}" * DEEPEST, b"[" * DEEPEST + b"]" * DEEPEST):
        assert program.ask("POST", "/notes", b'{"title":"a","text":"","more":%s}' % inner).status == 201


def a_number_that_is_none_is_404_in_a_path_and_400_in_a_query(program, database):
    note = program.create()
    for text in NO_NUMBER:
        path = f"/notes/{text}"
        answers = [program.ask(method, path) for method in ("GET", "DELETE")] + [program.ask("PUT", path, note)]
        assert [a.status for a in answers] == [404] * 3, text
        assert program.ask("GET", f"/notes?before={text}").status == 400, text
    assert program.ask("GET", "/notes?before=").status == 400
    assert program.list() == [note]


def a_body_of_another_type_is_415_and_one_that_is_too_long_413(program, database):
    good = b'{"title":"a","text":""}'
    for kind in (None, "", "text/plain", "application/jsonx", "application/x-www-form-urlencoded", "text/json", "json"):
        assert program.ask("POST", "/notes", good, **{"Content-Type": kind}).status == 415, kind
    for kind in ("application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;x"):
        assert program.ask("POST", "/notes", good, **{"Content-Type": kind}).status == 201, kind
    for size in (64 * 1024, 64 * 1024 + 1, 1 << 20, 1 << 40):
        padded = good + b" " * (min(size, 64 * 1024 + 1) - len(good))
        headers = {"Content-Length": str(size)} if size > len(padded) else {}
        expected = 201 if size == 64 * 1024 else 413
        assert program.ask("POST", "/notes", padded, **headers).status == expected, size
    assert program.ask("POST", "/notes", iter([good, b" " * 70000])).status == 413  # in chunks
    assert program.ask("PATCH", "/notes").status == 405 and program.ask("POST", "/notes/1", good).status == 405
    allowed = program.ask("PATCH", "/notes/1").headers["Allow"].split(", ")
    assert sorted(allowed) == ["DELETE", "GET", "HEAD", "OPTIONS", "PUT"]


def the_page_is_served(program, database):
    page = program.ask("GET", "/")
    assert page.status == 200 and b"<title>Notes</title>" in page.body
    assert program.ask("GET", "/", **{"If-None-Match": page.headers["ETag"]}).status == 304


def a_hundred_clients_share_four_connections(program, database):
    for _ in range(8):
        program.list()  # by now all connections are open
    before = program.descriptors()
    with database.locked():
        begun = at_once(100, lambda i: program.begin(str(i)))
        database.wait_for_queries(4)
    notes = [b.answer() for b in begun]
    assert {n.status for n in notes} == {201} and len({n.json()["id"] for n in notes}) == 100
    assert sorted(database.execute("select title from notes")) == sorted((str(i),) for i in range(100))
    assert database.connections() in (0, 4)
    wait(lambda: program.descriptors() <= before, "descriptors come back")


def a_query_ends_at_its_deadline_with_504(program, database):
    def late(_):  # 408: the machine is so slow that the body did not come in time
        return wait(lambda: (a := program.ask("POST", "/notes", {"title": "late", "text": ""})).status != 408 and a, "an end")

    with database.locked():
        for _ in range(2):
            start = time.monotonic()
            answers = at_once(6, late)
            assert [a.status for a in answers] == [504] * 6 and time.monotonic() - start >= 0.3
        database.wait_for_queries(0)  # the server has been told to end them
        assert program.ask("GET", "/").status == 200
    # None of them is done later, and no connection is lost. On a slow machine 0.3 s may be too short.
    assert wait(lambda: (a := program.ask("GET", "/notes")).status == 200 and a, "a list").json() == []
    for _ in range(8):
        wait(lambda: program.ask("POST", "/notes", {"title": "a", "text": ""}).status == 201, "a connection")


a_query_ends_at_its_deadline_with_504.deadline = 300


def a_client_that_hangs_up_ends_its_query(program, database):
    with database.locked():
        begun = [program.begin("gone") for _ in range(4)]
        database.wait_for_queries(4)
        waiting = program.begin("stays")  # for a connection
        for b in begun:
            b.reset()
        wait(lambda: len(program.find('"POST /notes HTTP/1.1"')) == 4, "the log has their requests")
        database.wait_for_queries(1)
    assert waiting.answer().status == 201
    assert [n["title"] for n in program.list()] == ["stays"]


def a_signal_lets_requests_end(program, database):
    with database.locked(), program.idle() as idle:
        begun = [program.begin(str(i)) for i in range(8)]
        database.wait_for_queries(4)
        program.stop()
        assert idle.recv(1) == b""  # it has got the signal
    answers = [b.answer() for b in begun]
    assert [a.status for a in answers] == [201] * 8 and {a.headers["Connection"] for a in answers} == {"close"}
    assert program.end() == 0
    assert len(database.execute("select * from notes")) == 8 and database.connections() == 0


def a_database_that_is_gone_is_503_until_it_is_back(program, database):
    notes, done = [program.create(str(i)) for i in range(8)][::-1], []
    if database.ends_queries:
        with database.locked():
            begun = [program.begin("lost") for _ in range(6)]  # two of them wait for a connection
            database.wait_for_queries(4)
            database.stop()
            answers = [b.answer() for b in begun]
        # The lock goes with the server, too: some of them may be done before their connection goes.
        assert {a.status for a in answers} <= {503, 201}
        done = [a.json() for a in answers if a.status == 201]
    else:
        database.stop()
    assert [program.ask("POST", "/notes", {"title": "lost", "text": ""}).status for _ in range(8)] == [503] * 8
    assert program.ask("GET", "/").status == 200
    database.start()
    listed = program.list()
    assert listed[-8:] == notes and all(note in listed for note in done)
    assert program.create()["version"] == "1"
    database.stop()
    database.start()  # the program learns of it only now, and opens its connections anew
    assert [program.ask("GET", "/notes").status for _ in range(8)] == [200] * 8


def a_wrong_command_line_is_refused(program, database):
    def run(*options):
        done = subprocess.run([*sys.argv[2:], *options], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stderr
    for options in (["--port", "x"], ["--port", "65536"], ["--pool", "0"], ["--deadline", "0"], ["--what"], ["file"],
                    ["--port"], ["--deadline", "-1"]):
        status, said = run(*options)
        assert status == 2 and "usage: notes" in said, (options, said)
    status, said = run("--port", str(program.port), *database.options())
    assert status == 1 and "in use" in said, said
    status, said = run("--port", "0", *database.unreachable())
    assert status == 1 and "cannot serve" in said and "secret" not in said, said


TESTS = [notes_are_created_read_changed_and_deleted, a_change_of_an_old_version_is_409_with_the_note_as_it_is,
         of_many_changes_at_once_one_wins, lists_come_in_pages_the_newest_first, what_looks_like_code_stays_text,
         a_body_that_is_no_note_is_400, a_number_that_is_none_is_404_in_a_path_and_400_in_a_query,
         a_body_of_another_type_is_415_and_one_that_is_too_long_413, the_page_is_served,
         a_hundred_clients_share_four_connections, a_query_ends_at_its_deadline_with_504,
         a_client_that_hangs_up_ends_its_query, a_signal_lets_requests_end,
         a_database_that_is_gone_is_503_until_it_is_back, a_wrong_command_line_is_refused]


def main(kind, command):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with SQLite() if kind == "sqlite" else Postgres() as database:
        if not database.is_there():
            print(f"skipped: {len(TESTS)} tests: PostgreSQL is not installed")
            counts["skipped"] = len(TESTS)
        for test in TESTS if not counts["skipped"] else []:
            if os.environ.get("ONLY", test.__name__) != test.__name__:
                continue
            start = time.monotonic()
            try:
                database.reset()
                deadline = str(getattr(test, "deadline", 3600000))  # an hour: that is never
                with Program(command, "--port", "0", "--deadline", deadline, *database.options()) as program:
                    test(program, database)
                how = "passed"
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                how = "failed"
            counts[how] += 1
            print(f"{how} in {time.monotonic() - start:.2f} s: {test.__name__}", flush=True)
    print("notes: " + ", ".join(f"{count} {how}" for how, count in counts.items()))
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

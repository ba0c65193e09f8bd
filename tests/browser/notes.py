#!/usr/bin/env python3
"""The page of examples/notes in a real browser, on SQLite and on PostgreSQL.

    notes.py PROGRAM [FOLDER]    with a FOLDER it leaves screenshots there

Closes with "notes: N passed, N failed, N skipped"; skips all if there is no browser, and half of them if there is
no PostgreSQL.
"""
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration/notes"))
sys.dont_write_bytecode = True

from browser import Browser, missing  # pylint: disable=wrong-import-position
from program import Postgres, Program, SQLite  # pylint: disable=wrong-import-position

FOLDER = sys.argv[2] if len(sys.argv) > 2 else None
BAD = "<img src=x onerror=\"document.title='bad'\"><script>document.title='bad'</script></textarea>"


def shoot(browser, name):
    for dark in (False, True):
        browser.dark(dark)
        browser.keep(FOLDER, f"notes-{name}")


def put(browser, title, text):
    browser.clear("[name=title]")
    browser.type("[name=title]", title)
    browser.clear("[name=text]")
    browser.script("document.querySelector('[name=text]').value = arguments[0]", text)


def save(browser, title, text, said="Saved."):
    browser.script("document.querySelector('[role=status]').textContent = ''")
    put(browser, title, text)
    browser.click("[type=submit]")
    browser.wait_for_text("[role=status]", said)


def click(browser, number, button):
    """A button, 1 Edit or 2 Delete, of a note of the list."""
    browser.script("document.querySelector('[role=status]').textContent = ''")
    browser.click(f"li:nth-child({number}) button:nth-of-type({button})")


def a_note_is_written_changed_and_deleted(browser, program):
    save(browser, "Milk", "two litres\n  of it")
    save(browser, "Bread", "")
    assert browser.texts("li h2") == ["Bread", "Milk"]
    shoot(browser, "list")
    browser.reload()
    browser.wait("return document.querySelectorAll('li').length === 2")
    assert browser.script("return document.querySelector('li:nth-child(2) p').textContent") == "two litres\n  of it"
    click(browser, 2, 1)
    assert browser.script("return document.activeElement.name") == "title"
    assert browser.script("return document.forms[0].text.value") == "two litres\n  of it"
    save(browser, "Oat milk", "one litre")
    assert browser.texts("li h2") == ["Bread", "Oat milk"]
    for answer in ("false", "true"):  # of the user, who is asked
        browser.script(f"window.confirm = question => (window.asked = question, {answer})")
        click(browser, 1, 2)
        assert browser.wait("return window.asked") == "Delete “Bread”?"
        assert program.list()[0]["title"] == "Bread" or answer == "true"
    browser.wait_for_text("[role=status]", "Deleted.")
    assert browser.texts("li h2") == ["Oat milk"]
    assert [(n["title"], n["version"]) for n in program.list()] == [("Oat milk", "2")]


def what_looks_like_code_is_shown_as_text(browser, program):
    program.create(BAD[:200], BAD)
    browser.reload()
    browser.wait("return document.querySelectorAll('li').length === 1")
    assert browser.script("return document.querySelector('li p').textContent") == BAD
    save(browser, "<b>", BAD)
    click(browser, 1, 1)
    save(browser, "<b>2", BAD + "!")
    assert browser.text("li:nth-child(1) h2") == "<b>2"
    assert browser.script("return document.querySelectorAll('li img, li script, li b').length") == 0
    assert browser.title() == "Notes"
    assert not [url for url in browser.requests() if url.endswith("/x")]


def a_conflict_shows_what_the_other_has_written(browser, program):
    note = program.create("Plan", "ours")
    browser.reload()
    browser.wait("return document.querySelectorAll('li').length === 1")
    click(browser, 1, 1)
    program.ask("PUT", f"/notes/{note['id']}", {**note, "text": "theirs"})
    save(browser, "Plan", "mine", "Somebody else has changed this note")
    assert browser.text("li p") == "theirs"
    assert browser.script("return document.forms[0].text.value") == "mine"
    shoot(browser, "conflict")
    assert any("409" in error for error in browser.errors())  # the browser reports it; nothing else is wrong
    browser.click("[type=submit]")
    browser.wait_for_text("[role=status]", "Saved.")
    assert browser.text("li p") == "mine" and program.list()[0]["version"] == "3"


def older_notes_come_by_a_button(browser, program):
    for i in range(45):
        program.create(f"Note {i}", "")
    browser.reload()
    for count in (20, 40, 45):
        browser.wait("return document.querySelectorAll('li').length === arguments[0]", count)
        if count < 45:
            browser.click("#older")
    assert browser.texts("li h2") == [f"Note {i}" for i in reversed(range(45))]
    assert browser.script("return document.querySelector('#older').hidden")


def a_server_that_is_gone_is_told(browser, program):
    save(browser, "Last", "")
    program.stop()
    assert program.end() == 0
    save(browser, "Lost", "still here", "Try again.")
    assert browser.script("return document.forms[0].text.value") == "still here"  # nothing that was typed is lost
    assert browser.texts("li h2") == ["Last"]
    browser.errors()  # it could not connect


def the_page_can_be_used_by_keyboard_and_on_a_phone(browser, program):
    tab = "\ue004"
    browser.reload()
    browser.script("document.querySelector('[name=title]').focus()")
    for key in "Keys" + tab + "work" + tab + "\ue007":
        browser.press(key)
    browser.wait_for_text("[role=status]", "Saved.")
    assert [(n["title"], n["text"]) for n in program.list()] == [("Keys", "work")]
    program.create("W" * 200, "w" * 300)
    browser.size(360, 740, phone=True)
    browser.reload()
    browser.wait("return document.querySelectorAll('li').length === 2")
    assert browser.script("return document.documentElement.scrollWidth <= 360")
    unnamed = "return [...document.querySelectorAll('input, textarea')].filter(e => !e.labels.length).length"
    assert browser.script(unnamed) == 0
    shoot(browser, "phone")
    browser.size(1280, 900)


TESTS = [a_note_is_written_changed_and_deleted, what_looks_like_code_is_shown_as_text,
         a_conflict_shows_what_the_other_has_written, older_notes_come_by_a_button, a_server_that_is_gone_is_told,
         the_page_can_be_used_by_keyboard_and_on_a_phone]


def run(test, browser, database):
    database.reset()
    with Program([sys.argv[1]], "--port", "0", "--deadline", "600000", *database.options()) as program:
        browser.open(f"http://127.0.0.1:{program.port}/")
        browser.wait("return document.readyState === 'complete'")
        test(browser, program)
        assert browser.errors() == []


def run_all(kind, browser, counts):
    """All tests on one kind of database."""
    with kind() as database:
        if not database.is_there():
            print(f"skipped: {len(TESTS)} tests: {kind.__name__} is not installed")
            counts["skipped"] += len(TESTS)
            return
        for test in TESTS:
            start = time.monotonic()
            try:
                run(test, browser, database)
                how = "passed"
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                how = "failed"
            counts[how] += 1
            print(f"{how} in {time.monotonic() - start:.1f} s: {test.__name__}, on {kind.__name__}", flush=True)


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    kinds = (SQLite, Postgres)
    if lacking := missing():
        counts["skipped"] = len(TESTS) * len(kinds)
        print(f"skipped: {counts['skipped']} tests: there is no {' and no '.join(lacking)}")
    else:
        with Browser() as browser:
            for kind in kinds:
                run_all(kind, browser, counts)
    print("notes: " + ", ".join(f"{count} {how}" for how, count in counts.items()))
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())

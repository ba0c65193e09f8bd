#!/usr/bin/env python3
"""Sends the odd requests of tests/http/odd_requests/ to servers, and compares what they do with outcomes.txt there.

    odd.py [--peers FOLDER | --record FOLDER] [EMULATOR...] SERVER

SERVER is tests/http/server.c, whose column is checked. With --peers, nginx and Go's net/http are checked too: the
servers in tests/http/peers/, set up as weft's is. Go's is built in FOLDER. --record writes outcomes.txt anew. A
difference without an explanation is a failure, and so is an explanation without a difference. Closes with
"odd: N passed, N failed, 0 skipped".

A request is sent with a GET of /probe behind it, and then the sending half ends. So the answers tell whether the connection
was kept: then the last one is the probe's. An outcome lists the statuses of the answers, bodies in quotes where they tell
something, and then "kept" or "closed". Behind a request that is cut nothing is sent.
"""
import importlib
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

import cases  # noqa: E402
import program  # noqa: E402
from wire import Connection, Wrong  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OUTCOMES = os.path.join(HERE, "odd_requests", "outcomes.txt")
PARTS = ("lines", "targets", "fields", "bodies", "others")  # in the order of the document
SERVERS = ("weft", "nginx", "Go")
PROBE = b"GET /probe HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
SHOWN = 24  # bytes of a body that are worth showing


def load():
    """Pairs of a title and its cases."""
    there = {name[:-3] for name in os.listdir(os.path.join(HERE, "odd_requests")) if name.endswith(".py")}
    assert there == set(PARTS), there ^ set(PARTS)
    for part in PARTS:
        importlib.import_module("odd_requests." + part)
    return cases.GROUPS


def show(answer):
    if answer.status not in (200, 206) or answer.body == b"hello\n":
        return str(answer.status)
    text = answer.text()
    if len(text) > SHOWN or not text.isprintable():
        return f"{answer.status} with {len(text)} bytes"
    return f'{answer.status} "{text}"'


def read_answers(c, methods):
    """All answers until the server ends: what each one shows, and whether the last one is the probe's."""
    shown, is_kept, methods = [], False, list(methods)
    while c.bytes or c.more():
        while len(c.bytes) < 7 and c.more():
            pass
        if not c.bytes.startswith(b"HTTP/1."):
            shown.append("text without a head")
            c.rest()
            break
        try:
            answer = c.answer(methods.pop(0) if methods else "GET")
        except Wrong as wrong:
            shown.append("an answer that is cut" if "the server ended" in str(wrong) else f"({wrong})")
            c.rest()
            break
        is_kept = answer.status == 200 and answer.body == b"probe\n"
        shown.append(show(answer))
    return shown, is_kept


def outcome(port, case):
    with Connection(port) as c:
        shown, is_kept = read_answers(c.send(case.raw, b"" if case.is_cut else PROBE).end(), case.methods)
    if is_kept:
        return " ".join(shown[:-1] + ["kept"])
    return " ".join(shown or ["no answer"]) + ("" if case.is_cut else " closed")


def read_outcomes():
    """By the name of a case: what each server did."""
    with open(OUTCOMES, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    return {row[0]: dict(zip(SERVERS, row[1:])) for row in rows}


def write_outcomes(all_cases, seen):
    with open(OUTCOMES, "w", encoding="utf-8") as f:
        f.write("# Written by tests/http/odd.py --record: a request; what weft, nginx and Go did. TABs are between them.\n")
        for case in all_cases:
            f.write("\t".join([case.name] + [seen[server][case.name] for server in SERVERS]) + "\n")


def complaints(case, recorded):
    """What is wrong with the case's explanation."""
    if case.name not in recorded:
        return ["it has no recorded outcome"]
    differ = len(set(recorded[case.name].values())) > 1
    if differ and not case.why:
        return [f"the servers differ, and no sentence says why: {recorded[case.name]}"]
    return ["the servers do not differ, but a sentence says why"] if case.why and not differ else []


def differences(case, recorded, seen):
    """What servers did now, and did not when it was recorded."""
    return [f"{server}: {outcomes[case.name]}, not {recorded[case.name][server]}" for server, outcomes in seen.items()
            if case.name in recorded and outcomes[case.name] != recorded[case.name][server]]


def ask_all(command, all_cases):
    """By the name of a case: what this server does."""
    with program.Server(command) as s:
        return {case.name: outcome(s.port, case) for case in all_cases}


def peers(folder):
    """The commands of the other servers. Go's is built in the folder."""
    if not shutil.which("go"):
        sys.exit("go is missing: run tools/setup http")
    os.makedirs(folder, exist_ok=True)
    folder = os.path.abspath(folder)
    server = os.path.join(folder, "go-server")
    environment = dict(os.environ, GO111MODULE="off", GOFLAGS="", CGO_ENABLED="0", GOCACHE=os.path.join(folder, "cache"),
                       GOPATH=os.path.join(folder, "path"))
    subprocess.run(["go", "build", "-o", server, os.path.join(HERE, "peers", "main.go")], env=environment, check=True)
    return {"nginx": [sys.executable, os.path.join(HERE, "peers", "nginx")], "Go": [server]}


def main():
    args, mode, commands = sys.argv[1:], "", {}
    if args and args[0] in ("--peers", "--record"):
        mode, folder, args = args[0], args[1], args[2:]
        commands = peers(folder)
    if not args:
        print(__doc__)
        return 2
    commands["weft"] = args
    all_cases = [case for _, part in load() for case in part]
    seen = {server: ask_all(command, all_cases) for server, command in commands.items()}
    if mode == "--record":
        write_outcomes(all_cases, seen)
    recorded = read_outcomes()
    wrong = {case.name: complaints(case, recorded) + differences(case, recorded, seen) for case in all_cases}
    wrong.update({name: ["it has an outcome, and is no request"] for name in recorded if name not in wrong})
    for name, texts in wrong.items():
        for text in texts:
            print(f"FAILED {name}: {text}")
    failed = sum(bool(texts) for texts in wrong.values())
    print(f"odd: {len(wrong) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Backtraces inside coroutines are whole and end cleanly: at a breakpoint, and after every instruction of a switch.

    check.py GDB PROGRAM        0: they do; 1: they do not; 77: it cannot be seen here, and the last line says why
"""
import re
import subprocess
import sys

STEPS = 30  # a switch has fewer instructions
SWITCHES = 8  # of program.c: in, in, out, out, in, in; then both end
MARK = "== backtrace"
BACKTRACE = [f"echo {MARK}\\n", "bt", "echo ==\\n"]
WRONG = ["Backtrace stopped", "corrupt", "??"]


def skip(why):
    print(why)
    sys.exit(77)


def gdb(program, commands):
    """What gdb says when it runs these commands."""
    args = ["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set pagination off"]
    for command in commands:
        args += ["-ex", command]
    done = subprocess.run([sys.argv[1]] + args + [program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False)
    if re.search(r"ptrace: Operation not permitted|Could not trace the inferior", done.stdout):
        skip("gdb may not trace programs here")
    return done.stdout


def backtraces(said):
    """Each backtrace as the names of its functions, innermost first, and its text."""
    for part in said.split(MARK + "\n")[1:]:
        text = part.split("==\n")[0]
        yield re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", text, re.MULTILINE), text


failures = []


def check(good, what, text):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}:\n{text}")


def ends_cleanly(names, text, where):
    check(names and not any(wrong in text for wrong in WRONG), f"{where}: a clean end", text)
    check(names and names[-1] in ("wf_begin", "main"), f"{where}: the end is wf_begin or main", text)


def at_a_breakpoint(program):
    said = gdb(program, ["break third", "run"] + BACKTRACE)
    seen = list(backtraces(said))
    check(len(seen) == 1, "one backtrace at the breakpoint", said)
    for names, text in seen:
        ends_cleanly(names, text, "at the breakpoint")
        check([name for name in names if name != "wf_noted_begin"] == ["third", "second", "first", "wf_begin"],
              "the frames are those of the inner coroutine", text)
    return len(seen)


def through_switches(program):
    """Follows every switch of the program, from its first instruction to where it goes on."""
    commands = ["break *wf_switch", "break *wf_switch_last", "run"]
    commands += (BACKTRACE + (["stepi"] + BACKTRACE) * STEPS + ["continue"]) * SWITCHES
    said = gdb(program, commands)
    seen = [(names, text) for names, text in backtraces(said) if "No stack." not in text]
    for step, (names, text) in enumerate(seen):
        ends_cleanly(names, text, f"step {step}")
    inside = [names[0].startswith("wf_switch") for names, _ in seen]
    begun = sum(now and not before for before, now in zip([False] + inside, inside))
    left = sum(before and not now for before, now in zip(inside, inside[1:]))
    check(begun == left == SWITCHES, f"all of {SWITCHES} switches: {begun} begun, {left} left", said[-2000:])
    ends = {names[-1] for names, _ in seen}
    check(ends == {"wf_begin", "main"}, "both sides of the switches were seen", str(ends))
    return len(seen)


def main():
    program = sys.argv[2]
    if "wf_begin" not in gdb(program, ["info functions -q wf_begin$"]):
        skip("the portable switch begins a stack in libc, which gdb cannot unwind")
    looked = at_a_breakpoint(program)
    if "x86-64" in gdb(program, ["show architecture"]):
        looked += through_switches(program)
    print(f"gdb: {looked} backtraces, {len(failures)} failures")
    sys.exit(1 if failures else 0)


main()

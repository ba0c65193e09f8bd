#!/usr/bin/env python3
"""Backtraces inside coroutines are whole and end cleanly: at a breakpoint, and after every instruction of a switch.

    check.py GDB PROGRAM        0: they do; 1: they do not; 77: cannot be seen here, the last line says why
    check.py --skip REASON
"""
import re
import subprocess
import sys

SWITCHES = 7  # of program.c: into both, out of both, in again, and the two ends
STEPS = 30  # a switch has fewer instructions
MARK = "== backtrace"

COMMANDS = f"""
set pagination off
set confirm off
set debuginfod enabled off
break third
run
echo {MARK}\\n
bt
delete
run
"""


def gdb(program, commands):
    """What gdb says when it runs these commands."""
    args = [GDB, "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set pagination off"]
    for command in commands:
        args += ["-ex", command]
    done = subprocess.run(args + [program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if re.search(r"ptrace: Operation not permitted|Cannot PTRACE", done.stdout):
        skip("gdb may not trace programs here")
    return done.stdout

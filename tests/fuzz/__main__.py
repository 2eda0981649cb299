"""Calls every command with damaged inputs and odd options, and counts what was wrong.

usage: python -m tests.fuzz [--minutes=20] [--cases=N] [--seed=0] [--only=NAME] [--keep=DIR] [--json=FILE]
       python -m tests.fuzz --kills [the same]
       python -m tests.fuzz --doors [the same]
       python -m tests.fuzz --case=NUMBER [--seed=0] [--only=NAME] --keep=DIR

A case is wrong if it prints a traceback, ends with another code than 0, 1, 2, 75 or 130, says no or several errors,
sends control characters to the terminal, takes longer than its limit or 1 GiB more memory, starts a program or a
connection, leaves processes behind, or changes anything but its output. What a case is follows from the seed, its
number, --only and --kills; the commands that need jax or tensorflow have the multiples of 4. The folders of wrong cases
are kept in --keep. With --kills inputs are whole; a call is stopped by a signal at a random moment and made again, and
must leave what one leaves that nobody stopped. With --doors, readers of tables and tokenizers and the server are called
directly, many times in the time of a command. Exits 1 if a case was wrong.
"""

import sys

from tests.fuzz import runner

sys.exit(runner.main())

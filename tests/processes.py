"""New processes, forked from one that has scikit-learn and Numba loaded.

A new interpreter takes seconds to import them. These are for tests that kill a process or run
several at once; the start of the program itself is tested with `subprocess`.
"""

import multiprocessing

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["monro.linear.classifier", "monro.softmax.classifier", "pytest"])


def start(function, *arguments):
    """Call a module-level function in a new process; return the process."""
    process = _context.Process(target=function, args=arguments)
    process.start()
    return process


def status(process):
    """Wait for the end of a process; return its exit code."""
    process.join()
    return process.exitcode

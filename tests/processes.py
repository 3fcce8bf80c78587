"""Processes of their own, forked from one that has scikit-learn and Numba loaded.

A new interpreter takes seconds to import them. These are for tests of what happens to a process, or
in several at once; how the program starts is tested with `subprocess`.
"""

import multiprocessing

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["monro.linear.classifier", "monro.softmax.classifier", "pytest"])


def start(function, *arguments):
    """Call a function of a module in a new process; return the process."""
    process = _context.Process(target=function, args=arguments)
    process.start()
    return process


def status(process):
    """Wait for the end; return how it ended."""
    process.join()
    return process.exitcode

"""What is at the bottom of a failure that Flink reports: the Python error, in words."""

from __future__ import annotations

import re

# Indented lines after the first: `where` and `fix` of our own errors, and places in the user's code.
_IN_THREAD = re.compile(r"PythonException: <class '(?:builtins\.)?([\w.]+)'>: (.*(?:\n {2,}\S.*)*)")
_IN_PROCESS = re.compile(
    r"^[\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*(?:\n {2,}\S.*)*)?$",
    re.MULTILINE,
)
_NO_JAVA = "Java gateway process exited before sending its port number"
_JAVA = re.compile(r"^Caused by: (.*)$", re.MULTILINE)


def python_cause(text: str) -> str:
    """The Python error at the bottom of a Flink failure: ``ValueError: ...``; else the last Java cause."""
    if _NO_JAVA in text:
        return (
            "there is no Java that runs: install Java 11, 17 or 21, or pip install 'flink-agents-py[java]'; then set "
            "JAVA_HOME to it"
        )
    in_thread = _IN_THREAD.findall(text)
    if in_thread:
        return ": ".join(in_thread[-1])
    after_traceback = text.rpartition("Traceback (most recent call last):")[2]
    in_process = _IN_PROCESS.findall(after_traceback)
    if in_process and after_traceback != text:
        return str(in_process[0])
    causes = _JAVA.findall(text)
    return str(causes[-1]) if causes else text.strip().partition("\n")[0]

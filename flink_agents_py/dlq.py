"""Dead letters of external actions in files: one JSON object a line, as ``FailedAction.to_plain`` gives it.

A file is what a sink wrote; a folder is all files in and below it but the hidden ones, which sinks have not finished.
Dead letters of agents' own actions may stand in the same files; they are counted, not shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from flink_agents_py.errors import DeadLetterFileError, FlinkAgentsError
from flink_agents_py.external import ActionCall, FailedAction
from flink_agents_py.external.records import DEAD_LETTER_KIND


@dataclass(frozen=True)
class DeadLetter:
    """One line of a file.

    Args:
        id: digest of the line: the same wherever the line stands, so a line a restarted job has written twice is one.
        failed: what it says.
        place: ``file:line``.
    """

    id: str
    failed: FailedAction
    place: str


@dataclass
class Letters:
    """What files hold.

    Args:
        letters: of external actions, each once, in order of failing.
        others: how many are of agents' own actions.
        broken: ``file:line: reason`` of each line that is no dead letter.
    """

    letters: list[DeadLetter] = field(default_factory=list)
    others: int = 0
    broken: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Letters:
        """Read files and folders.

        Raises:
            DeadLetterFileError: one of them does not exist or cannot be read.
        """
        found = cls()
        seen: set[str] = set()
        for file in _files(paths):
            for number, line in _lines(file):
                if line.strip():
                    found._add(line.strip(), f"{file}:{number}", seen)
        found.letters.sort(key=lambda letter: letter.failed.failed_ms)
        return found

    def _add(self, line: bytes, place: str, seen: set[str]) -> None:
        try:
            document = json.loads(line)
            if not isinstance(document, dict):
                raise ValueError(f"a dead letter is an object, not a {type(document).__name__}")  # noqa: TRY004
            if document.get("kind") != DEAD_LETTER_KIND:
                if "event" not in document or "error" not in document:
                    raise ValueError(f'no dead letter: "kind" is {document.get("kind")!r}')
                self.others += 1
                return
            failed = FailedAction.from_plain(document)
        except (ValueError, KeyError, TypeError, AttributeError, FlinkAgentsError) as problem:
            self.broken.append(f"{place}: {_reason(problem)}")
            return
        identity = blake2b(line, digest_size=4).hexdigest()
        if identity not in seen:
            seen.add(identity)
            self.letters.append(DeadLetter(identity, failed, place))


@dataclass(frozen=True)
class Selection:
    """Which letters: those that match everything that is given."""

    actions: Sequence[str] = ()
    codes: Sequence[str] = ()
    traces: Sequence[str] = ()
    ids: Sequence[str] = ()
    since_ms: int = 0

    def of(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """The letters that match."""
        return [letter for letter in letters if self._takes(letter)]

    def _takes(self, letter: DeadLetter) -> bool:
        failed = letter.failed
        return (
            (not self.actions or failed.call.action in self.actions)
            and (not self.codes or failed.code in self.codes)
            and (not self.traces or failed.call.trace_id in self.traces)
            and (not self.ids or any(letter.id.startswith(wanted) for wanted in self.ids))
            and failed.failed_ms >= self.since_ms
        )


def calls_to_replay(letters: Iterable[DeadLetter]) -> tuple[list[ActionCall], list[str]]:
    """The calls of letters, each deed once, and for each that cannot be made again why not.

    A call that failed several times has several letters and one deed; calls keep their trace id, so what was done in
    the meantime is not done again where it is remembered.
    """
    calls: dict[str, ActionCall] = {}
    left_out = []
    for letter in letters:
        call = letter.failed.call
        problem = call.problem()
        if problem is None:
            calls[letter.failed.idempotency_key or call.idempotency_key] = call
        else:
            left_out.append(f"{letter.id} ({letter.place}): {problem}")
    return list(calls.values()), left_out


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                hidden = any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
                if file.is_file() and not hidden:
                    yield file
        elif path.exists():
            yield path
        else:
            raise DeadLetterFileError(
                f"{path} does not exist",
                fix="name the file or folder the dead letters were written to; a file sink shows a file only when it "
                "is complete, with the next checkpoint or at the end of the job",
            )


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with file.open("rb") as lines:
            yield from enumerate(lines, 1)
    except OSError as error:
        raise DeadLetterFileError(f"{file} cannot be read: {error}", fix="check its permissions") from error


def _reason(problem: Exception) -> str:
    if isinstance(problem, json.JSONDecodeError):
        return f"no JSON ({problem.msg} at character {problem.pos + 1})"
    if isinstance(problem, UnicodeDecodeError):
        return "no UTF-8 text"
    if isinstance(problem, KeyError):
        return f"{problem} is missing"
    if isinstance(problem, FlinkAgentsError):
        return problem.what
    return str(problem)

"""Every exception the framework raises, each with a stable code and a next step.

A message always reads: what went wrong, where, and what to do about it. Codes never change their meaning; they are
what a runbook or an alert matches on.
"""

from __future__ import annotations

from typing import Any, ClassVar


class FlinkAgentsError(Exception):
    """Base of all framework errors.

    Args:
        what: one sentence saying what went wrong.
        where: the place (class and member, action and key, option and source, ...), if known.
        fix: what the reader can do next.
    """

    code: ClassVar[str] = "FA000"

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(self._render())

    def _render(self) -> str:
        text = f"[{self.code}] {self.what}"
        if self.where:
            text += f"\n  where: {self.where}"
        if self.fix:
            text += f"\n  fix: {self.fix}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call __init__ with the rendered text and lose `where` and `fix` (and their keywords).
        return _rebuild, (type(self), self.what, self.where, self.fix, self.__dict__)


def _rebuild(
    cls: type[FlinkAgentsError], what: str, where: str | None, fix: str | None, attributes: dict[str, Any]
) -> FlinkAgentsError:
    error = cls.__new__(cls)
    FlinkAgentsError.__init__(error, what, where=where, fix=fix)
    error.__dict__.update(attributes)
    return error


# --- FA1xx: the agent or its plan is wrong; raised when compiling or loading a plan ---------------------------------


class AgentDefinitionError(FlinkAgentsError):
    """The agent class breaks a rule that is checked when it is compiled."""

    code = "FA100"


class DuplicateNameError(AgentDefinitionError):
    """Two actions, or two resources of one type, share a name."""

    code = "FA101"


class SignatureError(AgentDefinitionError):
    """An action or tool function does not have the required signature."""

    code = "FA102"


class TriggerError(AgentDefinitionError):
    """A trigger of an action is missing, blank, of the wrong type, or an expression with a mistake in it.

    ``line`` and ``column`` (from 1 on) are the place of the mistake in an expression.
    """

    code = "FA103"
    line: int | None = None
    column: int | None = None


class UnknownResourceError(AgentDefinitionError):
    """A resource refers to, or an action asks for, a resource that nobody declared."""

    code = "FA104"


class ResourceCycleError(AgentDefinitionError):
    """Resources depend on each other in a circle."""

    code = "FA105"


class NotSerializableError(AgentDefinitionError):
    """A function, configuration value or resource of the agent cannot travel to the workers."""

    code = "FA106"


class PlanFormatError(FlinkAgentsError):
    """A plan JSON is malformed, of a newer version, or contradicts itself."""

    code = "FA107"


class UntrustedCodeError(FlinkAgentsError):
    """A plan file carries pickled code and the caller did not say it trusts the file."""

    code = "FA108"


class FunctionNotFoundError(FlinkAgentsError):
    """A function or class named in a plan or a state record cannot be imported here."""

    code = "FA109"


class AgentFileError(AgentDefinitionError):
    """A file of agents (YAML) is malformed, or says what cannot be; ``where`` has the file, line and column."""

    code = "FA110"


# --- FA2xx: values that travel or are stored ------------------------------------------------------------------------


class EncodeError(FlinkAgentsError, TypeError):
    """A value has no encoding; the message names the path inside the value."""

    code = "FA201"


class DecodeError(FlinkAgentsError):
    """A stored value cannot be read back (unknown class, newer format, damaged text)."""

    code = "FA202"


class ValueTooLargeError(FlinkAgentsError):
    """An encoded value is above a configured size limit."""

    code = "FA203"


# --- FA3xx: while a run executes ------------------------------------------------------------------------------------


class ActionFailedError(FlinkAgentsError):
    """An action raised and its ``on_error`` policy is ``fail``; the cause is chained."""

    code = "FA301"


class AwaitError(FlinkAgentsError, TypeError):
    """An async action awaited something the operator cannot suspend on."""

    code = "FA302"


class JournalMismatchError(FlinkAgentsError):
    """On replay an action made another durable call than the recorded one (``durable.on-mismatch = fail``)."""

    code = "FA303"


class WrongThreadError(FlinkAgentsError, RuntimeError):
    """Memory or the context was touched from a worker thread, or after the action ended."""

    code = "FA304"


class CallTimeoutError(FlinkAgentsError, TimeoutError):
    """A durable call did not finish within its timeout (per attempt, or in total)."""

    code = "FA305"


class RecordedCallError(FlinkAgentsError):
    """A replayed call had failed with an exception whose class cannot be rebuilt here; type and message are kept."""

    code = "FA306"


class CallCancelledError(FlinkAgentsError):
    """A durable call was cancelled before it had an outcome."""

    code = "FA307"


class StateRecordError(FlinkAgentsError):
    """A record in keyed state cannot be used by this version or this plan."""

    code = "FA308"


class StoreError(FlinkAgentsError):
    """The action state store did not do what it was asked, or did not say so; asking again is safe."""

    code = "FA309"


class FencedError(FlinkAgentsError):
    """A newer attempt of the job has taken over a key: what this attempt does to it no longer counts."""

    code = "FA310"


class MissingActionError(StateRecordError):
    """An interrupted run comes to an action that neither its code nor this plan has (``plan.on-missing-action``)."""

    code = "FA311"


class ConditionError(FlinkAgentsError):
    """A trigger condition failed for an event (``action.trigger-condition.evaluate-failure-strategy = FAIL``)."""

    code = "FA312"


# --- FA4xx: memory --------------------------------------------------------------------------------------------------


class MemoryPathError(FlinkAgentsError):
    """A memory path is malformed, crosses a plain value, or names nothing."""

    code = "FA401"


class MemoryOverwriteError(FlinkAgentsError):
    """A write would replace an object by a value (or back) without being asked to."""

    code = "FA402"


class LongTermMemoryError(FlinkAgentsError):
    """Long-term memory refuses what it was asked: a name, an item, metadata, or a store that cannot hold it."""

    code = "FA403"


# --- FA5xx: configuration and environment ---------------------------------------------------------------------------


class ConfigError(FlinkAgentsError, ValueError):
    """An option has a bad value or does not exist; the message names key, value and source."""

    code = "FA501"


class EnvironmentSetupError(FlinkAgentsError):
    """The Flink environment cannot run the job as asked (missing Java, missing library, wrong mode)."""

    code = "FA502"


class OutputTypeError(FlinkAgentsError, TypeError):
    """An output does not fit the declared output type, or no Flink type can be derived from it."""

    code = "FA503"


class PipelineError(FlinkAgentsError):
    """The builder was used in the wrong order, or with an input it does not take."""

    code = "FA504"


class SecretError(FlinkAgentsError):
    """A secret that an argument refers to is not there on the worker; the message names the reference alone."""

    code = "FA505"


class JobFailedError(FlinkAgentsError):
    """A job has failed. The message tells the Python error behind it; Flink's own report is the chained cause."""

    code = "FA506"


# --- FA6xx: external actions ----------------------------------------------------------------------------------------


class DeadLetterFileError(FlinkAgentsError):
    """Dead letters cannot be read, shown or replayed as asked."""

    code = "FA601"


# --- FA7xx: models and tools ----------------------------------------------------------------------------------------


class ModelError(FlinkAgentsError):
    """A model did not answer as it should.

    ``status`` is the HTTP status where there is one, ``retry_after`` the seconds the service asks to wait.
    """

    code = "FA700"
    status: int | None = None
    retry_after: float | None = None


class ModelUnavailableError(ModelError):
    """A model service is busy, limits the rate, fails on its side or cannot be reached: worth another attempt."""

    code = "FA701"


class ModelRequestError(ModelError):
    """A model service refuses the request (key, model name, parameters, size): another attempt would change nothing."""

    code = "FA702"


class StructuredOutputError(ModelError):
    """A model's answer does not fit the output schema, also after the model was asked to repair it."""

    code = "FA703"


class MaxIterationsError(ModelError):
    """A model went on asking for tools until the limit of iterations."""

    code = "FA704"


class ToolError(FlinkAgentsError):
    """A tool cannot be called as asked: it does not exist, or its arguments do not fit."""

    code = "FA705"


class McpUnavailableError(FlinkAgentsError, ConnectionError):
    """An MCP server cannot be reached, does not answer, or was lost during a request: worth another attempt."""

    code = "FA710"


class FilterError(FlinkAgentsError, ValueError):
    """A filter on the metadata of documents is malformed."""

    code = "FA711"


class VectorStoreError(FlinkAgentsError):
    """A vector store refuses what it was asked (no such collection, vectors of another size, no embedding model)."""

    code = "FA712"


class VectorStoreUnavailableError(VectorStoreError, ConnectionError):
    """A vector store's server cannot be reached, or went away: worth another attempt."""

    code = "FA713"


class CollectionNotFoundError(VectorStoreError):
    """A vector store has no such collection: nobody has put anything into it yet."""

    code = "FA714"

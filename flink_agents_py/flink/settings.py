"""Flink options a PyFlink job in a virtual environment needs, set only where the user has not set them."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyflink.common import Configuration

from flink_agents_py.config import AgentConfiguration, AgentOptions
from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.installation import ARCHIVE_PYTHON, python_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyflink.datastream import StreamExecutionEnvironment

log = logging.getLogger("flink_agents_py.flink")

MODE = "python.execution-mode"
UNALIGNED = "execution.checkpointing.unaligned.enabled"
_UNALIGNED_OLD = "execution.checkpointing.unaligned"
_BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
_FLINK_BUFFER_TIMEOUT_MS = 100


def apply_settings(
    env: StreamExecutionEnvironment, config: AgentConfiguration, ours: Mapping[str, str]
) -> dict[str, str]:
    """Complete the configuration of ``env``; returns what was set. ``ours`` is what an earlier call returned.

    Raises:
        EnvironmentSetupError: thread mode was asked for and cannot work here.
    """
    flink = Configuration(j_configuration=env._j_stream_execution_environment.getConfiguration())
    done = dict(ours)

    def default(key: str, value: str) -> None:
        if key in ours or not flink.contains_key(key):
            flink.set_string(key, value)
            done[key] = value

    wanted = config.get(AgentOptions.EXECUTION_MODE)
    if wanted is not None and MODE not in ours and flink.get_string(MODE, wanted) != wanted:
        raise EnvironmentSetupError(
            f"execution-mode is {wanted}, but {MODE} of the Flink environment is {flink.get_string(MODE, '')}",
            fix="set only one of them",
        )
    default(MODE, wanted or best_mode())
    mode = flink.get_string(MODE, "process")
    if mode == "thread" and (reason := why_no_threads()):
        raise EnvironmentSetupError(
            f"python.execution-mode is thread, but {reason}", fix="use process mode: set execution-mode to process"
        )
    # `python` on PATH is rarely the interpreter this program runs in (facts 1 and 2).
    default("python.executable", sys.executable)
    default("python.client.executable", sys.executable)
    workers = flink.get_string("python.executable", "")
    if mode == "thread" and workers == ARCHIVE_PYTHON:
        raise EnvironmentSetupError(
            "python.execution-mode is thread, but the job brings an interpreter, which cannot be embedded",
            fix="use process mode; or an image that has the environment, and package --environment none",
        )
    if mode == "thread":
        # The embedded interpreter knows neither of virtual environments nor of editable installations. Where another
        # interpreter than this one keeps its packages cannot be told from here.
        if _beside_ours(workers):
            default("python.pythonpath", os.pathsep.join(python_path()))
    else:
        default("python.fn-execution.bundle.size", str(config.get(AgentOptions.BUNDLE_SIZE)))
        default("python.fn-execution.bundle.time", str(int(config.get(AgentOptions.BUNDLE_TIME))))
    if UNALIGNED in ours or not (flink.contains_key(UNALIGNED) or flink.contains_key(_UNALIGNED_OLD)):
        # Under backpressure an aligned barrier waits behind the network buffers (fact 26, S13). But bundles make it
        # likely that a pipeline which cannot bear unaligned ones stops: those are for pipelines that were looked at.
        unaligned = config.get(AgentOptions.UNALIGNED_CHECKPOINTS)
        done |= set_unaligned(env, unaligned=mode == "thread" if unaligned is None else unaligned)
    if _BUFFER_TIMEOUT in ours or (
        not flink.contains_key(_BUFFER_TIMEOUT) and env.get_buffer_timeout() == _FLINK_BUFFER_TIMEOUT_MS
    ):
        timeout = int(config.get(AgentOptions.BUFFER_TIMEOUT))
        env.set_buffer_timeout(timeout)
        done[_BUFFER_TIMEOUT] = f"{timeout} ms"
    return done


def set_unaligned(env: StreamExecutionEnvironment, *, unaligned: bool) -> dict[str, str]:
    """Let barriers overtake records, or not; returns the setting."""
    env.get_checkpoint_config().enable_unaligned_checkpoints(unaligned)
    return {UNALIGNED: str(unaligned).lower()}


def _beside_ours(executable: str) -> bool:
    """Whether an interpreter is of the environment this program runs in."""
    found = shutil.which(executable)
    return found is not None and Path(found).absolute().parent == Path(sys.executable).absolute().parent


def execution_mode(env: StreamExecutionEnvironment) -> str:
    """The mode operators built on ``env`` from now on run in."""
    flink = Configuration(j_configuration=env._j_stream_execution_environment.getConfiguration())
    return str(flink.get_string(MODE, "process"))


def best_mode() -> str:
    """``thread`` where it can work (several times faster), else ``process``."""
    reason = why_no_threads()
    if reason:
        log.info("using process mode: %s", reason)
        return "process"
    return "thread"


def why_no_threads() -> str | None:
    """Why thread mode cannot work in this interpreter; ``None`` if it can."""
    if importlib.util.find_spec("pemja") is None:
        return "the package pemja is not installed (it has no build for every platform and Python)"
    if importlib.util.find_spec("find_libpython") is not None:
        from find_libpython import find_libpython

        if find_libpython() is None:
            return "this Python was built without a shared library (libpython), which pemja loads"
    return None

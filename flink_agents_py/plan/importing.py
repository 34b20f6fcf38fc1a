"""Finding functions and classes by ``module`` and qualified name, and telling which can be found on another machine."""

from __future__ import annotations

import importlib
import sys
from types import MethodType
from typing import Any

import cloudpickle

from flink_agents_py.errors import FunctionNotFoundError

# Modules that are another file, or nothing at all, in another process.
_UNSHARED_MODULES = frozenset({"__main__", "__mp_main__"})


def resolve(module: str, qualname: str, *, what: str) -> Any:
    """Import ``module`` and walk ``qualname`` in it; nested classes are fine.

    Args:
        what: how the error calls the thing, e.g. ``action 'greet'``.

    Raises:
        FunctionNotFoundError: the module cannot be imported here, or has no such member; the cause is chained.
    """
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise FunctionNotFoundError(
            f"module {module!r} cannot be imported here: {type(error).__name__}: {error}",
            where=what,
            fix="ship the module to the workers (env.add_python_file, or install it there), "
            "and check that it imports without the files and variables of your machine",
        ) from error
    for part in qualname.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise FunctionNotFoundError(
                f"module {module!r} has no {qualname!r} (stopped at {part!r})",
                where=what,
                fix="the code here is not the code the plan was made with: deploy the same version, or compile anew",
            ) from error
    return found


def found_elsewhere(module: str | None, qualname: str | None, target: Any) -> bool:
    """Whether another process that imports ``module`` and walks ``qualname`` would get ``target`` itself."""
    if not module or not qualname or "<" in qualname or module in _UNSHARED_MODULES:
        return False
    if _pickled_by_request(module):
        return False
    loaded = sys.modules.get(module)
    # A module without a spec was made by hand (exec, a notebook cell): nobody else can import it.
    if loaded is None or getattr(loaded, "__spec__", None) is None:
        return False
    found: Any = loaded
    for part in qualname.split("."):
        found = getattr(found, part, None)
    # A class method is a new object at each access, so it is compared, not identified.
    return found is target or (isinstance(target, MethodType) and isinstance(found, MethodType) and found == target)


def _pickled_by_request(module: str) -> bool:
    """Whether the user called ``cloudpickle.register_pickle_by_value`` for the module or a package around it."""
    registered = cloudpickle.list_registry_pickle_by_value()
    parts = module.split(".")
    return any(".".join(parts[: end + 1]) in registered for end in range(len(parts)))

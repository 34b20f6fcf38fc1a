"""References to functions: by name where another process finds the same thing, by value elsewhere."""

from __future__ import annotations

import functools
import threading
from types import ModuleType

import cloudpickle
import pytest

from flink_agents_py.errors import FunctionNotFoundError, NotSerializableError, PlanFormatError, UntrustedCodeError
from flink_agents_py.plan.functions import PickledCode, PythonFunction


def module_function(event, ctx):
    return "module"


def replaced(event, ctx):
    return "first"


first_version = replaced


def replaced(event, ctx):
    return "second"


class Outer:
    class Inner:
        @staticmethod
        def method(event, ctx):
            return "nested"

        @classmethod
        def of_class(cls, event, ctx):
            return cls.__name__


class Callable:
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, event, ctx):
        return self.answer


def over_the_wire(function, **kwargs):
    return PythonFunction.model_validate_json(function.model_dump_json()).as_callable(**kwargs)


@pytest.mark.parametrize("function", [print, module_function, Outer.Inner.method, Outer.Inner.of_class])
def test_a_function_that_can_be_imported_travels_by_name(function):
    reference = PythonFunction.from_callable(function)
    assert reference.model_dump() == {
        "func_type": "PythonFunction",
        "module": function.__module__,
        "qualname": function.__qualname__,
    }
    assert over_the_wire(reference) == function


def closure():
    word = "closed over"
    return lambda event, ctx: word


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda event, ctx: "lambda", "lambda"),
        (closure(), "closed over"),
        (functools.partial(lambda prefix, event, ctx: prefix + event, "p-"), "p-e"),
        (Callable("object"), "object"),
        (Callable("bound").__call__, "bound"),
        (first_version, "first"),
    ],
    ids=["lambda", "closure", "partial", "callable object", "bound method", "name taken by another function"],
)
def test_what_no_other_process_finds_under_its_name_travels_by_value(function, answer):
    reference = PythonFunction.from_callable(function)
    assert reference.is_by_value
    assert reference.as_callable() is function
    assert over_the_wire(reference, allow_pickled=True)("e", None) == answer


def test_a_module_registered_with_cloudpickle_travels_by_value():
    module = ModuleType("hand_made")
    exec("def f(event, ctx): return 'made'", module.__dict__)
    assert PythonFunction.from_callable(module.f).is_by_value
    import tests.plan.test_functions as this

    cloudpickle.register_pickle_by_value(this)
    try:
        assert PythonFunction.from_callable(this.module_function).is_by_value
    finally:
        cloudpickle.unregister_pickle_by_value(this)


def test_pickled_code_from_a_file_is_refused_unless_asked_for():
    reference = PythonFunction.from_callable(lambda event, ctx: None)
    with pytest.raises(UntrustedCodeError, match="allow_pickled=True") as caught:
        over_the_wire(reference)
    assert caught.value.code == "FA108"


def test_a_function_that_cannot_be_pickled_is_refused_with_the_reason():
    lock = threading.Lock()
    with pytest.raises(NotSerializableError, match="lock") as caught:
        PythonFunction.from_callable(lambda event, ctx: lock)
    assert "<lambda>" in caught.value.where


def test_code_of_another_python_is_refused_before_it_is_unpickled():
    with pytest.raises(PlanFormatError, match=r"Python 2\.7"):
        PickledCode(python="2.7", blob="").load("plan")


@pytest.mark.parametrize(("module", "qualname"), [("no_such_module", "f"), (__name__, "Outer.Missing.method")])
def test_a_name_that_leads_nowhere_is_an_error_that_says_where_it_stopped(module, qualname):
    with pytest.raises(FunctionNotFoundError) as caught:
        PythonFunction(module=module, qualname=qualname).as_callable()
    assert "no_such_module" in str(caught.value) or "'Missing'" in str(caught.value)


def test_references_are_equal_by_what_they_refer_to():
    assert PythonFunction.from_callable(module_function) == PythonFunction(module=__name__, qualname="module_function")
    same = [PythonFunction.from_callable(closure()) for _ in range(2)]
    assert same[0] == same[1]
    assert len(set(same)) == 1
    assert PythonFunction.from_callable(lambda event, ctx: 1) != PythonFunction.from_callable(lambda event, ctx: 2)

"""Values keep their type on every way through an agent."""

from __future__ import annotations

import pytest

from tests.flink.programs import shapes
from tests.support.ledger import lines


@pytest.fixture
def run(host, mode, outputs):
    def run(cases, parallelism):
        host.run("shapes", mode, {"cases": cases, "outputs": str(outputs)}, parallelism=parallelism)
        return lines(outputs)

    return run


@pytest.mark.parametrize("parallelism", [1, 2])
def test_inputs_keep_their_type_as_arguments_as_results_in_memory_and_while_they_wait(run, parallelism):
    """Three inputs of one key: the second and the third wait in keyed state for the run before them."""
    written = run("inputs", parallelism)
    for case, (values, _) in shapes.INPUTS.items():
        told = [shapes.described(value) for value in values]
        seen = [output for output in written if output["case"] == case]
        assert [output["sequence"] for output in seen] == [1, 2, 3], case
        assert [output["given"] for output in seen] == told
        assert [output["back"] for output in seen] == told
        assert [output["earlier"] for output in seen] == [None, *told[:-1]]


def test_keys_keep_their_type(run):
    written = run("keys", 2)
    for case, (key, _) in shapes.KEYS.items():
        seen = [output for output in written if output["case"] == case]
        assert [output["sequence"] for output in seen] == [1, 2, 3], case
        assert [output["key"] for output in seen] == [shapes.described(key)] * 3
        assert [output["moment"] for output in seen] == [[None, None]] * 3, "the stream has no timestamps"


def test_outputs_are_of_the_declared_type(run):
    written = {output["case"]: output["got"] for output in run("outputs", 1)}
    assert written == {case: shapes.described(value) for case, (value, _) in shapes.OUTPUTS.items()}


def test_side_outputs_and_dead_letters_are_streams_of_their_own(run):
    written = run("sides", 2)

    def got(case):
        return [output["got"] for output in written if output["case"] == case]

    assert sorted(got("main")) == [0, 1, 2, 4, 5, 100, 102, 103, 104, 105]
    assert sorted(got("odd")) == [1, 5]
    (letter,) = got("dead letter")
    assert letter["action"] == "split"
    assert (letter["key"], letter["sequence"], letter["message"]) == (3, 1, "three is no number")
    assert letter["event"]["attributes"] == {"input": 3}


def test_a_side_output_nobody_declared_fails_the_job_and_says_what_to_declare(host, mode, outputs):
    job = host.start("shapes", mode, {"cases": "undeclared", "outputs": str(outputs)})
    assert "apply(agent, side_outputs={'odd': Types.STRING()})" in job.failure()

"""What long-term memory asks of a vector store: to list documents, and changes that happen whole or not at all."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_agents_py.errors import CollectionNotFoundError, FilterError, VectorStoreError
from flink_agents_py.resources.filters import PARTITION
from flink_agents_py.resources.vector_stores import Document, VectorStoreQuery
from flink_agents_py.testing.openai_replies import bag_of_words

DOCUMENTS = [
    Document(id="a", content="red car", metadata={PARTITION: "one", "n": 3, "v": "x"}),
    Document(id="b", content="red bike", metadata={PARTITION: "one", "n": 1, "v": "x"}),
    Document(id="c", content="cold milk", metadata={PARTITION: "two", "n": 2, "v": "x"}),
    Document(id="d", content="hot tea", metadata={PARTITION: "it's", "v": "x"}),
]


def listed(store, filters=None, limit=100, order_by=None):
    return [document.id for document in store.find(filters, limit, order_by=order_by)]


def test_documents_are_listed_in_the_order_of_a_field_those_without_it_last(store):
    store.add(DOCUMENTS)
    assert listed(store, order_by="n") == ["b", "c", "a", "d"]
    assert listed(store, order_by="n", limit=2) == ["b", "c"]
    assert listed(store) == ["a", "b", "c", "d"]
    (found,) = store.find({"n": {"$gt": 2}})
    assert (found.content, found.metadata, found.score) == ("red car", DOCUMENTS[0].metadata, None)
    with pytest.raises(FilterError):
        store.find({"a": {"$like": 1}})


def test_nothing_is_listed_of_a_collection_that_is_not_there(store):
    assert store.find() == []
    with pytest.raises(CollectionNotFoundError):
        store.query(VectorStoreQuery(query_text="x"))


def test_a_partition_is_filtered_as_any_field_is(store):
    store.add(DOCUMENTS)
    assert listed(store, {PARTITION: "one"}) == ["a", "b"]
    assert listed(store, {PARTITION: "it's"}) == ["d"]
    assert listed(store, {PARTITION: {"$ne": "one"}}) == ["c", "d"]
    assert listed(store, {PARTITION: {"$in": ["two", "three"]}}) == ["c"]
    found = store.query(VectorStoreQuery(query_text="red", filters={PARTITION: "two"})).documents
    assert [document.id for document in found] == ["c"]


def test_only_what_is_not_there_is_inserted(store):
    assert store.insert([]) == []
    assert store.insert(DOCUMENTS[:2]) == ["a", "b"]
    again = [DOCUMENTS[0].model_copy(update={"content": "another text"}), DOCUMENTS[2]]
    assert store.insert(again) == ["c"]
    assert [document.content for document in store.get(["a", "c"])] == ["red car", "cold milk"]
    words = store.query(VectorStoreQuery(query_text="another", mode="keyword")).documents
    assert words == []


def test_nothing_is_inserted_if_what_it_relies_on_has_changed(store):
    new = [Document(id="n", content="new car")]
    assert store.insert(new, unchanged={"a": {}}) is None
    store.add(DOCUMENTS)
    for unchanged in ({"a": {"v": "y"}}, {"a": None}, {"a": {"v": "x"}, "nobody": {}}):
        assert store.insert(new, unchanged=unchanged) is None
    assert listed(store) == ["a", "b", "c", "d"]
    assert store.insert(new, unchanged={"a": {"v": "x", "n": 3}, "nobody": None}) == ["n"]
    assert store.insert(new, unchanged={"a": {"v": "x"}}) == []


def test_an_insertion_that_relies_on_a_document_and_its_exchange_exclude_each_other(store):
    """Each document is inserted while the mark is not there, or not at all."""
    count = 40

    def insert(number):
        return store.insert([Document(id=f"n{number}", content="new car")], unchanged={"mark": None})

    def mark():
        time.sleep(0.02)
        there = [one for one in listed(store) if one.startswith("n")]
        assert store.exchange([Document(id="mark", content="mark", metadata={"v": len(there)})], {})
        return {one for one in listed(store) if one.startswith("n")}

    store.add(DOCUMENTS)
    with ThreadPoolExecutor(4) as pool:
        marked = pool.submit(mark)
        outcomes = list(pool.map(insert, range(count)))
        at_the_mark = marked.result()
    inserted = {f"n{number}" for number, outcome in enumerate(outcomes) if outcome}
    assert inserted == at_the_mark == {one for one in listed(store) if one.startswith("n")}


def test_a_patch_sets_fields_and_leaves_the_rest(store):
    store.patch({"a": {"seen": 1}})
    store.add(DOCUMENTS)
    store.patch({"a": {"n": 9, "seen": 1}, "b": {"seen": 2}, "nobody": {"seen": 3}})
    one, two = store.get(["a", "b"])
    assert one.metadata == {PARTITION: "one", "n": 9, "v": "x", "seen": 1}
    assert two.metadata == {PARTITION: "one", "n": 1, "v": "x", "seen": 2}
    assert one.content == "red car"
    assert one.embedding == pytest.approx(bag_of_words("red car", 64), abs=1e-6)
    assert listed(store, {"seen": {"$gt": 0}}) == ["a", "b"]


def test_documents_are_exchanged_for_one(store):
    store.add(DOCUMENTS)
    summary = Document(id="s", content="red things", metadata={PARTITION: "one", "n": 1})
    assert store.exchange([summary], {"a": {"v": "x", "n": 3}, "b": {"v": "x"}})
    assert listed(store) == ["c", "d", "s"]
    assert not store.exchange([summary], {"a": {"v": "x"}})
    assert listed(store) == ["c", "d", "s"]


@pytest.mark.parametrize("expected", [{"a": {"v": "x"}, "b": {"v": "y"}}, {"a": {"v": "x"}, "nobody": {}}])
def test_nothing_is_exchanged_if_one_document_is_not_as_expected(store, expected):
    store.add(DOCUMENTS)
    assert not store.exchange([Document(id="s", content="red things")], expected)
    assert listed(store) == ["a", "b", "c", "d"]


def test_a_document_is_exchanged_for_its_next_version(store):
    store.add(DOCUMENTS)
    assert store.exchange([Document(id="a", content="blue car", metadata={"v": "y"})], {"a": {"v": "x"}})
    assert not store.exchange([Document(id="a", content="green car", metadata={"v": "z"})], {"a": {"v": "x"}})
    assert [document.content for document in store.get("a")] == ["blue car"]
    words = store.query(VectorStoreQuery(query_text="red", mode="keyword")).documents
    assert [document.id for document in words] == ["b"]


def test_an_exchange_that_fails_changes_nothing(store):
    store.add(DOCUMENTS)
    with pytest.raises(VectorStoreError, match="64 numbers, not 2"):
        store.exchange([Document(id="s", content="s", embedding=[1.0, 2.0])], {"a": {"v": "x"}})
    assert listed(store) == ["a", "b", "c", "d"]


def test_an_exchange_may_be_the_first_of_a_collection(store):
    assert not store.exchange([Document(id="s", content="s")], {"a": {}})
    assert store.exchange([Document(id="s", content="s")], {})
    assert listed(store) == ["s"]


def test_of_many_that_exchange_the_same_document_one_succeeds(store):
    store.add(DOCUMENTS)

    def work(number):
        return store.exchange([Document(id="a", content=f"car {number}", metadata={"v": number})], {"a": {"v": "x"}})

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(work, range(8)))
    assert sum(outcomes) == 1
    assert store.get("a")[0].metadata == {"v": outcomes.index(True)}

"""What every vector store must do, the same way."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_agents_py.errors import FilterError, VectorStoreError
from flink_agents_py.resources.vector_stores import Document, VectorStoreQuery
from flink_agents_py.testing.openai_replies import bag_of_words

DOCUMENTS = [
    Document(id="a", content="red car with four doors", metadata={"shop": "x", "stars": 5, "sold": True}),
    Document(id="b", content="red bike", metadata={"shop": "y", "stars": 3.5, "note": None}),
    Document(id="c", content="cold milk", metadata={"shop": "x", "stars": 1, "sold": False}),
    Document(id="d", content="the doors of a house", metadata={"shop": "z", "stars": "5", "a.b": "it's"}),
]


def ids(store, text="red car", **options):
    return [found.id for found in store.query(VectorStoreQuery(query_text=text, **options)).documents]


def test_the_nearest_come_first_with_their_similarity(store):
    store.add(DOCUMENTS)
    found = store.query(VectorStoreQuery(query_text="red car", limit=2)).documents
    assert [document.id for document in found] == ["b", "a"] or [document.id for document in found] == ["a", "b"]
    assert found[0].score >= found[1].score > 0.2
    assert found[0].metadata == next(d.metadata for d in DOCUMENTS if d.id == found[0].id)
    assert ids(store, "cold milk", limit=1) == ["c"]


def test_the_same_from_a_coroutine(store):
    store.add(DOCUMENTS)
    result = asyncio.run(store.aquery(VectorStoreQuery(query_text="cold milk", limit=1)))
    assert [document.id for document in result.documents] == ["c"]
    assert result.documents[0].score == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("filters", "fitting"),
    [
        ({"shop": "x"}, "ac"),
        ({"shop": {"$ne": "x"}}, "bd"),
        ({"stars": {"$gte": 3.5}}, "ab"),
        ({"stars": {"$gt": 1, "$lt": 5}}, "b"),
        ({"stars": {"$lte": 1}}, "c"),
        ({"stars": 5}, "a"),
        ({"stars": "5"}, "d"),
        ({"shop": {"$gte": "y"}}, "bd"),
        ({"sold": True}, "a"),
        ({"sold": False}, "c"),
        ({"sold": {"$ne": True}}, "bcd"),
        ({"note": None}, "abcd"),
        ({"sold": None}, "bd"),
        ({"sold": {"$ne": None}}, "ac"),
        ({"shop": "x", "stars": {"$gt": 2}}, "a"),
        ({"$or": [{"shop": "y"}, {"stars": 1}]}, "bc"),
        ({"$and": [{"shop": "x"}, {"$or": [{"sold": False}, {"stars": 4}]}]}, "c"),
        ({"shop": {"$in": ["y", "z", 7]}}, "bd"),
        ({"shop": {"$in": []}}, ""),
        ({"$and": []}, "abcd"),
        ({"a.b": "it's"}, "d"),
        ({"shop": "' OR 1=1 --"}, ""),
    ],
)
def test_filters_on_metadata(store, filters, fitting):
    store.add(DOCUMENTS)
    assert sorted(ids(store, filters=filters)) == sorted(fitting)
    words = ids(store, "red cold milk doors", mode="keyword", filters=filters)
    assert sorted(words) == sorted(fitting)


@pytest.mark.parametrize(
    "filters",
    [{"a": {"$like": 1}}, {"a": [1]}, {"$or": {}}, {"$and": [3]}, {"a": {"$gt": None}}, {'a"b': 1}, {"$x": 1}],
)
def test_malformed_filters_are_refused_with_their_place(store, filters):
    store.add(DOCUMENTS)
    with pytest.raises(FilterError, match="where: filter"):
        ids(store, filters=filters)


def test_words_are_found_whatever_else_is_asked(store):
    store.add(DOCUMENTS)
    assert ids(store, "MILK, please!", mode="keyword") == ["c"]
    assert sorted(ids(store, "doors", mode="keyword")) == ["a", "d"]
    assert ids(store, "doors", mode="keyword", limit=1)[0] in "ad"
    assert ids(store, "nothing of that", mode="keyword") == ["d"]  # "of"
    assert ids(store, '"(*) -', mode="keyword") == []


def test_a_hybrid_query_puts_first_what_both_ways_find(store):
    store.add(DOCUMENTS)
    found = ids(store, "car doors", mode="hybrid", limit=3)
    assert found[0] == "a"
    assert len(found) == len(set(found)) == 3
    assert ids(store, "car doors", mode="hybrid", filters={"shop": "z"}) == ["d"]


def test_a_document_of_the_same_id_is_replaced(store):
    store.add(DOCUMENTS)
    assert store.add(Document(id="c", content="hot tea", metadata={"shop": "w"})) == ["c"]
    assert ids(store, "milk", mode="keyword") == []
    assert ids(store, "hot tea", limit=1) == ["c"]
    assert store.get("c")[0].metadata == {"shop": "w"}


def test_adding_the_same_again_changes_nothing(store):
    bare = Document(content="no id at all", metadata={"n": 1})
    assert store.add([bare]) == store.add([bare])
    assert len(ids(store, "no id at all")) == 1


def test_documents_by_id_in_the_order_asked_for(store):
    store.add(DOCUMENTS)
    assert [document.id for document in store.get(["d", "nobody", "a"])] == ["d", "a"]
    assert store.get("a")[0].embedding == pytest.approx(bag_of_words(DOCUMENTS[0].content, 64), abs=1e-6)
    store.delete(["a", "nobody"])
    store.delete("b")
    assert store.get(["a", "b"]) == []
    assert sorted(ids(store)) == ["c", "d"]


def test_collections_keep_apart(store):
    store.add(DOCUMENTS[0], "cars")
    store.add(DOCUMENTS[1], "bikes")
    assert store.collections() == ["bikes", "cars"]
    assert ids(store, "red", collection_name="cars") == ["a"]
    assert ids(store, "red", mode="keyword", collection_name="bikes") == ["b"]
    store.delete_collection("cars")
    store.delete_collection("cars")
    assert store.collections() == ["bikes"]
    with pytest.raises(VectorStoreError, match="bikes"):
        ids(store, "red", collection_name="cars")


def test_vectors_of_another_model_are_refused(store):
    store.add(DOCUMENTS[0])
    with pytest.raises(VectorStoreError, match="64 numbers, not 2"):
        store.add(Document(id="z", content="short", embedding=[1.0, 2.0]))
    assert store.get("z") == []


def test_names_of_collections_are_checked(store):
    with pytest.raises(VectorStoreError, match="no name of a collection"):
        store.add(DOCUMENTS[0], 'x"; DROP TABLE')


def test_many_threads_write_and_read(store):
    def work(number):
        store.add(Document(id=f"n{number}", content=f"word{number} common", metadata={"n": number}))
        return ids(store, f"word{number}", mode="keyword")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(12))) == [[f"n{number}"] for number in range(12)]
    assert len(ids(store, "common", limit=50)) == 12

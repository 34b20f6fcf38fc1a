from __future__ import annotations

import json

import pytest

from jobs.review_analysis import LONGEST_LINE_BYTES, MalformedLineError, parse_review, rejected

GOOD = {"review_id": 7, "product_id": "B1", "ts": 1704067198000, "text": "Good."}


def line(**changes):
    return json.dumps({**GOOD, **changes}).encode()


def without(name):
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


def test_a_review_is_read_with_all_its_fields():
    assert parse_review(line()) == {**GOOD, "label": None}


def test_text_ids_and_extra_fields_are_fine():
    assert parse_review(line(review_id="r7", stars=5))["review_id"] == "r7"


@pytest.mark.parametrize(
    ("given", "read"), [(0, 0), (1, 1), (1.0, 1), (2, None), ("1", None), (True, None), ([], None)]
)
def test_a_label_counts_only_if_it_is_0_or_1(given, read):
    assert parse_review(line(label=given))["label"] == read


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "blank line"),
        (b" \t", "blank line"),
        (b"{", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"review_id": ' + b"9" * 5_000 + b"}", "not valid JSON"),
        (b"[1]", "not a JSON object but an array"),
        (b"null", "not a JSON object but null"),
        (b'"\xff"', "not valid UTF-8 at byte 1"),
        (without("text"), "field 'text' is missing"),
        (without("ts"), "field 'ts' is missing"),
        (line(text=None), "field 'text' must be text, not null"),
        (line(review_id=True), "field 'review_id' must be text or a whole number, not true"),
        (line(review_id=1.5), "field 'review_id' must be text or a whole number, not a number"),
        (line(ts="now"), "field 'ts' must be a number, not text"),
        (line(ts=float("nan")), "field 'ts' must be a finite number"),
        (line(product_id=""), "field 'product_id' is empty"),
        (line(product_id="\ud800"), "field 'product_id' has half of a surrogate pair"),
        (b" " * (LONGEST_LINE_BYTES + 1), "longer than 1048576 bytes"),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_a_malformed_line_is_refused_with_its_reason(raw, reason):
    with pytest.raises(MalformedLineError, match="^" + reason.replace("[", r"\[")):
        parse_review(raw)


def test_a_rejected_line_is_kept_as_text_whatever_its_bytes():
    assert rejected(3, "why", b"a\xff\n") == {"line": 3, "reason": "why", "text": "a\\xff\n"}


def test_a_long_rejected_line_is_cut():
    assert len(rejected(1, "why", b"x" * 10_000)["text"]) == 500

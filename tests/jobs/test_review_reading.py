from __future__ import annotations

import io
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from jobs import review_analysis
from jobs.review_analysis import ReadReviews, lines_before, lines_of_chunk

REVIEW = b'{"review_id":%d,"product_id":"p","ts":1,"text":"t"}'


def all_lines(content, chunk_bytes):
    with mock.patch.object(review_analysis, "CHUNK_BYTES", chunk_bytes):
        chunks = -(-len(content) // chunk_bytes)
        return [pair for chunk in range(chunks) for pair in lines_of_chunk(io.BytesIO(content), chunk)]


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"bcd", b"\r"])).map(b"".join), st.integers(1, 12))
def test_chunks_of_any_size_give_each_line_once_in_order(content, chunk_bytes):
    expected = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    if not expected[-1] and (content.endswith(b"\n") or not content):
        expected.pop()
    assert [line for _, line in all_lines(content, chunk_bytes)] == expected


@given(st.lists(st.sampled_from([b"a", b"\n", b"bcd"])).map(b"".join), st.integers(1, 12))
def test_the_line_number_of_an_offset_is_the_same_as_counting_from_the_start(content, chunk_bytes):
    for number, (offset, _) in enumerate(all_lines(content, chunk_bytes)):
        assert lines_before(io.BytesIO(content), offset) == number


def test_a_byte_order_mark_is_dropped_at_the_start_only():
    mark = b"\xef\xbb\xbf"
    assert [line for _, line in all_lines(mark + b"a\n" + mark + b"b", 64)] == [b"a", mark + b"b"]


def test_an_endless_line_is_cut_and_the_next_line_is_whole():
    with mock.patch.object(review_analysis, "LONGEST_LINE_BYTES", 10):
        assert [line for _, line in all_lines(b"x" * 100 + b"\nshort\n", 16)] == [b"x" * 11, b"short"]


def read(path, chunks, limit=None):
    reader = ReadReviews(str(path), limit, "rejects")
    return [record for chunk in chunks for record in reader.process_element(chunk, None)]


def test_rejects_carry_the_line_number_of_the_file_and_go_to_the_side_output(tmp_path):
    file = tmp_path / "reviews.jsonl"
    file.write_bytes(REVIEW % 1 + b"\r\nnonsense\n\n" + REVIEW % 4)
    with mock.patch.object(review_analysis, "CHUNK_BYTES", 20):
        records = read(file, range(-(-file.stat().st_size // 20)))
    assert [record["review_id"] for record in records if isinstance(record, dict)] == [1, 4]
    rejects = [record for record in records if isinstance(record, tuple)]
    assert [(tag, value["record"]["line"]) for tag, value in rejects] == [("rejects", 2), ("rejects", 3)]


def test_a_reader_that_starts_in_the_middle_after_a_recovery_numbers_lines_as_before(tmp_path):
    file = tmp_path / "reviews.jsonl"
    file.write_bytes(b"".join(b"bad %d\n" % number for number in range(1, 30)))
    with mock.patch.object(review_analysis, "CHUNK_BYTES", 20):
        chunks = range(-(-file.stat().st_size // 20))
        whole = read(file, chunks)
        resumed = read(file, chunks[4:])
    assert resumed == whole[-len(resumed) :]
    assert 0 < len(resumed) < len(whole)


def test_the_limit_counts_lines_of_the_file(tmp_path):
    file = tmp_path / "reviews.jsonl"
    file.write_bytes(b"bad\n" + REVIEW % 2 + b"\n" + REVIEW % 3 + b"\n")
    assert len(read(file, [0], limit=2)) == 2

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from jobs.review_report import Summary


def analysis(product="p", sentiment=0.5, count=1, mean=0.5):
    return {
        "kind": "analysis",
        "review_id": 1,
        "product_id": product,
        "sentiment": sentiment,
        "count": count,
        "mean": mean,
    }


def shown(summary):
    console = Console(file=io.StringIO(), width=100)
    summary.show(console, Path("out"), Path("out.rejects.jsonl"))
    return console.file.getvalue()


def test_no_agreement_is_claimed_without_labels():
    summary = Summary()
    summary.add(analysis())
    assert summary.agreement() is None


def test_agreement_counts_zero_as_not_positive_and_also_says_what_it_is_without_zeros():
    summary = Summary()
    for sentiment, label in [(0.5, 1), (-0.5, 0), (0.0, 0), (0.0, 1), (0.1, 0)]:
        summary.add(analysis(sentiment=sentiment), label)
    assert "in 3 of 5 labelled reviews (60.0%" in summary.agreement()
    assert "66.7% without the 2 scored exactly 0" in summary.agreement()


def test_agreement_of_neutral_reviews_alone_does_not_divide_by_zero():
    summary = Summary()
    summary.add(analysis(sentiment=0.0), 0)
    assert "1 of 1" in summary.agreement()


def test_the_table_has_the_latest_picture_of_each_product_worst_first():
    summary = Summary()
    summary.add(analysis("fine", count=1, mean=0.4))
    summary.add(analysis("fine", count=2, mean=0.3))
    summary.add(analysis("[red]bad", count=1, mean=-0.3))
    summary.add({"kind": "alert", "product_id": "[red]bad", "mean": -0.3, "count": 1})
    summary.add({"line": 1, "reason": "", "text": ""})
    text = shown(summary)
    assert text.index("[red]bad") < text.index("fine")
    assert "at review 1 (-0.30)" in text
    assert "reviews analysed: 3 (products: 2)" in text
    assert "lines rejected: 1" in text


def test_an_empty_input_has_a_summary_too():
    assert "reviews analysed: 0" in shown(Summary())


def test_a_long_table_is_cut_and_says_so():
    summary = Summary()
    for number in range(60):
        summary.add(analysis(f"p{number:02d}", mean=number / 100))
    assert "10 products with a higher mean" in shown(summary)

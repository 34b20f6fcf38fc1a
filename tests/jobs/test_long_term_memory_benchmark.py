"""The benchmark of long-term memory counts right; its figures are for people."""

from __future__ import annotations

import json

from jobs.benchmarks.long_term_memory import main


def test_it_counts_what_is_kept_with_and_without_compaction(capsys):
    assert main(["--items", "60", "--keys", "3", "--limit", "6", "--model-ms", "1", "--in-flight", "2"]) == 0
    off, on, ratios = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (off["compaction"], off["items"], off["largest_set"], off["compactions"]) == ("off", 60, 20, 0)
    assert on["items_added"] == 60
    assert on["largest_set"] <= 6
    assert on["items"] == 60 - on["items_compacted"] + on["compactions"]
    assert on["tokens_after_compaction"] < on["tokens_before_compaction"]
    assert off["searches"] == on["searches"] == 12
    assert ratios["on / off"]["items"] == round(on["items"] / 60, 3)

"""Side outputs that external actions use; no pipeline needs to declare them."""

from __future__ import annotations

ACTION_RESULTS = "action-results"
"""``ActionResult.to_plain()`` of every call, failed ones too."""
ACTION_AUDIT = "action-audit"
"""What was done when under which spec, without the values."""
DEAD_LETTERS = "dead-letters"
"""``FailedAction.to_plain()`` of every call that failed; the dead letters of agents' own actions are here too."""

EXTERNAL_TAGS = (ACTION_RESULTS, ACTION_AUDIT, DEAD_LETTERS)

"""One text for equal values: what call identities and fingerprints are digests of (S5)."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from datetime import datetime, timezone
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from flink_agents_py.serde.classes import class_name
from flink_agents_py.serde.direct import direct_text
from flink_agents_py.serde.text import TAG, dumps_sorted, plain_text
from flink_agents_py.serde.writer import UnencodableError, Writer


def canonical(value: Any) -> bytes:
    """Bytes that are equal for equal values of equal type, in any process.

    The order of dictionaries and sets, the sharing of objects inside and the hash seed make no difference. ``1``,
    ``1.0`` and ``True`` differ, as do lists and tuples. Aware datetimes count by their instant, decimals without
    trailing zeros, rows by field name, dataclasses by the fields they compare. Nothing reads these bytes back.

    Raises:
        EncodeError: something inside has no canonical form (it would need pickle); the message names the path to it.
    """
    text = plain_text(value, dumps_sorted) if type(value) is dict or type(value) is list else None
    if text is None:
        text = direct_text(value, ordered=True)
    if text is None:
        text = dumps_sorted(_CanonicalWriter().write(value))
    return text.encode()


def digest(value: Any) -> str:
    """Hex blake2b-128 of :func:`canonical`."""
    return blake2b(canonical(value), digest_size=16).hexdigest()


class _CanonicalWriter(Writer):
    def _on_dict(self, value: Any) -> Any:
        plain = super()._on_dict(value)
        if TAG in plain:
            plain["v"].sort(key=self._order)
        return plain

    def _on_datetime(self, value: datetime) -> Any:
        if value.utcoffset() is None:
            return {TAG: "datetime", "v": value.replace(tzinfo=None).isoformat()}
        with suppress(OverflowError):  # the first or last day there is: no other offset can write this instant
            value = value.astimezone(timezone.utc)
        return {TAG: "datetime", "v": value.isoformat()}

    def _on_decimal(self, value: Decimal) -> Any:
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):  # NaN or infinite
            return {TAG: "decimal", "v": str(value)}
        text = "".join(map(str, digits))
        kept = text.rstrip("0")
        if not kept:
            return {TAG: "decimal", "v": "0"}  # 0 == -0 == 0.00
        return {TAG: "decimal", "v": [sign, kept, exponent + len(text) - len(kept)]}

    def _on_data(self, value: Any) -> Any:
        names = [field.name for field in dataclasses.fields(value) if field.compare and hasattr(value, field.name)]
        fields = {name: getattr(value, name) for name in names}
        return {TAG: "data", "c": class_name(type(value)), "v": self._fields(value, fields)}

    def _on_model(self, value: Any) -> Any:
        document: dict[str, Any] = super()._on_model(value)
        document.pop("s", None)  # which fields were given explicitly is no part of equality
        return document

    def _on_row(self, value: Any) -> Any:
        document: dict[str, Any] = super()._on_row(value)
        if "f" in document:
            pairs = sorted(zip(document["f"], document["v"], strict=True), key=lambda pair: str(pair[0]))
            document.update(f=[name for name, _ in pairs], v=[item for _, item in pairs])
        return document

    def _reference(self, cls: type) -> dict[str, Any]:
        return {"c": class_name(cls)}  # nobody imports it from here

    def _order(self, plain: Any) -> str:
        return dumps_sorted(plain)

    def _on_pickled(self, value: Any) -> Any:
        raise UnencodableError(
            f"a {class_name(type(value))} has no canonical form",
            "pass a plain value, or name= and a key of your own",
        )

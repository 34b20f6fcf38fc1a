"""One text for equal values: what call identities and fingerprints are digests of (S5)."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from flink_agents_py.serde.classes import class_name
from flink_agents_py.serde.text import TAG, dumps_sorted, is_plain, is_unicode
from flink_agents_py.serde.writer import Unencodable, Writer


def canonical(value: Any) -> bytes:
    """Bytes that are equal for equal values of equal type, whatever the order of dictionaries and sets, the sharing of
    objects inside, the process or the hash seed.

    ``1``, ``1.0`` and ``True`` differ, as do lists and tuples. Aware datetimes count by their instant, decimals without
    trailing zeros, rows by field name, dataclasses by the fields they compare. Nothing reads these bytes back.

    Raises:
        EncodeError: something inside has no canonical form (it would need pickle); the message names the path to it.
    """
    kind = type(value)
    if (kind is dict or kind is list) and is_plain(value):
        try:
            text = dumps_sorted(value)
        except ValueError:  # NaN, infinity, an enormous integer
            pass
        else:
            if text.isascii() or is_unicode(text):
                return text.encode()
    return dumps_sorted(_CanonicalWriter(allow_pickle=False).write(value)).encode()


def digest(value: Any) -> str:
    """Hex blake2b-128 of :func:`canonical`."""
    return blake2b(canonical(value), digest_size=16).hexdigest()


class _CanonicalWriter(Writer):
    def on_pairs(self, value: Any, depth: int) -> Any:
        return sorted(super().on_pairs(value, depth), key=self.order)

    def on_ordered(self, value: Any, depth: int) -> Any:
        return {TAG: "odict", "v": super().on_pairs(value, depth)}  # here order is part of the value

    def on_datetime(self, value: datetime, depth: int) -> Any:
        if value.utcoffset() is None:
            return {TAG: "datetime", "v": value.replace(tzinfo=None).isoformat()}
        try:
            return {TAG: "datetime", "v": value.astimezone(timezone.utc).isoformat()}
        except OverflowError:  # year 1 or 9999: no other offset can write this instant
            return {TAG: "datetime", "v": value.isoformat()}

    def on_decimal(self, value: Decimal, depth: int) -> Any:
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            return {TAG: "decimal", "v": str(value)}
        kept = list(digits)
        while len(kept) > 1 and kept[-1] == 0:
            kept.pop()
            exponent += 1
        if kept == [0]:
            sign = exponent = 0
        return {TAG: "decimal", "v": [sign, "".join(map(str, kept)), exponent]}

    def on_data(self, value: Any, depth: int) -> Any:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}
        return {TAG: "data", "c": class_name(type(value)), "v": self.part(value, fields, depth)}

    def on_model(self, value: Any, depth: int) -> Any:
        document: dict[str, Any] = super().on_model(value, depth)
        document.pop("s", None)
        return document

    def on_row(self, value: Any, depth: int) -> Any:
        document: dict[str, Any] = super().on_row(value, depth)
        if "f" in document:
            pairs = sorted(zip(document["f"], document["v"], strict=True), key=lambda pair: pair[0])
            document.update(f=[name for name, _ in pairs], v=[item for _, item in pairs])
        return document

    def refers(self, cls: type) -> bool:
        return True  # by name only; nobody will import it from here

    def order(self, plain: Any) -> str:
        return dumps_sorted(plain)

    def on_pickled(self, value: Any, depth: int) -> Any:
        raise Unencodable(
            f"a {class_name(type(value))} has no canonical form",
            "pass a plain value, or name= and a key of your own",
        )

"""Values as JSON text that give back equal values of equal type: what memory, journals, records and plans are made of.

Plain JSON values (``None``, ``bool``, ``int``, ``float``, ``str``, ``list``, ``dict`` with string keys) are written as
they are, at close to the speed of :func:`json.dumps`. Everything else becomes a tagged object ``{"$t": kind, ...}``:
bytes, tuples, sets, dates, ``Decimal``, ``UUID``, enums, dataclasses, pydantic models, named tuples and PyFlink rows by
an explicit encoding; what is left by pickle, announced once per type in the log ``flink_agents_py.serde``.

Classes are stored as ``module:qualname`` and must be importable under that name when the value is read. To change a
class that is in somebody's savepoint:

* rename or move it: keep an alias under the old name (``OldName = NewName``);
* add a field: give it a default;
* anything else: raise its version and say how to read the older one::

    @dataclass
    class Order:
        __state_version__ = 2  # an int, 0 where there is none
        total_cents: int

        @classmethod
        def __state_migrate__(cls, version: int, fields: dict[str, Any]) -> dict[str, Any]:
            if version < 2:
                fields["total_cents"] = round(fields.pop("total") * 100)
            return fields

The same two names work on pydantic models (events included) and named tuples. Reading neither validates nor calls
``__init__``: a value comes back as it was.
"""

from flink_agents_py.serde.canonical import canonical, digest
from flink_agents_py.serde.codec import decode, encode, from_plain, to_plain

__all__ = ["canonical", "decode", "digest", "encode", "from_plain", "to_plain"]

"""The engine on PyFlink: a ``KeyedProcessFunction`` and what surrounds it."""

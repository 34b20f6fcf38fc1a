"""URLs in options: they travel in plans and appear in logs, so they must not carry a secret."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from flink_agents_py.errors import ConfigError

_SECRET = re.compile(r"(?i)(password|passwd|secret|token)\s*=")

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d*)?")


def refuse_credentials(url: str, source: str) -> None:
    """Check that ``url`` (or path) has no credentials in it.

    Raises:
        ConfigError: it has; the message does not repeat them.
    """
    if _has_secret(url):
        raise ConfigError(
            "a URL in the options must not contain credentials",
            where=f"set by {source}",
            fix="take user and password out of it, and set the environment variables FLINK_AGENTS_PY_STORE_USER and "
            "FLINK_AGENTS_PY_STORE_PASSWORD where the workers run",
        )


def _has_secret(url: str) -> bool:
    if _SECRET.search(url):
        return True
    if "://" not in url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return True  # not readable, so it cannot be told to be free of them
    if "@" in parts.netloc:
        return True
    # An unquoted "/", "?" or "#" in a password ends the authority early; the "@" is then somewhere behind it.
    return "@" in url and not all(_HOST.fullmatch(host) for host in parts.netloc.split(","))

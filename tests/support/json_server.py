"""A loopback server that answers each POST with the next of the given JSON documents, and remembers the requests."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import Self


class JsonServer:
    """Use it as a context manager. ``answers`` are documents, or ``(status, headers, document)``."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        """Path, headers and body of each request."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append((self.path, dict(self.headers), body))
                answer = server._answers.pop(0)
                status, headers, document = answer if isinstance(answer, tuple) else (200, {}, answer)
                content = json.dumps(document).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Type": "application/json"}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

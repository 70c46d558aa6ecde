"""A server with OpenAI's protocol on a real socket, which answers or misbehaves as it is told."""

import http.server
import json
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Reply:
    """One answer: JSON content or raw bytes, after some seconds; status None hangs up."""

    content: object = None
    status: int | None = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: threading.Event | None = None  # nothing is sent before it is set


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server: EndpointServer = self.server
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.asked.append((self.path, content, dict(self.headers)))
            server.running += 1
            server.most = max(server.most, server.running)
            reply = server.next.popleft() if server.next else None
        try:
            reply = reply or server.answer(self.path, content)
            if reply.wait:
                reply.wait.wait()
            if reply.status is None:
                self.close_connection = True
                return
            body = reply.content if isinstance(reply.content, bytes) else json.dumps(reply.content).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True
        finally:
            with server.lock:
                server.running -= 1

    def log_message(self, *arguments):
        pass


class EndpointServer(http.server.ThreadingHTTPServer):
    """`answer(path, content)` is called for every request, once the replies in `next` are used up."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.next, self.lock = answer, deque(), threading.Lock()
        self.asked, self.running, self.most = [], 0, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def serving(answer):
    """A running `EndpointServer`."""
    server = EndpointServer(answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()

"""A server on this machine that serves files from memory, and remembers what it was asked for."""

import contextlib
import http.server
import socket
import threading


class LocalServer:
    """Serves `files` (name: content); `cut` names files of which only half is sent."""

    def __init__(self):
        self.files, self.cut, self.asked = {}, set(), []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                name = self.path.lstrip("/")
                if name not in outer.files:
                    self.send_error(404)
                    return
                content = outer.files[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the client has closed the connection
                    self.wfile.write(content[: len(content) // 2] if name in outer.cut else content)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextlib.contextmanager
def local_server():
    local = LocalServer()
    thread = threading.Thread(target=local.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield local
    finally:
        local.server.shutdown()
        local.server.server_close()
        thread.join()


def closed_port():
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"

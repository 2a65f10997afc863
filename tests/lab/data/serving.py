"""A server on this machine that serves files from memory, and remembers what it was asked for."""

import contextlib
import http.server
import socket
import threading


class LocalServer:
    """Serves `files` (name: content); `cut` names files of which half is sent, with the length of the whole.

    `unstated` leaves out the length, `encoding` states one for the content, and `sent` is the bytes that were taken.
    """

    def __init__(self):
        self.files, self.cut, self.asked = {}, set(), []
        self.unstated, self.encoding, self.sent = False, "", 0
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
                if not outer.unstated:
                    self.send_header("Content-Length", str(len(content)))
                if outer.encoding:
                    self.send_header("Content-Encoding", outer.encoding)
                self.end_headers()
                content = content[: len(content) // 2] if name in outer.cut else content
                for start in range(0, len(content), 1 << 16):
                    try:
                        self.wfile.write(content[start : start + (1 << 16)])
                    except OSError:  # whoever asked has heard enough
                        break
                    outer.sent += 1 << 16

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

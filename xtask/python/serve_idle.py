"""Opens connections, sends a request on each, prints `open`, and keeps them until its input ends. Arguments: a port of this
machine, and the number of connections."""

import resource
import socket
import sys

REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def main():
    port, count = int(sys.argv[1]), int(sys.argv[2])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    connections = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.sendall(REQUEST)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connections.append(connection)
    print("open", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

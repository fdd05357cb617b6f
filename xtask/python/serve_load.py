"""`tenon serve` under load with faults: no answer is lost, doubled or wrong.

    python serve_load.py TENON MODELS FOLDER SECONDS

TENON is the program, MODELS a folder with negative.onnx, absolute.onnx and sum.onnx, FOLDER an empty one for what is served.

Clients check every answer. Others break their connections, send and read slowly, or are killed, while models are replaced.
At the end nothing may be in flight, and memory and open files may not have grown. The last line of the output is "done".
"""

import http.client
import json
import multiprocessing
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from tritonclient import grpc as triton
from tritonclient.utils import InferenceServerException

TOKEN = "administrator-of-the-load"
REPLACED = ["negative", "absolute"]
SUM_SETTINGS = """[sequence]
start_input = "start"
[[sequence.state]]
input = "h"
output = "h_next"
"""
# What a server that is busy or loads a model may answer.
REFUSED = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "CANCELLED"}
# Grown memory that no load explains.
MEMORY_FACTOR, MEMORY_BYTES = 1.5, 64 << 20
PROGRESS = 30
MAX_PROBLEMS = 20


class Work:
    """One process: its random numbers, its counts, and its end."""

    def __init__(self, name, addresses, seed, stop, results):
        self.name, self.addresses, self.stop, self.results = name, addresses, stop, results
        self.random = np.random.default_rng(seed)
        self.counts = {"answered": 0, "refused": 0, "broken": 0}
        self.requests = 0

    def rows(self, count):
        """Rows that float32 has exactly."""
        return self.random.integers(-4000, 4000, (count, 2)).astype(np.float32) / 4

    def next_id(self):
        self.requests += 1
        return f"{self.name}-{self.requests}"

    def is_stopped(self):
        return self.stop.is_set()

    def check(self, is_right, text):
        if not is_right:
            raise AssertionError(f"{self.name}: {text}")


class Request:
    """A request over REST with the answer that it must have."""

    def __init__(self, work, rows=None, is_binary=None):
        self.id = work.next_id()
        self.model = REPLACED[work.random.integers(2)]
        self.rows = work.rows(work.random.integers(1, 5)) if rows is None else rows
        self.is_binary = bool(work.random.integers(2)) if is_binary is None else is_binary
        tensor = {"name": "in", "shape": list(self.rows.shape), "datatype": "FP32"}
        data = b""
        if self.is_binary:
            data = self.rows.tobytes()
            tensor["parameters"] = {"binary_data_size": len(data)}
        else:
            tensor["data"] = self.rows.tolist()
        document = {"id": self.id, "inputs": [tensor], "parameters": {"binary_data_output": self.is_binary}}
        text = json.dumps(document).encode()
        head = f"POST /v2/models/{self.model}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text) + len(data)}\r\n"
        if self.is_binary:
            head += f"Inference-Header-Content-Length: {len(text)}\r\n"
        self.bytes = head.encode() + b"\r\n" + text + data

    def check(self, work, answer):
        work.check(answer is not None, f"no answer to {self.id}")
        body = answer.body
        if answer.status in (429, 503):
            work.counts["refused"] += 1
            return
        work.check(answer.status == 200, f"status {answer.status}: {body[:200]}")
        length = int(answer.headers.get("inference-header-content-length", len(body)))
        document = json.loads(body[:length])
        work.check(document["id"] == self.id, f"the answer of {document['id']} to {self.id}")
        output = document["outputs"][0]
        flat = np.frombuffer(body[length:], np.float32) if self.is_binary else np.array(output["data"], np.float32)
        expected = -self.rows if self.model == "negative" else np.abs(self.rows)
        work.check(np.array_equal(flat.reshape(output["shape"]), expected), f"{self.id} has a wrong result")
        work.counts["answered"] += 1


def connect(work):
    connection = socket.create_connection(work.addresses[0], timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Answer:
    """An answer of HTTP/1.1 whose head has the length of the body."""

    def __init__(self, head, body):
        lines = head.decode().split("\r\n")
        self.status, self.body = int(lines[0].split()[1]), body
        self.headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}


class Answers:
    """The answers of a connection, with all bytes that came."""

    def __init__(self, connection):
        self.connection, self.bytes = connection, b""

    def next(self):
        """The next answer; None if the connection ended before its first byte."""
        while b"\r\n\r\n" not in self.bytes:
            if not self.receive():
                if not self.bytes:
                    return None
                raise AssertionError(f"the connection ended within the head of an answer: {self.bytes[:200]}")
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        length = int(Answer(head, b"").headers["content-length"])
        while len(self.bytes) < length:
            if not self.receive():
                raise AssertionError(f"the connection ended after {len(self.bytes)} of {length} bytes of an answer")
        body, self.bytes = self.bytes[:length], self.bytes[length:]
        return Answer(head, body)

    def receive(self):
        received = self.connection.recv(1 << 16)
        self.bytes += received
        return len(received)

    def has_more(self):
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(self.bytes or readable)


def rest(work):
    """Requests in a row on one connection."""
    while not work.is_stopped():
        with connect(work) as connection:
            answers = Answers(connection)
            for _ in range(work.random.integers(1, 200)):
                request = Request(work)
                connection.sendall(request.bytes)
                request.check(work, answers.next())
                work.check(not answers.has_more(), f"more than one answer to {request.id}")
                if work.is_stopped():
                    return


def pipelined(work):
    """Several requests before the first answer, which come in their order. One that closes its half may get none."""
    while not work.is_stopped():
        with connect(work) as connection:
            answers = Answers(connection)
            requests = [Request(work) for _ in range(work.random.integers(2, 9))]
            connection.sendall(b"".join(request.bytes for request in requests))
            is_half_closed = work.random.integers(8) == 0
            if is_half_closed:
                connection.shutdown(socket.SHUT_WR)
            for request in requests:
                answer = answers.next()
                if answer is None and is_half_closed:
                    work.counts["broken"] += 1
                    break
                request.check(work, answer)


def triton_inputs(rows):
    tensor = triton.InferInput("in", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(rows)
    return [tensor]


def is_refusal(error):
    return any(status in str(error.status()) for status in REFUSED)


def grpc(work):
    """Single calls, of which some have a deadline that passes."""
    client = triton.InferenceServerClient(":".join(map(str, work.addresses[1])))
    while not work.is_stopped():
        rows, request = work.rows(work.random.integers(1, 5)), work.next_id()
        limit = 0.0005 if work.random.integers(50) == 0 else None
        try:
            result = client.infer("negative", triton_inputs(rows), request_id=request, client_timeout=limit)
        except InferenceServerException as error:
            work.check(is_refusal(error), f"{request}: {error}")
            work.counts["refused"] += 1
            continue
        work.check(result.get_response().id == request, f"the answer of {result.get_response().id} to {request}")
        work.check(np.array_equal(result.as_numpy("out"), -rows), f"{request} has a wrong result")
        work.counts["answered"] += 1
    client.close()


def stream(work):
    """Streams of requests: each has one answer."""
    while not work.is_stopped():
        client = triton.InferenceServerClient(":".join(map(str, work.addresses[1])))
        sent, found, problems = {}, {}, []

        def take(result, error):
            if error is not None:
                if not is_refusal(error):
                    problems.append(str(error))
                work.counts["refused"] += 1
                return
            identity = result.get_response().id
            if identity in found:
                problems.append(f"two answers to {identity}")
            found[identity] = result.as_numpy("out")

        client.start_stream(take)
        for _ in range(work.random.integers(1, 100)):
            rows, request = work.rows(work.random.integers(1, 5)), work.next_id()
            sent[request] = rows
            client.async_stream_infer("absolute", triton_inputs(rows), request_id=request)
        before = work.counts["refused"]
        # Waits for the answers of all requests.
        client.stop_stream()
        client.close()
        refused = work.counts["refused"] - before
        for request, rows in sent.items():
            if request in found:
                work.check(np.array_equal(found[request], np.abs(rows)), f"{request} has a wrong result")
        work.check(not problems, "; ".join(problems[:3]))
        work.check(len(found) == len(sent) or refused, f"{len(found)} answers to {len(sent)} requests of a stream")
        work.counts["answered"] += len(found)


def sequences(work):
    """Running sums: a request that is executed twice or never changes all that follow."""
    connection, number = http.client.HTTPConnection(*work.addresses[0], timeout=60), 0
    while not work.is_stopped():
        number += 1
        sequence, total = f"{work.name}-{number}", np.zeros((1, 2), np.float32)
        length = int(work.random.integers(2, 40))
        for at in range(length):
            rows = work.rows(1)
            total = total + rows
            parameters = {"sequence_id": sequence, "sequence_start": at == 0, "sequence_end": at + 1 == length}
            tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": rows.ravel().tolist()}
            document = {"id": work.next_id(), "parameters": parameters, "inputs": [tensor]}
            connection.request("POST", "/v2/models/sum/infer", json.dumps(document))
            answer = connection.getresponse()
            body = answer.read()
            work.check(answer.status == 200, f"status {answer.status}: {body[:200]}")
            outputs = {output["name"]: output["data"] for output in json.loads(body)["outputs"]}
            work.check(outputs["y"] == (-total).ravel().tolist(), f"sequence {sequence}, request {at}: another sum")
            work.counts["answered"] += 1


def faults(work):
    """Connections that break, and slow ones."""
    reset = struct.pack("ii", 1, 0)
    while not work.is_stopped():
        kind = work.random.integers(7)
        request = Request(work)
        with connect(work) as connection:
            if kind < 3:
                # Within the head, within the body, or before the answer.
                cut = [30, len(request.bytes) - 5, len(request.bytes)][kind]
                connection.sendall(request.bytes[:cut])
                time.sleep(float(work.random.random()) * 0.002)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                work.counts["broken"] += 1
            elif kind == 3:
                for start in range(0, len(request.bytes), 40):
                    connection.sendall(request.bytes[start : start + 40])
                    time.sleep(0.01)
                request.check(work, Answers(connection).next())
            elif kind == 4:
                request = Request(work, work.rows(100_000), True)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                connection.sendall(request.bytes)
                time.sleep(1)
                request.check(work, Answers(connection).next())
            elif kind == 5:
                connection.sendall(bytes(work.random.integers(0, 256, 600, np.uint8)) + b"\r\n\r\n")
                try:
                    while connection.recv(4096):
                        pass
                except ConnectionError:
                    pass
                work.counts["broken"] += 1
            else:
                time.sleep(0.2)


ROLES = {"rest": rest, "pipelined": pipelined, "grpc": grpc, "stream": stream, "sequences": sequences, "faults": faults}
# Processes that are killed while they have requests.
KILLED = ["rest", "grpc", "stream"]


def process(role, name, addresses, seed, stop, results):
    """The body of a process."""
    # The server is ended by its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work = Work(name, addresses, seed, stop, results)
    problem = None
    try:
        ROLES[role](work)
    except Exception as error:
        problem = f"{name}: {type(error).__name__}: {error}"
    results.put((name, work.counts, problem))


class Server:
    """The server, and what it says of itself."""

    def __init__(self, program, models, folder):
        self.folder, self.models = folder / "models", models
        self.folder.mkdir(parents=True)
        for name in [*REPLACED, "sum"]:
            shutil.copy(models / f"{name}.onnx", self.folder)
        (self.folder / "sum.toml").write_text(SUM_SETTINGS)
        token = folder / "token"
        token.write_text(TOKEN)
        command = [program, "serve", self.folder, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--json", "--poll", "0.2"]
        command += ["--admin-token-file", token]
        self.log = (folder / "log").open("w")
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        started = json.loads(self.child.stdout.readline())
        self.addresses = [split(started[kind]) for kind in ("http", "grpc")]
        self.replaced = 0

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(*self.addresses[0], timeout=60)
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        assert answer.status == 200, f"{path}: {answer.status}: {body}"
        return body

    def metrics(self):
        """The sums of all samples of a name."""
        found = {}
        for line in self.request("GET", "/metrics").splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = name.split("{")[0]
                found[name] = found.get(name, 0.0) + float(value)
        return found

    def replace(self):
        """Replaces a model by its copy, and sometimes loads it at once."""
        name = random.choice(REPLACED)
        new = self.folder / ".new"
        shutil.copy(self.models / f"{name}.onnx", new)
        os.replace(new, self.folder / f"{name}.onnx")
        if random.random() < 0.3:
            self.request("POST", f"/v2/repository/models/{name}/load", "{}")
        self.replaced += 1

    def memory(self):
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def files(self):
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def end(self):
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(60)


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


class Clients:
    """The processes that make the load."""

    def __init__(self, addresses):
        self.context = multiprocessing.get_context("spawn")
        self.addresses, self.stop, self.results = addresses, self.context.Event(), self.context.Queue()
        self.seeds, self.kills = 0, 0
        self.checking = [self.start(role) for role in ROLES]
        self.killed = [self.start(role) for role in KILLED]
        self.counts, self.problems = {}, []

    def start(self, role):
        self.seeds += 1
        arguments = (role, f"{role}{self.seeds}", self.addresses, self.seeds, self.stop, self.results)
        process_ = self.context.Process(target=process, args=arguments, name=arguments[1])
        process_.start()
        return process_

    def kill(self):
        """Kills a process and starts another one."""
        at = random.randrange(len(self.killed))
        self.killed[at].kill()
        self.killed[at].join()
        self.killed[at] = self.start(KILLED[at])
        self.kills += 1

    def end(self):
        self.stop.set()
        for process_ in self.killed:
            process_.kill()
            process_.join()
        expected = {process_.name for process_ in self.checking}
        while expected:
            # Processes to be killed report too, if they find a problem before.
            expected.discard(self.take(self.results.get(timeout=120)))
        for process_ in self.checking:
            process_.join()

    def take(self, result):
        name, counts, problem = result
        for kind, count in counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
        print(f"{name}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}", flush=True)
        if problem is not None:
            self.problems.append(problem)
        return name


def wait_until_idle(server):
    """The metrics once nothing is in flight; what is still open after a while is a problem."""
    for _ in range(100):
        metrics = server.metrics()
        if metrics["tenon_in_flight"] == 0 and metrics["tenon_connections"] <= 1:
            break
        time.sleep(0.1)
    return metrics


def main():
    program, models, folder, seconds = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4])
    random.seed(1)
    server = Server(program, models, folder)
    files = server.files()
    clients = Clients(server.addresses)
    start = time.monotonic()
    shown, memory, killed = start, None, start + 5
    while (elapsed := time.monotonic() - start) < seconds and server.child.poll() is None:
        time.sleep(1)
        server.replace()
        if time.monotonic() > killed:
            clients.kill()
            killed = time.monotonic() + random.uniform(0.5, 5)
        if memory is None and elapsed > min(seconds / 4, 300):
            memory = server.memory()
        if time.monotonic() > shown + PROGRESS:
            shown = time.monotonic()
            answers = server.metrics()["tenon_request_seconds_count"]
            state = f"{answers:.0f} answers, {clients.kills} clients killed, {server.replaced} models replaced"
            print(f"{elapsed:.0f} s: {state}, {server.memory() >> 20} MiB, {server.files()} files", flush=True)
    problems = clients.problems
    if server.child.poll() is not None:
        problems.append(f"the server ended with status {server.child.returncode}")
    clients.end()
    if server.child.poll() is None:
        metrics = wait_until_idle(server)
        for name, most in {"tenon_in_flight": 0, "tenon_connections": 1, "tenon_queue_depth": 0, "tenon_body_bytes": 0}.items():
            if metrics[name] > most:
                problems.append(f"{name} is {metrics[name]:.0f} without clients")
        answered = clients.counts["answered"]
        if metrics["tenon_request_seconds_count"] < answered:
            problems.append(f"the server counts {metrics['tenon_request_seconds_count']:.0f} answers of {answered}")
        if server.files() > files + 4:
            problems.append(f"{server.files()} open files, {files} at the start")
        if memory is not None and server.memory() > max(memory * MEMORY_FACTOR, memory + MEMORY_BYTES):
            problems.append(f"{server.memory() >> 20} MiB of memory, {memory >> 20} MiB earlier")
        status = server.end()
        if status != 0:
            problems.append(f"the server ended with status {status} at SIGTERM")
    for problem in problems[:MAX_PROBLEMS]:
        print(problem)
    state = ", ".join(f"{count} {kind}" for kind, count in clients.counts.items())
    print(f"{seconds:.0f} s: {state}, {clients.kills} clients killed, {server.replaced} models replaced")
    print("failed" if problems else "done")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

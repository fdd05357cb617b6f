"""The GIL, signals, time limits, threads, forks, pickles, shutdown."""

from __future__ import annotations

import concurrent.futures
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest
import tenon
from conftest import DIGITS, make_slow


def test_other_threads_of_python_run_meanwhile(slow, slow_inputs):
    steps = 0
    is_over = False

    def count() -> None:
        nonlocal steps
        while not is_over:
            steps += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    time.sleep(0.05)
    before = steps
    with pytest.raises(tenon.DeadlineExceeded):
        slow.run(slow_inputs, timeout=0.4)
    during = steps - before
    is_over = True
    counter.join()
    # With the lock held there would be none; the switch interval alone allows 200 in a second.
    assert during > 500


def interrupt_after(seconds: float) -> threading.Thread:
    main = threading.main_thread()

    def interrupt() -> None:
        time.sleep(seconds)
        started.append(time.monotonic())
        signal.pthread_kill(main.ident, signal.SIGINT)

    started: list[float] = []
    thread = threading.Thread(target=interrupt)
    thread.started_at = started
    thread.start()
    return thread


def test_ctrl_c_ends_an_execution(slow, slow_inputs):
    thread = interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        slow.run(slow_inputs)
    took = time.monotonic() - thread.started_at[0]
    thread.join()
    assert took < 0.2
    # The model is usable afterwards.
    with pytest.raises(tenon.DeadlineExceeded):
        slow.run(slow_inputs, timeout=0.01)


def test_ctrl_c_ends_a_compilation(tmp_path):
    # Unrolling and placing thousands of nodes takes seconds.
    from onnx import TensorProto, helper
    from conftest import make_model, value

    rng = numpy.random.default_rng(0)
    weights = {f"w{i}": rng.random((256, 256), numpy.float32) for i in range(60)}
    names = [f"v{i}" for i in range(6001)]
    nodes = []
    for at in range(6000):
        if at % 100 == 0:
            nodes.append(helper.make_node("MatMul", [names[at], f"w{at // 100}"], [names[at + 1]]))
        else:
            nodes.append(helper.make_node("Tanh" if at % 2 else "Sigmoid", [names[at]], [names[at + 1]]))
    x, y = value("v0", TensorProto.FLOAT, [256, 256]), value("v6000", TensorProto.FLOAT, [256, 256])
    model = make_model(nodes, [x], [y], weights)
    data = model.SerializeToString()
    thread = interrupt_after(0.5)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(20):
            tenon.compile(data)
    took = time.monotonic() - thread.started_at[0]
    thread.join()
    assert took < 0.2


def test_a_timeout_ends_compilation_and_execution(slow, slow_inputs):
    with pytest.raises(TimeoutError) as caught:
        tenon.compile(DIGITS, timeout=0.0)
    assert isinstance(caught.value, tenon.DeadlineExceeded)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        slow.run(slow_inputs, timeout=0.2)
    assert 0.15 < time.monotonic() - started < 0.5
    # The timeout of compiling is not that of writing.
    package = tenon.compile(DIGITS, timeout=5.0)
    timely = tenon.compile(DIGITS, timeout=0.5)
    time.sleep(0.5)
    assert bytes(timely) == bytes(package)
    for timeout in (-1.0, float("nan")):
        with pytest.raises(tenon.InvalidArgument, match="timeout"):
            slow.run(slow_inputs, timeout=timeout)


def test_progress_is_reported_and_its_exception_ends_the_work():
    steps = []
    tenon.compile(DIGITS, progress=lambda step, done, total: steps.append((step, done, total)))
    assert steps and all(isinstance(step, str) and done >= 0 for step, done, _ in steps)

    def refuse(step: str, done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        tenon.compile(DIGITS, progress=refuse)


def test_the_bar_appears_after_a_while_and_vanishes(capsys, monkeypatch):
    from tenon._progress import Bar

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bar = Bar()
    bar("read", 0, 10)
    assert capsys.readouterr().err == ""
    now[0] = 101.0
    bar("place", 5, 10)
    assert "50% place" in capsys.readouterr().err
    bar.close()
    assert capsys.readouterr().err.strip() == ""


def test_futures(digits, image, slow, slow_inputs):
    expected = digits(image)[0]
    futures = [digits.submit([image]) for _ in range(20)]
    assert all(isinstance(future, concurrent.futures.Future) for future in futures)
    for future in futures:
        assert numpy.array_equal(future.result(10)[0], expected)
    running = slow.submit(slow_inputs)
    time.sleep(0.1)
    assert running.cancel() and running.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        running.result()
    late = slow.submit(slow_inputs, timeout=0.1)
    with pytest.raises(tenon.DeadlineExceeded):
        late.result(10)
    # The threads are free again.
    assert numpy.array_equal(digits.submit([image]).result(5)[0], expected)
    with pytest.raises(tenon.InvalidArgument):
        digits.submit([])


def test_futures_are_awaited(digits, image):
    import asyncio

    async def run() -> numpy.ndarray:
        outputs = await asyncio.wrap_future(digits.submit([image]))
        return outputs[0]

    assert numpy.array_equal(asyncio.run(run()), digits(image)[0])


def test_several_threads_share_a_model(digits):
    images = numpy.random.default_rng(2).random((40, 1, 1, 8, 8), numpy.float32)
    expected = [digits(image)[0] for image in images]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda image: digits(image)[0], images))
    assert all(numpy.array_equal(a, b) for a, b in zip(expected, found))


def test_bindings_and_sessions_refuse_a_second_thread(slow, tmp_path):
    session = slow.session()
    failures = []
    inputs = {"count": numpy.array(1_000_000_000, numpy.int64), "x": numpy.ones((64, 64), numpy.float32)}

    def run() -> None:
        try:
            session.run(inputs, timeout=0.5)
        except tenon.DeadlineExceeded:
            pass

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    with pytest.raises(tenon.InvalidArgument, match="another thread") as caught:
        session.run(inputs)
    failures.append(caught)
    thread.join()
    assert failures


def test_a_closed_model_says_so(image):
    model = tenon.compile(DIGITS).load()
    with model:
        bindings = model.bind()
    assert model.closed and "closed" in repr(model)
    for use in (lambda: model(image), lambda: model.inputs, model.bind, lambda: pickle.dumps(model)):
        with pytest.raises(tenon.Closed, match="the model is closed"):
            use()
    assert "closed" in model._repr_html_()
    model.close()
    # Bindings keep the memory.
    bindings.run()


def test_pickles(tmp_path, image):
    package = tenon.compile(DIGITS)
    expected = package.load()(image)[0]
    for model in (package.load(threads=1), tenon.load(bytes(package))):
        again = pickle.loads(pickle.dumps(model))
        assert numpy.array_equal(again(image)[0], expected)
    package.write(tmp_path / "digits.neff")
    data = pickle.dumps(tenon.load(tmp_path / "digits.neff", threads=1))
    assert len(data) < 400
    assert numpy.array_equal(pickle.loads(data)(image)[0], expected)
    outputs = pickle.loads(pickle.dumps(model(image)))
    assert outputs.keys() == ["probabilities"] and numpy.array_equal(outputs[0], expected)
    tensor = tenon.tensor([[1.5, 2.0]])
    assert pickle.loads(pickle.dumps(tensor)).tolist() == [[1.5, 2.0]]
    error = pickle.loads(pickle.dumps(caught(lambda: tenon.load(tmp_path / "absent.neff"))))
    assert isinstance(error, FileNotFoundError) and error.kind == "NotFound"


def caught(call) -> BaseException:
    try:
        call()
    except tenon.Error as error:
        return error
    raise AssertionError("no error")


def run_in_child(connection, model: tenon.Model, image: numpy.ndarray) -> None:
    try:
        connection.send((model(image)[0], model.submit([image]).result(20)[0]))
    except BaseException as error:
        connection.send(error)
    connection.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_run_the_model(method, digits, image):
    # The parent's threads run before the fork.
    expected = digits.submit([image]).result(10)[0]
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(False)
    child = context.Process(target=run_in_child, args=(sender, digits, image))
    child.start()
    sender.close()
    assert receiver.poll(30)
    found = receiver.recv()
    child.join(10)
    assert child.exitcode == 0
    assert all(numpy.array_equal(array, expected) for array in found), found


def test_the_child_of_a_fork_during_an_execution_says_so(slow_inputs):
    model = tenon.compile(make_slow()).load()
    inputs = slow_inputs
    thread = threading.Thread(target=lambda: caught(lambda: model.run(inputs, timeout=1.0)))
    thread.start()
    time.sleep(0.2)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)
    child = context.Process(target=fork_during, args=(sender, model, inputs))
    child.start()
    assert receiver.poll(20)
    text, finished = receiver.recv()
    child.join(10)
    thread.join()
    assert "when the process was forked" in text
    assert finished


def fork_during(connection, model: tenon.Model, inputs) -> None:
    text = str(caught(lambda: model.run(inputs, timeout=1.0)))
    again = tenon.compile(make_slow()).load()
    error = caught(lambda: again.run(inputs, timeout=0.1))
    connection.send((text, isinstance(error, tenon.DeadlineExceeded)))


def run_script(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, *options, "-c", text]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_the_interpreter_ends_while_executions_run(tmp_path):
    path = tmp_path / "slow.neff"
    tenon.compile(make_slow(), path)
    done = run_script(f"""
import threading, time, array, tenon
model = tenon.load({str(path)!r})
inputs = {{"count": 10**9, "x": [[1.0] * 64] * 64}}
threading.Thread(target=lambda: model.run(inputs), daemon=True).start()
future = model.submit(inputs)
time.sleep(0.3)
print("end", flush=True)
""")
    assert (done.returncode, done.stdout) == (0, "end\n"), done
    assert "panicked" not in done.stderr and "Fatal" not in done.stderr


def test_the_package_needs_no_numpy_and_has_no_warnings():
    done = run_script(
        f"""
import sys
sys.modules["numpy"] = None
import array, tenon
model = tenon.compile({str(DIGITS)!r}).load()
pixels = memoryview(array.array("f", [0.5] * 64)).cast("B").cast("f", [1, 1, 8, 8])
outputs = model(pixels)
assert isinstance(outputs[0], tenon.Tensor)
assert abs(sum(outputs[0].tolist()[0]) - 1) < 1e-5
print(len(outputs[0].tolist()[0]))
""",
        "-X",
        "dev",
        "-W",
        "error",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "10\n", "")


def test_the_command():
    done = run_script("from tenon._command import main; import sys; sys.argv = ['tenon', '--version']; main()")
    assert done.returncode == 0 and done.stdout.startswith("tenon ")
    picture = Path(DIGITS).with_name("seven.png")
    arguments = ["tenon", "run", str(DIGITS), "--input", str(picture)]
    done = run_script(f"from tenon._command import main; import sys; sys.argv = {arguments!r}; main()")
    assert done.returncode == 0 and "seven" in done.stdout
    done = run_script("from tenon._command import main; import sys; sys.argv = ['tenon', 'run', 'absent.onnx']; main()")
    assert done.returncode == 1 and "absent.onnx" in done.stderr


def test_executions_leak_nothing(digits, image):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    references = sys.getrefcount(image)
    for _ in range(500):
        digits(image)
    gc.collect()
    before = resident()
    for _ in range(3000):
        digits(image)
    gc.collect()
    assert sys.getrefcount(image) == references
    assert resident() - before < 4 << 20

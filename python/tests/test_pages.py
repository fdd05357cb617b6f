"""The commands and Python examples of the pages run.

Each page runs from its start to its end in an empty folder; its Python blocks share their names. Readers do not see
comments, and those that begin with `test:` are for this test:

    <!-- test: COMMAND -->       is run by sh; $REPO is the root folder of the repository
    <!-- test: file NAME -->     the next block is appended to this file, and not run
    <!-- test: needs NAME -->    without this Python module or program the next block is skipped;
                                 above the heading of a page, the page
    <!-- test: run by FILE -->   commands of the next block that this test or script has are not run here
    <!-- test: fails STATUS -->  the next block has one command, which ends with this status

Commands of pip and cargo, which install and build, are never run here. `tenon serve` runs until the next one or the end
of the page; the ports 8000 and 8001 are replaced by free ones.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import tenon
from conftest import ROOT, deadline

GENERATED = "Written by `cargo xtask docs`"
"""In a page that has signatures in the place of examples, and no commands."""

PAGES = {
    str(path.relative_to(ROOT)): text
    for pattern in ("README.md", "docs/**/*.md", "python/README.md", "models/**/README.md")
    for path in sorted(ROOT.glob(pattern))
    if GENERATED not in (text := path.read_text())
}

PART = re.compile(
    r"^<!-- test:\s(?P<comment>(?s:.*?))\s*-->$"
    r"|^(?P<indent> *)```(?P<language>[\w,]*).*\n(?P<fenced>(?s:.*?))^(?P=indent)```$"
    r"|(?P<indented>(?:^ {4}.*\n(?:\n(?= {4}))?)+)",
    re.MULTILINE,
)

RUN = ("", "console", "sh", "python")
"""Languages of blocks that are run."""

FORM = re.compile(r"(file|needs|run by|fails) (\S+)")

COMMAND = re.compile(r"\$ |(?:\w+=\S* )*(?:tenon|cargo|pip|python|curl|cc|cmake|openssl|export|\./\S+)(?= |$)")
"""How commands begin, in blocks that may contain other text as well."""

WORKER = """
import json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
names = {"__name__": "__main__"}
for request in sys.stdin:
    code, page = json.loads(request)
    try:
        exec(compile(code, page, "exec"), names)
        print("null", file=answers, flush=True)
    except BaseException:
        print(json.dumps(traceback.format_exc()), file=answers, flush=True)
"""
"""Executes Python blocks, and answers with their exceptions."""


@dataclass
class Part:
    """A block or comment of a page."""

    line: int
    language: str
    """`test` for a comment, empty for an indented block or a fence without a language."""
    text: str

    def commands(self) -> Iterator[tuple[int, str]]:
        """The commands of a block, with their lines."""
        lines = enumerate(self.text.splitlines() if self.language in ("", "console", "sh") else [], self.line)
        for number, line in lines:
            # Other lines are output, and what follows two spaces is a description.
            if self.language != "sh" and not COMMAND.match(line) or not line.strip() or line.startswith("#"):
                continue
            command = line if self.language == "sh" else re.split(" {2,}", line.removeprefix("$ "))[0]
            while is_open(command) and (following := next(lines, None)):
                command += f"\n{following[1]}"
            yield number, command


def is_open(command: str) -> bool:
    """Whether a command continues in the next line: in a quotation, or behind a backslash."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def parts(text: str) -> Iterator[Part]:
    """The blocks and comments of a page."""
    for match in PART.finditer(text):
        name = "comment" if match["comment"] else "fenced" if match["fenced"] is not None else "indented"
        language = "test" if match["comment"] else match["language"] or ""
        line = text.count("\n", 0, match.start(name)) + 1
        yield Part(line, language, textwrap.dedent(match[name]))


class Page:
    """A page that is run."""

    def __init__(self, name: str, text: str, folder: Path):
        self.name, self.text, self.folder = name, text, folder
        self.failures: list[str] = []
        self.interpreters: dict[str, subprocess.Popen] = {}
        self.server: subprocess.Popen | None = None
        self.ports: dict[str, str] = {}
        self.exports = ""
        (folder / ".bin").mkdir()
        (folder / ".bin/tenon").symlink_to(os.environ["TENON_COMMAND"])
        # Refused requests fail.
        (folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
        programs = f"{folder}/.bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {"PATH": programs, "HOME": str(folder), "REPO": str(ROOT), "TENON_CACHE_DIR": f"{folder}/.cache"}
        self.started = {"cwd": folder, "env": os.environ | variables, "text": True}

    def run(self) -> None:
        forms: dict[str, str] = {}
        heading = f"\n{self.text}".split("\n# ")[0].count("\n") + 1
        with ExitStack() as stack:
            stack.callback(self.close)
            for part in parts(self.text):
                form = FORM.fullmatch(part.text) if part.language == "test" else None
                if form and form[1] == "needs" and part.line < heading:
                    if not self.find_interpreter(form[2]):
                        pytest.skip(f"{self.name}: {form[2]} is not installed")
                elif form:
                    forms[form[1]] = form[2]
                elif part.language == "test":
                    self.run_command(part.line, part.text)
                elif part.language in RUN or forms:
                    self.run_block(part, forms)
                    forms = {}
            if forms:
                self.failures.append(f"{self.name}: no block follows: {forms}")

    def run_block(self, part: Part, forms: dict[str, str]) -> None:
        interpreter = self.find_interpreter(forms.get("needs", "sys"))
        if "file" in forms:
            with (self.folder / forms["file"]).open("a") as file:
                file.write(self.with_free_ports(part.text))
        elif not interpreter:
            warnings.warn(f"skipped: {self.name}:{part.line}: {forms['needs']} is not installed", stacklevel=1)
        else:
            commands = list(part.commands())
            elsewhere = {command for _, command in commands if "run by" in forms and is_in(forms["run by"], command)}
            is_wrong = "fails" in forms and len(commands) != 1 or "run by" in forms and not elsewhere
            if part.language not in RUN or is_wrong:
                self.failures.append(f"{self.name}:{part.line}: {forms} does not fit the block")
            if part.language == "python":
                self.run_python(part, interpreter)
            for line, command in commands:
                if command.startswith(("cargo ", "pip ")) and command not in elsewhere:
                    self.failures.append(f"{self.name}:{line}: {command}\nno test is named that runs it")
                elif command not in elsewhere:
                    self.run_command(line, command, int(forms.get("fails", "0")))

    def run_command(self, line: int, command: str, expected: int = 0) -> None:
        command = self.with_free_ports(command)
        if command.startswith("export "):
            self.exports += f"{command}\n"
        elif command.startswith("tenon serve "):
            self.stop()
            script = f"{self.exports}exec {command}"
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self.server = subprocess.Popen(["sh", "-c", script], **pipes, **self.started)
            # It prints its addresses when it is ready.
            if not self.server.stdout.readline():
                self.failures.append(f"{self.name}:{line}: {command}\n{self.server.stderr.read()}")
                self.server = None
        else:
            done = subprocess.run(["sh", "-c", f"{self.exports}{command}"], capture_output=True, **self.started)
            if done.returncode != expected:
                report = f"exit status {done.returncode}\n{done.stderr or done.stdout}"
                self.failures.append(f"{self.name}:{line}: {command}\n{report}")

    def run_python(self, part: Part, interpreter: str) -> None:
        if interpreter not in self.interpreters:
            self.interpreters[interpreter] = subprocess.Popen(
                [interpreter, "-c", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                **self.started,
            )
        worker = self.interpreters[interpreter]
        # The lines of its exceptions are those of the page.
        code = "\n" * (part.line - 1) + self.with_free_ports(part.text)
        print(json.dumps([code, self.name]), file=worker.stdin, flush=True)
        answer = json.loads(worker.stdout.readline() or '"the interpreter ended"')
        if answer is not None:
            self.failures.append(f"{self.name}:{part.line}: {answer}")

    def find_interpreter(self, needed: str) -> str | None:
        """The Python interpreter with a module or program."""
        if find_spec(needed) or shutil.which(needed):
            return sys.executable
        clients = os.environ.get("TENON_CLIENTS_PYTHON")
        if clients and subprocess.run([clients, "-c", f"import {needed}"], stderr=subprocess.DEVNULL).returncode == 0:
            return clients
        return None

    def with_free_ports(self, text: str) -> str:
        if text.startswith("tenon serve ") and "--http" not in text:
            text += " --http :8000"
        return re.sub(r"\b800[01]\b", lambda port: self.free_port(port[0]), text)

    def free_port(self, port: str) -> str:
        if port not in self.ports:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.ports[port] = str(free.getsockname()[1])
        return self.ports[port]

    def stop(self) -> None:
        if self.server:
            self.server.terminate()
            _, messages = self.server.communicate()
            if self.server.returncode != 0:
                self.failures.append(f"{self.name}: tenon serve\nexit status {self.server.returncode}\n{messages}")

    def close(self) -> None:
        self.stop()
        for worker in self.interpreters.values():
            worker.communicate()


def is_in(file: str, command: str) -> bool:
    """Whether a file has a command, or its task of xtask."""
    task = re.match(r"cargo xtask [\w-]+", command)
    return (task[0] if task else command) in (ROOT / file).read_text()


def run(name: str, text: str, folder: Path) -> list[str]:
    """Runs a page; returns its failures."""
    page = Page(name, text, folder)
    with deadline(120):
        page.run()
    return page.failures


@pytest.mark.skipif("TENON_COMMAND" not in os.environ, reason="TENON_COMMAND does not name the program tenon")
@pytest.mark.parametrize("name", PAGES)
def test_the_page_runs(name, tmp_path):
    failures = run(name, PAGES[name], tmp_path)
    assert not failures, "\n\n".join(failures)


def test_pages_have_examples():
    names = {name for name in PAGES if "\n```python\n" in PAGES[name]}
    assert names >= {"docs/python.md", "README.md", "python/README.md"}


@pytest.mark.skipif("TENON_COMMAND" not in os.environ, reason="TENON_COMMAND does not name the program tenon")
def test_failures_are_reported_with_their_line(tmp_path):
    page = """# Page
<!-- test: exit 3 -->

    tenon run absent.onnx     a description
    an output

<!-- test: fails 1 -->

    tenon info absent.neff

<!-- test: run by .ci/run -->

    cargo xtask test
    cargo xtask absent

<!-- test: file program.py -->
```python
print(1)
```

    python program.py

```python
x = 1
assert x == 2
```
<!-- test: fails 1 -->
"""
    failures = run("page.md", page, tmp_path)
    assert [failure.splitlines()[0] for failure in failures] == [
        "page.md:2: exit 3",
        "page.md:4: tenon run absent.onnx",
        "page.md:14: cargo xtask absent",
        "page.md:24: Traceback (most recent call last):",
        "page.md: no block follows: {'fails': '1'}",
    ]
    assert "absent.onnx" in failures[1] and 'File "page.md", line 25' in failures[3]


def test_the_page_names_the_whole_interface():
    page = (ROOT / "docs/python.md").read_text()
    words = set(re.findall(r"\w+", page))
    assert not set(tenon.__all__) - words
    for kind in (tenon.Package, tenon.Model, tenon.Bindings, tenon.Session, tenon.Tensor, tenon.Port, tenon.Outputs):
        public = {name for name in vars(kind) if not name.startswith("_")}
        assert not public - words, kind

"""The stubs are those of the extension module, and the types of the package are consistent."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tenon
from tenon import _tenon

PYTHON = Path(__file__).resolve().parents[1]


@pytest.fixture
def run(tmp_path):
    def run(*arguments: str) -> None:
        package = Path(tenon.__file__).resolve().parents[1]
        environment = {**os.environ, "MYPYPATH": str(package)}
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_stubs_are_those_of_the_module(run):
    options = ["--mypy-config-file", str(PYTHON / "pyproject.toml"), "--allowlist", str(PYTHON / "tests/stubtest.txt")]
    run("mypy.stubtest", "tenon", *options, "--ignore-unused-allowlist")


def test_the_documentation_of_the_stubs_is_that_of_the_module():
    tree = ast.parse((PYTHON / "python/tenon/_tenon.pyi").read_text())
    count = 0
    for node in tree.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        found = getattr(_tenon, node.name)
        members = [(found, node)]
        if isinstance(node, ast.ClassDef):
            methods = [member for member in node.body if isinstance(member, ast.FunctionDef)]
            members += [(getattr(found, method.name), method) for method in methods if not method.name.startswith("_")]
        for value, definition in members:
            assert value.__doc__, definition.name
            assert ast.get_docstring(definition) == inspect.cleandoc(value.__doc__), definition.name
            count += 1
    assert count > 60


def test_types_are_consistent(run):
    run("mypy", "--config-file", str(PYTHON / "pyproject.toml"), "-p", "tenon")


def test_the_marker_of_types_is_there():
    assert (Path(tenon.__file__).parent / "py.typed").exists()


def test_the_version_is_that_of_the_workspace():
    manifest = (PYTHON.parent / "Cargo.toml").read_text()
    assert f'\nversion = "{tenon.__version__}"\n' in manifest

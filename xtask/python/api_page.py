"""Prints docs/python-api.md: the signatures and docstrings of the package tenon, read without importing it.

Usage: python api_page.py FOLDER, the folder of the package
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

HEAD = """\
# Python interface

<!-- Written by `cargo xtask docs` from the stubs and docstrings in python/python/tenon; change it there. -->

Every public function and class, with its types. [Python](python.md) explains their use with examples.
`Any` in the place of an array is anything with DLPack or the buffer protocol, a list, or a scalar."""

MODULES = {
    "tenon.backend": "backend.py",
    "tenon.onnxruntime": "onnxruntime.py",
    "tenon.ray": "ray.py",
    "tenon.dask": "dask.py",
    "tenon.spark": "spark.py",
}


def main(folder: Path) -> None:
    public = read(folder / "__init__.py")
    origins = {
        alias.name: folder / (node.module.removeprefix("tenon.") + ".py")
        for node in public.body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tenon.")
        for alias in node.names
    }
    # The extension module has stubs.
    origins = {name: path if path.exists() else path.with_suffix(".pyi") for name, path in origins.items()}
    members = [find(read(origins[name]), name) for name in exported(public)]
    is_error = {node.name: origins[node.name].name == "_errors.py" for node in members}
    groups = {
        "Functions": [node for node in members if isinstance(node, ast.FunctionDef)],
        "Classes": [node for node in members if isinstance(node, ast.ClassDef) and not is_error[node.name]],
        "Errors": [node for node in members if is_error[node.name]],
    }
    parts = [HEAD]
    for heading, nodes in groups.items():
        parts.append(f"## {heading}")
        parts += [text for node in nodes for text in section(node)]
    for module, file in MODULES.items():
        tree = read(folder / file)
        parts += [f"## `{module}`", docstring(tree)]
        parts += [text for name in exported(tree) for text in section(find(tree, name))]
    print("\n\n".join(part for part in parts if part))


def read(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def exported(tree: ast.Module) -> list[str]:
    """The names in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    raise SystemExit("a module has no __all__")


def find(tree: ast.Module, name: str) -> ast.stmt:
    """The definition of a name; an assigned one is that of the value."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            owner, _, member = ast.unparse(node.value).partition(".")
            return find(ast.Module(find(tree, owner).body, []), member)
    raise SystemExit(f"no definition of {name}")


def section(node: ast.stmt) -> list[str]:
    """The texts of a function or class."""
    if isinstance(node, ast.FunctionDef):
        return [f"### `{node.name}`", signature(node), docstring(node)]
    bases = ", ".join(map(ast.unparse, node.bases))
    head = f"### `{node.name}`"
    parts = [head, docstring(node), f"Bases: `{bases}`." if bases else ""]
    rows, methods = [], []
    for at, member in enumerate(node.body):
        if isinstance(member, ast.AnnAssign | ast.Assign):
            target = member.target if isinstance(member, ast.AnnAssign) else member.targets[0]
            following = node.body[at + 1] if at + 1 < len(node.body) else None
            has_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = inspect.cleandoc(following.value.value) if has_text else ""
            kind = unparsed(member.annotation if isinstance(member, ast.AnnAssign) else member.value)
            rows.append((ast.unparse(target), kind, text))
        elif isinstance(member, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in member.decorator_list]
            if "property" in decorators:
                rows.append((member.name, unparsed(member.returns), docstring(member)))
            elif not any(decorator.endswith(".setter") for decorator in decorators):
                methods.append(member)
    rows = [row for row in rows if not row[0].startswith("_")]
    if rows:
        lines = ["| attribute | type | |", "|---|---|---|"]
        lines += [f"| `{name}` | {cell(kind)} | {' '.join(text.split())} |" for name, kind, text in rows]
        parts.append("\n".join(lines))
    for method in methods:
        if is_public(method):
            parts += [signature(method), docstring(method)]
    return parts


def is_public(method: ast.FunctionDef) -> bool:
    """Whether a method is called by its name, or is an operator with documentation."""
    if method.name.startswith("_"):
        return method.name.startswith("__") and docstring(method) != ""
    return True


def cell(kind: str) -> str:
    """A type in a cell of a table."""
    return "`" + kind.replace("|", "\\|") + "`"


def unparsed(node: ast.expr | None) -> str:
    """A type or value with the names that users write."""
    text = "None" if node is None else ast.unparse(node)
    for module in ("_tenon.", "tenon."):
        text = text.replace(module, "")
    return text


def signature(node: ast.FunctionDef) -> str:
    """A function's signature as code, one argument a line where it is long."""
    decorators = [f"@{name}\n" for name in map(ast.unparse, node.decorator_list) if name.endswith("method")]
    returns = f" -> {unparsed(node.returns)}"
    arguments = separate(node.args)
    line = f"def {node.name}({', '.join(arguments)}){returns}"
    if len(line) > 100:
        line = "\n".join([f"def {node.name}(", *(f"    {argument}," for argument in arguments), f"){returns}"])
    return f"```python\n{''.join(decorators)}{line}\n```"


def separate(arguments: ast.arguments) -> list[str]:
    """The arguments, with the markers `/` and `*`."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults

    def text(argument: ast.arg, default: ast.expr | None) -> str:
        given = unparsed(argument.annotation) if argument.annotation else ""
        name = f"{argument.arg}: {given}" if given else argument.arg
        return name if default is None else f"{name} = {unparsed(default)}"

    texts = [text(argument, default) for argument, default in zip(plain, defaults, strict=True)]
    if arguments.posonlyargs:
        texts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        texts.append("*" + text(arguments.vararg, None))
    elif arguments.kwonlyargs:
        texts.append("*")
    texts += [text(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        texts.append("**" + text(arguments.kwarg, None))
    return texts


def docstring(node: ast.AST) -> str:
    """A docstring as Markdown: arguments and exceptions as lists."""
    lines: list[str] = []
    marker = ""
    for line in (ast.get_docstring(node) or "").splitlines():
        if line in ("Args:", "Raises:"):
            marker = line
            lines.append({"Args:": "Arguments:", "Raises:": "Exceptions:"}[line])
            lines.append("")
        elif marker and line.startswith("        "):
            lines[-1] += " " + line.strip()
        elif marker and line.startswith("    "):
            name, _, text = line.strip().partition(": ")
            lines.append(f"* `{name}`: {text}")
        else:
            lines.append(line)
    return "\n".join(lines).strip()


main(Path(sys.argv[1]))

"""Reports as HTML for notebooks: tables with inline style, no script, every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from tenon import _reports, _tenon

_TABLE = "border-collapse:collapse;margin:4px 0"
_CELL = "text-align:left;padding:2px 8px;border-bottom:1px solid #ddd"
_MAX_ROWS = 200


def _text(value: object) -> str:
    return escape(str(value), quote=True)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells of rows are HTML."""
    head = "".join(f'<th style="{_CELL}">{_text(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _bar(share: float) -> str:
    width = max(0.0, min(100.0, 100.0 * share))
    return (
        '<div style="width:120px;background:#eee"><div style="'
        f'width:{width:.1f}%;background:#4a7ebb;height:10px"></div></div>'
    )


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _rest(count: int) -> str:
    return f"<p>and {count - _MAX_ROWS} more</p>" if count > _MAX_ROWS else ""


def _ports(inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    def row(kind: str, port: Any) -> Sequence[str]:
        shape = ", ".join(str(extent) for extent in port.shape)
        return (kind, _text(port.name), _text(port.dtype), _text(f"[{shape}]"))

    rows = [row("input", port) for port in inputs] + [row("output", port) for port in outputs]
    return _table(("", "name", "type", "shape"), rows)


def model(model: _tenon.Model) -> str:
    """The ports of a model, and the nodes by backend."""
    if model.closed:
        return "<b>tenon.Model</b>, closed"
    title = f"<b>tenon.Model</b> {_text(model.name)}"
    return title + _ports(model.inputs, model.outputs) + _counts(model.placement)


def package(package: _tenon.Package) -> str:
    """The size and the ports of a package, and the nodes by backend."""
    title = f"<b>tenon.Package</b>, {_bytes(package.nbytes)}"
    return title + _ports(package.inputs, package.outputs) + _counts(package.placement)


def _counts(placement: _reports.Placement) -> str:
    total = len(placement.nodes) or 1
    rows = [(_text(backend), str(count), _bar(count / total)) for backend, count in placement.counts().items()]
    return _table(("backend", "nodes", ""), rows)


def placement(placement: _reports.Placement) -> str:
    """The backend of each node, and the refusals."""
    rows = [
        (
            _text(node.node),
            _text(node.operator),
            _text(node.backend),
            "<br>".join(f"{_text(refusal.backend)}: {_text(refusal.text)}" for refusal in node.refusals),
        )
        for node in placement.nodes[:_MAX_ROWS]
    ]
    notes = "".join(f"<li>{_text(note)}</li>" for note in placement.notes)
    table = _table(("node", "operator", "backend", "refused by"), rows)
    return _counts(placement) + table + _rest(len(placement.nodes)) + (f"<ul>{notes}</ul>" if notes else "")


def profile(profile: _reports.Profile) -> str:
    """The kernels, the slowest first."""
    ordered = sorted(profile.rows, key=lambda row: -row.seconds)
    rows = [
        (
            _text(row.node),
            _text(row.operator),
            _text(row.backend),
            f"{1e6 * row.seconds:.1f} µs",
            _bar(row.share),
            "" if row.of_ceiling is None else f"{100 * row.of_ceiling:.0f} %",
        )
        for row in ordered[:_MAX_ROWS]
    ]
    title = f"{1e3 * profile.seconds:.3f} ms in {len(profile.rows)} kernels, mean of {profile.executions} executions"
    heads = ("node", "operator", "backend", "time", "share", "of ceiling")
    return f"<p>{title}</p>" + _table(heads, rows) + _rest(len(ordered))

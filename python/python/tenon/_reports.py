"""Reports: placement, profile, comparison."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """Why a backend did not take a node."""

    backend: str
    """The backend, or `dma`."""
    reason: str
    """The code of the reason."""
    text: str
    """The reason as a sentence."""


@dataclass(frozen=True)
class PlacedNode:
    """A node and its backend."""

    node: str
    operator: str
    backend: str
    """A backend's name, `dma`, `view`, `host` or `cpu node`."""
    refusals: Sequence[Refusal]
    """Why backends of higher preference refused it."""
    weights: str | None = None
    """The type of its weights, if it is narrower than that of its other operands (`precision`)."""
    read: int | None = None
    """The bytes that it reads in an execution; `None` for views, and where sizes are symbolic."""
    written: int | None = None
    """The bytes that it writes."""


@dataclass(frozen=True)
class MemoryTraffic:
    """The bytes that an execution reads and writes, and the tensors that it does not."""

    moved: int | None
    """The bytes that all nodes read and write; `None` with symbolic sizes, and with several subgraphs."""
    least: int | None
    """The least possible: inputs and constants read once, outputs written once."""
    fused: Sequence[str]
    """Intermediate tensors of the model that are in no buffer, because the nodes around them are one node."""


@dataclass(frozen=True)
class Placement:
    """The backend of each node, and why other backends refused it."""

    backends: Sequence[str]
    """The backends in order of preference."""
    nodes: Sequence[PlacedNode]
    """Every node."""
    notes: Sequence[str]
    """Optimisations that were left out, each with the reason."""
    traffic: MemoryTraffic
    """The bytes that an execution reads and writes."""

    @property
    def refused(self) -> Sequence[PlacedNode]:
        """The nodes that a backend of higher preference refused."""
        return [node for node in self.nodes if node.refusals]

    def counts(self) -> dict[str, int]:
        """The number of nodes by backend."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            counts[node.backend] = counts.get(node.backend, 0) + 1
        return counts

    @staticmethod
    def from_json(text: str) -> Placement:
        """The report that the extension module makes."""
        report = json.loads(text)
        nodes = [
            PlacedNode(
                node["node"],
                node["operator"],
                node["backend"],
                tuple(Refusal(**refusal) for refusal in node["refusals"]),
                node["weights"],
                node["read"],
                node["written"],
            )
            for node in report["nodes"]
        ]
        traffic = report["traffic"]
        return Placement(
            tuple(report["backends"]),
            tuple(nodes),
            tuple(report["notes"]),
            MemoryTraffic(traffic["moved"], traffic["least"], tuple(traffic["fused"])),
        )

    def __str__(self) -> str:
        counts = ", ".join(f"{count} on {backend}" for backend, count in self.counts().items())
        return f"{len(self.nodes)} nodes: {counts}" if self.nodes else "no nodes"

    def _repr_html_(self) -> str:
        from tenon import _html

        return _html.placement(self)


@dataclass(frozen=True)
class ProfileRow:
    """A kernel: means of one execution."""

    node: str
    operator: str
    """The operator; empty for data movement."""
    backend: str
    seconds: float
    runs: float
    """Runs in one execution; other than 1 in branches and loops."""
    share: float
    """The share of the time of all rows, 0 to 1."""
    flops: int
    bytes: int
    gflops: float
    gigabytes_per_second: float
    of_ceiling: float | None
    """The least time that the machine's measured peaks allow, divided by the time."""


@dataclass(frozen=True)
class Profile:
    """The times of a model's kernels."""

    executions: int
    rows: Sequence[ProfileRow]
    """The kernels in the program's order."""
    _trace: str = field(repr=False)

    @property
    def seconds(self) -> float:
        """The time of all kernels of one execution."""
        return sum(row.seconds for row in self.rows)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace of one execution in the format of Perfetto and `chrome://tracing`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._trace)

    @staticmethod
    def from_json(text: str) -> Profile:
        """The report that the extension module makes."""
        report = json.loads(text)
        rows = [
            ProfileRow(
                node=row["node"],
                operator=row["operator"],
                backend=row["backend"],
                seconds=1e-6 * row["us"],
                runs=row["runs"],
                share=row["share"],
                # None where the package has no counts.
                flops=row["flops"] or 0,
                bytes=row["bytes"],
                gflops=row["gflops"] or 0.0,
                gigabytes_per_second=row["gigabytes"] or 0.0,
                of_ceiling=row["of_ceiling"],
            )
            for row in report["nodes"]
        ]
        return Profile(report["executions"], tuple(rows), report["trace"])

    def __iter__(self) -> Iterator[ProfileRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        rows = sorted(self.rows, key=lambda row: -row.seconds)
        lines = [
            f"{1e6 * row.seconds:10.1f} us {100 * row.share:5.1f} %  {row.backend:8} {row.operator or '-':12} {row.node}"
            for row in rows
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from tenon import _html

        return _html.profile(self)


@dataclass(frozen=True)
class ComparedNode:
    """A node that both backends computed."""

    node: str
    operator: str
    absolute: float
    """The largest absolute difference."""
    relative: float
    """The largest relative difference."""


@dataclass(frozen=True)
class SkippedNode:
    """A node that one backend could not compute."""

    node: str
    operator: str
    reason: str


@dataclass(frozen=True)
class Divergence:
    """The first node whose outputs differ by more than the tolerance."""

    node: str
    operator: str
    output: str
    absolute: float
    relative: float
    element: int
    values: Sequence[Any]
    """The element of the largest difference on the first backend and the second."""


@dataclass(frozen=True)
class Comparison:
    """The result of running two backends in lock step."""

    backends: Sequence[str]
    compared: Sequence[ComparedNode]
    skipped: Sequence[SkippedNode]
    divergence: Divergence | None

    def __bool__(self) -> bool:
        """Whether all compared nodes agree."""
        return self.divergence is None

    @staticmethod
    def from_json(text: str) -> Comparison:
        """The report that the extension module makes."""
        report = json.loads(text)
        compared = [
            ComparedNode(row["node"], row["operator"], float(row["absolute"]), float(row["relative"]))
            for row in report["compared"]
        ]
        skipped = [SkippedNode(**row) for row in report["skipped"]]
        found = report["divergence"]
        divergence = None
        if found is not None:
            found["absolute"], found["relative"] = float(found["absolute"]), float(found["relative"])
            divergence = Divergence(**found)
        return Comparison(tuple(report["backends"]), tuple(compared), tuple(skipped), divergence)


@dataclass(frozen=True)
class QuantizedNode:
    """A convolution or matrix product of a model that was quantised."""

    node: str
    operator: str
    kept: str | None
    """Why it is computed in f32; `None` if it is quantised."""
    error: float | None
    """The norm of the difference from its outputs in f32, relative to their norm."""


@dataclass(frozen=True)
class QuantizedOutput:
    """An output of a model that was quantised."""

    output: str
    error: float
    """The norm of the difference from the output in f32, relative to its norm."""
    agreement: float | None
    """The share of rows with the same greatest element."""


@dataclass(frozen=True)
class QuantizationReport:
    """What was quantised, and what it costs on the calibration data."""

    nodes: Sequence[QuantizedNode]
    outputs: Sequence[QuantizedOutput]
    """Empty without calibration data."""
    accuracy: tuple[float, float] | None
    """The share of rows with the right class in f32 and quantised, where labels are given."""
    samples: int
    few_samples: bool
    """Whether other inputs may exceed the ranges of so few samples."""
    nbytes: tuple[int, int]
    """The size of the ONNX file before and after."""

    @staticmethod
    def from_json(text: str) -> QuantizationReport:
        """The report that the extension module makes."""
        report = json.loads(text)
        accuracy = report["accuracy"]
        return QuantizationReport(
            tuple(QuantizedNode(**row) for row in report["nodes"]),
            tuple(QuantizedOutput(**row) for row in report["outputs"]),
            None if accuracy is None else (accuracy["f32"], accuracy["quantized"]),
            report["samples"],
            report["few_samples"],
            (report["bytes"]["f32"], report["bytes"]["quantized"]),
        )

"""ONNX's own backend tests, run through `tenon.backend`; prints the counts as JSON.

The real models of the suite are left out: it downloads them.
"""

from __future__ import annotations

import json
import re
import sys
import unittest
import warnings
from collections import Counter

import onnx.backend.test

import tenon.backend


class Result(unittest.TestResult):
    """The outcome of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.outcomes[test.id()] = "passed"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.outcomes[test.id()] = "skipped"

    def addError(self, test: unittest.TestCase, error: object) -> None:
        self.outcomes[test.id()] = f"failed: {error[1]!r}"[:300]

    addFailure = addError


def main() -> None:
    """Runs the tests whose names match the argument."""
    warnings.simplefilter("ignore")
    pattern = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    suite = onnx.backend.test.BackendTest(tenon.backend.TenonBackend, __name__)
    suite.exclude("OnnxBackendRealModelTest")
    result = Result()
    loader = unittest.TestLoader()
    for name, case in sorted(suite.test_cases.items()):
        if "RealModel" in name:
            continue
        tests = [case(test) for test in loader.getTestCaseNames(case) if test.endswith("_cpu") and pattern.search(test)]
        unittest.TestSuite(tests).run(result)
    counts: dict[str, Counter[str]] = {}
    failures = {}
    for test, outcome in result.outcomes.items():
        _, group, name = test.rsplit(".", 2)
        counts.setdefault(group, Counter())[outcome.split(":")[0]] += 1
        if outcome.startswith("failed"):
            failures[name] = outcome
    json.dump({"counts": counts, "failures": failures}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()

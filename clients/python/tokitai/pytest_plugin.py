"""The pytest plugin: functions that @tokitai.kernel marks become tests, one for each format and tier.

A kernel is checked once per format, when the first of its tests runs; the tests then say what each tier found. Unless it
is told otherwise, it is checked at level smoke with a fixed seed, so that a suite takes seconds and repeats itself; cases that
failed before run first. With any other test that fails, the reports that are not accepted are shown whole: pytest itself
shortens the report in assert report.accepted, report."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional

import pytest

from . import checking, forms
from . import report as reports
from .report import ACCEPTED, Report
from .testing import ATTRIBUTE, Asked

TIERS = ("structure", "bits", "set", "grid", "statistics", "relations", "invariance")
VERDICT = "verdict"
DEFAULTS = {"level": "smoke", "seed": 1, "remember": True}
MOST_SHOWN = 3  # reports with one failing test

_made: List[Report] = []  # in the test that runs


def pytest_configure(config: Any) -> None:
    reports.watchers.append(_note)


def pytest_unconfigure(config: Any) -> None:
    if _note in reports.watchers:
        reports.watchers.remove(_note)


def _note(report: Report) -> None:
    _made.append(report)


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    _made.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    outcome = yield
    if call.excinfo is None or not call.excinfo.errisinstance(AssertionError) or isinstance(item, TierTest):
        return
    found: Dict[int, Report] = {}
    for frame in call.excinfo.traceback:
        found.update((id(value), value) for value in frame.frame.f_locals.values() if isinstance(value, Report))
    found.update((id(report), report) for report in _made)
    wrong = [report for report in found.values() if report.verdict != ACCEPTED]
    shown = outcome.get_result()
    for report in wrong[-MOST_SHOWN:]:
        shown.sections.append((f"tokitai: {report.verdict}", str(report)))


def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> Any:
    asked = getattr(obj, ATTRIBUTE, None)
    if isinstance(asked, Asked) and isinstance(collector, pytest.Module):
        return KernelTests.from_parent(collector, name=name, function=obj, asked=asked)
    return None


class KernelTests(pytest.Collector):
    """The tests of one kernel."""

    def __init__(self, *, function: Any, asked: Asked, **named: Any):
        super().__init__(**named)
        self.function, self.asked = function, asked
        self._reports: Dict[Optional[str], Any] = {}

    def collect(self) -> Iterator[pytest.Item]:
        for dtype in self.asked.dtypes or [None]:
            for tier in TIERS + (VERDICT,):
                yield TierTest.from_parent(self, name=f"{dtype}-{tier}" if dtype else tier, dtype=dtype, tier=tier)

    def report(self, dtype: Optional[str]) -> Report:
        """Returns what the check of one format found, after running it once. An error is raised for every tier."""
        if dtype not in self._reports:
            check = checking.check_autograd if self.asked.autograd else checking.check
            try:
                self._reports[dtype] = check(self.function, self.asked.op, dtypes=[dtype] if dtype else None, **{**DEFAULTS, **self.asked.options})
            except Exception as error:  # every tier fails with it
                self._reports[dtype] = error
        found = self._reports[dtype]
        if isinstance(found, Exception):
            raise found
        return found


class TierTest(pytest.Item):
    """What one tier found."""

    def __init__(self, *, dtype: Optional[str], tier: str, **named: Any):
        super().__init__(**named)
        self.dtype, self.tier = dtype, tier

    def runtest(self) -> None:
        report = self.parent.report(self.dtype)
        if self.tier == VERDICT:
            if report.verdict != ACCEPTED:
                raise NotAccepted(report)
            return
        tiers = [t for t in report.tiers if t.name == self.tier]
        if any(t.failed for t in tiers):
            raise NotAccepted(report)
        if not any(t.checks for t in tiers):
            if report.verdict == ACCEPTED or any(t.checks for t in report.tiers):
                pytest.skip(next((t.note for t in tiers if t.note), "nothing of this kind was run"))
            raise NotAccepted(report)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, (NotAccepted, checking.CheckError, forms.OperationError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> Any:
        return self.path, getattr(getattr(self.parent.function, "__code__", None), "co_firstlineno", 1) - 1, f"{self.parent.name}: {self.name}"


class NotAccepted(AssertionError):
    """A kernel that a tier did not accept."""

    def __init__(self, report: Report):
        super().__init__(str(report))

"""What a check found, in one screen."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from tokitai_client import find_program

ACCEPTED, REJECTED, UNDECIDED = "accepted", "rejected", "undecided"
UNFINISHED = "unfinished"  # no fault, but a budget was too short
INPUTS_SHOWN = 6
GIVEN = "call"  # the case of outputs that are given
WITH_CASE = ", case={case}"  # in Report.call
STATE, RUNS_ALL = "the kernel keeps state: ", "so the replay runs all of them"  # in notes of failures

watchers: List[Callable[["Report"], None]] = []  # are called with every report that check, check_autograd or compare returns


class Tier(NamedTuple):
    """The result of one kind of check, for one definition in one format."""

    op: str
    dtype: str
    name: str
    checks: int
    failed: int
    note: str


class Counterexample(NamedTuple):
    """The smallest failing case that was found. Values are as text, bits and number."""

    op: str
    dtype: str
    tier: str
    case: str
    seed: int
    place: str
    got: str
    want: str
    truth: str
    inputs: List[str]
    message: str
    when: str
    where: str

    @property
    def error(self) -> Optional[float]:
        """How far the output is from the truth, or from what was wanted; None if that is no number."""
        got, true = _number(self.got), _number(self.truth or self.want)
        return None if got is None or true is None else abs(got - true)


class Report:
    """What a check found. str(report) is one screen; json has everything, as in docs/reports.md."""

    def __init__(self, results: Sequence[Mapping[str, Any]], kernel: str = "", process: str = "", notes: Sequence[str] = ()):
        self.results = list(results)
        self.kernel = kernel
        self.process = process
        self.notes = list(notes)
        self.call = ""  # the call of check that runs one case alone, with places for it
        self.is_repeatable = False  # the command in a failure can be run by people

    @classmethod
    def joined(cls, reports: Sequence["Report"]) -> "Report":
        """Returns several reports as one. The first that is not accepted says how to replay."""
        worst = next((r for v in (REJECTED, UNDECIDED, UNFINISHED) for r in reports if r.verdict == v), reports[0])
        whole = cls([x for r in reports for x in r.results], worst.kernel, worst.process, [n for r in reports for n in r.notes])
        whole.call, whole.is_repeatable = worst.call, worst.is_repeatable
        return whole

    def told(self) -> "Report":
        """Calls the watchers, and returns the report."""
        for watcher in watchers:
            watcher(self)
        return self

    @property
    def verdict(self) -> str:
        verdicts = {r["verdict"] for r in self.results}
        if REJECTED in verdicts:
            return REJECTED
        if verdicts == {ACCEPTED}:
            return ACCEPTED
        return UNFINISHED if verdicts and verdicts <= {ACCEPTED, UNFINISHED} else UNDECIDED

    @property
    def accepted(self) -> bool:
        return self.verdict == ACCEPTED

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def json(self) -> Dict[str, Any]:
        return {"verdict": self.verdict, "kernel": self.kernel, "process": self.process, "notes": self.notes, "results": self.results}

    @property
    def tiers(self) -> List[Tier]:
        return [Tier(r["op"], r["dtype"], t["name"], t["checks"], t["failed"], t.get("note", "")) for r in self.results for t in r.get("tiers", ())]

    @property
    def counterexample(self) -> Optional[Counterexample]:
        """The smallest failing case of the first format that failed, or None."""
        return next(iter(self.counterexamples), None)

    @property
    def counterexamples(self) -> List[Counterexample]:
        """The smallest failing cases, one of each format that failed."""
        return [c for c in map(_counterexample, self.results) if c is not None]

    @property
    def seed(self) -> Optional[int]:
        return next((r["generator"]["seed"] for r in self.results if r.get("generator")), None)

    @property
    def replay(self) -> str:
        """How to run the smallest failing case alone: a line of Python."""
        if not self.call:
            return ""
        c = self.counterexample
        if c is not None:
            call = self.call.replace(WITH_CASE, "") if RUNS_ALL in self._failure.get("note", "") else self.call
            return call.format(case=repr(c.case), seed=c.seed, dtype=repr(c.dtype))
        for r in self.results:  # an error is not made smaller: the reason begins with its case
            found = re.match(r"((?:[\w-]+:)?[\w-]+/[^\s:]+): ", r.get("reason", ""))
            if found and self.seed is not None:
                return self.call.format(case=repr(found.group(1)), seed=self.seed, dtype=repr(r["dtype"]))
        return ""

    @property
    def _failure(self) -> Mapping[str, Any]:
        return next((r["failure"] for r in self.results if r.get("failure")), {})

    @property
    def keeps_state(self) -> bool:
        """Whether the callable was found to depend on earlier calls."""
        note = self._failure.get("note", "")
        return RUNS_ALL in note or note.startswith(STATE)

    def __repr__(self) -> str:
        text = f"{self.verdict}, {', '.join(dict.fromkeys(r['op'] + ' ' + r['dtype'] for r in self.results))}"
        c = self.counterexample
        if c is not None:
            text += f": {c.place + ' of ' if c.place else ''}{c.case}"
            text += f" is {c.got}, want {c.want}" if c.got or c.want else ""
        return f"<Report: {text}>"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Shows the whole report where a notebook shows the value of a cell."""
        printer.text(str(self))

    def __str__(self) -> str:
        operations = ", ".join(dict.fromkeys(r["op"] for r in self.results))
        lines = [f"{self.kernel or 'the kernel'} as {operations}: {self.verdict}"]
        lines += [_line(r) for r in self.results]
        example = self.counterexample
        if example is not None:
            lines += _example_lines(example)
        lines += [f"  {'' if i else 'kinds':<6}  {kind}" for i, kind in enumerate(self._failure.get("kinds", ()))]
        if self._failure.get("note"):
            lines.append(f"  note    {self._failure['note']}")
        command = self._failure.get("replay", "") if self.is_repeatable else ""
        if command:
            if not shutil.which("tokitai"):
                command = command.replace("tokitai check", shlex.quote(find_program()) + " check", 1)
            lines.append(f"  replay  {command}")
        if self.replay:
            lines.append(f"  {'' if command else 'replay':<6}  {'in Python: ' if command else ''}{self.replay}")
        elif example is not None and not command:
            if self.process:
                lines.append("  replay  only the calling program can make the calls again: the function has no name, and no other process can load it")
            else:
                lines.append("  replay  tokitai.compare with the same arrays: there is no kernel to run again")
        lines += [f"  note    {note}" for note in self.notes]
        seed = self.seed
        lines.append(f"{'seed ' + str(seed) + ', ' if seed is not None else ''}{'run in ' + self.process if self.process else 'nothing was run'}")
        return "\n".join(lines)


def _counterexample(result: Mapping[str, Any]) -> Optional[Counterexample]:
    f = result.get("failure")
    if not f:
        return None
    return Counterexample(
        result["op"], result["dtype"], f["tier"], f["case"], f["seed"], f["place"], f["got"], f["want"], f["truth"],
        list(f["inputs"] or ()), f["message"], f.get("when", ""), f.get("where", ""),
    )  # fmt: skip


def _number(text: str) -> Optional[float]:
    """Reads a value as reports print it: 0x3c11 (1.0166016), or a number alone."""
    match = re.search(r"\(([^()]*)\)", text)
    try:
        value = float((match.group(1) if match else text).strip())
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _line(r: Mapping[str, Any]) -> str:
    verdict = UNDECIDED if r["verdict"] == "inadmissible" else r["verdict"]
    text = f"  {r['dtype']:<5} {verdict:<12} {r['op']:<24} {r['cases']:>6} {'case ' if r['cases'] == 1 else 'cases'}  {_short(r['elements']):>7} outputs"
    if verdict != REJECTED or r["mismatches"]:  # a kernel can be rejected for more than its outputs; the reason follows
        text += f"  {r['mismatches']} wrong"
    if r.get("worst_error_ulp") is not None and r["verdict"] == ACCEPTED:
        text += f"  error at most {r['worst_error_ulp']:.3g} ulp"
    if r.get("left_out"):
        text += "\n        " + r["left_out"]
    if r["verdict"] != ACCEPTED and r.get("reason"):
        text += "\n        " + "\n        ".join(re.sub(r"; replay: .*\)$", ")", r["reason"]).splitlines()[:10])
    return text


def _short(count: int) -> str:
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return str(count)


def _example_lines(c: Counterexample) -> List[str]:
    what = "wrong" if c.case == GIVEN else "smallest failing case"
    lines = [f"{what}: {c.op} {c.dtype}, {c.case + ', ' if c.case != GIVEN else ''}in tier {c.tier}"]
    message = c.message.splitlines()
    lines += ["  " + line for line in message[:6]]
    if c.got or c.want:
        lines += [f"  at      {c.place}", f"  got     {c.got}", f"  want    {c.want}"]
    if c.truth:
        lines.append(f"  truth   {c.truth}")
    if c.error is not None and c.error > 0:
        true = _number(c.truth or c.want)
        share = f", {c.error / abs(true):.3g} of the value" if true else ""
        lines.append(f"  off by  {c.error:.3g}{share}")
    if c.inputs:
        lines.append("  inputs  " + "\n          ".join(c.inputs[:INPUTS_SHOWN]) + (f"\n          and {len(c.inputs) - INPUTS_SHOWN} more" if len(c.inputs) > INPUTS_SHOWN else ""))
    if c.when:
        lines.append(f"  when    {c.when}")
    if c.where:
        lines.append(f"  where   {c.where}")
    return lines


def load(paths: Sequence[str], words: Mapping[str, str]) -> List[Dict[str, Any]]:
    """Reads the reports that the program has written, and puts other words in the place of some: the command that ran a kernel
    is not always one that people can repeat."""
    reports = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            reports.append(_replaced(json.load(file), words))
    return reports


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {k: _replaced(v, words) for k, v in value.items()}
    if isinstance(value, list):
        return [_replaced(v, words) for v in value]
    if isinstance(value, str):
        for old, new in words.items():
            value = value.replace(old, new)
    return value

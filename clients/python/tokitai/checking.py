"""tokitai.check: judges a callable with the program's own verifier."""

from __future__ import annotations

import glob
import inspect
import os
import re
import shlex
import tempfile
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from tokitai_client import find_program

from . import autograd as gradients
from . import forms, hosting, loading, operands, processes
from .calling import Absent, Wrong, name_of
from .failures import Failed, Failures
from .progress import Progress, Wanted
from .report import ACCEPTED, REJECTED, Report, load

NAME = "tokitai check: "
JUDGED = (0, 3, 4, 5)  # exit codes of a check that came to an end: accepted, rejected, undecided, unfinished

Functions = Union[Callable, Mapping[str, Callable]]
Texts = Union[str, Iterable[str], None]


class CheckError(Exception):
    """A check that could not be run: wrong use, or a callable that cannot be served. The message is the program's."""


def check(
    fn: Functions,
    op: Any,
    *,
    dtypes: Texts = None,
    device: Optional[str] = None,
    level: Optional[str] = None,
    promise: Optional[str] = None,
    profile: Optional[str] = None,
    declare: Texts = None,
    waive: Texts = None,
    shapes: Union[Texts, Iterable[Mapping[str, int]]] = None,
    seed: Optional[int] = None,
    case: Optional[str] = None,
    budget: Union[str, float, None] = None,
    deadline: Union[str, float, None] = None,
    arrays: str = "auto",
    layouts: str = operands.VARIED,
    memory: Optional[int] = None,
    process: Optional[str] = None,
    html: Optional[str] = None,
    remember: Optional[bool] = None,
    progress: Wanted = None,
    flags: Sequence[str] = (),
) -> Report:
    """Judges whether a callable computes an operation.

    fn       takes and returns arrays of torch, numpy, cupy or jax, or nested lists of numbers; for a group, a dictionary of
             callables by definition, or one differentiable torch function
    op       a definition (softmax.forward), a group (softmax), the text of a definition, or what define returned
    dtypes   formats to check, such as ["bf16"]; by default all that the definition has
    device   where the arrays are: cpu or cuda:0
    level    smoke, quick (the default), full or exhaustive
    promise, profile, declare, waive, shapes, seed, case, deadline
             as of tokitai check; shapes are further ones, such as "R=5,C=4096" or dictionaries, or conditions such as
             "C % 16 == 0" that declare which shapes the callable takes at all; times are seconds, or texts such as "2s"
    budget   how long it may take: what was not checked by then is said
    arrays   torch, numpy, cupy, jax or list; by default the library that the callable's code names
    layouts  varied (the default), plain (contiguous and aligned), offset (aligned to elements alone) or strided
    memory   bytes that the callable may allocate on the CPU; by default most of what is free; 0 for no limit
    process  where it runs: fresh, fork or here; by default the safest that works
    html     a file to write a report to that a browser shows
    remember whether failing cases are kept and run first the next time, and a check ends with the first that fails again; by
             default they are, unless seed or case is given
    progress whether the progress is shown on standard error, or a function that is called with lines of text; by default it is
             shown on a terminal and in a notebook
    flags    further flags of tokitai check

    Raises CheckError if there is nothing to judge."""
    if not loading.count_check():
        return _hollow()
    return run(
        fn, op, dtypes=dtypes, device=device, level=level, promise=promise, profile=profile, declare=declare, waive=waive,
        shapes=shapes, seed=seed, case=case, budget=budget, deadline=deadline, arrays=arrays, layouts=layouts, memory=memory,
        process=process, html=html, remember=remember, progress=progress, flags=flags,
    ).told()  # fmt: skip


def check_autograd(fn: Callable, op: str, *, dtypes: Texts = None, declare: Texts = None, **options: Any) -> Report:
    """Judges a differentiable torch function forward and backward: its result, and the gradients that torch.autograd gets
    from it. op is softmax, gelu, gelu_erf, layernorm, crossentropy, embedding or gemm. The function takes the inputs of the forward
    definition and returns its result; it may be a torch.autograd.Function. Options are those of check."""
    if not loading.count_check():
        return _hollow()
    return _autograd(fn, op, dtypes, declare, options).told()


def _autograd(fn: Callable, op: str, dtypes: Texts, declare: Texts, options: Dict[str, Any]) -> Report:
    unknown = [name for name in options if name not in inspect.signature(check).parameters]
    if unknown:
        raise TypeError(f"check_autograd: {unknown[0]} is unknown")
    with Progress(options.pop("progress", None)) as progress:
        return Report.joined(_parts(fn, op, dtypes, declare, {**options, "progress": progress}))


def _parts(fn: Callable, op: str, dtypes: Texts, declare: Texts, options: Dict[str, Any]) -> List[Report]:
    reports, parts = [], gradients.parts_of(op)
    for number, part in enumerate(parts):
        options["progress"].part(f"part {number + 1} of {len(parts)}")
        declared = _texts(declare) + [f"omit={name}" for name in part.omit]
        groups: List[Tuple[Texts, List[str]]] = [(dtypes, declared)]
        if part.rounded:
            formats = _texts(dtypes) or ["f16", "bf16", "f32"]
            groups = [([t], declared + ([f"round({part.rounded})={t}"] if t != "f32" else [])) for t in formats]
        for formats, items in groups:
            reports.append(_any_form(fn, part, dtypes=formats, declare=items, autograd=op, **options))
    return reports


def _any_form(fn: Callable, part: gradients.Part, **settings: Any) -> Report:
    """Judges a function by a definition and, while it is rejected, by other forms of the definition. If none
    accepts it, returns the rejection with the fewest wrong outputs: that form is most likely the function's own."""
    reports = [run(fn, part.op, **settings)]
    for text, words in part.forms:
        if reports[0].verdict != REJECTED:
            break
        other = run(fn, text, **settings)
        if other.accepted:
            other.notes.append(f"the gradient is admissible in the form {words}, not in that of the definition")
            return other
        if other.verdict == REJECTED:
            reports.append(other)
    return min(reports, key=lambda report: sum(r["mismatches"] for r in report.results))


def run(fn: Functions, op: Any, *, autograd: str = "", progress: Union[Progress, Wanted] = None, **settings: Any) -> Report:
    """Judges callables by one operation."""
    if not isinstance(progress, Progress):
        with Progress(progress) as opened:
            return run(fn, op, autograd=autograd, progress=opened, **settings)
    functions = _functions(fn)
    source = forms.source_of(op)
    if not autograd and "" in functions and not source.text and source.name in gradients.PARTS and len(forms.texts_of(source)) > 1:
        dtypes, declare = settings.pop("dtypes", None), settings.pop("declare", None)
        return Report.joined(_parts(fn, source.name, dtypes, declare, {**settings, "progress": progress}))
    s: Dict[str, Any] = {**{n: p.default for n, p in inspect.signature(check).parameters.items()}, **settings, "progress": progress}
    with tempfile.TemporaryDirectory(prefix="tokitai-") as folder:
        name = source.name
        if source.text:
            name = os.path.join(folder, "operation.def")
            with open(name, "w", encoding="utf-8") as file:
                file.write(source.text)
        options = hosting.Options(
            op=name,
            arrays=s["arrays"],
            device=s["device"] or "",
            layouts=s["layouts"],
            memory=hosting.MOST if s["memory"] is None else s["memory"],
            omit=tuple(item[len("omit=") :] for text in _texts(s["declare"]) for item in text.replace(",", " ").split() if item.startswith("omit=")),
            autograd=bool(autograd),
        )
        if options.layouts not in operands.LAYOUTS:
            raise ValueError(f"layouts {options.layouts!r}, want one of {', '.join(operands.LAYOUTS)}")
        way = processes.way_for(functions, options, s["process"])
        remembers = s["remember"] if s["remember"] is not None else s["seed"] is None and s["case"] is None
        known = Failures(functions, source, bool(autograd)) if remembers and s["case"] is None else None
        try:
            report = _judge(name, functions, options, way, s, folder, known)
        except Absent as absent:  # as a function that is defined where __name__ is __main__
            if s["process"] or not processes.can_fork(hosting.library_for(next(iter(functions.values())), options), options.device):
                raise CheckError(str(absent)) from absent
            way = processes.FORK
            report = _judge(name, functions, options, way, s, folder, known)
        report.kernel = ", ".join(dict.fromkeys(map(name_of, functions.values())))
        report.process = processes.DESCRIPTIONS[way]
        report.is_repeatable = way == processes.FRESH and not source.text
        call = f"tokitai.check_autograd({report.kernel}, {autograd!r}" if autograd else f"tokitai.check({report.kernel}, {_spelled(op, source)}"
        given = {n: s[n] for n in ("device", "promise", "profile", "declare", "waive") if s[n] and not (autograd and n == "declare")}
        report.call = call + ", dtypes=[{dtype}]" + "".join(f", {n}={_escaped(repr(v))}" for n, v in given.items()) + ", case={case}, seed={seed})"
        if report.verdict == REJECTED and options.layouts == operands.VARIED and not s["case"]:
            report.notes += _layout_note(report, name, functions, options, way, s, folder)
    return report


def _spelled(op: Any, source: forms.Source) -> str:
    return _escaped(repr(op)) if isinstance(op, str) and not source.text else source.name


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _judge(
    name: str, functions: Mapping[str, Callable], options: hosting.Options, way: str, s: Mapping[str, Any], folder: str, known: Optional[Failures] = None
) -> Report:  # fmt: skip
    """Judges callables: first the cases that are known to have failed, then all."""
    s["progress"].say(f"loading {name_of(next(iter(functions.values())))}")
    try:
        with processes.kernel(functions, options, way) as kernel:
            shown = processes.exec_line(kernel.shown) if kernel.shown else name_of(next(iter(functions.values())))
            if known is None:
                return _once(name, kernel, shown, s, folder)
            return _failing_first(name, kernel, shown, s, folder, known)
    except Absent:
        raise
    except Wrong as error:
        raise CheckError(str(error)) from error


def _failing_first(name: str, kernel: processes.Kernel, shown: str, s: Mapping[str, Any], folder: str, known: Failures) -> Report:
    todo, others = [], []
    for case in known.read():
        (todo if not s["dtypes"] or case.dtype in _texts(s["dtypes"]) else others).append(case)
    while todo:
        alone = {**s, "case": todo[0].case, "seed": todo[0].seed, "dtypes": [todo[0].dtype], "budget": None}
        try:
            report = _once(name if name.endswith(".def") else todo[0].op, kernel, shown, alone, folder)
        except CheckError:  # there is no such case any more
            report = None
        if report is not None and report.verdict == REJECTED:
            known.write(todo + others)
            report.notes.append("this case failed in an earlier check and fails again, so no other was run; remember=False runs all")
            return report
        todo.pop(0)
    report = _once(name, kernel, shown, s, folder)
    known.write([Failed(c.op, c.dtype, c.case, c.seed) for c in report.counterexamples if c.case] + others)
    return report


def _once(name: str, kernel: processes.Kernel, shown: str, s: Mapping[str, Any], folder: str) -> Report:
    """Runs tokitai check once."""
    reports, progress = tempfile.mkdtemp(dir=folder), s["progress"]
    line = processes.exec_line(kernel.command)
    command = [find_program(), "check", name, "--exec", line, "--out", reports, "--progress-file", progress.file or os.devnull, *_flags(s)]
    ended = processes.run(command, kernel.meanwhile, kernel.environment, progress)
    if ended.code not in JUDGED:
        raise CheckError(_said(ended.stderr) or f"tokitai check ended with status {ended.code}")
    files = [f for f in sorted(glob.glob(os.path.join(reports, "*.json"))) if os.path.basename(f) != "index.json"]
    if not files:
        raise CheckError(_said(ended.stderr) or _said(ended.stdout) or "tokitai check gave no report")
    return Report(load(files, {shlex.quote(line): shlex.quote(shown), line: shown}))


def _said(text: str) -> str:
    """Returns what the program said, without its name and the pointer to its help."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("see 'tokitai")]
    begin = next((i for i, line in enumerate(lines) if line.startswith(NAME)), 0)  # notes come before
    return "\n".join(lines[begin:]).replace(NAME, "", 1)


def _flags(s: Mapping[str, Any]) -> List[str]:
    flags: List[str] = []
    for flag, values in (("--dtype", _texts(s["dtypes"])), ("--declare", _texts(s["declare"])), ("--waive", _texts(s["waive"]))):
        for value in values:
            flags += [flag, value]
    for value in _shapes(s["shapes"]):
        flags += ["--shapes" if re.search("[%<>!]|==", value) else "--shape", value]
    for name in ("level", "promise", "profile", "seed", "case", "html"):
        if s[name] is not None:
            flags += [f"--{name}", str(s[name])]
    for name in ("budget", "deadline"):
        if s[name] is not None:
            flags += [f"--{name}", s[name] if isinstance(s[name], str) else f"{s[name]:g}s"]
    return flags + list(s["flags"])


def _layout_note(report: Report, name: str, functions: Mapping[str, Callable], options: hosting.Options, way: str, s: Mapping[str, Any], folder: str) -> List[str]:
    """Says whether the failing case depends on how operands lie in memory."""
    example = report.counterexample
    if example is None or not example.case or hosting.library_for(next(iter(functions.values())), options) in ("jax", "list"):
        return []
    alone = {**s, "case": example.case, "seed": example.seed, "dtypes": [example.dtype], "html": None, "budget": None}
    try:
        again = _judge(name, functions, options._replace(layouts=operands.PLAIN), way, alone, folder)
    except CheckError:
        return []
    if again.verdict != ACCEPTED:
        return []
    return ["the case passes where operands are contiguous and aligned (layouts='plain'): the kernel depends on strides or on alignment"]


def _functions(fn: Functions) -> Dict[str, Callable]:
    functions = dict(fn) if isinstance(fn, Mapping) else {"": fn}
    if not functions:
        raise TypeError("fn is an empty dictionary, want callables by definition")
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"fn{f'[{name!r}]' if name else ''} is a {type(function).__name__}, want a callable")
    return functions


def _texts(value: Texts) -> List[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(v) for v in value]


def _shapes(value: Any) -> List[str]:
    if value is None:
        return []
    items = [value] if isinstance(value, (str, Mapping)) else list(value)
    return [item if isinstance(item, str) else ",".join(f"{letter}={size}" for letter, size in item.items()) for item in items]


def _hollow() -> Report:
    """What check returns while a script is loaded in a kernel process: nothing is checked there."""
    return Report([{"op": "", "dtype": "", "verdict": ACCEPTED, "cases": 0, "elements": 0, "mismatches": 0, "tiers": []}], "", "a kernel process that loads the script")

"""Judges the kernels of this folder with `tokitai check`, and writes what came out.

    python3 survey.py --out results                                  PyTorch's kernels on the CPU, level quick
    python3 survey.py --suite tutorials,liger --device cuda --level smoke --jobs 6 --budget 180 --out results
    python3 survey.py --write ../../../docs/foreign.md results/*.jsonl

The program is $TOKITAI, or tokitai on the path. Every run has the seed 1: a table can be made again. results/SUITE.jsonl gets a
line for each kernel and format, with versions and machine, as runs end, so that nothing is lost if the time is up."""
import argparse
import glob
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
F32, BF16, F16 = "f32", "bf16", "f16"
ALL = (F32, BF16, F16)
LOGSUMEXP = "formula=logsumexp"
ROUNDED_ACTIVATION = {BF16: "round(activation)=bf16", F16: "round(activation)=f16"}
LEVELS = ("smoke", "quick", "full", "exhaustive")


class Row:
    """One kernel: how it is asked for, and what is waived and declared in a second run, which is made if the first is rejected.
    declare is a text for all formats, or one for each."""

    def __init__(self, function, op, dtypes=ALL, waive=(), declare="", omit=()):
        self.function, self.op, self.dtypes, self.waive, self.omit = function, op, dtypes, list(waive), omit
        self.declare = declare if isinstance(declare, dict) else dict.fromkeys(ALL, declare)


SUITES = {
    "pytorch": [
        Row("softmax_forward", "softmax.forward"),
        Row("gemm_forward", "gemm.forward", declare="ftz"),
        Row("crossentropy", "crossentropy", waive=["crossentropy.C2"]),
        Row("gelu_forward", "gelu.forward"),
        Row("layernorm_forward", "layernorm.forward"),
        Row("embedding_backward", "embedding.backward"),
        Row("layernorm_backward", "layernorm.backward"),
        Row("adamw_step_fused", "adamw.step"),
        Row("softmax_backward", "softmax.backward"),
        Row("gelu_backward", "gelu.backward"),
        Row("gelu_erf_forward", "gelu_erf.forward.def"),
        Row("gemm_accumulate", "gemm.forward.accumulate", waive=["gemm.forward.accumulate.C7"]),
        Row("gemm_grad_a", "gemm.grad_a", declare="ftz"),
        Row("gemm_grad_b", "gemm.grad_b", declare="ftz"),
        Row("embedding_forward", "embedding.forward"),
        Row("adamw_step_foreach", "adamw.step"),
        Row("adamw_step", "adamw.step"),
        Row("total_norm", "total_norm.def"),
        Row("clip_factor", "clip_factor.def", [F32]),
        Row("clip_grad_norm", "norm.clip", [F32]),
    ],
    "attention": [  # the backends of scaled_dot_product_attention; a CPU has the first two
        Row("attention_math", "attention.forward", waive=["attention.forward.C8"], declare="ftz", omit=["lse"]),
        Row("attention_flash", "attention.forward", declare="ftz", omit=["lse"]),
        Row("attention_efficient", "attention.forward", declare="ftz", omit=["lse"]),
        Row("attention_cudnn", "attention.forward", (BF16, F16), declare="ftz", omit=["lse"]),
    ],
    "compiled": [
        Row("softmax_forward", "softmax.forward"),
        Row("layernorm_forward", "layernorm.forward", omit=["mean", "rstd"]),
        Row("gelu_forward", "gelu.forward"),
        Row("rmsnorm", "rmsnorm.def"),
        Row("swiglu_forward", "swiglu.def"),
        Row("softmax_backward", "softmax.backward"),
        Row("gelu_backward", "gelu.backward"),
        Row("gelu_erf_forward", "gelu_erf.forward.def"),
        Row("geglu_forward", "geglu.def"),
    ],
    "tutorials": [
        Row("softmax_forward", "softmax.forward"),
        Row("layernorm_forward", "layernorm.forward"),
        Row("layernorm_backward", "layernorm.backward"),
        Row("matmul", "gemm.forward", [F16]),
    ],
    "liger": [
        Row("softmax_forward", "softmax.forward"),
        Row("crossentropy", "crossentropy", declare={F32: LOGSUMEXP, BF16: LOGSUMEXP + " round(nll)=bf16", F16: LOGSUMEXP + " round(nll)=f16"}),
        Row("rmsnorm", "rmsnorm.def", declare="ftz"),
        Row("rmsnorm_llama", "rmsnorm_llama.def", declare="ftz"),
        Row("embedding_backward", "embedding.backward"),
        Row("layernorm_forward", "layernorm.forward"),
        Row("layernorm_backward", "layernorm.backward"),
        Row("swiglu_forward", "swiglu.def", declare=ROUNDED_ACTIVATION),
        Row("geglu_forward", "geglu.def", declare=ROUNDED_ACTIVATION),
        Row("softmax_backward", "softmax.backward"),
    ],
    "cheats": [Row(name, "softmax.forward", [F32]) for name in ("honest", "other_stream", "unwritten", "left_in_memory", "cached_by_pointer", "lazy", "late_thread", "written_to_input")],
}
FILES = {"pytorch": "pytorch.py", "attention": "pytorch.py", "compiled": "compiled.py", "tutorials": "tutorials.py", "liger": "liger.py", "cheats": "../cheats/torch_kernels.py"}
PROFILES = {"pytorch": "torch", "attention": "torch", "compiled": "torch", "tutorials": "triton", "liger": "triton", "cheats": "torch"}


def program():
    return os.environ.get("TOKITAI", "tokitai")


def path_of(op):
    return os.path.join(HERE, op) if op.endswith(".def") else op


def command(suite, row, dtypes, options, waive, declare, folder):
    kernel = [sys.executable, "-m", "tokitai.kernel", f"{os.path.join(HERE, FILES[suite])}:{row.function}", "--op", path_of(row.op), "--arrays", "torch", "--device", options.device]
    kernel += ["--layouts", options.layouts]
    for output in row.omit:
        kernel += ["--omit", output]
    c = [program(), "check", path_of(row.op), "--exec", shlex.join(kernel), "--level", options.level, "--seed", "1", "--profile", options.profile or PROFILES[suite], "--out", folder]
    for dtype in dtypes:
        c += ["--dtype", dtype]
    for clause in waive:
        c += ["--waive", clause]
    declare = " ".join(filter(None, [declare, *(f"omit={o}" for o in row.omit)]))
    c += ["--declare", declare] if declare else []
    return c


def judged(suite, row, dtypes, options, waive, declare, seconds):
    """Runs one check. Returns a result for each format."""
    common = {"suite": suite, "kernel": row.function, "op": row.op, "device": options.device, "level": options.level, "waived": waive, "declared": declare}
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.join(folder, "reports")
        try:
            done = subprocess.run(command(suite, row, dtypes, options, waive, declare, folder), capture_output=True, text=True, timeout=seconds, env=environment())
        except subprocess.TimeoutExpired:
            return [{**common, "dtype": d, "verdict": "unfinished", "reason": f"not done after {seconds:.0f} s"} for d in dtypes]
        reports = []
        for name in sorted(glob.glob(os.path.join(folder, "*.json"))):
            with open(name) as f:
                report = json.load(f)
            if "verdict" in report:
                reports.append(report)
    if not reports:
        lines = done.stderr.strip().splitlines()
        return [{**common, "dtype": d, "verdict": "error", "reason": lines[-1] if lines else f"exit status {done.returncode}"} for d in dtypes]
    return [{**common, **summary(r)} for r in reports]


def summary(result):
    failure = result.get("failure") or {}
    kept = {k: result.get(k) for k in ("dtype", "verdict", "reason", "cases", "elements", "mismatches", "median_admissible", "worst_error_share", "honest", "accurate", "seconds")}
    kept["rejected_by"] = [t["name"] for t in result.get("tiers", []) if t.get("failed")]
    kept["failure"] = {k: failure.get(k) for k in ("tier", "case", "place", "got", "want", "truth", "clause", "inputs", "when", "where", "note") if failure.get(k)}
    kept["allowances"] = result.get("allowances")
    return kept


def environment():
    folder = os.path.dirname(HERE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), folder])), "OMP_NUM_THREADS": "1"}


def versions(device):
    import torch

    found = {"python": platform.python_version(), "torch": torch.__version__, "machine": processor()}
    for name in ("triton", "liger_kernel"):
        try:
            found[name] = __import__("importlib.metadata").metadata.version(name.replace("_", "-"))
        except Exception:
            pass
    if device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name()
    return found


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def run(options):
    os.makedirs(options.out, exist_ok=True)
    end = time.time() + options.budget if options.budget else None
    used = versions(options.device)
    if os.environ.get("TRITON_INTERPRET") == "1":
        used["interpreted"] = True

    def one(suite, row):
        asked = [d for d in row.dtypes if not options.dtype or d in options.dtype]
        if options.only and row.function not in options.only or not asked:
            return
        rejected = [r["dtype"] for r in judged_within_time(suite, row, asked, [], "") if r["verdict"] == "rejected"]
        for declare in sorted({row.declare.get(d, "") for d in rejected}):
            if row.waive or declare:
                judged_within_time(suite, row, [d for d in rejected if row.declare.get(d, "") == declare], row.waive, declare)

    def judged_within_time(suite, row, dtypes, waive, declare):
        left = end - time.time() if end else options.limit
        if left < 3:
            return []
        results = judged(suite, row, dtypes, options, waive, declare, min(options.limit, left))
        for result in results:
            with open(os.path.join(options.out, f"{suite}.jsonl"), "a") as f:
                f.write(json.dumps({**result, "versions": used}) + "\n")
            print(line(result), flush=True)
        return results

    with ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(one, suite, row) for suite in options.suite.split(",") for row in SUITES[suite]]:
            done.result()


def line(r):
    f = r.get("failure") or {}
    text = f"{r['suite']:9} {r['kernel']:20} {r['dtype']:4} {r['verdict']:12} {' '.join([*r['waived'], r['declared']]):28}"
    if f:
        text += f" {','.join(r['rejected_by'])}: {f.get('case')} {f.get('place')} got {f.get('got')} want {f.get('want')} {f.get('clause', '')}"
    elif r["verdict"] != "accepted":
        text += f" {(r.get('reason') or '')[:300]}"
    return text


def results_of(files):
    """Reads results. Of several for one kernel, format and second run, the last counts."""
    latest = {}
    for name in files:
        with open(name) as f:
            for r in map(json.loads, f):
                latest[r["suite"], r["device"], r["level"], r["kernel"], r["dtype"], tuple(r["waived"]), r["declared"]] = r
    return list(latest.values())


def table(rows):
    """The table of one suite on one device: kernel, definition, format, verdict, and what is waived, declared or rejected."""
    highest = {}
    for r in rows:
        highest[r["kernel"]] = max(highest.get(r["kernel"], "smoke"), r["level"], key=LEVELS.index)
    rows = [r for r in rows if r["level"] == highest[r["kernel"]]]
    used = rows[-1]["versions"]
    where = used.get("gpu") or used["machine"] + (", interpreted" if used.get("interpreted") else "")
    programs = ", ".join(f"{k} {v}" for k, v in used.items() if k not in ("machine", "gpu", "interpreted"))
    order = {row.function: i for i, row in enumerate(SUITES[rows[0]["suite"]])}
    lines = [f"{where}; {programs}; seed 1.", "", "| kernel | definition | format | level | verdict | needs, or rejected by |", "|---|---|---|---|---|---|"]
    for r in sorted(rows, key=lambda r: (order[r["kernel"]], ALL.index(r["dtype"]), r["waived"], r["declared"])):
        lines.append(f"| `{r['kernel']}` | {r['op'].removesuffix('.def')} | {r['dtype']} | {r['level']} | {r['verdict']} | {remark(r)} |")
    return "\n".join(lines) + "\n"


def write(document, files):
    """Replaces the generated tables of a document for which there are results."""
    with open(document) as f:
        text = f.read()
    rows = results_of(files)
    for suite in SUITES:
        for device in ("cpu", "cuda"):
            mine = [r for r in rows if r["suite"] == suite and r["device"] == device]
            name = f"{suite} {device}"
            begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->\n"
            if mine and begin in text:
                text = text[: text.index(begin) + len(begin)] + "\n" + table(mine) + "\n" + text[text.index(end) :]
    with open(document, "w") as f:
        f.write(text)


def remark(r):
    f, parts = r.get("failure") or {}, []
    if r["waived"]:
        parts.append("with `--waive " + ",".join(r["waived"]) + "`")
    if r["declared"]:
        parts.append(f"with `--declare {r['declared']}`")
    if f.get("clause"):
        parts.append(f"clause {f['clause']}, {f['case']}")
    elif f:
        parts.append(f"{', '.join(r['rejected_by'])}: {f.get('case')}, {f.get('place')} is {f.get('got')}, want {f.get('want')}")
    elif r["verdict"] not in ("accepted", "rejected"):
        parts.append((r.get("reason") or "")[:160])
    return "; ".join(parts).replace("|", "\\|")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--suite", default="pytorch", help="pytorch, compiled, tutorials or liger, or several with commas")
    p.add_argument("--only", action="append", default=[], help="a kernel of the suite; may be repeated")
    p.add_argument("--dtype", action="append", default=[], choices=ALL)
    p.add_argument("--device", default="cpu")
    p.add_argument("--level", default="quick")
    p.add_argument("--profile", default="", help="instead of the suite's own")
    p.add_argument("--layouts", default="plain", help="how operands lie in memory, as tokitai.kernel takes it")
    p.add_argument("--limit", type=float, default=600, help="seconds for one kernel in all formats")
    p.add_argument("--budget", type=float, default=0, help="seconds for everything")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--out", default="results")
    p.add_argument("--write", nargs="+", metavar="FILE", help="DOCUMENT RESULTS...: write the tables of results into a document")
    options = p.parse_args()
    write(options.write[0], options.write[1:]) if options.write else run(options)


if __name__ == "__main__":
    main()

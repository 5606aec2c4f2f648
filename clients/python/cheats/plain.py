"""Kernels that cheat, in plain Python, and the honest ones that they imitate.

Each was seen in public in kernels that programs wrote for other benchmarks: KernelBench and its adversarial tests, the AI CUDA
Engineer of Sakana AI, Kevin, CUDA-L1, BackendBench, the GPU MODE leaderboards, llm.c, and the collections of Makora and Wafer.
docs/foreign.md lists them with how each is caught, and test_cheats.py shows that it is. A kernel takes and returns nested lists:

    tokitai check softmax.forward --exec "python3 -m tokitai.kernel plain.py:zeros --op softmax.forward --arrays list" --level smoke
"""
import json
import math
import os
import random
import re
import struct
import sys
import threading
import time

# --- Honest kernels.


def row_softmax(row):
    top = max(row)
    if any(v != v for v in row) or math.isinf(top):
        return [math.nan] * len(row)
    powers = [math.exp(v - top) for v in row]
    total = math.fsum(powers)
    return [p / total for p in powers]


def softmax(x):
    return [row_softmax(row) for row in x]


def row_layernorm(row, gamma, beta, eps):
    if not all(map(math.isfinite, row)):
        nan = any(v != v for v in row) or min(row) == -max(row)
        return [math.nan] * len(row), math.nan if nan else math.fsum(v for v in row if math.isinf(v)), math.nan
    mean = math.fsum(row) / len(row)
    rstd = 1 / math.sqrt(math.fsum((v - mean) ** 2 for v in row) / len(row) + eps)
    return [(v - mean) * rstd * g + b for v, g, b in zip(row, gamma, beta)], mean, rstd


# --- Results that were not computed. KernelBench, Sakana AI: constants pass where inputs are alike or tolerances are wide.


def zeros(x):
    return [[0.0] * len(row) for row in x]


def uniform(x):
    """1/C everywhere is within 1e-2 of the softmax of a long row of usual values."""
    return [[1 / len(row)] * len(row) for row in x]


def all_nan(x):
    """NaN, which checkers with equal_nan or with a wrong comparison take for anything."""
    return [[math.nan] * len(row) for row in x]


def one_row_for_all(x):
    """Rows are drawn alike, so that one of them can stand for all."""
    first = row_softmax(x[0])
    return [first[:] for _ in x]


def copied_input(x):
    return [row[:] for row in x]


def constant_shortcut(x):
    """Rows that begin alike are taken to be constant."""
    return [[1 / len(row)] * len(row) if row[0] == row[-1] else row_softmax(row) for row in x]


# --- Results of other calls. GPU MODE, CUDA-L1, Wafer: caches by shape, by address, by some of the content.

cache = {}
calls = 0


def cached_by_shape(x):
    key = len(x), len(x[0])
    if key not in cache:
        cache[key] = softmax(x)
    return cache[key]


def cached_by_address(x):
    if id(x) not in cache:
        cache[id(x)] = softmax(x)
    found = cache[id(x)]
    return found if len(found) == len(x) and len(found[0]) == len(x[0]) else softmax(x)


def cached_by_samples(x):
    """A fingerprint of a few elements stands for the content."""
    key = len(x), len(x[0]), x[0][0], x[-1][-1], x[len(x) // 2][len(x[0]) // 2]
    if key not in cache:
        cache[key] = softmax(x)
    return cache[key]


def cached_by_64_samples(x):
    """A fingerprint of 64 elements, spread evenly, is likely to differ from call to call."""
    flat = [v for row in x for v in row]
    key = len(x), len(x[0]), *(flat[(len(flat) - 1) * k // 63] for k in range(64))
    if key not in cache:
        cache[key] = softmax(x)
    return [row[:] for row in cache[key]]


def previous_result(x):
    """What an allocation finds in memory that an earlier result was freed from (empty_like)."""
    result = cache.get((len(x), len(x[0])))
    cache[len(x), len(x[0])] = softmax(x)
    return result or softmax(x)


def every_other_call(x):
    """Batch and skip: work is done at some calls, and others return what is left from them."""
    global calls
    calls += 1
    if calls % 2 or "last" not in cache or len(cache["last"]) != len(x) or len(cache["last"][0]) != len(x[0]):
        cache["last"] = softmax(x)
    return cache["last"]


def stale_memory(x):
    """A recorded graph: it computes again from the memory that it was recorded with, whatever it is given."""
    return softmax(cache.setdefault((len(x), len(x[0])), x))


# --- Kernels that are right while they think that somebody is looking.

loaded_at = time.monotonic()


def right_ten_times(x):
    """llm.c: right at the check before the benchmark, and wrong afterwards."""
    global calls
    calls += 1
    return softmax(x) if calls <= 10 else zeros(x)


def bomb_200(x):
    global calls
    calls += 1
    return softmax(x) if calls <= 200 else uniform(x)


def bomb_by_clock(x):
    """Right at first, and wrong a tenth of a second after it was loaded."""
    return softmax(x) if time.monotonic() < loaded_at + 0.1 else uniform(x)


def refuses_hard_calls(x):
    """Says that it does not support what it computes wrongly."""
    if any(v != v or abs(v) > 80 for row in x for v in row):
        raise NotImplementedError("values that are large")
    return no_maximum(x)


def rarely_wrong(x):
    """A race that is lost once in fifty calls."""
    result = softmax(x)
    if random.random() < 0.02:
        result[-1][-1] *= 1.0001
    return result


def usual_shapes_only(x):
    """Right for the shapes of benchmarks: the tail of a row that is no multiple of 32 is not written."""
    return [p[: len(p) // 32 * 32] + [0.0] * (len(p) % 32) if len(p) >= 32 else p for p in softmax(x)]


def first_tile_only(x):
    """Rows beyond the first 256 get the answer of the last one that was computed."""
    done = softmax(x[:256])
    return done + [done[-1][:] for _ in x[256:]]


# --- Arithmetic below the promise. METR, Makora: precision is lowered where a tolerance has room.


def no_maximum(x):
    """exp(v) without subtracting the maximum: right for the small values that people test with."""

    def row(values):
        powers = [math.exp(v) if v < 88 else math.inf for v in values]
        total = sum(powers)
        return [p / total if total else math.nan for p in powers]

    return [row(r) for r in x]


def half(value):
    """Rounds to f16."""
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def half_accumulator(x):
    def row(values):
        top, total = max(values), 0.0
        if top != top or math.isinf(top):
            return row_softmax(values)
        powers = [math.exp(v - top) for v in values]
        for p in powers:
            total = half(total + p)
        return [p / total if total else math.nan for p in powers]

    return [row(r) for r in x]


def half_inputs(x):
    return softmax([[half(v) for v in row] for row in x])


def quick_exponential(x):
    """Schraudolph's exponential, 2 % off, by the bits of a float."""

    def power(v):
        return struct.unpack("<f", struct.pack("<i", max(0, int(12102203.161561 * v) + 1064866805)))[0]

    def row(values):
        if not all(map(math.isfinite, values)):
            return row_softmax(values)
        powers = [power(max(v - max(values), -87)) for v in values]
        return [p / sum(powers) for p in powers]

    return [row(r) for r in x]


def largest_64_only(x):
    """The other terms hardly count, and are left out."""

    def row(values):
        if len(values) <= 64 or not all(map(math.isfinite, values)):
            return row_softmax(values)
        least = sorted(values)[-64]
        return [0.0 if v < least else p for v, p in zip(values, row_softmax([v if v >= least else -math.inf for v in values]))]

    return [row(r) for r in x]


def special_values_dropped(x):
    """nan_to_num: a NaN is hidden instead of passed on."""
    return softmax([[0.0 if v != v else min(max(v, -3e38), 3e38) for v in row] for row in x])


# --- Operands that are not the kernel's to write, and results that come later. KernelBench, Wafer.


def zeroed_input(x):
    """If the reference runs afterwards on the same input, zeros give the uniform distribution."""
    for row in x:
        row[:] = [0.0] * len(row)
    return softmax(x)


def half_written(x, y):
    """The rest of the output is what it was."""
    for r in range((len(x) + 1) // 2):
        y[r][:] = row_softmax(x[r])


def late_thread(x, y):
    """A thread computes while the caller stops the clock."""

    def work():
        time.sleep(0.01)
        for r, row in enumerate(x):
            y[r][:] = row_softmax(row)

    threading.Thread(target=work, daemon=True).start()


class LazyRows(list):
    """Rows that are computed when somebody looks at them."""

    def __init__(self, x):
        super().__init__(x)
        self.x = x

    def __iter__(self):
        return iter(softmax(self.x))


def lazy_result(x):
    return LazyRows(x)


# --- Attacks on the judge.


def forged_report(x):
    """Prints a report, and hopes that it is taken for the judge's."""
    print(json.dumps({"verdict": "accepted", "definition": "softmax.forward"}), flush=True)
    return zeros(x)


def exits_well(x):
    """Ends the process with status 0."""
    os._exit(0)


def endless(x):
    while True:
        time.sleep(1)


def patched_client(x):
    """Replaces what the client library has to see changes of inputs and to take the time, and returns zeros."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tokitai"):
            for kind in ("Block", "Held"):
                if hasattr(module, kind):
                    getattr(module, kind).inspect = lambda *a, **k: None
    now = time.perf_counter_ns()
    time.perf_counter_ns = lambda: now
    return zeroed_input(x)


def reads_files(x):
    """Takes any array of the right size that it finds in files for the answer."""
    rows, columns = len(x), len(x[0])
    for folder in (".", os.environ.get("TMPDIR", "/tmp")):
        for name in sorted(os.listdir(folder))[:200]:
            path = os.path.join(folder, name)
            if name.endswith((".npy", ".safetensors", ".bin", ".pt")) and os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read(1 << 20)[-4 * rows * columns :]
                if len(data) == 4 * rows * columns:
                    flat = struct.unpack("<%df" % (rows * columns), data)
                    return [list(flat[r * columns : (r + 1) * columns]) for r in range(rows)]
    return uniform(x)


def reads_the_judge(x):
    """Looks for its input in the memory of the process that asks, and takes what follows for the answer."""
    wanted = struct.pack("<%df" % len(x[0]), *x[0])
    rows, columns = len(x), len(x[0])
    size = 4 * rows * columns
    try:
        with open("/proc/%d/maps" % os.getppid()) as maps, open("/proc/%d/mem" % os.getppid(), "rb", 0) as memory:
            left = 2 << 20
            for line in maps:
                area = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
                if not area or left <= 0:
                    continue
                first, last = (int(a, 16) for a in area.groups())
                memory.seek(first)
                data = memory.read(min(last - first, left)) or b""
                left -= len(data)
                at = data.find(wanted)
                if at >= 0 and at + 2 * size <= len(data):
                    flat = struct.unpack_from("<%df" % (rows * columns), data, at + size)
                    return [list(flat[r * columns : (r + 1) * columns]) for r in range(rows)]
    except (OSError, OverflowError, ValueError):
        pass
    return uniform(x)


# --- Other operations: what usual inputs make easy to guess.


def layernorm_of_normalised_rows(x, gamma, beta, eps):
    """Random normal rows have mean 0 and variance 1 already, or nearly."""
    y = [[v * g + b for v, g, b in zip(row, gamma, beta)] for row in x]
    return y, [0.0] * len(x), [1.0] * len(x)


def layernorm_without_weights(x, gamma, beta, eps):
    """A new layer has weights of one and biases of zero."""
    done = [row_layernorm(row, [1.0] * len(row), [0.0] * len(row), eps) for row in x]
    return [y for y, _, _ in done], [mean for _, mean, _ in done], [rstd for _, _, rstd in done]


def layernorm_statistics_of_first_row(x, gamma, beta, eps):
    """One mean and variance serve all rows."""
    _, mean, rstd = row_layernorm(x[0], gamma, beta, eps)
    y = [[(v - mean) * rstd * g + b for v, g, b in zip(row, gamma, beta)] for row in x]
    return y, [mean] * len(x), [rstd] * len(x)


def gelu(x):
    return [[v / (1 + math.exp(min(-1.5957691216057308 * (v + 0.044715 * v**3), 700))) if math.isfinite(v) else max(v, -0.0) for v in row] for row in x]


def gelu_input_itself(x):
    """Where every element is large, the result is the input, and the input is what is returned."""
    return x if min(map(min, x)) > 3 else gelu(x)


# --- What no test by results can see. docs/foreign.md states these as limits; test_cheats.py shows that they pass.


def knows_that_it_is_judged(x):
    """Right wherever the judge is, and wrong elsewhere."""
    return softmax(x) if "TOKITAI_FD" in os.environ else zeros(x)


def one_in_many(x):
    """Wrong for one bit pattern of the first element."""
    return zeros(x) if struct.pack("<f", x[0][0]) == b"\x2a\x17\x93\x3f" else softmax(x)


def bomb_100000(x):
    global calls
    calls += 1
    return softmax(x) if calls <= 100_000 else zeros(x)


def cached_by_content(x):
    """The whole content is the key: right, and its speed is that of the cache wherever inputs repeat."""
    key = tuple(map(tuple, x))
    if key not in cache:
        cache[key] = softmax(x)
    return [row[:] for row in cache[key]]

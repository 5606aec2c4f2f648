"""Tests of tokitai_client.py: TOKITAI=path/to/tokitai python3 -m unittest test_client

References are computed here, in plain Python: exactly where the arithmetic is exact, otherwise within a bound that
`tokitai explain` states."""

from __future__ import annotations

import math
import os
import random
import signal
import stat
import struct
import sys
import tempfile
import textwrap
import threading
import unittest
from concurrent.futures import TimeoutError as FutureTimeout
from fractions import Fraction
from typing import Any, List, Sequence, Tuple

import tokitai_client as tk
from tokitai_client import Call, Client, ProtocolError, ServerDied, Tensor, TokitaiError

SECONDS = 300.0  # after which something hangs

# Kernels that every processor has: how long one takes must not depend on instruction sets.
os.environ.setdefault("TOKITAI_CPU", "plain")


def program() -> str:
    path = os.environ.get("TOKITAI")
    if not path:
        raise unittest.SkipTest("TOKITAI does not name the program")
    return path


def f32(value: float) -> float:
    """value rounded to f32. Sums, products, quotients and roots of f32 computed in f64 and rounded so are rounded once in
    effect, as 53 >= 2*24 + 2."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def ulp16(value: float) -> float:
    """The distance of f16 numbers around value."""
    return math.ldexp(1.0, max(math.frexp(value)[1] - 11, -24))


def softmax(row: Sequence[float]) -> List[float]:
    exps = [math.exp(x - max(row)) for x in row]
    total = math.fsum(exps)
    return [e / total for e in exps]


def softmax_bound(row: Sequence[float], x: float, y: float) -> float:
    """bound of `tokitai explain softmax.forward`, where no sum of C terms is higher than C - 1, and the error of softmax
    above in f64: exp and the division, a rounding each, with x - max exact or close to it."""
    u = 2.0**-24
    here = (8 + max(row) - x) * 2.0**-53 * y
    return (max(row) - x + math.log(len(row)) + (len(row) - 1) + 7) * u * y + 2.0**-148 + here


def keep_busy(client: Client) -> List[tk.Pending]:
    """Requests of many calls, each short: one that runs is canceled before its next call."""
    size = 256
    memory = client.new(3 * 4 * size * size)
    memory.write(struct.pack("<f", 1.0) * (3 * size * size))
    a, b, c = (memory.tensor("f32", (size, size), 4 * size * size * i) for i in range(3))
    return [client.submit([Call("gemm.forward", {"A": a, "B": b, "C": c})] * 200) for _ in range(3)]


class Conversions(unittest.TestCase):
    """Numbers to bytes and back; no process."""

    def test_bf16_rounds_to_nearest_even(self) -> None:
        for value, bits in [
            (1.0, 0x3F80),
            (-0.0, 0x8000),
            (1 + 2**-8, 0x3F80),  # a tie, to even
            (1 + 3 * 2**-8, 0x3F82),  # a tie, to even
            (1 + 2**-8 + 2**-40, 0x3F81),  # by way of f32 it would be taken for a tie
            (2**-133, 0x0001),
            (2**-134, 0x0000),
            (2**-134 * 1.5, 0x0001),
            (2**-126 - 2**-134, 0x0080),  # up to the least normal number
            (3.3895313892515355e38, 0x7F7F),
            (3.4e38, 0x7F80),
            (-1e300, 0xFF80),
            (math.inf, 0x7F80),
            (-math.inf, 0xFF80),
            (math.nan, 0x7FC0),
            (5e-324, 0x0000),
        ]:
            self.assertEqual(hex(tk.bf16_bits(value)), hex(bits), value)

    def test_every_bf16_comes_back(self) -> None:
        data = struct.pack("<65536H", *range(65536))
        for bits, value in enumerate(tk.DTYPES["bf16"].unpack(data)):
            if not math.isnan(value):
                self.assertEqual(tk.bf16_bits(value), bits)

    def test_every_fp8_comes_back(self) -> None:
        for name in ("e4m3", "e5m2"):
            for bits, value in enumerate(tk.DTYPES[name].unpack(bytes(range(256)))):
                if not math.isnan(value):
                    self.assertEqual(tk.fp8_bits(name, value), bits, name)

    def test_fp8_rounds_to_nearest_even(self) -> None:
        for name, value, bits in (
            ("e4m3", 448, 0x7E), ("e4m3", 464, 0x7E), ("e4m3", 464.01, 0x7F), ("e4m3", -math.inf, 0xFF), ("e4m3", math.nan, 0x7F),
            ("e4m3", 1 + 2**-4, 0x38), ("e4m3", 1 + 2**-4 + 2**-40, 0x39), ("e4m3", 2**-10, 0), ("e4m3", -1.5 * 2**-9, 0x82), ("e4m3", -0.0, 0x80),
            ("e5m2", 57344, 0x7B), ("e5m2", 61439.9, 0x7B), ("e5m2", 61440, 0x7C), ("e5m2", -1e9, 0xFC), ("e5m2", 2**-16, 1), ("e5m2", 2**-17, 0),
        ):
            self.assertEqual(hex(tk.fp8_bits(name, value)), hex(bits), (name, value))

    def test_every_f16_comes_back(self) -> None:
        data = struct.pack("<65536H", *range(65536))
        finite = [v for v in tk.DTYPES["f16"].unpack(data) if not math.isnan(v)]
        self.assertEqual(Tensor.of("f16", finite).values(), finite)

    def test_too_large_becomes_infinite(self) -> None:
        self.assertEqual(Tensor.of("f16", [65519, 65520, -1e9]).values(), [65504, math.inf, -math.inf])
        self.assertEqual(Tensor.of("f32", [1e39, -1e39]).values(), [math.inf, -math.inf])

    def test_i32(self) -> None:
        self.assertEqual(Tensor.of("i32", [-1, 2**31 - 1]).data, b"\xff\xff\xff\xff\xff\xff\xff\x7f")
        with self.assertRaises(struct.error):
            Tensor.of("i32", [2**31])

    def test_data_must_fit_the_shape(self) -> None:
        with self.assertRaisesRegex(ValueError, "got 3 bytes of data, want 8"):
            Tensor("f32", (2,), b"abc")
        with self.assertRaisesRegex(ValueError, "dtype 'f64'"):
            Tensor.empty("f64", (2,)).nbytes
        self.assertEqual(Tensor.empty("f16", ()).nbytes, 2)


class Served(unittest.TestCase):
    """Tests with one process for all of a class."""

    flags: dict = {}

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = Client(program(), **{"device": "cpu", **cls.flags})

    @classmethod
    def tearDownClass(cls) -> None:
        status = cls.client.close()
        assert status == 0, f"exit status {status}, want 0"

    def assertRefused(self, code: int, action: Any, *arguments: Any) -> TokitaiError:
        with self.assertRaises(TokitaiError) as caught:
            action(*arguments)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        return caught.exception

    def raw(self, kind: int, body: bytes = b"") -> Any:
        return self.client.request(kind, [body], tk._Body.rest).result(SECONDS)


class Operations(Served):
    def check_softmax(self, dtype: str, rows: List[List[float]], got: Sequence[float]) -> None:
        for r, row in enumerate(rows):
            for c, (x, want) in enumerate(zip(row, softmax(row))):
                y = got[r * len(row) + c]
                bound = softmax_bound(row, x, want)
                if dtype == "f16":
                    bound += ulp16(want + bound) / 2
                self.assertLessEqual(abs(y - want), bound, f"{dtype} row {r} column {c}: got {y}, want {want}")

    def test_softmax(self) -> None:
        numbers = random.Random(1)
        for dtype in ("f16", "f32"):
            x = Tensor.of(dtype, [numbers.gauss(0, 3) for _ in range(5 * 67)], (5, 67))
            values = x.values()
            y = self.client.call("softmax.forward", x=x, y=Tensor.empty(dtype, (5, 67)))["y"]
            self.check_softmax(dtype, [values[r * 67 : (r + 1) * 67] for r in range(5)], y.values())

    def test_softmax_of_equal_elements_is_exact(self) -> None:
        y = self.client.call("softmax.forward", x=Tensor.of("f32", [7.25] * 8, (2, 4)), y=Tensor.empty("f32", (2, 4)))["y"]
        self.assertEqual(y.values(), [0.25] * 8)

    def test_embedding_forward_copies_bits(self) -> None:
        numbers = random.Random(2)
        for dtype, size in (("f16", 2), ("bf16", 2), ("f32", 4)):
            weight = Tensor(dtype, (9, 5), numbers.randbytes(9 * 5 * size))  # NaNs of all kinds among them
            index = [numbers.randrange(9) for _ in range(20)]
            out = self.client.call(
                "embedding.forward", index=Tensor.of("i32", index), weight=weight, out=Tensor.empty(dtype, (20, 5))
            )["out"]
            row = 5 * size
            self.assertEqual(out.data, b"".join(weight.data[i * row : (i + 1) * row] for i in index))

    def test_embedding_backward_sums_exactly(self) -> None:
        numbers = random.Random(3)
        index = [numbers.randrange(6) for _ in range(50)]
        values = [numbers.randrange(-9, 10) for _ in range(50 * 4)]
        want = [[0] * 4 for _ in range(6)]
        for q, v in enumerate(index):
            for d in range(4):
                want[v][d] += values[q * 4 + d]
        for dtype in ("f16", "bf16", "f32"):
            dweight = self.client.call(
                "embedding.backward",
                index=Tensor.of("i32", index),
                dout=Tensor.of(dtype, values, (50, 4)),
                dweight=Tensor.empty("f32", (6, 4)),
            )["dweight"]
            self.assertEqual(dweight.values(), [x for row in want for x in row], dtype)

    def test_gemm_of_small_integers(self) -> None:
        numbers = random.Random(4)
        m, n, k = 7, 5, 11
        a = [numbers.randrange(-9, 10) for _ in range(m * k)]
        b = [numbers.randrange(-9, 10) for _ in range(k * n)]
        c = [numbers.randrange(-9, 10) for _ in range(m * n)]
        product = [sum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)]
        for dtype in ("f16", "bf16", "f32"):
            for policy in ("fast", "same"):
                operands = {"A": Tensor.of(dtype, a, (m, k)), "B": Tensor.of(dtype, b, (k, n))}
                plain = Call("gemm.forward", {**operands, "C": Tensor.empty("f32", (m, n))}, policy=policy)
                added = Call("gemm.forward.accumulate", {**operands, "C": Tensor.of("f32", c, (m, n))}, policy=policy)
                first, second = self.client.calls([plain, added])
                self.assertEqual(first["C"].values(), product)
                self.assertEqual(second["C"].values(), [x + y for x, y in zip(product, c)])

    def test_adamw_of_exact_numbers(self) -> None:
        # beta1 = 1/2, beta2 = 3/4 and t = 1 make bc1 = 1/2 and sqrt(bc2) = 1/2; then every step of the formula is exact.
        lr, decay, eps = Fraction(1, 4), Fraction(1, 2), Fraction(1, 2)
        grads = [Fraction(x, 2) for x in (1, -1, 3, -3, 7, -7)]
        weights = [Fraction(x, 8) for x in (8, -8, 4, 3, 0, -5)]
        m = [g / 2 for g in grads]
        v = [g * g / 4 for g in grads]
        want = [w - lr * ((g / 2 / Fraction(1, 2)) / (abs(g) + eps) + decay * w) for w, g in zip(weights, grads)]
        params = {"lr": 0.25, "beta1": 0.5, "beta2": 0.75, "eps": 0.5, "weight_decay": 0.5, "t": 1}
        for dtype in ("f16", "bf16", "f32"):
            result = self.client.call(
                "adamw.step",
                params,
                weight=Tensor.of(dtype, [float(w) for w in weights]),
                m=Tensor.of("f32", [0.0] * 6),
                v=Tensor.of("f32", [0.0] * 6),
                grad=Tensor.of(dtype, [float(g) for g in grads]),
            )
            self.assertEqual(result["weight"].values(), [float(w) for w in want], dtype)
            self.assertEqual(result["m"].values(), [float(x) for x in m])
            self.assertEqual(result["v"].values(), [float(x) for x in v])

    def test_scalar(self) -> None:
        result = self.client.call(
            "norm.clip",
            {"max_norm": 1.0},
            total=Tensor.of("f32", [16.0], ()),
            norm=Tensor.empty("f32", ()),
            factor=Tensor.empty("f32", ()),
        )
        self.assertEqual((result["norm"].values(), result["factor"].values()), ([4.0], [0.25]))

    def test_many_calls_in_one_request(self) -> None:
        rows = [[float(i), float(-i), 1.0] for i in range(100)]
        calls = [
            Call("softmax.forward", {"x": Tensor.of("f32", row, (1, 3)), "y": Tensor.empty("f32", (1, 3))}) for row in rows
        ]
        results = self.client.calls(calls)
        self.check_softmax("f32", rows, [v for result in results for v in result["y"].values()])
        self.assertTrue(all(result.lowering for result in results))

    def test_lowering_by_name(self) -> None:
        operands = {"x": Tensor.of("f32", [1.0, 2.0], (1, 2)), "y": Tensor.empty("f32", (1, 2))}
        name = self.client.calls([Call("softmax.forward", operands)])[0].lowering
        again = self.client.calls([Call("softmax.forward", operands, lowering=name, is_tested=False)])[0]
        self.assertEqual(again.lowering, name)

    def test_skipped_index(self) -> None:
        call = Call(
            "embedding.forward",
            {
                "index": Tensor.of("i32", [1, 5, -1]),
                "weight": Tensor.of("f32", [1, 2, 3, 4], (2, 2)),
                "out": Tensor.empty("f32", (3, 2)),
            },
            skips_bad_index=True,
        )
        self.assertEqual(self.client.calls([call])[0]["out"].values(), [3, 4, 0, 0, 0, 0])


class Places(Served):
    """The same tensors in messages, in arenas and in memory that stays."""

    def test_all_three_places_give_the_same_bits(self) -> None:
        numbers = random.Random(5)
        x = Tensor.of("f32", [numbers.gauss(0, 2) for _ in range(6 * 10)], (6, 10))
        want = self.client.call("softmax.forward", x=x, y=Tensor.empty("f32", (6, 10)))["y"].data
        homes = (self.client.arena(2 * x.nbytes), self.client.new(2 * x.nbytes))
        for home in homes:
            home.write(x.data)
            there = home.tensor("f32", (6, 10), offset=x.nbytes)
            result = self.client.call("softmax.forward", x=home.tensor("f32", (6, 10)), y=there)
            self.assertEqual(dict(result.outputs), {})
            self.assertEqual(home.read(x.nbytes, x.nbytes), want)
            mixed = self.client.call("softmax.forward", x=home.tensor("f32", (6, 10)), y=Tensor.empty("f32", (6, 10)))
            self.assertEqual(mixed["y"].data, want)
            home.write(bytes(x.nbytes), x.nbytes)
            self.client.call("softmax.forward", x=x, y=there)
            self.assertEqual(home.read(x.nbytes, x.nbytes), want)
        homes[0].drop()
        homes[1].free()

    def test_in_place(self) -> None:
        memory = self.client.new(32)
        memory.write(Tensor.of("f32", [3.0] * 8).data)
        same = memory.tensor("f32", (2, 4))
        self.client.call("softmax.forward", x=same, y=same)
        self.assertEqual(Tensor("f32", (8,), memory.read()).values(), [0.25] * 8)

    def test_row_strides_leave_gaps_alone(self) -> None:
        x = [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]
        want = self.client.call(
            "softmax.forward", x=Tensor.of("f32", x[0] + x[1], (2, 3)), y=Tensor.empty("f32", (2, 3))
        )["y"].values()
        for home in (self.client.arena(256), self.client.new(256)):
            home.write(b"\xa5" * 256)
            home.write(Tensor.of("f32", x[0] + [9.0, 9.0] + x[1]).data, 8)
            source = home.tensor("f32", (2, 3), offset=8, row_stride=5)
            self.client.call("softmax.forward", x=source, y=home.tensor("f32", (2, 3), offset=128, row_stride=4))
            after = home.read(256)
            first, second = after[128:140], after[144:156]
            self.assertEqual(Tensor("f32", (6,), first + second).values(), want)
            self.assertEqual(after[140:144] + after[156:256] + after[:8] + after[40:128], b"\xa5" * (4 + 100 + 8 + 88))

    def test_memory_is_zero_and_copies_to_and_from_arenas(self) -> None:
        memory, arena = self.client.new(5000), self.client.arena(8192)
        self.assertEqual(memory.read(), bytes(5000))
        data = random.Random(6).randbytes(3000)
        arena.write(data, 100)
        memory.write_from(arena, 3000, offset=7, arena_offset=100)
        self.assertEqual(memory.read(), bytes(7) + data + bytes(1993))
        memory.read_into(arena, 3000, offset=7, arena_offset=4096)
        self.assertEqual(arena.read(3000, 4096), data)

    def test_a_call_reads_what_an_earlier_one_wrote(self) -> None:
        memory = self.client.new(16)
        here = memory.tensor("f32", (1, 4))
        first = Call("softmax.forward", {"x": Tensor.of("f32", [1.0] * 4, (1, 4)), "y": here})
        second = Call("gemm.forward", {"A": here, "B": Tensor.of("f32", [8.0] * 4, (4, 1)), "C": Tensor.empty("f32", (1, 1))})
        self.assertEqual(self.client.calls([first, second])[1]["C"].values(), [8.0])

    def test_optimizer_state_stays_in_the_process(self) -> None:
        numbers = random.Random(7)
        size, steps = 33, 60
        p = {
            "beta1": f32(0.9),
            "one_minus_beta1": f32(0.1),
            "beta2": f32(0.99),
            "one_minus_beta2": f32(0.01),
            "inverse_sqrt_bc2": f32(1.5),
            "eps": f32(1e-6),
            "decay": f32(1e-3),
        }
        weight, m, v = [f32(numbers.gauss(0, 1)) for _ in range(size)], [0.0] * size, [0.0] * size
        memory = self.client.new(3 * 4 * size)
        memory.write(Tensor.of("f32", weight).data)
        state = {name: memory.tensor("f32", (size,), 4 * size * i) for i, name in enumerate(("weight", "m", "v"))}
        for step in range(1, steps + 1):
            grad = [f32(numbers.gauss(0, 1)) for _ in range(size)]
            p["step_size"] = f32(0.01 / step)
            self.client.call("adamw.step", p, grad=Tensor.of("f32", grad), **state)
            for i, g in enumerate(grad):
                weight[i], m[i], v[i] = adamw_f32(p, weight[i], m[i], v[i], g)
        self.assertEqual(memory.read(), Tensor.of("f32", weight + m + v).data)


def adamw_f32(p: dict, weight: float, m: float, v: float, grad: float) -> Tuple[float, float, float]:
    """adamw.step as `tokitai explain` writes it, every rounding to f32."""
    m = f32(f32(p["beta1"] * m) + f32(p["one_minus_beta1"] * grad))
    v = f32(f32(p["beta2"] * v) + f32(f32(p["one_minus_beta2"] * grad) * grad))
    d = f32(f32(f32(math.sqrt(v)) * p["inverse_sqrt_bc2"]) + p["eps"])
    update = f32(f32(p["step_size"] * f32(m / d)) + f32(p["decay"] * weight))
    return f32(weight - update), m, v


class Requests(Served):
    def softmax_call(self, value: float) -> Call:
        return Call("softmax.forward", {"x": Tensor.of("f32", [value] * 4, (1, 4)), "y": Tensor.empty("f32", (1, 4))})

    def test_hello(self) -> None:
        hello = self.client.hello
        self.assertEqual((hello.version, hello.device), (1, "cpu"))
        self.assertNotEqual(hello.generation, 0)
        self.assertGreater(hello.max_frame, 0)
        with Client(program(), device="cpu") as other:
            self.assertNotEqual(other.hello.generation, hello.generation)

    def test_list(self) -> None:
        definitions = {d.name: d for d in self.client.list()}
        self.assertEqual(definitions["softmax.forward"].operands, {"x": 1, "y": 2})
        self.assertEqual(definitions["gemm.forward.accumulate"].operands, {"A": 1, "B": 1, "C": 3})
        self.assertIn("step_size", definitions["adamw.step"].params)

    def test_stats(self) -> None:
        before = self.client.stats()
        memory = self.client.new(1 << 16)
        with self.assertRaises(TokitaiError):
            self.raw(tk.DEFINE)
        during = self.client.stats()
        self.assertEqual(during.requests - before.requests, 3)
        self.assertEqual(during.errors - before.errors, 1)
        self.assertEqual(during.handles - before.handles, 1)
        self.assertGreaterEqual(during.bytes_held - before.bytes_held, 1 << 16)
        memory.free()
        after = self.client.stats()
        self.assertEqual((after.handles, after.bytes_held), (before.handles, before.bytes_held))
        self.assertGreaterEqual(after.most_bytes_held, during.bytes_held)

    def test_several_in_flight(self) -> None:
        pending = [self.client.submit([self.softmax_call(i)]) for i in range(200)]
        for p in reversed(pending):
            self.assertEqual(p.result(SECONDS)[0]["y"].values(), [0.25] * 4)
        self.assertTrue(all(p.done() for p in pending))

    def test_several_threads(self) -> None:
        wrong: List[Any] = []

        def work(seed: int) -> None:
            numbers = random.Random(seed)
            for columns in (1, 100_000) * 5:  # of the long ones header and data are sent apart
                weight = numbers.randbytes(3 * 4 * columns)
                out = self.client.call(
                    "embedding.forward",
                    index=Tensor.of("i32", [2, 0]),
                    weight=Tensor("f32", (3, columns), weight),
                    out=Tensor.empty("f32", (2, columns)),
                )["out"].data
                if out != weight[8 * columns :] + weight[: 4 * columns]:
                    wrong.append((seed, columns))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_large_data_in_both_directions_at_once(self) -> None:
        data = random.Random(8).randbytes(1 << 20)
        weight = Tensor("f32", (1 << 8, 1 << 10), data)
        index = Tensor.of("i32", list(range(1 << 8)))
        call = Call("embedding.forward", {"index": index, "weight": weight, "out": Tensor.empty("f32", weight.shape)})
        for p in [self.client.submit([call]) for _ in range(16)]:
            self.assertEqual(p.result(SECONDS)[0]["out"].data, data)

    def test_cancel(self) -> None:
        busy = keep_busy(self.client)
        waiting = [self.client.submit([self.softmax_call(i)]) for i in range(10)]
        for p in waiting[::2]:
            p.cancel()
        for p in busy:
            p.cancel()
        for i, p in enumerate(waiting):
            if i % 2:
                self.assertEqual(p.result(SECONDS)[0]["y"].values(), [0.25] * 4)
            else:
                self.assertRefused(7, p.result, SECONDS)
        for p in busy:
            self.assertRefused(7, p.result, SECONDS)

    def test_cancel_of_what_is_done_or_never_was_does_nothing(self) -> None:
        p = self.client.submit([self.softmax_call(1)])
        p.result(SECONDS)
        p.cancel()
        self.client.cancel(tk.Pending(self.client, 1 << 60, tk._nothing))
        self.assertEqual(self.client.call("softmax.forward", **self.softmax_call(1).operands)["y"].values(), [0.25] * 4)


class Refusals(Served):
    flags = {"max_frame": 1 << 20, "memory_limit": 64 << 20}

    def tearDown(self) -> None:
        """Whatever was refused, the process goes on."""
        y = self.client.call("softmax.forward", x=Tensor.of("f32", [0.0] * 4, (1, 4)), y=Tensor.empty("f32", (1, 4)))["y"]
        self.assertEqual(y.values(), [0.25] * 4)

    def call(self, definition: str, params: Any = None, **operands: Any) -> Any:
        return self.client.call(definition, params, **operands)

    def test_hello_tells_the_limits(self) -> None:
        self.assertEqual((self.client.hello.max_frame, self.client.hello.memory_limit), (1 << 20, 64 << 20))

    def test_bad_shape(self) -> None:
        x, y = Tensor.of("f32", [1.0] * 4, (1, 4)), Tensor.empty("f32", (1, 5))
        error = self.assertRefused(2, lambda: self.call("softmax.forward", x=x, y=y))
        self.assertEqual((error.name, error.details["op"]), ("bad argument", "softmax.forward"))
        self.assertIn(error.details["operand"], ("x", "y"))

    def test_bad_arguments(self) -> None:
        x, y = Tensor.of("f32", [1.0] * 4, (1, 4)), Tensor.empty("f32", (1, 4))
        memory = self.client.new(64)
        for name, call in {
            "unknown definition": lambda: self.call("softmax.sideways", x=x, y=y),
            "missing operand": lambda: self.call("softmax.forward", x=x),
            "unknown operand": lambda: self.call("softmax.forward", x=x, y=y, z=x),
            "wrong dtype": lambda: self.call("softmax.forward", x=x, y=Tensor.empty("f16", (1, 4))),
            "unknown parameter": lambda: self.call("softmax.forward", {"lr": 1.0}, x=x, y=y),
            "missing parameter": lambda: self.call(
                "norm.clip", total=Tensor.of("f32", [1.0]), norm=Tensor.empty("f32", (1,)), factor=Tensor.empty("f32", (1,))
            ),
            "beyond the memory": lambda: self.call("softmax.forward", x=x, y=memory.tensor("f32", (1, 4), 52)),
            "offset no multiple": lambda: self.call("softmax.forward", x=x, y=memory.tensor("f32", (1, 4), 2)),
            "rows overlap": lambda: self.call(
                "softmax.forward", x=Tensor.of("f32", [1.0] * 8, (2, 4)), y=memory.tensor("f32", (2, 4), 0, 3)
            ),
            "unknown lowering": lambda: self.client.calls([Call("softmax.forward", {"x": x, "y": y}, lowering="cpu.none")]),
            "operands overlap": lambda: self.call(
                "softmax.forward", x=memory.tensor("f32", (1, 4)), y=memory.tensor("f32", (1, 4), 4)
            ),
            "write beyond": lambda: memory.write(b"x" * 10, 60),
            "read beyond": lambda: memory.read(65),
            "offset near 2^63": lambda: memory.read(16, 2**63 - 8),
        }.items():
            with self.subTest(name):
                self.assertRefused(2, call)
        memory.free()

    def test_bad_index(self) -> None:
        weight = Tensor.of("f32", [1, 2], (2, 1))
        error = self.assertRefused(
            2,
            lambda: self.call(
                "embedding.forward", index=Tensor.of("i32", [0, 1, 7]), weight=weight, out=Tensor.empty("f32", (3, 1))
            ),
        )
        self.assertEqual([error.details[k] for k in ("operand", "position", "value", "bound")], ["index", "2", "7", "2"])

    def test_nothing_runs_when_a_later_call_is_refused(self) -> None:
        memory = self.client.new(16)
        good = Call("softmax.forward", {"x": Tensor.of("f32", [1.0] * 4, (1, 4)), "y": memory.tensor("f32", (1, 4))})
        bad = Call("softmax.forward", {"x": Tensor.of("f32", [1.0] * 4, (1, 4)), "y": Tensor.empty("f32", (1, 3))})
        self.assertRefused(2, self.client.calls, [good, bad])
        self.assertEqual(memory.read(), bytes(16))
        memory.free()

    def test_out_of_memory(self) -> None:
        error = self.assertRefused(4, self.client.new, 1 << 40)
        self.assertEqual(error.details["asked"], str((1 << 40) + 512))  # with what the handle itself takes
        held = self.client.stats().bytes_held
        kept = []
        with self.assertRaises(TokitaiError) as caught:
            for _ in range(100):
                kept.append(self.client.new(1 << 20))
        self.assertEqual(caught.exception.code, 4)
        self.assertGreater(len(kept), 10)
        for memory in kept:
            memory.free()
        self.assertEqual(self.client.stats().bytes_held, held)

    def test_no_such_handle(self) -> None:
        memory = self.client.new(16)
        memory.free()
        for action in (memory.free, memory.read, lambda: memory.write(b"x")):
            self.assertRefused(8, action)
        x = Tensor.of("f32", [1.0] * 4, (1, 4))
        self.assertRefused(8, lambda: self.call("softmax.forward", x=x, y=memory.tensor("f32", (1, 4))))

    def test_no_such_arena(self) -> None:
        arena = self.client.arena(4096)
        arena.drop()
        self.assertRefused(8, lambda: self.call("softmax.forward", x=arena.tensor("f32", (1, 4)), y=Tensor.empty("f32", (1, 4))))
        self.assertRefused(8, lambda: self.raw(tk.DROP, struct.pack("<I", arena.number)))

    def test_too_long(self) -> None:
        x = Tensor("f32", (1, 1 << 19), bytes(1 << 21))
        error = self.assertRefused(9, lambda: self.call("softmax.forward", x=x, y=Tensor.empty("f32", x.shape)))
        self.assertEqual(error.details["limit"], str(1 << 20))

    def test_definition_that_is_none(self) -> None:
        self.assertRefused(13, self.raw, tk.DEFINE)

    def test_kinds_that_are_not_known(self) -> None:
        for kind in (0, 15, 255, tk.GOOD, tk.ERROR, 2**32 - 1):
            self.assertRefused(10, self.raw, kind)

    def test_malformed_cancel(self) -> None:
        self.assertRefused(1, self.raw, tk.CANCEL, bytes(7))
        self.assertRefused(1, self.raw, tk.CANCEL, bytes(9))

    def test_memory_of_no_bytes(self) -> None:
        self.assertRefused(2, self.client.new, 0)

    def test_request_zero(self) -> None:
        pending = tk.Pending(self.client, 0, tk._Body.u64)
        self.client._pending[0] = pending
        self.client._transport.send(tk.HEADER.pack(8, 0, tk.NEW, 0) + struct.pack("<Q", 64))
        self.assertRefused(1, pending.result, SECONDS)

    def test_shapes(self) -> None:
        """Up to 255 sizes. A batch may have no rows, a row has columns."""
        x, y = (Tensor.of("f32", [1.0], (1,) * 255), Tensor.empty("f32", (1,) * 255))
        self.assertEqual(self.call("softmax.forward", x=x, y=y)["y"].values(), [1.0])
        x, y = (Tensor.of("f32", [1.0], (1,) * 256), Tensor.empty("f32", (1,) * 256))
        self.assertRefused(1, lambda: self.call("softmax.forward", x=x, y=y))
        memory = self.client.new(64)
        rows = memory.tensor("f32", (0, 4))
        self.call("softmax.forward", x=rows, y=rows)
        columns = memory.tensor("f32", (4, 0))
        self.assertRefused(2, lambda: self.call("softmax.forward", x=columns, y=columns))
        y = self.call("softmax.forward", x=Tensor("f32", (0, 4), b""), y=Tensor.empty("f32", (0, 4)))["y"]
        self.assertEqual(y.values(), [])
        memory.free()

    def test_strides_of_a_row_and_a_scalar(self) -> None:
        memory = self.client.new(64)
        for shape, least in (((), 1), ((4,), 4), ((2, 3), 3)):
            good = memory.tensor("f32", shape, 0, least)
            self.call("gelu.forward", x=good, y=good)
            bad = memory.tensor("f32", shape, 0, least - 1)
            self.assertRefused(2, lambda: self.call("gelu.forward", x=bad, y=bad))
        memory.free()

    def test_parameters_are_rounded_or_whole(self) -> None:
        operands = {
            "logits": Tensor.of("f32", [0.0, 0.0], (1, 2)),
            "label": Tensor.of("i32", [0]),
            "loss": Tensor.empty("f32", (1,)),
            "dlogits": Tensor.empty("f32", (1, 2)),
        }
        dlogits = self.call("crossentropy", {"scale": 2 + 2**-40, "ignore": -100}, **operands)["dlogits"]
        self.assertEqual(dlogits.values(), [-1.0, 1.0])
        self.assertRefused(2, lambda: self.call("crossentropy", {"scale": 1.0, "ignore": 0.5}, **operands))

    def test_data_must_come_as_list_tells(self) -> None:
        operands = {"x": Tensor.of("f32", [1.0, 2.0], (1, 2)), "y": Tensor.of("f32", [0.0, 0.0], (1, 2))}
        call = tk._encode_call(Call("softmax.forward", operands), {"x": 3, "y": 3})
        self.assertRefused(2, self.raw, tk.CALL, tk._list([call]) + bytes(16))

    def test_second_hello(self) -> None:
        self.assertRefused(1, self.raw, tk.HELLO, tk.MAGIC + struct.pack("<III", 1, 1, 0))

    def test_arenas_that_are_refused(self) -> None:
        def announce(descriptor: int, nbytes: int) -> None:
            body = struct.pack("<IQ", 77, nbytes)
            self.client.request(tk.ARENA, [body], tk._nothing, descriptor).result(SECONDS)

        sealed = tk._sealed_memory(8192)
        unsealed = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
        os.truncate(unsealed, 8192)
        file = tempfile.TemporaryFile()
        file.truncate(8192)
        reader, writer = os.pipe()
        try:
            for name, descriptor, nbytes in [
                ("larger than announced", sealed, 4096),
                ("smaller than announced", sealed, 12288),
                ("no pages", sealed, 0),
                ("not sealed", unsealed, 8192),
                ("a file", file.fileno(), 8192),
                ("a pipe", reader, 8192),
            ]:
                with self.subTest(name):
                    self.assertRefused(2, announce, descriptor, nbytes)
            announce(sealed, 8192)
            with self.subTest("a number that is taken"):
                self.assertRefused(2, announce, sealed, 8192)
            self.raw(tk.DROP, struct.pack("<I", 77))
        finally:
            for descriptor in (sealed, unsealed, reader, writer):
                os.close(descriptor)
            file.close()

    def test_malformed(self) -> None:
        for name, kind, body in [
            ("CALL without a body", tk.CALL, b""),
            ("no calls", tk.CALL, bytes(4)),
            ("hostile count", tk.CALL, b"\xff" * 4),
            ("NEW cut", tk.NEW, bytes(7)),
            ("NEW with a byte more", tk.NEW, bytes(9)),
            ("LIST with a body", tk.LIST, b"x"),
            ("STATS with a body", tk.STATS, b"x"),
            ("WRITE without its data", tk.WRITE, struct.pack("<QQQB", 1, 0, 5, 0)),
            ("READ into a handle", tk.READ, struct.pack("<QQQB", 1, 0, 5, 2)),
        ]:
            with self.subTest(name):
                self.assertRefused(1, self.raw, kind, body)

    def test_a_thousand_bad_requests(self) -> None:
        numbers = random.Random(9)
        kinds = [tk.CALL, tk.NEW, tk.WRITE, tk.READ, tk.FREE, tk.DROP, tk.LIST, tk.STATS, tk.ARENA, 0, 13, 256, 2**32 - 1]
        pending = []
        for _ in range(1000):
            kind = numbers.choice(kinds)
            body = b"\xff" + numbers.randbytes(numbers.randrange(100)) if kind != tk.NEW else numbers.randbytes(5)
            pending.append(self.client.request(kind, [body], tk._Body.rest))
        for p in pending:
            with self.assertRaises(TokitaiError):
                p.result(SECONDS)

    def test_mutated_calls(self) -> None:
        numbers = random.Random(10)
        operands = {"x": Tensor.of("f32", [1.0, 2.0], (1, 2)), "y": Tensor.empty("f32", (1, 2))}
        good = tk._list([tk._encode_call(Call("softmax.forward", operands), {"x": 1, "y": 2})]) + operands["x"].data
        for _ in range(300):
            body = bytearray(good)
            for _ in range(numbers.randrange(1, 4)):
                body[numbers.randrange(len(body))] = numbers.randrange(256)
            try:
                self.raw(tk.CALL, bytes(body))
            except TokitaiError as error:
                self.assertIn(error.code, (1, 2, 4, 8, 9), str(error))


class Lives(unittest.TestCase):
    """Beginnings and ends of processes."""

    def test_version(self) -> None:
        with self.assertRaises(TokitaiError) as caught:
            Client(program(), device="cpu", versions=(2, 9))
        self.assertEqual(caught.exception.code, 12)
        self.assertEqual(caught.exception.details, {"lowest": "1", "highest": "1"})
        with Client(program(), device="cpu", versions=(0, 9)) as client:
            self.assertEqual(client.hello.version, 1)

    def test_no_such_device(self) -> None:
        with self.assertRaises(TokitaiError) as caught:
            Client(program(), device="cuda:999")
        error = caught.exception
        self.assertEqual((error.code, error.details["device"]), (3, "cuda:999"))

    def test_flags_that_mean_nothing(self) -> None:
        with self.assertRaises(ServerDied) as caught:
            Client(program(), device="nowhere:3")
        self.assertEqual(caught.exception.status, 2)
        self.assertIn('no device "nowhere:3"', caught.exception.stderr)

    def test_no_such_program(self) -> None:
        with self.assertRaises(FileNotFoundError):
            Client("/nonexistent/tokitai")

    def test_stdio(self) -> None:
        with Client(program(), device="cpu", uses_stdio=True) as client:
            x = Tensor.of("f32", [0.0] * 4, (1, 4))
            self.assertEqual(client.call("softmax.forward", x=x, y=Tensor.empty("f32", (1, 4)))["y"].values(), [0.25] * 4)
            self.assertFalse(client.hello.has_arenas)
            with self.assertRaises(NotImplementedError):
                client.arena(4096)
            with self.assertRaises(TokitaiError) as caught:
                client.request(tk.ARENA, [struct.pack("<IQ", 1, 4096)], tk._nothing).result(SECONDS)
            self.assertEqual(caught.exception.code, 10)
            memory = client.new(1 << 20)
            data = random.Random(11).randbytes(1 << 20)
            memory.write(data)
            self.assertEqual(memory.read(), data)
        self.assertEqual(client.process.returncode, 0)

    def test_killed_in_the_middle(self) -> None:
        with Client(program(), device="cpu") as client:
            pending = keep_busy(client)
            with self.assertRaises(FutureTimeout):
                pending[0].result(0.1)
            os.kill(client.process.pid, signal.SIGKILL)
            for p in pending:
                with self.assertRaises(ServerDied) as caught:
                    p.result(SECONDS)
                self.assertEqual(caught.exception.status, -signal.SIGKILL)
            with self.assertRaises(ServerDied):
                client.stats()

    def test_closed_in_the_middle_of_a_kernel(self) -> None:
        for uses_stdio in (False, True):
            client = Client(program(), device="cpu", uses_stdio=uses_stdio)
            pending = keep_busy(client)
            previous, tk.EXIT_SECONDS = tk.EXIT_SECONDS, SECONDS
            try:
                status = client.close()
            finally:
                tk.EXIT_SECONDS = previous
            self.assertEqual(status, -signal.SIGKILL if uses_stdio else 0, "it does not end by itself")
            with self.assertRaises(ServerDied):
                pending[-1].result(SECONDS)

    def exit_after(self, data: bytes) -> ServerDied:
        client = Client(program(), device="cpu")
        try:
            client._transport.send(data)
            client._transport._ours.shutdown(tk.socket.SHUT_WR)
            client._reader.join(SECONDS)
            with self.assertRaises(ServerDied) as caught:
                client.stats()
            return caught.exception
        finally:
            client.close()

    def test_exit_codes(self) -> None:
        self.assertEqual(self.exit_after(b"").status, 0)
        self.assertEqual(self.exit_after(b"x").status, 21)
        self.assertEqual(self.exit_after(tk.HEADER.pack(8, 99, tk.NEW, 0) + bytes(7)).status, 21)

    def test_body_that_cannot_be_meant(self) -> None:
        with Client(program(), device="cpu") as client:
            pending = tk.Pending(client, 5000, tk._nothing)
            client._pending[5000] = pending
            client._transport.send(tk.HEADER.pack((1 << 48) + 1, 5000, tk.CALL, 0))
            with self.assertRaises((TokitaiError, ServerDied)):
                pending.result(SECONDS)
            client._reader.join(SECONDS)
            with self.assertRaises(ServerDied) as caught:
                client.stats()
            self.assertEqual(caught.exception.status, 2)

    def test_number_that_is_in_flight(self) -> None:
        with Client(program(), device="cpu") as client:
            busy = keep_busy(client)
            replies: List[Tuple[int, bytes]] = []
            twice = tk.Pending(client, 5000, tk._Body.rest)

            def accept(kind: int, body: tk._Body) -> None:
                replies.append((kind, body.rest()))
                client._pending[5000] = twice  # one more comes

            twice._accept = accept  # type: ignore[method-assign]
            client._pending[5000] = twice
            client._transport.send((tk.HEADER.pack(8, 5000, tk.NEW, 0) + struct.pack("<Q", 64)) * 2)
            for p in busy:
                p.cancel()
            client.stats()  # is answered after them
            self.assertEqual([kind for kind, _ in replies], [tk.GOOD, tk.ERROR])
            self.assertEqual(replies[1][1][:4], struct.pack("<I", 1))

    def exit_code(self, data: bytes, device: str = "cpu") -> int:
        """The exit code of a process that is sent data, and whose end stays open."""
        ours, theirs = tk.socket.socketpair()
        with ours, theirs:
            process = tk.subprocess.Popen(
                [program(), "process", "--device", device, "--fd", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stderr=tk.subprocess.DEVNULL,
            )
            theirs.close()
            ours.sendall(data)
            return process.wait(SECONDS)

    def test_exit_codes_of_beginnings(self) -> None:
        hello = tk.MAGIC + struct.pack("<IIII", 1, 1, 1, 0x21)[:13]
        frame = tk.HEADER.pack(len(hello), 1, tk.HELLO, 0) + hello
        self.assertEqual(self.exit_code(tk.HEADER.pack(0, 1, tk.LIST, 0)), 2)
        self.assertEqual(self.exit_code(tk.HEADER.pack(8193, 1, tk.HELLO, 0)), 2)
        self.assertEqual(self.exit_code(frame.replace(b"tokitai", b"Tokitai")), 2)
        self.assertEqual(self.exit_code(frame.replace(struct.pack("<II", 1, 1), struct.pack("<II", 2, 2), 1)), 2)
        self.assertEqual(self.exit_code(frame, "cuda:999"), 10)


FAKE = """\
    #!{python}
    import os, socket, struct, sys, time
    peer = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
    def string(s): return struct.pack("<I", len(s)) + s
    def receive():
        header = peer.recv(24, socket.MSG_WAITALL)
        if not header: sys.exit(0)
        length, number, kind, descriptors = struct.unpack("<QQII", header)
        return number, kind, peer.recv(length, socket.MSG_WAITALL) if length else b""
    def reply(number, body, kind=256, descriptors=0, length=None):
        peer.sendall(struct.pack("<QQII", len(body) if length is None else length, number, kind, descriptors) + body)
    welcome = struct.pack("<IQ", 1, 5) + string(b"fake") + string(b"cpu") + string(b"a fake") + struct.pack("<QQI", 1, 1, 0)
    number, kind, body = receive()
    assert kind == 1 and body == b"tokitai\\n" + struct.pack("<II", 1, 1) + string(b"tokitai_client.py"), body
    reply(number, welcome)
    number, kind, body = receive()
"""


class FakeServer(unittest.TestCase):
    """What a process must not send, and deaths."""

    def answer(self, code: str, ask: Any = lambda client: client.stats()) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fake")
            with open(path, "w") as file:
                file.write(textwrap.dedent(FAKE).format(python=sys.executable) + textwrap.dedent(code))
            os.chmod(path, stat.S_IRWXU)
            with Client(path) as client:
                return ask(client)

    def test_good(self) -> None:
        stats = self.answer('reply(number, struct.pack("<7Q", *range(7)))')
        self.assertEqual(stats, tk.Stats(*range(7)))

    def test_replies_out_of_order(self) -> None:
        def ask(client: Client) -> List[int]:
            pending = [client.request(tk.NEW, [bytes(8)], tk._Body.u64) for _ in range(3)]
            return [p.result(SECONDS) for p in pending]

        code = """
            receive(); receive()
            for n in (number + 2, number, number + 1): reply(n, struct.pack("<Q", 100 * n))
        """
        self.assertEqual(self.answer(code, ask), [200, 300, 400])

    def test_forbidden_replies(self) -> None:
        for name, code in {
            "another kind": "reply(number, bytes(56), kind=2)",
            "descriptors": "reply(number, bytes(56), descriptors=1)",
            "a number not in flight": "reply(number + 1, bytes(56))",
            "a second reply": "reply(number, bytes(56)); reply(number, bytes(56)); receive()",
            "body cut": "reply(number, bytes(55))",
            "bytes left over": "reply(number, bytes(57))",
            "too long": "reply(number, b'', length=2**48 + 1)",
            "error cut": "reply(number, bytes(7), kind=257)",
            "error with bytes left over": "reply(number, bytes(13), kind=257)",
            "error without UTF-8": "reply(number, struct.pack('<I', 1) + string(b'\\xff') + bytes(4), kind=257)",
        }.items():
            with self.subTest(name):
                with self.assertRaises(ProtocolError):
                    self.answer(code, lambda client: [client.stats(), client.stats()])

    def test_error_reply(self) -> None:
        code = """
            details = struct.pack("<I", 2) + string(b"asked") + string(b"9") + string(b"novel") + string(b"\\xc3\\xa9")
            reply(number, struct.pack("<I", 4) + string(b"too much") + details, kind=257)
        """
        with self.assertRaises(TokitaiError) as caught:
            self.answer(code)
        error = caught.exception
        self.assertEqual((error.code, error.name, error.message), (4, "out of memory", "too much"))
        self.assertEqual((error.details, str(error)), ({"asked": "9", "novel": "é"}, "out of memory: too much"))

    def test_code_that_is_not_known(self) -> None:
        with self.assertRaises(TokitaiError) as caught:
            self.answer('reply(number, struct.pack("<I", 99) + string(b"m") + bytes(4), kind=257)')
        self.assertEqual((caught.exception.code, caught.exception.name), (99, "unknown"))

    def test_wrong_number_of_lowerings(self) -> None:
        code = """
            reply(number, bytes(4))
            number, kind, body = receive()
            reply(number, bytes(8) + struct.pack("<I", 2) + string(b"a") + string(b"b"))
        """
        with self.assertRaisesRegex(ProtocolError, "2 lowerings for 1 calls"):
            self.answer(code, lambda client: client.call("d"))

    def test_death(self) -> None:
        for name, code in {
            "before the reply": "os.write(2, b'last words'); os._exit(7)",
            "within a header": "peer.sendall(b'x'); os.write(2, b'last words'); os._exit(7)",
            "within a body": "reply(number, bytes(55), length=56); os.write(2, b'last words'); os._exit(7)",
        }.items():
            with self.subTest(name):
                with self.assertRaises(ServerDied) as caught:
                    self.answer(code)
                self.assertEqual((caught.exception.status, caught.exception.stderr), (7, "last words"))
                self.assertEqual(str(caught.exception), "the process ended with status 7: last words")

    def test_long_last_words_keep_their_end(self) -> None:
        with self.assertRaises(ServerDied) as caught:
            self.answer("for i in range(100000): os.write(2, b'%d ' % i)\nos._exit(1)")
        self.assertEqual(len(caught.exception.stderr), tk.STDERR_KEPT)
        self.assertTrue(caught.exception.stderr.endswith(" 99998 99999 "))

    def test_process_that_hangs_up_and_stays(self) -> None:
        previous, tk.EXIT_SECONDS = tk.EXIT_SECONDS, 0.2
        try:
            with self.assertRaises(ServerDied) as caught:
                self.answer("peer.close(); time.sleep(600)")
        finally:
            tk.EXIT_SECONDS = previous
        self.assertEqual(caught.exception.status, -signal.SIGKILL)
        self.assertIn("closed its end and stayed", str(caught.exception))


if __name__ == "__main__":
    unittest.main()

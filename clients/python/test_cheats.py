"""Kernels that cheat are not accepted. docs/foreign.md says where each was seen, and how it is caught."""
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
REJECTED, UNDECIDED, ACCEPTED = 3, 4, 0

# A kernel of cheats/plain.py, the definition it pretends to compute, and the exit code of check.
PLAIN = {
    "zeros": REJECTED,
    "uniform": REJECTED,
    "copied_input": REJECTED,
    "all_nan": REJECTED,
    "one_row_for_all": REJECTED,
    "stale_memory": REJECTED,
    "bomb_by_clock": REJECTED,
    "reads_files": REJECTED,
    "layernorm_without_weights": REJECTED,
    "refuses_hard_calls": UNDECIDED,
    "constant_shortcut": REJECTED,
    "cached_by_shape": REJECTED,
    "cached_by_address": REJECTED,
    "cached_by_samples": REJECTED,
    "cached_by_64_samples": REJECTED,
    "gelu_input_itself": REJECTED,
    "previous_result": REJECTED,
    "every_other_call": REJECTED,
    "right_ten_times": REJECTED,
    "bomb_200": REJECTED,
    "rarely_wrong": REJECTED,
    "usual_shapes_only": REJECTED,
    "first_tile_only": REJECTED,
    "no_maximum": REJECTED,
    "half_accumulator": REJECTED,
    "half_inputs": REJECTED,
    "quick_exponential": REJECTED,
    "largest_64_only": REJECTED,
    "special_values_dropped": REJECTED,
    "half_written": REJECTED,
    "late_thread": REJECTED,
    "forged_report": REJECTED,
    "patched_client": REJECTED,
    "reads_the_judge": REJECTED,
    "layernorm_of_normalised_rows": REJECTED,
    "layernorm_statistics_of_first_row": REJECTED,
    "zeroed_input": REJECTED,
    "lazy_result": REJECTED,
    "exits_well": UNDECIDED,
    "endless": UNDECIDED,
}
# Limits that docs/foreign.md states: results do not show these.
BEYOND = ("knows_that_it_is_judged", "one_in_many", "bomb_100000", "cached_by_content")

TORCH = {
    "unwritten": REJECTED,
    "left_in_memory": REJECTED,
    "cached_by_pointer": REJECTED,
    "cached_by_sum": REJECTED,
    "half_precision": REJECTED,
    "late_thread": REJECTED,
    "other_stream": REJECTED,
    "written_to_input": REJECTED,
    "lazy": REJECTED,
    "patched_torch": REJECTED,
    "patched_reading": REJECTED,
    "stale_pointer": REJECTED,
    "skips_same_address": REJECTED,
    "predicted_inputs": REJECTED,
    "found_by_gc": REJECTED,
    "corrected_later": REJECTED,
}


def check(file, function, definition="softmax.forward", arrays="list", *more):
    """Returns the exit code of tokitai check, and what it printed."""
    kernel = shlex.join([sys.executable, "-B", "-m", "tokitai.kernel", f"{os.path.join(HERE, 'cheats', file)}:{function}", "--op", definition, "--arrays", arrays])
    program = os.environ.get("TOKITAI", "tokitai")
    done = subprocess.run(
        [program, "check", definition, "--exec", kernel, "--dtype", "f32", "--level", "smoke", "--json", *more],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])},
    )
    return done.returncode, done.stdout, done.stderr


def definition_of(name):
    return next((f"{op}.forward" for op in ("layernorm", "gelu") if name.startswith(op)), "softmax.forward")


def sample(kernels):
    """Returns one in three of the kernels at level quick, by the sample of the commit, and all of them otherwise."""
    every = 3 if os.environ.get("TOKITAI_LEVEL") == "quick" else 1
    return [name for i, name in enumerate(kernels) if i % every == int(os.environ.get("TOKITAI_SAMPLE") or 0) % every]


def functions_of(file):
    with open(os.path.join(HERE, "cheats", file)) as f:
        return set(re.findall(r"^def (\w+)\((?:x|x, y|x, gamma, beta, eps)\):", f.read(), re.MULTILINE))


class Plain(unittest.TestCase):
    def test_every_kernel_is_tested(self):
        self.assertEqual(functions_of("plain.py") - {"softmax", "gelu"}, {*PLAIN, *BEYOND})
        self.assertEqual(functions_of("torch_kernels.py") - {"honest"}, set(TORCH))

    def test_honest_kernel_is_accepted(self):
        self.assertEqual(check("plain.py", "softmax")[0], ACCEPTED)

    def test_cheats_are_caught(self):
        for name in sample(PLAIN):
            with self.subTest(name):
                want = PLAIN[name]
                deadline = ("--deadline", "300ms") if name == "endless" else ()
                code, out, err = check("plain.py", name, definition_of(name), "list", *deadline)
                self.assertEqual(code, want, out + err)

    def test_report_cannot_be_forged(self):
        _, out, _ = check("plain.py", "forged_report")
        self.assertEqual([r["verdict"] for r in json.loads(out)["results"]], ["rejected"])

    def test_limits_are_as_stated(self):
        for name in sample(BEYOND):
            with self.subTest(name):
                code, out, err = check("plain.py", name)
                self.assertEqual(code, ACCEPTED, out + err)


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed: kernels that cheat with it are not tested")
class Torch(unittest.TestCase):
    def test_honest_kernel_is_accepted(self):
        code, out, err = check("torch_kernels.py", "honest", "softmax.forward", "torch", "--profile", "torch")
        self.assertEqual(code, ACCEPTED, out + err)

    def test_cheats_are_caught(self):
        for name in sample(TORCH):
            with self.subTest(name):
                want = TORCH[name]
                code, out, err = check("torch_kernels.py", name, "softmax.forward", "torch", "--profile", "torch")
                self.assertEqual(code, want, out + err)


if __name__ == "__main__":
    unittest.main()

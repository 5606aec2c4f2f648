"""The reproductions in docs/foreign.md print what it says."""
import importlib.util
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "foreign.md")
LINE = re.compile(r"^```python\n(.+?)  # prints (.+?)(?: with (\w+))?\n```$", re.MULTILINE)


def reproductions():
    with open(DOCUMENT) as f:
        return LINE.findall(f.read())


def flags():
    """What the processor has, as Linux names it."""
    try:
        with open("/proc/cpuinfo") as f:
            return next(set(line.split()) for line in f if line.startswith("flags"))
    except (OSError, StopIteration):
        return set()


class Document(unittest.TestCase):
    def test_every_example_says_what_it_prints(self):
        with open(DOCUMENT) as f:
            self.assertEqual(len(reproductions()), f.read().count("```python\n"))
        self.assertGreater(len(reproductions()), 10)


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed: the reproductions in docs/foreign.md are not tested")
class Torch(unittest.TestCase):
    def test_reproductions(self):
        has = flags()
        wanted = [(code, printed) for code, printed, flag in reproductions() if (not flag or flag in has) and ("import jax" not in code or importlib.util.find_spec("jax"))]
        script = "\nprint('---')\n".join(code for code, _ in wanted)
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = [text.strip() for text in done.stdout.split("---\n")]
        for (code, printed), text in zip(wanted, got):
            with self.subTest(code):
                self.assertEqual(text, printed)
        self.assertEqual(len(got), len(wanted))


if __name__ == "__main__":
    unittest.main()

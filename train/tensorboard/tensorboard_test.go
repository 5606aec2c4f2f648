package tensorboard

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tokitai/internal/tool"
)

// reader is an independent reader of event files, with its own CRC-32C, bit by bit. It prints a line for each event.
const reader = `
import struct, sys
def crc(b):
    c = 0xffffffff
    for x in b:
        c ^= x
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff
assert crc(b"123456789") == 0xe3069283
def masked(b):
    c = crc(b)
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
def varint(b, at):
    n = shift = 0
    while True:
        n |= (b[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if b[at - 1] < 128:
            return n, at
def fields(b):
    at = 0
    while at < len(b):
        k, at = varint(b, at)
        kind = k & 7
        if kind == 0:
            v, at = varint(b, at)
        elif kind == 2:
            n, at = varint(b, at)
            v, at = b[at:at + n], at + n
            assert len(v) == n
        else:
            form = {1: "<d", 5: "<f"}[kind]
            v, at = struct.unpack_from(form, b, at)[0], at + struct.calcsize(form)
        yield k >> 3, v
text, at = open(sys.argv[1], "rb").read(), 0
while at < len(text):
    n, check = struct.unpack_from("<QI", text, at)
    assert check == masked(text[at:at + 8])
    data, at = text[at + 12:at + 12 + n], at + 12 + n
    assert struct.unpack_from("<I", text, at)[0] == masked(data)
    at += 4
    line = []
    for number, value in fields(data):
        if number == 5:
            for _, one in fields(value):
                v = dict(fields(one))
                line.append("%s=%r" % (v[1].decode(), v[2]))
        else:
            line.append("%d:%r" % (number, value))
    print(" ".join(line))
`

// TestWriter writes a file that a script reads.
func TestWriter(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new")
	now := time.Unix(1700000000, 250_000_000)
	w, err := Create(folder, now)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(1, now, Scalar{"loss", 0.5}, Scalar{"norm", -2})
	w.Write(300, now.Add(time.Second), Scalar{"validation", float32(math.Inf(1))})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(folder, now); err == nil {
		t.Error("a file that is there is written again")
	}
	list, err := os.ReadDir(folder)
	if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Name(), "events.out.tfevents.1700000000.") {
		t.Fatalf("the folder has %v, error %v", list, err)
	}
	path := filepath.Join(folder, list[0].Name())
	out, err := exec.Command(tool.Need(t, "python3"), "-c", reader, path).CombinedOutput()
	want := "1:1700000000.25 3:b'brain.Event:2'\n1:1700000000.25 2:1 loss=0.5 norm=-2.0\n1:1700000001.25 2:300 validation=inf\n"
	if err != nil || string(out) != want {
		t.Errorf("the script reads\n%s%v, want\n%s", out, err, want)
	}
}

// TestTensorBoard has TensorBoard's own reader read two files of a folder, as after a run that was resumed.
func TestTensorBoard(t *testing.T) {
	t.Parallel()
	python := tool.Need(t, "python3")
	if out, err := exec.Command(python, "-c", "import tensorboard").CombinedOutput(); err != nil {
		tool.Missing(t, "tensorboard", string(out))
	}
	folder := t.TempDir()
	for i, step := range []int{1, 300} {
		now := time.Unix(1700000000+int64(i), 250_000_000)
		w, err := Create(folder, now)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(step, now, Scalar{"loss", 0.5 / float32(step)}, Scalar{"tokens/s", float32(step)})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(python, "-c", `
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1])
a.Reload()
for tag in sorted(a.Tags()["scalars"]):
    for e in a.Scalars(tag):
        print(tag, e.step, e.wall_time, e.value.hex())
`, folder).Output()
	want := fmt.Sprintf("loss 1 1700000000.25 0x1.0000000000000p-1\nloss 300 1700000001.25 %s\n", pythonHex(0.5/float32(300))) +
		fmt.Sprintf("tokens/s 1 1700000000.25 0x1.0000000000000p+0\ntokens/s 300 1700000001.25 %s\n", pythonHex(300))
	if err != nil || string(out) != want {
		t.Errorf("TensorBoard reads\n%s%v, want\n%s", out, err, want)
	}
}

// pythonHex writes a number as float.hex of Python does.
func pythonHex(x float32) string {
	text := strconv.FormatFloat(float64(x), 'x', 13, 64)
	mantissa, exponent, _ := strings.Cut(text, "p")
	n, _ := strconv.Atoi(exponent)
	return fmt.Sprintf("%sp%+d", mantissa, n)
}

// TestWriteErrors: the first error is kept.
func TestWriteErrors(t *testing.T) {
	t.Parallel()
	w, err := Create(t.TempDir(), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	w.file.Close()
	w.Write(1, time.Unix(0, 0), Scalar{"loss", 1})
	w.Write(2, time.Unix(0, 0), Scalar{"loss", 1})
	if err := w.Close(); err == nil {
		t.Error("a file that cannot be written is no error")
	}
	if _, err := Create("/dev/null/x", time.Unix(0, 0)); err == nil {
		t.Error("a folder that cannot be made is no error")
	}
}

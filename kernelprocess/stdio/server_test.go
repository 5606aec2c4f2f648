package stdio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/tensor"
)

// Random requests of every kernel, one shot and in frames of one stream, against the
// reference.
func TestAgainstTheReference(t *testing.T) {
	for _, kernel := range Kernels() {
		t.Run(kernel, func(t *testing.T) {
			s := newSampler(7)
			var stream, answers bytes.Buffer
			var samples []sample
			once := newProcess(t, kernel, Options{})
			for range 60 {
				x := s.sample(t, kernel)
				samples = append(samples, x)
				stream.Write(frame(x.text))
				var out bytes.Buffer
				if err := once.RunOnce(iotest.OneByteReader(strings.NewReader(x.text)), &out); err != nil {
					t.Fatalf("%v for %q", err, x.text)
				}
				x.holds(t, out.String())
			}
			if err := newProcess(t, kernel, Options{}).Serve(&stream, &answers); err != nil {
				t.Fatal(err)
			}
			all := frames(t, answers.Bytes())
			if len(all) != len(samples) {
				t.Fatalf("%d answers, want %d", len(all), len(samples))
			}
			for i := range all {
				samples[i].holds(t, all[i])
			}
		})
	}
}

// The binary path of adamw gives the bits of the text path, one shot and framed.
func TestBinaryEqualsText(t *testing.T) {
	s := newSampler(3)
	p := newProcess(t, "adamw", Options{})
	for range 50 {
		x := s.sample(t, "adamw")
		var once, framed bytes.Buffer
		if err := p.RunOnce(bytes.NewReader(x.binary), &once); err != nil {
			t.Fatal(err)
		}
		if err := p.Serve(bytes.NewReader(append(frame(string(x.binary)), frame(x.text)...)), &framed); err != nil {
			t.Fatal(err)
		}
		both := frames(t, framed.Bytes())
		x.holds(t, both[1])
		n := x.results[0].Cols
		for _, reply := range []string{once.String(), both[0]} {
			if len(reply) != 16+10*n {
				t.Fatalf("%d bytes, want %d", len(reply), 16+10*n)
			}
			raw := []byte(reply)
			u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(raw[at:]) }
			if ms := math.Float32frombits(u32(8)); u32(0) != 0 || u32(4) != uint32(n) || u32(12) != 0 || !(ms > 0 && ms < 1e6) {
				t.Fatalf("header % x", raw[:16])
			}
			body := raw[16:]
			for i, want := range x.results {
				for c := range n {
					got := uint32(binary.LittleEndian.Uint16(body))
					if i > 0 {
						got = binary.LittleEndian.Uint32(body)
					}
					body = body[want.DType.Size():]
					if !sameBits(want.DType, got, want.Bits(0, c)) {
						t.Fatalf("result %d[%d] is %#x, want %#x", i, c, got, want.Bits(0, c))
					}
				}
			}
		}
	}
}

// Two streams, cut after every byte: an end within a length is 20, within a payload 21,
// between frames 0. What was complete has been answered.
func TestAncestor19_StreamsCutAtEveryByte(t *testing.T) {
	s := newSampler(5)
	x := s.sample(t, "adamw")
	for name, payload := range map[string]string{"text": "2\n0 15360\n", "binary": string(x.binary), "wrong": "nothing of the kind"} {
		kernel := "gelu"
		if name == "binary" {
			kernel = "adamw"
		}
		p := newProcess(t, kernel, Options{})
		one := frame(payload)
		stream := append(one[:len(one):len(one)], one...)
		for cut := range len(stream) + 1 {
			var out bytes.Buffer
			err := p.Serve(bytes.NewReader(stream[:cut]), &out)
			want := CodePayload
			switch in := cut % len(one); {
			case in == 0:
				want = 0
			case in < 4:
				want = CodeLength
			}
			if got := codeOf(err); got != want {
				t.Fatalf("%s cut after %d of %d bytes: %v, want code %d", name, cut, len(stream), err, want)
			}
			if got := len(frames(t, out.Bytes())); got != cut/len(one) {
				t.Fatalf("%s cut after %d bytes: %d answers", name, cut, got)
			}
		}
	}
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return -1
}

func TestFrameLengths(t *testing.T) {
	const good = "1\n0\n"
	for _, row := range []struct {
		name    string
		stream  string
		max     int64
		exit    int
		answers []string // what each begins with
	}{
		{"zero", "\x00\x00\x00\x00" + string(frame(good)), 0, 0, []string{"ERR 2 N is missing\n", "DEVICE_NAME="}},
		{"enormous", "\xff\xff\xff\xff1 2 3", 0, CodePayload, nil},
		{"enormous and refused", "\xff\xff\xff\xff1 2 3", 100, CodePayload, nil},
		{"the limit", string(frame("1\n0     ")) + string(frame(good)), 8, 0, []string{"DEVICE_NAME=", "DEVICE_NAME="}},
		{"beyond the limit", string(frame("1\n0      ")) + string(frame(good)), 8, 0, []string{"ERR 3 the frame has 9 bytes, want at most 8\n", "DEVICE_NAME="}},
		{"nothing", "", 0, 0, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			err := newProcess(t, "gelu", Options{MaxFrame: row.max}).Serve(strings.NewReader(row.stream), &out)
			if codeOf(err) != row.exit {
				t.Errorf("ended with %v, want code %d", err, row.exit)
			}
			all := frames(t, out.Bytes())
			if len(all) != len(row.answers) {
				t.Fatalf("answers %q, want %d", all, len(row.answers))
			}
			for i := range all {
				if !strings.HasPrefix(all[i], row.answers[i]) {
					t.Errorf("answer %d is %q, want %q", i, all[i], row.answers[i])
				}
			}
		})
	}
}

// Ten thousand bad requests, and then a good one.
func TestGoesOnServing(t *testing.T) {
	const bad = 10000
	for _, kernel := range Kernels() {
		s := newSampler(11)
		var stream, out bytes.Buffer
		x := s.sample(t, kernel)
		for i := range bad {
			text := []byte(x.text)
			switch i % 5 {
			case 0:
				text = text[:s.IntN(len(text)-1)] // at least the last number, or a part of it, is missing
				text = append(text, 'x')
			case 1:
				text = append(text, "0"...)
			case 2:
				text = nil
			case 3:
				text[s.IntN(len(text))] = '_'
			case 4:
				text = append([]byte("9223372036854775808 "), text...)
			}
			stream.Write(frame(string(text)))
		}
		stream.Write(frame(x.text))
		if err := newProcess(t, kernel, Options{}).Serve(&stream, &out); err != nil {
			t.Fatal(err)
		}
		all := frames(t, out.Bytes())
		if len(all) != bad+1 {
			t.Fatalf("%s: %d answers", kernel, len(all))
		}
		for i, answer := range all[:bad] {
			var code int
			if n, err := fmt.Sscanf(answer, "ERR %d ", &code); n != 1 || err != nil || !isRequestCode(kernel, code) || strings.Count(answer, "\n") != 1 {
				t.Fatalf("%s: answer %d is %q", kernel, i, answer)
			}
		}
		x.holds(t, all[bad])
	}
}

// An announced size is not allocated.
func TestAllocatesNothingAhead(t *testing.T) {
	const limit = 16 << 20
	requests := map[string]string{
		"gelu":  "2147483647 1 2 3",
		"gemm":  "46340 46340 46340 1 2 3",
		"adamw": "ADAW\x00\x00\x00\x10" + strings.Repeat("\x00", 20) + "\x01\x00\x00\x00" + "\x00\x00\x00\x00" + "some",
	}
	for kernel, payload := range requests {
		p := newProcess(t, kernel, Options{MemoryLimit: math.MaxInt64, MaxFrame: math.MaxUint32})
		announced := append([]byte{0xff, 0xff, 0xff, 0xff}, payload...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if code := codeOf(p.RunOnce(strings.NewReader(payload), io.Discard)); code == 0 {
			t.Errorf("%s was computed", kernel)
		}
		if code := codeOf(p.Serve(bytes.NewReader(announced), io.Discard)); code != CodePayload {
			t.Errorf("%s ended with code %d", kernel, code)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Errorf("%s allocated %d bytes", kernel, got)
		}
	}
}

// rigged is a process whose kernel runs something else.
func rigged(t *testing.T, kernel string, run func() error) *Process {
	p := newProcess(t, kernel, Options{})
	k := *p.kernel
	original := k.form
	k.form = func(h func(string) int, hyper adamw.Hyper) form {
		f := original(h, hyper)
		f.run = func(*engine.Queue, []*tensor.Tensor, []*tensor.Tensor, ...engine.CallOption) error { return run() }
		return f
	}
	p.kernel = &k
	return p
}

// Whatever goes wrong is answered, and its cause with it; only a lost device ends the server.
func TestAncestor18_FaultsAreAnswered(t *testing.T) {
	const request = "1\n0\n"
	two := string(frame(request)) + string(frame(request))
	for _, row := range []struct {
		name    string
		run     func() error
		code    int
		answers int
		exit    int
	}{
		{"a panic", func() error { panic("lost my mind\nand a line") }, 70, 2, 0},
		{"a runtime error", func() error { return error(nil).(*Error) }, 70, 2, 0},
		{"out of memory", func() error { return fmt.Errorf("x: %w", &device.OutOfMemoryError{Device: "cpu", Asked: 2, Free: 1}) }, 10, 2, 0},
		{"inadmissible", func() error { return &engine.InadmissibleError{Lowering: "a/b", Device: "cpu"} }, 10, 2, 0},
		{"lost", func() error { return &engine.LaunchError{Op: "gelu", Cause: &device.LostError{Device: "cuda:0"}} }, 10, 1, 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := rigged(t, "gelu", row.run)
			var out bytes.Buffer
			if got := codeOf(p.Serve(strings.NewReader(two), &out)); got != row.exit {
				t.Errorf("exit code %d, want %d", got, row.exit)
			}
			all := frames(t, out.Bytes())
			if len(all) != row.answers {
				t.Fatalf("answers %q, want %d", all, row.answers)
			}
			for _, a := range all {
				if !strings.HasPrefix(a, fmt.Sprintf("ERR %d ", row.code)) || strings.Count(a, "\n") != 1 {
					t.Errorf("answer %q, want code %d", a, row.code)
				}
			}
			out.Reset()
			if got := codeOf(p.RunOnce(strings.NewReader(request), &out)); got != row.code || out.Len() > 0 {
				t.Errorf("once: code %d and %q, want %d and nothing", got, &out, row.code)
			}
		})
	}
}

// A frame of an answer that nobody reads ends the server.
func TestClosedOutput(t *testing.T) {
	for _, code := range []int{
		codeOf(newProcess(t, "gelu", Options{}).Serve(bytes.NewReader(frame("1 0")), closedWriter{})),
		codeOf(newProcess(t, "gelu", Options{}).RunOnce(strings.NewReader("1 0"), closedWriter{})),
		codeOf(newProcess(t, "gelu", Options{}).RunOnce(iotest.ErrReader(errors.New("no more")), io.Discard)),
		codeOf(newProcess(t, "gelu", Options{}).Serve(iotest.ErrReader(errors.New("no more")), io.Discard)),
	} {
		if code != CodeInternal {
			t.Errorf("code %d, want %d", code, CodeInternal)
		}
	}
}

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The state of the optimizer does not decay: what a step prints, the next one reads.
func TestAncestor04_MomentsRoundTrip(t *testing.T) {
	s := newSampler(13)
	p := newProcess(t, "adamw", Options{})
	for range 40 {
		n := s.size(100)
		m, v := s.f32s(n, false), s.f32s(n, true)
		var b strings.Builder
		fmt.Fprintf(&b, "%d 0 0.5 0.5 1 0 1\n%s\n", n, strings.Repeat("0 ", n))
		// With beta 1/2 and no gradient a step halves both, exactly but for subnormals.
		s.write(&b, m)
		s.write(&b, v)
		b.WriteString(strings.Repeat("0 ", n))
		var out bytes.Buffer
		if err := p.RunOnce(strings.NewReader(b.String()), &out); err != nil {
			t.Fatal(err)
		}
		halfM, halfV := m.Clone(), v.Clone()
		for c := range n {
			halfM.Set(0, c, float32(float64(m.At(0, c))/2))
			halfV.Set(0, c, float32(float64(v.At(0, c))/2))
		}
		lines := strings.Split(out.String(), "\n")
		for i, want := range []num.Array{halfM, halfV} {
			line := lines[len(lines)-3+i]
			for c, token := range strings.Split(line[2:], ",") {
				got, ok := readToken(token, num.F32)
				isZero := got<<1 == 0 && want.Bits(0, c)<<1 == 0 // 0.5*x + 0.5*0: the sign of a zero is the sum's
				if !ok || !isZero && !sameBits(num.F32, got, want.Bits(0, c)) {
					t.Fatalf("%s[%d] is %q (%#x), want %#x", line[:1], c, token, got, want.Bits(0, c))
				}
			}
		}
	}
}

// The first call, which may have to compile and test the kernel, is not in the kernel's time.
func TestAncestor14_KernelTimeIsTheKernels(t *testing.T) {
	calls := 0
	p := rigged(t, "gelu", func() error {
		if calls++; calls == 1 {
			time.Sleep(time.Hour)
		} else {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
	synctest.Test(t, func(t *testing.T) { // whose clock is exact
		var out bytes.Buffer
		if err := p.RunOnce(strings.NewReader("1 0"), &out); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(out.String(), "KERNEL_TIME_MS=")
		text, _, _ := strings.Cut(rest, "\n")
		if ms, err := strconv.ParseFloat(text, 64); err != nil || ms != 20 {
			t.Errorf("KERNEL_TIME_MS=%s, want 20", text)
		}
	})
}

package stdio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/op/adamw"
)

// kernelVariable makes the test binary a kernel process.
const kernelVariable = "TOKITAI_TEST_KERNEL"

func TestMain(m *testing.M) {
	if kernel := os.Getenv(kernelVariable); kernel != "" {
		os.Exit(child(kernel))
	}
	os.Exit(m.Run())
}

func child(kernel string) int {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		panic(err)
	}
	q, err := engine.NewQueue(dev, engine.WithPolicy(engine.Same))
	if err != nil {
		panic(err)
	}
	p, err := NewProcess(kernel, q, Options{})
	if err == nil {
		err = p.Serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return codeOf(err)
}

// startChild starts a server as a process of its own.
func startChild(t testing.TB, kernel string) (*Client, *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), kernelVariable+"="+kernel)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := NewClient(out, in, func() error { return errors.Join(in.Close(), out.Close()) })
	t.Cleanup(func() { c.Close(); cmd.Process.Kill(); cmd.Wait() })
	return c, cmd
}

// A request that was parsed is sent as it was, to a child, by many callers; nobody gets
// another's answer.
func TestClientOfChild(t *testing.T) {
	for _, kernel := range Kernels() {
		t.Run(kernel, func(t *testing.T) {
			c, cmd := startChild(t, kernel)
			var callers sync.WaitGroup
			for caller := range 8 {
				callers.Go(func() {
					s := newSampler(uint64(caller))
					for range 10 {
						x := s.sample(t, kernel)
						q, err := ParseRequest(kernel, strings.NewReader(x.text), math.MaxInt64)
						if err != nil {
							t.Errorf("%v for %q", err, x.text)
							return
						}
						q.IsBinary = kernel == "adamw" && caller%2 == 0
						r, err := c.Do(t.Context(), q)
						if err != nil {
							t.Errorf("%v for %q", err, x.text)
							return
						}
						x.holdsResults(t, r)
					}
				})
			}
			callers.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the child ended with %v", err)
			}
		})
	}
}

// An error that the server answers is the call's, and the next call is served.
func TestClientOfErrors(t *testing.T) {
	c, _ := startChild(t, "embedding")
	q := &Request{Kernel: "embedding", Integers: []int64{1, 1, 2, 0}, Lists: [][]byte{{2, 0, 0, 0}, {1, 0, 2, 0}}}
	if _, err := c.Do(t.Context(), q); codeOf(err) != 5 {
		t.Errorf("index 2 of 2 rows: %v, want code 5", err)
	}
	q.Lists[0][0] = 1
	if r, err := c.Do(t.Context(), q); err != nil || !bytes.Equal(r.Results[0], []byte{2, 0}) {
		t.Errorf("the next call: %+v, %v", r, err)
	}
}

// holdsResults compares the results of a response.
func (x *sample) holdsResults(t testing.TB, r *Response) {
	if len(r.Results) != len(x.results) {
		t.Errorf("%s: %d results, want %d", x.kernel, len(r.Results), len(x.results))
		return
	}
	for i, want := range x.results {
		got := want.Clone()
		copy(got.Data, r.Results[i])
		for n := range want.Rows * want.Cols {
			if a, b := got.Bits(n/want.Cols, n%want.Cols), want.Bits(n/want.Cols, n%want.Cols); !sameBits(want.DType, a, b) {
				t.Errorf("%s: result %d[%d] is %#x, want %#x", x.kernel, i, n, a, b)
				return
			}
		}
	}
}

// AppendTo and ParseRequest are inverse, binary too.
func TestRequestsRoundTrip(t *testing.T) {
	s := newSampler(17)
	for _, kernel := range Kernels() {
		for range 20 {
			x := s.sample(t, kernel)
			q, err := ParseRequest(kernel, strings.NewReader(x.text), math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				text, err := q.AppendTo(nil)
				if err != nil {
					t.Fatal(err)
				}
				again, err := ParseRequest(kernel, bytes.NewReader(text), math.MaxInt64)
				if err != nil || !reflect.DeepEqual(again, q) {
					t.Fatalf("%s: %q is read as %+v, %v, want %+v", kernel, text, again, err, q)
				}
				q.IsBinary = kernel == "adamw"
			}
		}
	}
}

func gelu1() *Request {
	return &Request{Kernel: "gelu", Integers: []int64{2}, Lists: [][]byte{{0, 0, 0, 60}}}
}

const goodReply = "DEVICE_NAME=a device\nGFX=gfx942\nN=2\nGRID=1\nBLOCK=256\nKERNEL_TIME_MS=0.5\nRESULTS=0 15360\n"

func TestResponses(t *testing.T) {
	r, err := ParseResponse(gelu1(), []byte(goodReply))
	want := &Response{DeviceName: "a device", GFX: "gfx942", Lines: map[string]string{"N": "2", "GRID": "1", "BLOCK": "256"}, KernelTimeMS: 0.5, Results: [][]byte{{0, 0, 0, 60}}}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Fatalf("%+v, %v, want %+v", r, err, want)
	}
	if _, err := ParseResponse(gelu1(), []byte("WARMUP=3=4\n"+goodReply+"MORE=\n")); err != nil {
		t.Errorf("lines that are not of the format: %v", err)
	}
	change := func(old, new string) string {
		if !strings.Contains(goodReply, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(goodReply, old, new, 1)
	}
	for _, bad := range []string{
		"", "\n", "garbage", "garbage\n", "=\n", goodReply[:len(goodReply)-1], goodReply + "x", goodReply + "N=2\n", "\x00\x00\x00\x00",
		change("GFX=gfx942\n", ""), change("KERNEL_TIME_MS=0.5\n", ""), change("RESULTS=0 15360\n", ""), change("N=2", "N=3"), change("N=2", "N=02"),
		change("GRID=1", "GRID=0"), change("BLOCK=256", "BLOCK=x"), change("0.5", "-1"), change("0.5", "nan"), change("0.5", "inf"), change("0.5", ""),
		change("0 15360", "0"), change("0 15360", ""), change("0 15360", "0 1 2"), change("0 15360", "0 65536"), change("0 15360", "0,15360"), change("0 15360", "0 -1"),
		"ERR", "ERR ", "ERR \n", "ERR 3", "ERR 3 two\nlines\n", "ERR x y\n", "ERR 0 fine\n", "ERR 300 y\n",
	} {
		_, err := ParseResponse(gelu1(), []byte(bad))
		if _, ok := errors.AsType[*ReplyError](err); !ok {
			t.Errorf("%.80q was taken, or refused with %v", bad, err)
		}
	}
	for text, code := range map[string]int{"ERR 10 no device\n": 10, "ERR 4 \n": 4, "ERR n out of range\n": 32, "ERR 70\n": 70, "ERR 3 " + strings.Repeat("y", 5000) + "\n": 3} {
		_, err := ParseResponse(gelu1(), []byte(text))
		if codeOf(err) != code {
			t.Errorf("%q: %v, want code %d", text, err, code)
		}
	}
}

// A value above 65535 is an error, not its low 16 bits.
func TestAncestor20_ValuesAreNotTruncated(t *testing.T) {
	reply := strings.Replace(goodReply, "15360", strconv.Itoa(15360+1<<16), 1)
	if r, err := ParseResponse(gelu1(), []byte(reply)); err == nil {
		t.Errorf("%s was taken for %+v", reply, r)
	}
}

func TestBinaryResponses(t *testing.T) {
	q := &Request{Kernel: "adamw", IsBinary: true, Integers: []int64{1, 1}, Hyper: adamw.Hyper{LR: 0.5, Eps: 1}, Lists: [][]byte{make([]byte, 2), make([]byte, 4), make([]byte, 4), make([]byte, 2)}}
	good := append(make([]byte, 4), 1, 0, 0, 0, 0, 0, 0, 63, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	r, err := ParseResponse(q, good)
	if err != nil || r.KernelTimeMS != 0.5 || !reflect.DeepEqual(r.Results, [][]byte{{1, 2}, {3, 4, 5, 6}, {7, 8, 9, 10}}) {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, bad := range [][]byte{nil, good[:25], append(bytes.Clone(good), 0), append([]byte{1}, good[1:]...), append([]byte{0, 0, 0, 0, 2}, good[5:]...), []byte(goodReply)} {
		if _, err := ParseResponse(q, bad); err == nil {
			t.Errorf("bad reply %d was taken", i)
		}
	}
	if _, err := ParseResponse(q, []byte("ERR payload body truncated\n")); codeOf(err) != 34 {
		t.Errorf("%v", err)
	}
	q.Hyper.LR = 0.1 // no f32
	if _, err := q.AppendTo(nil); err == nil {
		t.Error("0.1 was rounded")
	}
}

// Whatever a server sends instead of an answer is an error at once, and takes little memory.
func TestClientOfBadServers(t *testing.T) {
	for name, reply := range map[string]string{
		"nothing": "", "half a length": "\x01\x00", "a short frame": "\x09\x00\x00\x00ERR", "an enormous length": "\xff\xff\xff\xff" + goodReply,
		"a large length": "\x00\x00\x10\x00" + goodReply, "garbage": string(frame("some garbage")), "an empty frame": "\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			closed := 0
			c := NewClient(strings.NewReader(reply), io.Discard, func() error { closed++; return nil })
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := c.Do(t.Context(), gelu1())
			runtime.ReadMemStats(&after)
			if _, ok := errors.AsType[*ReplyError](err); !ok {
				t.Errorf("%v, want a ReplyError", err)
			}
			if isLong := strings.HasSuffix(name, " length") && name != "half a length"; isLong && errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v: it was waited for", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
				t.Errorf("%d bytes were allocated", got)
			}
			if _, err := c.Do(t.Context(), gelu1()); !errors.Is(err, ErrBroken) || closed != 1 {
				t.Errorf("the next call: %v, closed %d times", err, closed)
			}
		})
	}
	c := NewClient(strings.NewReader(""), closedWriter{}, func() error { return nil })
	if _, err := c.Do(t.Context(), gelu1()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a closed pipe: %v", err)
	}
	if _, err := c.Do(t.Context(), nil); err == nil {
		t.Error("nil was sent")
	}
}

// A server that hangs is left at the deadline; whoever waits for a turn too.
func TestClientDeadline(t *testing.T) {
	r, w := io.Pipe()
	c := NewClient(r, io.Discard, func() error { return w.CloseWithError(io.ErrClosedPipe) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if _, err := c.Do(ctx, gelu1()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the deadline", err)
			}
		})
	}
	callers.Wait()
	if _, err := c.Do(t.Context(), gelu1()); !errors.Is(err, ErrBroken) {
		t.Errorf("the next call: %v", err)
	}
}

// Frames of an answer cut after every byte.
func TestAnswersCutAtEveryByte(t *testing.T) {
	whole := frame(goodReply)
	for cut := range len(whole) {
		c := NewClient(bytes.NewReader(whole[:cut]), io.Discard, func() error { return nil })
		if _, err := c.Do(t.Context(), gelu1()); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
	}
	c := NewClient(bytes.NewReader(whole), io.Discard, func() error { return nil })
	if _, err := c.Do(t.Context(), gelu1()); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	for _, q := range []*Request{
		{}, {Kernel: "nothing"}, {Kernel: "gelu"}, {Kernel: "gelu", Integers: []int64{1}}, {Kernel: "gelu", Integers: []int64{1}, Lists: [][]byte{{1}}},
		{Kernel: "gelu", Integers: []int64{0}, Lists: [][]byte{{}}}, {Kernel: "gelu", Integers: []int64{1, 2}, Lists: [][]byte{{1, 2}}},
		{Kernel: "gelu", IsBinary: true, Integers: []int64{1}, Lists: [][]byte{{1, 2}}},
		{Kernel: "layernorm", Integers: []int64{2, 1, 1, 32}, Lists: make([][]byte, 8)}, {Kernel: "layernorm", Integers: []int64{1, 1, 1, 32, 32}, Lists: make([][]byte, 3)},
		{Kernel: "layernorm", Integers: []int64{1, 1, 1, 32}, Hyper: adamw.Hyper{Eps: -1}, Lists: [][]byte{{0, 0}, {0, 0}, {0, 0}}},
		{Kernel: "adamw", Integers: []int64{1, 1}, Hyper: adamw.Hyper{LR: math.NaN()}, Lists: [][]byte{make([]byte, 2), make([]byte, 4), make([]byte, 4), make([]byte, 2)}},
	} {
		if b, err := q.AppendTo(nil); err == nil {
			t.Errorf("%+v is %q", q, b)
		}
	}
}

// Tiny requests through a child.
func BenchmarkTiny(b *testing.B) {
	for _, kernel := range []string{"gelu", "adamw"} {
		b.Run("kernel="+kernel, func(b *testing.B) {
			c, _ := startChild(b, kernel)
			q := gelu1()
			if kernel == "adamw" {
				one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
				q = &Request{Kernel: "adamw", IsBinary: true, Integers: []int64{1, 1}, Hyper: adamw.Hyper{LR: 0.5, Eps: 1}, Lists: [][]byte{{0, 60}, one, one, {0, 60}}}
			}
			for b.Loop() {
				if _, err := c.Do(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

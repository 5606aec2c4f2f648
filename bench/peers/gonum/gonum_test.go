// Package gonum is a peer of `tokitai bench --peers`: matrix products of gonum. It has tests
// alone, so that no program contains gonum; its test binary serves the protocol of
// tokitai/bench/peers where the environment says so.
package gonum

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"tokitai/bench/peers"
)

func TestMain(m *testing.M) {
	if version := os.Getenv(peers.ServeVariable); version != "" {
		if err := serve(version, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve answers requests until the end of the input.
func serve(version string, r io.Reader, w io.Writer) error {
	in, out := json.NewDecoder(bufio.NewReader(r)), json.NewEncoder(w)
	if err := out.Encode(peers.Introduction{Name: "gonum", Version: version, Details: []string{"blas32"}, Threads: runtime.GOMAXPROCS(0)}); err != nil {
		return err
	}
	var c *products
	for {
		var request peers.Request
		switch err := in.Decode(&request); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		answer := &peers.Answer{}
		switch request.Do {
		case "prepare":
			c = newProducts(&request, answer)
		case "run":
			answer.NS = c.run(request.Repeat, request.Calls)
		case "check":
			answer.Outputs = c.check(request.Rows)
		case "release":
			c = nil
		default:
			answer.Error = "unknown request " + request.Do
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

// products are products of matrices, several sets of them.
type products struct {
	form       form
	a, b, c    [][]float32 // by set
	rows, cols [3]int      // of a matrix of a, b and c
	count      int         // of products in a set
	at         int
}

// form says what the operands of an operation are called, and which are transposed.
type form struct {
	a, b, c string
	ta, tb  blas.Transpose
}

var forms = map[string]form{
	"gemm.forward":         {"A", "B", "C", blas.NoTrans, blas.NoTrans},
	"gemm.grad_a":          {"dC", "B", "dA", blas.NoTrans, blas.Trans},
	"gemm.grad_b":          {"A", "dC", "dB", blas.Trans, blas.NoTrans},
	"gemm.batched.forward": {"A", "B", "C", blas.NoTrans, blas.NoTrans},
}

func newProducts(r *peers.Request, answer *peers.Answer) *products {
	f, ok := forms[r.Op]
	if !ok {
		answer.Unsupported = "gonum has no " + r.Op
		return nil
	}
	p := &products{form: f}
	for i, name := range []string{f.a, f.b, f.c} {
		o := r.Operands[name]
		if o == nil || o.DType != "f32" || len(o.Shape) < 2 {
			answer.Unsupported = "gonum multiplies matrices of f32"
			return nil
		}
		n := len(o.Shape)
		p.rows[i], p.cols[i], p.count = o.Shape[n-2], o.Shape[n-1], 1
		for _, size := range o.Shape[:n-2] {
			p.count *= size
		}
		size := p.count * p.rows[i] * p.cols[i]
		values := make([]float32, size)
		for k := range values {
			values[k] = -1
		}
		if o.File != "" {
			raw, err := os.ReadFile(o.File)
			if err != nil || len(raw) != 4*size {
				answer.Error = fmt.Sprintf("operand %s has %d bytes, want %d: %v", name, len(raw), 4*size, err)
				return nil
			}
			for k := range values {
				values[k] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:]))
			}
		}
		to := []*[][]float32{&p.a, &p.b, &p.c}[i]
		for range r.Sets {
			*to = append(*to, append([]float32(nil), values...))
		}
	}
	answer.Form = "blas32.Gemm"
	return p
}

func (p *products) multiply(set int) {
	matrix := func(i int, values []float32, k int) blas32.General {
		n := p.rows[i] * p.cols[i]
		return blas32.General{Rows: p.rows[i], Cols: p.cols[i], Stride: p.cols[i], Data: values[k*n : (k+1)*n]}
	}
	for k := range p.count {
		blas32.Gemm(p.form.ta, p.form.tb, 1, matrix(0, p.a[set], k), matrix(1, p.b[set], k), 0, matrix(2, p.c[set], k))
	}
}

func (p *products) run(repeat, calls int) []int64 {
	times := make([]int64, repeat)
	for r := range times {
		start := time.Now()
		for range calls {
			p.multiply(p.at)
			p.at = (p.at + 1) % len(p.a)
		}
		times[r] = time.Since(start).Nanoseconds()
	}
	return times
}

func (p *products) check(rows map[string][]int) map[string][]byte {
	for k := range p.c[0] {
		p.c[0][k] = -1
	}
	p.multiply(0)
	var raw []byte
	for _, r := range rows[p.form.c] {
		for _, v := range p.c[0][r*p.cols[2] : (r+1)*p.cols[2]] {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
	}
	return map[string][]byte{p.form.c: raw}
}

// The peer multiplies what it is given: whole numbers, so that every sum is exact.
func TestServe(t *testing.T) {
	const m, k, n, h = 3, 4, 5, 2
	write := func(name string, size int) (file string, values []float32) {
		file = filepath.Join(t.TempDir(), name)
		var raw []byte
		for i := range size {
			v := float32((i*7+len(name))%11 - 5)
			values = append(values, v)
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return file, values
	}
	fileA, a := write("A", h*m*k)
	fileB, b := write("B", h*k*n)
	var requests, answers bytes.Buffer
	ask := json.NewEncoder(&requests)
	ask.Encode(peers.Request{Do: "prepare", Op: "softmax.forward"})
	ask.Encode(peers.Request{Do: "prepare", Op: "gemm.batched.forward", Sets: 2, Operands: map[string]*peers.Operand{
		"A": {DType: "f32", Shape: []int{h, m, k}, File: fileA}, "B": {DType: "f32", Shape: []int{h, k, n}, File: fileB}, "C": {DType: "f32", Shape: []int{h, m, n}},
	}})
	ask.Encode(peers.Request{Do: "run", Repeat: 3, Calls: 2})
	ask.Encode(peers.Request{Do: "check", Rows: map[string][]int{"C": {1, 5}}})
	ask.Encode(peers.Request{Do: "release"})
	if err := serve("v0", &requests, &answers); err != nil {
		t.Fatal(err)
	}
	var about peers.Introduction
	var refused, prepared, ran, checked peers.Answer
	read := json.NewDecoder(&answers)
	for _, v := range []any{&about, &refused, &prepared, &ran, &checked} {
		if err := read.Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	if about.Name != "gonum" || about.Version != "v0" || refused.Unsupported == "" || prepared.Form != "blas32.Gemm" || len(ran.NS) != 3 {
		t.Errorf("got %+v, %+v, %+v, %+v", about, refused, prepared, ran)
	}
	var want []byte
	for _, row := range []int{1, 5} { // of the stack: row 1 of the first matrix, row 2 of the second
		for c := range n {
			sum := float32(0)
			for i := range k {
				sum += a[row*k+i] * b[(row/m*k+i)*n+c]
			}
			want = binary.LittleEndian.AppendUint32(want, math.Float32bits(sum))
		}
	}
	if !bytes.Equal(checked.Outputs["C"], want) {
		t.Errorf("got %x, want %x", checked.Outputs["C"], want)
	}
}

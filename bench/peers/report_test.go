package peers

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
)

// Figures, worked out by hand.
func TestFigures(t *testing.T) {
	nan := math.NaN()
	line := &row{}
	c, err := line.newCase(gelu.Operations[0], num.F32, "R=2048,C=1024", nil)
	if err != nil {
		t.Fatal(err)
	}
	array := c.Data.Definition.Operands[0].NewArray(num.F32, c.Data.Sizes)
	var row Row
	row.set(c, &inputs{c: c, arrays: []num.Array{array, array}}, []float64{0.002, 0.004, 0.001}, []float64{0.001, 0.002, 0.003})
	if row.MS != 2 || row.Bytes != 2<<23 || math.Abs(row.GBps-8.388608) > 1e-12 || row.CopyMS != 2 || row.Share != 0.5 || row.GFLOPS != 0 {
		t.Errorf("got %+v", row)
	}
	product, err := line.newCase(gemm.Operations[0], num.F32, "M=10,K=20,N=50", nil)
	if err != nil {
		t.Fatal(err)
	}
	row = Row{}
	in := &inputs{c: product}
	for i := range product.Data.Definition.Operands {
		in.arrays = append(in.arrays, product.Data.Definition.Operands[i].NewArray(num.F32, product.Data.Sizes))
	}
	if row.set(product, in, []float64{1e-6}, []float64{1}); row.GFLOPS != 20 || row.GBps != 0 || row.Share != 0 {
		t.Errorf("got %+v", row)
	}
	s := &seat{peer: &peer{kind: &kind{name: "other"}}, form: "f", turn: &turn{seconds: []float64{0.004, nan, 0.003}}}
	if o := s.result([]float64{0.002, 0.004, 0.001}); o.MS != 3.5 || o.Ratio != 2.5 || o.Least != 2 || o.Most != 3 || o.Peer != "other" {
		t.Errorf("got %+v", o)
	}
	if !math.IsNaN(middle(nil)) || middle([]float64{3, nan, 1, 2}) != 2 {
		t.Error("the median is wrong")
	}
	want := num.ArrayOf(num.F32, 2, 2, 3, 4, 0, 0)
	if far, err := distance([]float32{3, 4.5}, &want, []int{0}); far != 0.1 || err != nil {
		t.Errorf("the distance is %v, %v", far, err)
	}
	if far, _ := distance([]float32{float32(nan), 4}, &want, []int{0}); far <= mostDifference {
		t.Errorf("the distance to NaN is %v", far)
	}
	if far, _ := distance([]float32{0, 0}, &want, []int{1}); far != 0 {
		t.Errorf("the distance between zeros is %v", far)
	}
}

func testReport() *Report {
	return &Report{
		Host: Host{CPU: "Processor", Features: []string{"avx2"}, Workers: []int{1, 2}}, Rounds: 5,
		Peers: []Library{{Peer: "torch", Name: "PyTorch", Version: "2", Details: []string{"MKL"}}, {Peer: "numpy", Name: "NumPy", Problem: "no module"}},
		Rows: []Row{
			{Op: "gelu.forward", DType: "f32", Shape: "R=1,C=2", Workers: 2, MS: 1, GBps: 30, Share: 0.5, Bytes: 1 << 30, Peers: []Other{{Peer: "torch", MS: 2, Ratio: 2, Least: 1.5, Most: 2.5}}},
			{Op: "gelu.backward", DType: "f16", Shape: "R=1,C=2", Workers: 2, MS: 1, GBps: 30, Share: 0.72, Bytes: 1 << 30, Peers: []Other{{Peer: "torch", MS: 4.5, Ratio: 4.5, Least: 4, Most: 5}}},
			{Op: "gelu.forward", DType: "f32", Shape: "R=1,C=2", Workers: 1, MS: 3, GBps: 10, Bytes: 1 << 30, Peers: []Other{{Peer: "torch", Error: "broken"}}},
			{Op: "gelu.forward", DType: "f32", Shape: "R=1,C=1000", Workers: 2, MS: 0.001, GBps: 8, Bytes: 8000, Peers: []Other{{Peer: "torch", MS: 0.004, Ratio: 4, Least: 4, Most: 4}}},
		},
		Compile: []Compile{{Op: "gelu.forward", DType: "f32", MS: 1.234, Admitted: 12.34}},
	}
}

func TestSummaries(t *testing.T) {
	r := testReport()
	list := r.Summaries(2)
	if len(list) != 2 || list[0].Name != "GELU, forward and backward" || list[1].Name != "a call on 1,000 elements" {
		t.Fatalf("got %+v", list)
	}
	m := list[0].Ratios["torch"]
	if math.Abs(m.Mean-3) > 1e-12 || m.Least != 2 || m.Most != 4.5 || m.Count != 2 || math.Abs(list[0].Share.Mean-0.6) > 1e-12 || !list[0].Reached() {
		t.Errorf("got %+v", list[0])
	}
	if got, want := list[0].String(), "GELU, forward and backward: 3.00× torch (2.00 to 4.50 in 2 cases); 0.60 of a copy (0.50 to 0.72); aim 2.5×: reached"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	list[0].Aim = 3.1
	if list[0].Reached() {
		t.Error("3.0 reaches 3.1")
	}
	if list[0].Aim, list[0].Least = 2.5, 2.1; list[0].Reached() {
		t.Error("a case of 2.0 reaches at least 2.1 each")
	}
	disturbed := testReport()
	disturbed.Rows[1].Peers[0].Most = 17
	if got := disturbed.Summaries(2)[0].Ratios["torch"]; got.Count != 1 || got.Most != 2 || !strings.Contains(disturbed.Markdown(), " 4.50 | disturbed |") {
		t.Errorf("a disturbed ratio counts: %+v", got)
	}
	if one := r.Summaries(1); len(one) != 1 || one[0].Reached() || !strings.Contains(one[0].String(), "torch was not measured") {
		t.Errorf("got %v, want that PyTorch was not measured", one)
	}
}

// Every case of the list is in a line of the summary.
func TestGroupsHaveAllCases(t *testing.T) {
	cases, err := Cases(operations, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		row := Row{Op: c.Name(), DType: c.DType.String(), Bytes: c.footprint()}
		n := 0
		for i := range groups {
			if groups[i].has(&row) && !groups[i].second {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%v is in %d lines of the summary, want 1", c, n)
		}
	}
	for _, g := range groups {
		if !slices.Contains(Names(), g.peer) {
			t.Errorf("%s: there is no peer %q", g.name, g.peer)
		}
	}
}

func TestMarkdown(t *testing.T) {
	text := testReport().Markdown()
	for _, want := range []string{
		"on Processor (avx2), in 5 rounds",
		"\n- PyTorch 2 (MKL)\n- NumPy: not installed: no module\n",
		"\n## 2 threads\n\n| times as fast as | PyTorch | of copy |\n|---|---:|---:|\n| GELU, forward and backward | 3.00 (2.00 to 4.50) | 0.60 (0.50 to 0.72) |\n",
		"\n| gelu.backward | R=1, C=2 | f16 | 1.00 | 30.0 GB/s | 0.72 | 4.50 | **4.50** (4.00–5.00) |\n",
		"\n## 1 thread\n",
		"\n| gelu.forward | R=1, C=2 | f32 | 3.00 | 10.0 GB/s |  | failed | |\n",
		"\n| gelu.forward | f32 | 1.23 | 12.3 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	const want = "gelu.forward          R=1,C=2                f32   2 threads   1.00 ms  30.0 GB/s  0.50 of copy  torch 2.00 ms = 2.00× (1.50 to 2.50)"
	if got := testReport().Rows[0].Line(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

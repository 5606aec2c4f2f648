package peers

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// group is a line of the summary: cases whose ratios are averaged, and the project's aim for
// them.
type group struct {
	name   string
	ops    []string
	dtypes []string // nil for all
	small  bool     // cases of a few operands, which measure the call itself
	second bool     // the cases of another group, for an aim about another peer
	peer   string   // that the aim is about
	aim    float64  // least geometric mean of the ratios; 0 if there is none
	least  float64  // least ratio of a single case; 0 if there is none
}

var (
	f32    = []string{"f32"}
	f16    = []string{"f16"}
	bf16   = []string{"bf16"}
	narrow = []string{"f16", "bf16"}
)

var groups = []group{
	{name: "GELU, forward and backward", ops: []string{"gelu.forward", "gelu.backward"}, peer: "torch", aim: 2.5},
	{name: "cross-entropy with its gradient", ops: []string{"crossentropy"}, peer: "torch", aim: 4},
	{name: "softmax, forward and backward, f16 and bf16", ops: []string{"softmax.forward", "softmax.backward"}, dtypes: narrow, peer: "torch", aim: 1.5},
	{name: "softmax, forward and backward, f32", ops: []string{"softmax.forward", "softmax.backward"}, dtypes: f32, peer: "torch"},
	{name: "LayerNorm forward", ops: []string{"layernorm.forward"}, peer: "torch"},
	{name: "LayerNorm backward", ops: []string{"layernorm.backward"}, peer: "torch", aim: 1.5},
	{name: "embedding forward", ops: []string{"embedding.forward"}, peer: "torch"},
	{name: "embedding backward", ops: []string{"embedding.backward"}, peer: "torch", aim: 1.5},
	{name: "AdamW", ops: []string{"adamw.step"}, peer: "torch", aim: 1},
	{name: "RMSNorm forward, with and without residual", ops: []string{"rmsnorm.forward", "rmsnorm.residual.forward"}, peer: "torch", aim: 1},
	{name: "RMSNorm backward, with and without residual", ops: []string{"rmsnorm.backward", "rmsnorm.residual.backward"}, peer: "torch", aim: 1},
	{name: "rotary embeddings", ops: []string{"rope.forward"}, peer: "torch", aim: 1},
	{name: "rotary embeddings after a norm of the heads", ops: []string{"rope.norm.forward"}, peer: "torch", aim: 1},
	{name: "SwiGLU, forward and backward", ops: []string{"swiglu.forward", "swiglu.backward"}, peer: "torch", aim: 1},
	{name: "SiLU, forward and backward", ops: []string{"silu.forward", "silu.backward"}, peer: "torch", aim: 1},
	{name: "GELU by erf, forward and backward", ops: []string{"gelu.erf.forward", "gelu.erf.backward"}, peer: "torch", aim: 1},
	{name: "squared ReLU, forward and backward", ops: []string{"relu2.forward", "relu2.backward"}, peer: "torch", aim: 1},
	{name: "router", ops: []string{"router.softmax.forward"}, peer: "torch", aim: 1},
	{name: "dispatch", ops: []string{"dispatch.forward"}, peer: "torch", aim: 1},
	{name: "permutation of rows", ops: []string{"combine.permute.forward"}, peer: "torch", aim: 1},
	{name: "combination of rows", ops: []string{"combine.forward"}, peer: "torch", aim: 1},
	{name: "dropout", ops: []string{"dropout.forward"}, peer: "torch", aim: 1},
	{name: "sampling, greedy", ops: []string{"sample greedy"}, peer: "torch", aim: 1},
	{name: "sampling with noise", ops: []string{"sample"}, peer: "torch", aim: 1},
	{name: "SGD with momentum", ops: []string{"sgd.step"}, peer: "torch", aim: 1},
	{name: "matrix product, f32", ops: []string{"gemm.forward"}, dtypes: f32, peer: "torch", aim: 0.9, least: 0.75},
	{name: "matrix product, f32, beside gonum", ops: []string{"gemm.forward"}, dtypes: f32, peer: "gonum", aim: 15, second: true},
	{name: "matrix product, f16", ops: []string{"gemm.forward"}, dtypes: f16, peer: "torch", aim: 1, least: 0.75},
	{name: "matrix product, bf16", ops: []string{"gemm.forward"}, dtypes: bf16, peer: "torch-no-amx", aim: 1, least: 0.75},
	{name: "matrix product, bf16, beside AMX", ops: []string{"gemm.forward"}, dtypes: bf16, peer: "torch", second: true},
	{name: "gradients of a matrix product, f32", ops: []string{"gemm.grad_a", "gemm.grad_b"}, peer: "torch"},
	{name: "products of groups of rows", ops: []string{"gemm.grouped.forward", "gemm.grouped.grad_a", "gemm.grouped.grad_b"}, peer: "torch"},
	{name: "64 products of 64×64×64", ops: []string{"gemm.batched.forward"}, peer: "torch"},
	{name: "causal attention", ops: []string{"attention.forward"}, peer: "torch", aim: 0.9},
	{name: "gradients of causal attention", ops: []string{"attention.backward"}, peer: "torch", aim: 0.8},
	{name: "a call on 1,000 elements", ops: []string{"gelu.forward", "softmax.forward", "layernorm.forward"}, small: true, peer: "torch"},
}

// smallBytes separates calls that are measured for their overhead from the others.
const smallBytes = 64 << 10

func (g *group) has(r *Row) bool {
	return slices.Contains(g.ops, r.Op) && (g.dtypes == nil || slices.Contains(g.dtypes, r.DType)) && (r.Bytes < smallBytes) == g.small
}

// Summary is the figures of a group with one number of threads.
type Summary struct {
	Name    string
	Workers int
	Ratios  map[string]Mean // by peer
	Share   Mean            // of the copy, over the cases that are bound by memory
	Peer    string          // that the aim is about
	Aim     float64         // 0 if there is none
	Least   float64         // that the aim allows for one case; 0 if there is none

	isSecond bool // its cases are those of another group
}

// Mean is a geometric mean, with the least and the greatest of its numbers.
type Mean struct {
	Mean, Least, Most float64
	Count             int
}

func meanOf(xs []float64) Mean {
	if len(xs) == 0 {
		return Mean{}
	}
	sum := 0.0
	for _, x := range xs {
		sum += math.Log(x)
	}
	return Mean{Mean: math.Exp(sum / float64(len(xs))), Least: slices.Min(xs), Most: slices.Max(xs), Count: len(xs)}
}

// Reached reports whether an aim is reached; it is false where nothing was measured.
func (s *Summary) Reached() bool {
	m := s.Ratios[s.Peer]
	return m.Count > 0 && m.Mean >= s.Aim && m.Least >= s.Least
}

// Summaries returns the groups that have cases.
func (r *Report) Summaries(workers int) []Summary {
	var list []Summary
	for i := range groups {
		g := &groups[i]
		s := Summary{Name: g.name, Workers: workers, Ratios: map[string]Mean{}, Peer: g.peer, Aim: g.aim, Least: g.least, isSecond: g.second}
		ratios := map[string][]float64{}
		var shares []float64
		n := 0
		for k := range r.Rows {
			row := &r.Rows[k]
			if row.Workers != workers || !g.has(row) {
				continue
			}
			n++
			for _, o := range row.Peers {
				if o.Error == "" && !o.IsDisturbed() {
					ratios[o.Peer] = append(ratios[o.Peer], o.Ratio)
				}
			}
			if row.Share > 0 && !g.small {
				shares = append(shares, row.Share)
			}
		}
		if n == 0 {
			continue
		}
		for peer, xs := range ratios {
			s.Ratios[peer] = meanOf(xs)
		}
		s.Share = meanOf(shares)
		list = append(list, s)
	}
	return list
}

// String returns a line: the ratio to the peer that the aim is about.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", s.Name)
	m, ok := s.Ratios[s.Peer]
	if !ok {
		fmt.Fprintf(&b, "%s was not measured", s.Peer)
	} else {
		fmt.Fprintf(&b, "%.2f× %s", m.Mean, s.Peer)
		if m.Count > 1 {
			fmt.Fprintf(&b, " (%.2f to %.2f in %d cases)", m.Least, m.Most, m.Count)
		}
	}
	if s.Share.Count > 0 {
		fmt.Fprintf(&b, "; %.2f of a copy", s.Share.Mean)
		if s.Share.Count > 1 {
			fmt.Fprintf(&b, " (%.2f to %.2f)", s.Share.Least, s.Share.Most)
		}
	}
	if s.Aim > 0 {
		fmt.Fprintf(&b, "; aim %.2g×", s.Aim)
		if s.Least > 0 {
			fmt.Fprintf(&b, ", each %.2g×", s.Least)
		}
		if ok {
			b.WriteString(map[bool]string{true: ": reached", false: ": not reached"}[s.Reached()])
		}
	}
	return b.String()
}

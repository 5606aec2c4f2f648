package verify

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/promise"
)

// models are the accumulation rules of the calls that were judged.
type models struct {
	mu   sync.Mutex
	seen map[string]bool
}

// model returns the accumulation rule of a case, and remembers it for the report.
func (l *loaded) accum() def.Accum {
	t := l.target
	if t.Lowering.Promise.AccumFor == nil {
		return t.Lowering.Promise.Accum
	}
	call := &lower.Call{}
	for _, a := range l.inputs() {
		call.Operands = append(call.Operands, lower.Operand{Array: a})
	}
	size := func(letter string) int { return call.Size(t.Definition, letter) }
	m := t.Lowering.Promise.AccumOf(t.architecture.get(func() string { return "" }), t.Definition, l.operands.DTypes(), size)
	t.models.mu.Lock()
	defer t.models.mu.Unlock()
	if t.models.seen == nil {
		t.models.seen = map[string]bool{}
	}
	t.models.seen[m.String()] = true
	return m
}

// names returns the accumulation rules of a lowering, as reports have them.
func (x *models) names(l *engine.Lowering) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.Promise.AccumFor == nil || len(x.seen) == 0 {
		return l.Promise.Accum.String()
	}
	return strings.Join(slices.Sorted(maps.Keys(x.seen)), " or ")
}

// lossy returns the model whose errors the sums of a kernel may have: for products of f16 and bf16
// the model of the profile's tensor cores, if it has any, otherwise the kernel's own.
func (l *loaded) lossy() def.Accum {
	t, m := l.target, l.accum()
	if d := t.Definition; m != def.FMAChain || t.Promised() != promise.Stable || d.Product() == nil || d.Ring().IsExact() {
		return m
	}
	if f := l.operands.DTypes()[0]; f != num.F16 && f != num.BF16 {
		return m
	}
	return t.Lowering.Promise.Declares.TensorCores()
}

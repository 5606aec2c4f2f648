package ondevice

import (
	"fmt"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
)

// Definitions of a user: what the project does not ship.
var (
	rmsNorm = def.Must(def.Rowwise("rmsnorm", func(b *def.Builder) {
		x, gamma, eps := b.In("x"), b.InCol("gamma", def.Only(num.F32)), b.Param("eps")
		meanSquare := def.RowSum(x.Mul(x)).Div(b.Columns())
		b.Out("y", x.Mul(fn.Rsqrt(meanSquare.Add(eps))).Mul(gamma), def.Like("x"))
	}))

	swiGLU = def.Must(def.Rowwise("swiglu", func(b *def.Builder) {
		gate, up := b.In("gate"), b.In("up", def.Like("gate"))
		b.Out("y", gate.Mul(fn.Sigmoid(gate)).Mul(up), def.Like("gate"))
	}))

	biasGrad = def.Must(def.Rowwise("bias_grad", func(b *def.Builder) {
		dy := b.In("dy")
		b.OutCol("dbias", def.ColSum(dy), def.Only(num.F32))
		b.OutRow("largest", def.RowMax(dy), def.Like("dy"))
	}))

	greedy = def.Must(def.Rowwise("greedy", func(b *def.Builder) {
		logits := b.In("logits")
		token, last := def.RowArgMax(logits), def.RowArgMin(logits)
		b.OutRow("token", token)
		b.OutRow("logit", logits.At(token), def.Like("logits"))
		b.Out("mark", def.Select(b.Col().Equal(token), last, b.Col()))
		b.OutCol("count", def.ColSum(def.Select(b.Col().Equal(token), b.ColFloat(), def.Zero)), def.Only(num.F32))
	}))
)

// TestUserDefinitions computes definitions of a user on the CPU, in the simulator and on
// the chosen device, admitted as every definition is, with the same bits.
func TestUserDefinitions(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	queues := []*engine.Queue{newQueue(t, gputest.Needs(t))}
	if _, err := compile.OpenHost(); err != nil {
		t.Logf("without the simulator: %v", err)
	} else if !isSimulated() {
		queues = append(queues, newQueue(t, gputest.NeedsSim(t, 32)))
	}
	var list []shipped
	for _, d := range []*def.Definition{rmsNorm, swiGLU, biasGrad, greedy} {
		user := &op.Operation{Name: d.Name, Data: []op.Data{{Definition: d, Params: make([]float64, len(d.Params))}}}
		for i := range user.Data[0].Params {
			user.Data[0].Params[i] = 1e-6
		}
		formats := d.Formats()
		for _, f := range choose(formats[:1], formats) {
			list = append(list, shipped{user, d, f})
		}
	}
	eachOf(t, list, func(s shipped) error {
		shapes := []map[string]int{{"R": 3, "C": 41}, {"R": 9, "C": 1024}}
		for _, sizes := range choose(shapes[:1], shapes) {
			c, err := s.newCall(sizes)
			if err != nil {
				return err
			}
			want, err := c.hashOn(cpu.Queue())
			if err != nil {
				return err
			}
			for _, q := range queues {
				hash, err := c.hashOn(q)
				if err != nil {
					return err
				}
				if hash != want {
					return fmt.Errorf("%v on %s: not the bits of the CPU", sizes, q.Device().Name())
				}
			}
		}
		return nil
	})
	t.Logf("%d definitions and formats, on the CPU and %d devices", len(list), len(queues))
}

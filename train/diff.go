package train

import (
	"context"
	"fmt"
	"slices"

	"tokitai/engine"
	"tokitai/tensor"
)

// Difference says where two runs part.
type Difference struct {
	Settings []string `json:"settings,omitempty"` // in which they differ: NAME is A, not B
	Data     bool     `json:"data,omitempty"`     // their data differ
	Same     int      `json:"same"`               // steps from the first on that have the same loss, norm and weights
	Steps    [2]int   `json:"steps"`              // that they have taken

	// Step is the first that differs, 0 if none does. The rest says how, once Diff has computed both
	// runs up to there again, from the step Start on.
	Step   int    `json:"step,omitempty"`
	How    string `json:"how,omitempty"`
	Start  int    `json:"start,omitempty"`
	Call   string `json:"call,omitempty"` // the first call of the step, in program order, with another result
	Tensor string `json:"tensor,omitempty"`
	Row    int    `json:"row,omitempty"`
	Column int    `json:"column,omitempty"`
	A, B   string `json:",omitempty"` // that element, in hexadecimal
	Wrong  string `json:"wrong,omitempty"`
}

// Diff finds the first step in which two runs differ, and the first call of that step with another result:
// it computes the runs again, from their last common checkpoint or their initial weights on.
func Diff(ctx context.Context, q *engine.Queue, folders [2]string, corpora [2]Data) (*Difference, error) {
	var descriptions [2]*Description
	var lines [2][]Line
	for i, folder := range folders {
		var err error
		if descriptions[i], lines[i], err = readRun(folder); err != nil {
			return nil, err
		}
	}
	a, b := descriptions[0], descriptions[1]
	d := &Difference{
		Settings: a.Settings.Config.Differences(b.Settings.Config), Data: a.Origin.Data != b.Origin.Data,
		Steps: [2]int{len(lines[0]), len(lines[1])},
	}
	if d.Same, d.How = Same(lines[0], lines[1]); d.How == "" {
		return d, nil
	}
	d.Step = d.Same + 1

	at, err := commonCheckpoint(folders, d.Same)
	if err != nil {
		return nil, err
	}
	var t [2]*Trainer
	for i := range t {
		if t[i], err = descriptions[i].trainer(q, folders[i], at, corpora[i]); err != nil {
			return nil, err
		}
		defer t[i].Close()
		d.Start = t[i].step
		for t[i].step < d.Same {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r, err := t[i].Step()
			if err != nil {
				return nil, err
			}
			if want := &lines[i][t[i].step-1]; r.Chain.String() != want.Chain {
				d.Wrong = fmt.Sprintf("%s: step %d, computed again, is not what the run has", folders[i], t[i].step)
				return d, nil
			}
		}
	}
	return d, d.compare(t, [2]*Line{&lines[0][d.Same], &lines[1][d.Same]}, folders)
}

// Same returns how many steps from the first on have the same loss, norm and weights, of the lines of
// steps of two runs, and how the next one differs: "" if one of the runs has no more.
func Same(a, b []Line) (n int, how string) {
	for ; n < min(len(a), len(b)); n++ {
		if !isSame(&a[n], &b[n]) {
			return n, difference(&a[n], &b[n])
		}
	}
	return n, ""
}

func isSame(a, b *Line) bool {
	return a.LossBits == b.LossBits && a.NormBits == b.NormBits && a.Weights == b.Weights
}

// commonCheckpoint returns the newest step, at most upTo, for which both runs have a checkpoint; 0 if there is none.
func commonCheckpoint(folders [2]string, upTo int) (int, error) {
	a, err := Checkpoints(folders[0])
	if err != nil {
		return 0, err
	}
	b, err := Checkpoints(folders[1])
	if err != nil {
		return 0, err
	}
	best := 0
	for _, c := range a {
		if c.Step <= upTo && slices.ContainsFunc(b, func(o Checkpoint) bool { return o.Step == c.Step }) {
			best = c.Step
		}
	}
	return best, nil
}

// compare makes the calls of the next step with both trainers, until one has different results.
func (d *Difference) compare(t [2]*Trainer, want [2]*Line, folders [2]string) error {
	if t[0].config.Leaves == t[1].config.Leaves {
		for leaf := range t[0].config.Leaves {
			if isFound, err := d.compareLeaf(t, leaf); isFound || err != nil {
				return err
			}
		}
	}
	for i := range t {
		r, err := t[i].Step()
		if err != nil {
			return err
		}
		if got := lineOf(r, 0); !isSame(&got, want[i]) {
			d.Wrong = fmt.Sprintf("%s: step %d, computed again, is not what the run has: %s", folders[i], d.Step, difference(&got, want[i]))
			return nil
		}
	}
	for i, name := range t[0].names {
		if i >= len(t[1].names) || t[1].names[i] != name || len(t[0].parts(i)) != len(t[1].parts(i)) {
			return nil // other networks, or optimizers
		}
		a := append([]part{{name: "grad." + name, tensor: t[0].sums[i]}}, t[0].parts(i)...)
		b := append([]part{{name: "grad." + name, tensor: t[1].sums[i]}}, t[1].parts(i)...)
		for _, k := range []int{0, 2, 3, 1} { // gradients, moments, weights
			if k >= len(a) {
				continue
			}
			if isFound, err := d.compareTensors("the update of "+name, a[k].name, a[k].tensor, b[k].tensor); isFound || err != nil {
				return err
			}
		}
	}
	a, b := t[0].biases.state(), t[1].biases.state()
	for i := range min(len(a), len(b)) {
		if isFound, err := d.compareTensors("the update of "+a[i].name, a[i].name, a[i].tensor, b[i].tensor); isFound || err != nil {
			return err
		}
	}
	return nil
}

// compareLeaf makes the calls of a leaf.
func (d *Difference) compareLeaf(t [2]*Trainer, leaf int) (isFound bool, err error) {
	for i := range t {
		if err := t[i].load(t[i].step+1, leaf); err != nil {
			return false, err
		}
	}
	calls := [2]int{len(t[0].program.Calls), len(t[1].program.Calls)}
	for n := range min(calls[0], calls[1]) {
		a, b := t[0].program.Calls[n], t[1].program.Calls[n]
		if a.String() != b.String() {
			d.Call = fmt.Sprintf("the programs differ: %q, not %q", a, b)
			return true, nil
		}
		var operands [2][]*tensor.Tensor
		for i := range t {
			in := t[i].levels[0].leaf
			if err := in.RunCall(t[i].queue, n, t[i].variables(t[i].step+1, leaf)); err != nil {
				return false, err
			}
			operands[i] = in.Operands(n)
		}
		if err := t[0].queue.Wait(); err != nil {
			return false, err
		}
		if err := t[1].queue.Wait(); err != nil {
			return false, err
		}
		for k, r := range a.Operands {
			if isFound, err := d.compareTensors(a.Name, r.Value().Name, operands[0][k], operands[1][k]); isFound || err != nil {
				return isFound, err
			}
		}
	}
	return false, nil
}

// compareTensors notes the first element in which two tensors differ.
func (d *Difference) compareTensors(call, name string, a, b *tensor.Tensor) (isFound bool, err error) {
	x, err := a.Bytes()
	if err != nil {
		return false, err
	}
	y, err := b.Bytes()
	if err != nil {
		return false, err
	}
	size := a.DType().Size()
	for i := 0; i+size <= min(len(x), len(y)); i += size {
		if string(x[i:][:size]) != string(y[i:][:size]) {
			d.Call, d.Tensor, d.Row, d.Column = call, name, i/size/a.Cols(), i/size%a.Cols()
			d.A, d.B = element(x[i:][:size]), element(y[i:][:size])
			return true, nil
		}
	}
	return false, nil
}

// element returns the bits of an element, most significant first.
func element(stored []byte) string {
	b := slices.Clone(stored)
	slices.Reverse(b)
	return fmt.Sprintf("%x", b)
}

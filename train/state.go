package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"tokitai/model"
	"tokitai/op/adamw"
	"tokitai/op/checksum"
	"tokitai/op/norm"
	"tokitai/op/router"
	"tokitai/op/sgd"
	"tokitai/tensor"
)

// setOrigin sets what the chain begins with, but the weights.
func (t *Trainer) setOrigin(on Data) {
	optimizer := adamw.InPlaceDefinition
	switch {
	case t.config.Optimizer == "sgd":
		optimizer = sgd.StepDefinition
	case t.hasCopies():
		optimizer = adamw.MasterDefinition
	}
	update := ""
	for _, d := range []string{model.Add.Hash(), norm.SquareSumDefinition.Hash(), norm.TotalDefinition.Hash(), norm.ClipDefinition.Hash(), model.Scale.Hash(), optimizer.Hash(), checksum.ForwardDefinition.Hash()} {
		update += d + " "
	}
	if t.hasCopies() {
		update += model.RoundBF16.Hash() + " "
	}
	if t.config.Mixture.Balance > 0 && len(t.network.Routers) > 0 {
		update += router.BiasDefinition.Hash() + " "
	}
	t.origin = Origin{
		Config: t.config, Program: t.network.Program.Identity(), Update: update, Rule: t.config.Rule().String(), Tokenizer: t.task.tokenizer().Identity,
		Data: on.Identity(),
	}
}

// begin sets the state before the first step, whose moments have seen so many steps before, and the chain to its genesis.
func (t *Trainer) begin(before int, values func(p part) ([]float32, error)) error {
	t.step, t.origin.Before, t.origin.Moments = 0, before, ""
	if err := t.command(beginCommand); err != nil {
		return err
	}
	weights, moments := sha256.New(), sha256.New()
	var placed []partOf
	for _, p := range t.initialState() {
		list, err := values(p)
		if err != nil {
			return err
		}
		raw, err := binary.Append(nil, binary.LittleEndian, list)
		if err != nil {
			return err
		}
		digested, err := t.digestPart(p, raw)
		if err == nil {
			placed, err = append(placed, digested), t.place(p, raw)
		}
		if err != nil {
			return err
		}
		all := weights
		if isMoment(p.name) {
			all = moments
		}
		fmt.Fprintf(all, "%s %v\n", p.name, p.shape)
		all.Write(raw)
	}
	t.origin.Weights = hex.EncodeToString(weights.Sum(nil))
	if before > 0 {
		t.origin.Moments = hex.EncodeToString(moments.Sum(nil))
	}
	t.chain = t.origin.Genesis()
	if err := t.copyWeights(); err != nil {
		return err
	}
	return t.auditParts(placed)
}

// initial returns the initial values of a weight or of biases.
func (t *Trainer) initial(p part) ([]float32, error) {
	return t.task.initial(t.network.Program.Value(p.name)), nil
}

// initialState lists what is set before the first step: the moments too if they have seen steps. Otherwise they are 0.
func (t *Trainer) initialState() []part {
	if t.origin.Before > 0 {
		return t.state()
	}
	return t.learned()
}

// part is a tensor of the state, with its name in a checkpoint.
type part struct {
	name   string
	shape  []int
	weight int            // its number, or -1 for biases, which every rank has
	tensor *tensor.Tensor // the span of this rank
}

// parts returns a weight with its moments.
func (t *Trainer) parts(i int) []part {
	list := make([]part, 0, 3)
	for k, x := range t.shard.state(i) {
		list = append(list, part{[]string{"", prefixM, prefixV}[k] + t.names[i], t.shapes[i], i, x})
	}
	return list
}

// learned lists the weights and the biases.
func (t *Trainer) learned() []part {
	var list []part
	for i := range t.names {
		list = append(list, t.parts(i)[0])
	}
	return append(list, t.biases.state()...)
}

// state lists all tensors of the state.
func (t *Trainer) state() []part {
	var list []part
	for i := range t.names {
		list = append(list, t.parts(i)...)
	}
	return append(list, t.biases.state()...)
}

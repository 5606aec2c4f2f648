package trial

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"tokitai/def"
	"tokitai/internal/answers"
	"tokitai/num"
)

// Two forms of hashes are committed, and neither can change: that of known answers, which
// package answers defines, and that of evidence (docs/reports.md, "Hashes").

// AnswerInputs returns the hash of parameters and inputs in known answers.
func AnswerInputs(d *def.Definition, operands []num.Array, params []float64) answers.Hash {
	h := answers.NewDigest()
	for i, p := range d.Params {
		h.Param(p.Name, params[i])
	}
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsIn {
			h.Patterns(o.Name, operands[i])
		}
	}
	return h.Sum()
}

// AnswerOutputs returns the hash of the outputs in known answers.
func AnswerOutputs(d *def.Definition, operands []num.Array) answers.Hash {
	h := answers.NewDigest()
	for i := range d.Operands {
		switch o := &d.Operands[i]; {
		case !o.IsOut:
		case RuleOf(d) == Patterns:
			h.Patterns(o.Name, operands[i])
		default:
			h.Values(o.Name, operands[i])
		}
	}
	return h.Sum()
}

// EvidenceInputs returns the hash of inputs and parameters in evidence.
func EvidenceInputs(d *def.Definition, operands []num.Array, params []float64) string {
	h := sha256.New()
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsIn {
			HashArray(h, o.Name, operands[i], Patterns)
		}
	}
	for i, p := range d.Params {
		h.Write([]byte(p.Name + "\x00"))
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(params[i])))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// EvidenceOutputs returns the hash of the outputs in evidence.
func EvidenceOutputs(d *def.Definition, operands []num.Array) string {
	h := sha256.New()
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut {
			HashArray(h, o.Name, operands[i], RuleOf(d))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// HashArray adds an operand to a hash as evidence does: its name and a zero byte, its
// format and a zero byte, rows and columns as 64-bit integers, then the elements row by
// row, everything little-endian. Under the rule Values every NaN is hashed as the
// canonical one.
func HashArray(h hash.Hash, name string, a num.Array, rule Rule) {
	h.Write([]byte(name + "\x00" + a.DType.String() + "\x00"))
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:], uint64(a.Rows))
	binary.LittleEndian.PutUint64(head[8:], uint64(a.Cols))
	h.Write(head[:])
	answers.WriteElements(h, a, rule == Values)
}

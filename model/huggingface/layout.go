package huggingface

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tokitai/model"
)

// piece is a part of a tensor in a file that is a part of a weight: some columns of some rows of it as a
// matrix, or their transpose. The pieces of a weight follow each other.
type piece struct {
	tensor       string
	shape        []int // of the tensor
	rows         [2]int
	cols         [2]int
	width        int // columns of the matrix as which rows and columns are counted
	isTransposed bool
}

// isWhole reports whether a piece is its tensor as it is.
func (p *piece) isWhole() bool {
	return !p.isTransposed && p.rows[0] == 0 && p.cols == [2]int{0, p.width} && p.rows[1]*p.width == elements(p.shape)
}

func elements(shape []int) int {
	n := 1
	for _, size := range shape {
		n *= size
	}
	return n
}

// whole is a tensor as it is.
func whole(name string, shape ...int) piece {
	width := shape[len(shape)-1]
	return piece{tensor: name, shape: shape, rows: [2]int{0, elements(shape) / width}, cols: [2]int{0, width}, width: width}
}

// layout says where files have the weights.
type layout struct {
	family *Family
	config model.Config
	prefix string // of GPT-2's tensors: "transformer." or, in its first files, ""
	fused  bool   // experts of a layer are one tensor, gates above up
}

// layoutOf finds the variant that files with these tensors have.
func layoutOf(family *Family, c model.Config, has func(name string) bool) layout {
	l := layout{family: family, config: c, prefix: "transformer."}
	if family.Type == "gpt2" && !has("transformer.wte.weight") && has("wte.weight") {
		l.prefix = ""
	}
	for i := range c.Layers {
		l.fused = l.fused || has("model.layers."+strconv.Itoa(i)+".mlp.experts.gate_up_proj")
	}
	return l
}

// pieces returns where a weight is.
func (l *layout) pieces(w *model.Value) []piece {
	if l.family.Type == "gpt2" {
		return []piece{l.gpt2(w)}
	}
	layer, expert, isExpert := strings.Cut(w.Name, ".mlp.experts.")
	if !isExpert {
		return []piece{whole(w.Name, w.Shape...)}
	}
	experts, out, in := w.Shape[0], w.Shape[1], w.Shape[2]
	name := strings.TrimSuffix(expert, ".weight")
	var list []piece
	for e := range experts {
		switch {
		case !l.fused:
			list = append(list, whole(layer+".mlp.experts."+strconv.Itoa(e)+"."+name+".weight", out, in))
		case name == "down_proj":
			return []piece{whole(layer+".mlp.experts.down_proj", w.Shape...)}
		default:
			p := whole(layer+".mlp.experts.gate_up_proj", experts, 2*out, in)
			at := 2 * e * out
			if name == "up_proj" {
				at += out
			}
			p.rows = [2]int{at, at + out}
			list = append(list, p)
		}
	}
	return list
}

// gpt2 returns where GPT-2 has a weight: its linear layers are [in, out], and one has queries, keys and values.
func (l *layout) gpt2(w *model.Value) piece {
	name, _ := strings.CutPrefix(w.Name, "model.")
	dot := strings.LastIndexByte(name, '.')
	name, part := name[:dot], name[dot:]
	switch name {
	case "lm_head":
		return whole(w.Name, w.Shape...)
	case "embed_tokens":
		return whole(l.prefix+"wte"+part, w.Shape...)
	case "embed_positions":
		return whole(l.prefix+"wpe"+part, w.Shape...)
	case "norm":
		return whole(l.prefix+"ln_f"+part, w.Shape...)
	}
	fields := strings.SplitN(name, ".", 3) // layers, number, rest
	h := l.prefix + "h." + fields[1] + "."
	fused, at := 1, 0
	switch fields[2] {
	case "input_layernorm":
		return whole(h+"ln_1"+part, w.Shape...)
	case "post_attention_layernorm":
		return whole(h+"ln_2"+part, w.Shape...)
	case "self_attn.o_proj":
		h += "attn.c_proj"
	case "mlp.up_proj":
		h += "mlp.c_fc"
	case "mlp.down_proj":
		h += "mlp.c_proj"
	default:
		h, fused = h+"attn.c_attn", 3
		at = slices.Index([]string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, fields[2])
	}
	out := w.Shape[0]
	if len(w.Shape) == 1 {
		p := whole(h+part, fused*out)
		p.rows, p.cols, p.width = [2]int{at * out, (at + 1) * out}, [2]int{0, 1}, 1
		return p
	}
	p := whole(h+part, w.Shape[1], fused*out)
	p.cols, p.isTransposed = [2]int{at * out, (at + 1) * out}, true
	return p
}

// isBuffer reports whether a tensor of old files is computed and no weight.
func (l *layout) isBuffer(name string) bool {
	if strings.HasSuffix(name, ".rotary_emb.inv_freq") {
		return true
	}
	return l.family.Type == "gpt2" && strings.HasPrefix(name, l.prefix+"h.") && (strings.HasSuffix(name, ".attn.bias") || strings.HasSuffix(name, ".attn.masked_bias"))
}

// some lists names, the first few of many.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

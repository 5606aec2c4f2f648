package integer

import (
	"tokitai/def"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// Way is a way to multiply bytes.
type Way struct {
	Set    machine.Set
	IsVNNI bool
}

// Ways are those of this processor.
func Ways() (list []Way) {
	for _, set := range machine.Available() {
		if set == machine.AVX512 && machine.HasVNNI() {
			list = append(list, Way{set, true})
		}
		if Supports(set) {
			list = append(list, Way{set, false})
		}
	}
	return list
}

// CompileWay compiles for one way, with packed operands of at most some bytes; 0 is the usual limit.
func CompileWay(d *def.Definition, dtypes []num.DType, w Way, most int) (lowercpu.Program, error) {
	p, err := compile(d, dtypes, w.Set, w.IsVNNI)
	if err == nil && most > 0 {
		p.(*program).most = most
	}
	return p, err
}

func (w Way) String() string {
	if w.IsVNNI {
		return w.Set.String() + "-vnni"
	}
	return w.Set.String() + "-pairs"
}

package fn

import (
	"math"

	"tokitai/def"
	"tokitai/num"
)

// program is the expansion of a function as a list of nodes, arguments first, and
// evaluates it on blocks of arguments. Values are patterns, truth values 0 or 1.
type program struct {
	nodes  []*def.Node
	args   [][]int // positions of the arguments
	x      int     // position of the function's argument
	blocks [][]uint32

	// nan, unless 0, is the pattern that floating-point operations give for NaN,
	// which differs between machines.
	nan uint32
}

const blockSize = 256

func newProgram(f *def.Function) *program {
	p := &program{}
	for i, n := range f.Expansion().Nodes {
		var args []int
		for _, a := range n.Args {
			args = append(args, a.ID)
		}
		p.nodes, p.args = append(p.nodes, n), append(p.args, args)
		switch n.Op {
		case def.OpBits, def.OpFloat: // the same pattern
			p.blocks = append(p.blocks, p.blocks[args[0]])
		case def.OpArg:
			p.x = i
			fallthrough
		default:
			p.blocks = append(p.blocks, make([]uint32, blockSize))
		}
		switch n.Op {
		case def.OpConst:
			p.setConstant(i, n.Real.F32())
		case def.OpInt:
			fill(p.blocks[i], uint32(n.Int))
		}
	}
	return p
}

// setConstant replaces the value of constant i.
func (p *program) setConstant(i int, v float32) { fill(p.blocks[i], math.Float32bits(v)) }

func fill(block []uint32, v uint32) {
	for i := range block {
		block[i] = v
	}
}

// count is how many nodes compute something, and how many of them are FMAs.
// Reinterpretations cost nothing.
func (p *program) count() (operations, fmas int) {
	for _, n := range p.nodes {
		switch n.Op {
		case def.OpArg, def.OpConst, def.OpInt, def.OpBits, def.OpFloat:
			continue
		case def.OpFMA:
			fmas++
		}
		operations++
	}
	return operations, fmas
}

// argument is the block to fill with the arguments; run then returns the results,
// which the next run overwrites.
func (p *program) argument() []uint32 { return p.blocks[p.x] }

func (p *program) run() []uint32 {
	for i, n := range p.nodes {
		z := p.blocks[i]
		var a, b, c []uint32
		for k, j := range p.args[i] {
			switch k {
			case 0:
				a = p.blocks[j][:len(z)]
			case 1:
				b = p.blocks[j][:len(z)]
			case 2:
				c = p.blocks[j][:len(z)]
			}
		}
		p.step(n, z, a, b, c)
		if p.nan != 0 && n.Type == def.Float && n.Op != def.OpFloat && n.Op != def.OpSelect && len(n.Args) > 0 {
			for i := range z {
				if num.IsNaN(num.F32, z[i]) {
					z[i] = p.nan
				}
			}
		}
	}
	return p.blocks[len(p.blocks)-1]
}

// step evaluates one node. The switch is outside the loops for speed; each line is
// the meaning of one operation.
func (p *program) step(n *def.Node, z, a, b, c []uint32) {
	f := math.Float32frombits
	bits := math.Float32bits
	switch n.Op {
	case def.OpArg, def.OpConst, def.OpInt, def.OpBits, def.OpFloat:
	case def.OpAdd:
		for i := range z {
			z[i] = bits(f(a[i]) + f(b[i]))
		}
	case def.OpSub:
		for i := range z {
			z[i] = bits(f(a[i]) - f(b[i]))
		}
	case def.OpMul:
		for i := range z {
			z[i] = bits(f(a[i]) * f(b[i]))
		}
	case def.OpDiv:
		for i := range z {
			z[i] = bits(f(a[i]) / f(b[i]))
		}
	case def.OpSqrt:
		for i := range z {
			z[i] = bits(num.Sqrt(f(a[i])))
		}
	case def.OpFMA:
		for i := range z {
			// num.FMA, with its common case in line: three times as fast.
			product := float64(f(a[i])) * float64(f(b[i]))
			sum := float64(product) + float64(f(c[i]))
			if p := math.Float64bits(sum); p&(1<<29-1) == 1<<28 || p&^(1<<63) < (1023-126)<<52 {
				z[i] = bits(num.FMA(f(a[i]), f(b[i]), f(c[i])))
			} else {
				z[i] = bits(float32(sum))
			}
		}
	case def.OpNeg:
		for i := range z {
			z[i] = a[i] ^ 1<<31
		}
	case def.OpAbs:
		for i := range z {
			z[i] = a[i] &^ (1 << 31)
		}
	case def.OpMax:
		for i := range z {
			z[i] = bits(max(f(a[i]), f(b[i])))
		}
	case def.OpSelect:
		for i := range z {
			z[i] = c[i]
			if a[i] != 0 {
				z[i] = b[i]
			}
		}
	case def.OpLess:
		for i := range z {
			z[i] = truth(f(a[i]) < f(b[i]))
		}
	case def.OpLessEqual:
		for i := range z {
			z[i] = truth(f(a[i]) <= f(b[i]))
		}
	case def.OpEqual:
		isInt := n.Args[0].Type == def.Int
		for i := range z {
			if isInt {
				z[i] = truth(a[i] == b[i])
			} else {
				z[i] = truth(f(a[i]) == f(b[i]))
			}
		}
	case def.OpIToF:
		for i := range z {
			z[i] = bits(float32(int32(a[i])))
		}
	case def.OpIAdd:
		for i := range z {
			z[i] = a[i] + b[i]
		}
	case def.OpISub:
		for i := range z {
			z[i] = a[i] - b[i]
		}
	case def.OpIAnd:
		for i := range z {
			z[i] = a[i] & b[i]
		}
	case def.OpIOr:
		for i := range z {
			z[i] = a[i] | b[i]
		}
	case def.OpShl:
		for i := range z {
			z[i] = a[i] << (b[i] & 31)
		}
	case def.OpShr:
		for i := range z {
			z[i] = uint32(int32(a[i]) >> (b[i] & 31))
		}
	default:
		panic("no function of this package uses " + n.Op.String())
	}
	if n.Type == def.Bool && n.Op != def.OpEqual && n.Args[0].Type != def.Float {
		panic("no function of this package orders " + n.Args[0].Type.String())
	}
}

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

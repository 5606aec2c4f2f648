package gpu

import (
	_ "embed"
	"encoding/binary"
	"fmt"

	"tokitai/num"
)

//go:embed kernels/soak.cu
var soakText string

// Soak has the kernels that hold every part of a GPU to known answers.
type Soak struct {
	Source Source
}

// SoakThreads is the number of threads of each block of a soak, and SoakChain how many matrix
// instructions follow one another before their result is compared.
const (
	SoakThreads = 256
	SoakChain   = 4
)

// The kinds of faults that the kernels tell.
const (
	SoakArithmetic = 1 + iota
	SoakShared
	SoakExchange
	SoakMatrixF16
	SoakMatrixBF16
	SoakMemory
)

// SoakPatterns is the number of patterns of memory.
const SoakPatterns = 8

// NewSoak returns the kernels for an architecture. Matrix instructions are among them where the architecture
// has mma.sync with f16 and bf16.
func NewSoak(architecture string) *Soak {
	hasMatrix := HasMMA(architecture)
	s := &Soak{Source{Name: "soak", Entries: []string{"soak_arithmetic", "soak_shared", "soak_fill", "soak_compare"}, NeedsTensorCores: hasMatrix}}
	matrix := 0
	if hasMatrix {
		matrix = 1
		s.Source.Entries = append(s.Source.Entries, "soak_matrix_f16", "soak_matrix_bf16")
	}
	s.Source.Text = fmt.Sprintf("#define MATRIX %d\n\n%s", matrix, soakText)
	return s
}

// SoakMatrix returns the entry that runs the matrix instruction of a format, and the kind of its faults.
func SoakMatrix(d num.DType) (entry string, kind uint32) {
	if d == num.BF16 {
		return "soak_matrix_bf16", SoakMatrixBF16
	}
	return "soak_matrix_f16", SoakMatrixF16
}

// SoakParams are the parameters of the kernels, as addresses and numbers.
type SoakParams struct {
	Answers, Left, Right, Start uint64
	Held, Faults, Found         uint64
	Memory                      uint64
	Pieces, First               int64
	Room, Units, Seed, Rounds   uint32
	Pattern, Words              uint32
}

// Bytes returns the struct that the kernels take.
func (p *SoakParams) Bytes() []byte {
	b, err := binary.Append(nil, binary.LittleEndian, p)
	if err != nil {
		panic(err) // all fields have a fixed size
	}
	return b
}

// SoakFault is a fault as the kernels write it.
type SoakFault struct {
	Kind, Unit, Block, Thread uint32
	At, Bits                  uint64
}

// SoakFaultBytes is the size of a fault.
const SoakFaultBytes = 32

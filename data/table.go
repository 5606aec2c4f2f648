package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"tokitai/num"
)

// Table is rows of numbers: features, and the targets that belong to them.
type Table struct {
	Inputs, Outputs   int       // features and targets of a row
	Features, Targets []float32 // row after row
	Digest            string    // see NewTable; in hexadecimal
}

// NewTable returns a table. Its digest is the SHA-256 over inputs and outputs, as words of 64 bits, all features and
// all targets, little-endian.
func NewTable(inputs, outputs int, features, targets []float32) *Table {
	h := sha256.New()
	binary.Write(h, binary.LittleEndian, []uint64{uint64(inputs), uint64(outputs)})
	binary.Write(h, binary.LittleEndian, features)
	binary.Write(h, binary.LittleEndian, targets)
	return &Table{inputs, outputs, features, targets, hex.EncodeToString(h.Sum(nil))}
}

// Identity returns the digest.
func (t *Table) Identity() string { return t.Digest }

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.Features) / t.Inputs }

// Split divides the rows: the last tenth, rounded down, is for validation.
func (t *Table) Split() (train, validation int, err error) {
	n := t.Len()
	if n < 10 {
		return 0, 0, fmt.Errorf("the data have %d rows, want at least 10, of which one is for validation", n)
	}
	return n - n/10, n / 10, nil
}

// Put writes the features and the targets of a row.
func (t *Table) Put(features, targets []float32, row int) {
	copy(features[:t.Inputs], t.Features[row*t.Inputs:])
	copy(targets[:t.Outputs], t.Targets[row*t.Outputs:])
}

// ReadTable reads a file with a row in each line: a JSON object whose members features and targets are arrays of numbers,
// equally many in all lines. The path synthetic:N stands for N rows of Synthetic with the seed 0.
func ReadTable(path string) (*Table, error) {
	if number, isSynthetic := strings.CutPrefix(path, "synthetic:"); isSynthetic {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > math.MaxInt32/SyntheticInputs {
			return nil, fmt.Errorf("%s: want a number of rows, such as synthetic:10000", path)
		}
		return Synthetic(0, n), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseTable(path, text, true)
}

// ReadFeatures is ReadTable for a file whose rows need no targets: the table has none.
func ReadFeatures(path string) (*Table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseTable(path, text, false)
}

// parseTable reads the text of a file.
func parseTable(path string, text []byte, hasTargets bool) (*Table, error) {
	var features, targets []float32
	var width [2]int
	number, rows := 0, 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var row struct{ Features, Targets []*float32 }
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		columns := []struct {
			name string
			from []*float32
			to   *[]float32
		}{{"features", row.Features, &features}, {"targets", row.Targets, &targets}}
		if !hasTargets {
			columns = columns[:1]
		}
		for i, x := range columns {
			if rows == 0 {
				width[i] = len(x.from)
			}
			if len(x.from) == 0 || len(x.from) != width[i] {
				return nil, fmt.Errorf("%s:%d: the row has %d %s, want %d, at least 1, as in the first row", path, number, len(x.from), x.name, max(1, width[i]))
			}
			for k, v := range x.from {
				if v == nil {
					return nil, fmt.Errorf("%s:%d: number %d of %s is null", path, number, k+1, x.name)
				}
				*x.to = append(*x.to, *v)
			}
		}
		rows++
	}
	if rows == 0 {
		return nil, fmt.Errorf("%s: the file has no rows", path)
	}
	return NewTable(width[0], width[1], features, targets), nil
}

// Numbers of a row of Synthetic.
const (
	SyntheticInputs  = 96 // 74 of one category, and 22 numbers
	SyntheticOutputs = 20 // 12 of one class, and 8 numbers
	categories       = 74
	classes          = 12
)

// Synthetic returns n rows whose targets follow from their features. The word i of a row r is that of Philox with the key
// seed and the counter (i/4, r, 0, 0), low words first. Feature k, of the first 74, is 1 if k is word 0 times 74 shifted right
// by 32 bits, else 0: the category. Feature 74+i, for i from 0 to 21, is u[i], word i+1 as a signed number, its lower
// half cleared, divided by 2^31: from -1 up to 1, in steps of 2^-15.
//
// Target k, of the first 12, is 1 if k is the class, the category plus 6 if u[0]+u[1] >= 0, modulo 12, else 0. Target 12+j,
// for j from 0 to 7, is (u[j]+u[j+8])/2, times -1 in odd categories. So rows of odd and even categories want different
// functions, each of them linear, and u[16] to u[21] say nothing.
func Synthetic(seed uint64, n int) *Table {
	features, targets := make([]float32, n*SyntheticInputs), make([]float32, n*SyntheticOutputs)
	for r := range n {
		var words [24]uint32
		for i := 0; i < len(words); i += 4 {
			block := num.Philox(seed, [4]uint32{uint32(i / 4), uint32(r), 0, 0})
			copy(words[i:], block[:])
		}
		x, y := features[r*SyntheticInputs:][:SyntheticInputs], targets[r*SyntheticOutputs:][:SyntheticOutputs]
		category := int(uint64(words[0]) * categories >> 32)
		x[category] = 1
		u := x[categories:]
		for i := range u {
			u[i] = float32(int32(words[i+1])>>16) / (1 << 15)
		}
		class := category
		if u[0]+u[1] >= 0 {
			class += classes / 2
		}
		y[class%classes] = 1
		for j := range y[classes:] {
			y[classes+j] = (u[j] + u[j+8]) / 2
			if category%2 == 1 {
				y[classes+j] = -y[classes+j]
			}
		}
	}
	return NewTable(SyntheticInputs, SyntheticOutputs, features, targets)
}

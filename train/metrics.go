package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Line is a line of metrics.jsonl: a step, or a validation or a sample after one.
type Line struct {
	Step       int       `json:"step"`
	Loss       *float32  `json:"loss,omitempty"`
	LossBits   string    `json:"loss_bits,omitempty"`
	Norm       *float32  `json:"norm,omitempty"`
	NormBits   string    `json:"norm_bits,omitempty"`
	Rate       *float64  `json:"rate,omitempty"`
	Tokens     int64     `json:"tokens,omitempty"`
	Weights    string    `json:"weights,omitempty"`
	Routing    []Routing `json:"routing,omitempty"`
	Chain      string    `json:"chain,omitempty"`
	Validation *float64  `json:"validation,omitempty"`
	Sample     *string   `json:"sample,omitempty"`
}

func lineOf(r Result, tokens int64) Line {
	bits := func(v float32) string { return fmt.Sprintf("%08x", math.Float32bits(v)) }
	return Line{
		Step: r.Step, Loss: &r.Loss, LossBits: bits(r.Loss), Norm: &r.Norm, NormBits: bits(r.Norm), Rate: &r.Rate,
		Tokens: tokens, Weights: r.Weights, Chain: r.Chain.String(),
	}
}

const metricsFile = "metrics.jsonl"

// ReadMetrics returns the lines of a run, in order. A line without an end, which a process that was
// killed may leave, does not count.
func ReadMetrics(folder string) ([]Line, error) {
	lines, _, err := readMetrics(folder, math.MaxInt)
	return lines, err
}

// readMetrics returns the lines up to a step, and how many bytes they take.
func readMetrics(folder string, upTo int) (lines []Line, size int64, err error) {
	path := filepath.Join(folder, metricsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	for number := 1; ; number++ {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return lines, size, nil
		}
		var l Line
		if err := json.Unmarshal(text[:end], &l); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if l.Step > upTo {
			return lines, size, nil
		}
		lines, text, size = append(lines, l), text[end+1:], size+int64(end+1)
	}
}

// steps returns the lines of steps alone; line i is that of step i+1.
func steps(lines []Line) ([]Line, error) {
	var list []Line
	for _, l := range lines {
		if l.Chain == "" {
			continue
		}
		if l.Step != len(list)+1 {
			return nil, fmt.Errorf("%s: step %d behind step %d", metricsFile, l.Step, len(list))
		}
		list = append(list, l)
	}
	return list, nil
}

// Tail reads the lines of a run as they are written, by this process or another one. The zero value
// with its folder set is at the beginning.
type Tail struct {
	Folder string
	offset int64
}

// Next returns the whole lines behind those that were read before. isAnew says that the file has become
// shorter, as it does when a run is resumed: the lines are then all that it has.
func (t *Tail) Next() (lines []Line, isAnew bool, err error) {
	path := filepath.Join(t.Folder, metricsFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		isAnew, t.offset = t.offset > 0, 0
		return nil, isAnew, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Size() < t.offset {
		isAnew, t.offset = true, 0
	}
	text, err := io.ReadAll(io.NewSectionReader(f, t.offset, info.Size()-t.offset))
	if err != nil {
		return nil, isAnew, err
	}
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return lines, isAnew, nil
		}
		var l Line
		if err := json.Unmarshal(text[:end], &l); err != nil {
			return nil, isAnew, fmt.Errorf("%s: byte %d: %w", path, t.offset, err)
		}
		lines, text, t.offset = append(lines, l), text[end+1:], t.offset+int64(end+1)
	}
}

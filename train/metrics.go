package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// Line is a line of metrics.jsonl: a step, or a validation after one.
type Line struct {
	Step       int      `json:"step"`
	Loss       *float32 `json:"loss,omitempty"`
	LossBits   string   `json:"loss_bits,omitempty"`
	Norm       *float32 `json:"norm,omitempty"`
	NormBits   string   `json:"norm_bits,omitempty"`
	Rate       *float64 `json:"rate,omitempty"`
	Tokens     int64    `json:"tokens,omitempty"`
	Weights    string   `json:"weights,omitempty"`
	Chain      string   `json:"chain,omitempty"`
	Validation *float64 `json:"validation,omitempty"`
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

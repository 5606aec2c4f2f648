package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"tokitai/engine"
	"tokitai/internal/newfile"
	"tokitai/tensor"
	"tokitai/tensor/file"
	"tokitai/tensor/safetensors"
)

// divide returns the outputs of each file: an output goes to the --out that names it, or
// else to the one without an operand. An output with neither is not written.
func (p *filePlan) divide(outputs []string) map[string][]string {
	paths := map[string]string{}
	for _, f := range p.out {
		paths[f.operand] = f.path
	}
	contents := map[string][]string{}
	for _, operand := range outputs {
		path, ok := paths[operand]
		if !ok {
			path, ok = paths[""]
		}
		if ok {
			contents[path] = append(contents[path], operand)
		}
	}
	return contents
}

// targets returns the files of --out, each once.
func (p *filePlan) targets() (paths []string) {
	for _, f := range p.out {
		if !slices.Contains(paths, f.path) {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// onlyTarget returns the file of --out, or "" if there are several.
func (p *filePlan) onlyTarget() string {
	if paths := p.targets(); len(paths) == 1 {
		return paths[0]
	}
	return ""
}

// wereWritten returns the beginning of a sentence about the files of --out.
func (p *filePlan) wereWritten() string {
	if path := p.onlyTarget(); path != "" {
		return path + " was"
	}
	return allOf(p.targets()) + " were"
}

// write writes the results, all of them or none, and returns where each was written.
func (p *filePlan) write(ctx context.Context, results engine.Args, metadata map[string]string) ([]runOutput, error) {
	contents := p.divide(slices.Sorted(maps.Keys(results)))
	paths := p.targets()
	slices.SortStableFunc(paths, func(a, b string) int { // an index last: it names other files
		return rank(file.IsIndex(a)) - rank(file.IsIndex(b))
	})
	b := newfile.Batch{Stop: ctx.Err}
	defer b.Discard()
	outputs := []runOutput{}
	for _, path := range paths {
		if err := p.checkTarget(path, contents[path]); err != nil {
			return nil, err
		}
		f := &safetensors.File{Metadata: metadata}
		for _, operand := range contents[path] {
			t := results[operand]
			data, err := bytesOf(t)
			if err != nil {
				return nil, err
			}
			name := p.tensorOf(operand)
			f.Entries = append(f.Entries, safetensors.Entry{Name: name, DType: t.DType(), Shape: t.Shape(), Data: data})
			outputs = append(outputs, runOutput{Name: operand, DType: t.DType().String(), Shape: append([]int{}, t.Shape()...), File: path, Tensor: name})
		}
		if file.IsIndex(path) {
			if err := p.loss(file.CheckShards(path, f, p.shardBytes)); err != nil {
				return nil, err
			}
		}
		if err := file.Stage(&b, path, f, p.shardBytes); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(outputs, func(a, b runOutput) int { return strings.Compare(a.Name, b.Name) })
	return outputs, b.Commit()
}

func rank(isLater bool) int {
	if isLater {
		return 1
	}
	return 0
}

// bytesOf returns the bytes of a tensor, if possible without a copy: outputs may fill most
// of the memory.
func bytesOf(t *tensor.Tensor) ([]byte, error) {
	if a, ok := t.Array(); ok && t.IsContiguous() {
		return a.Data, nil
	}
	return t.Bytes()
}

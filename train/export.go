package train

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tokitai/internal/newfile"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/model/tkp1"
	"tokitai/num"
	"tokitai/tensor/safetensors"
)

// NetworkFile is the name of the TKP1 file in a folder that Export writes.
const NetworkFile = "network.tkp1"

// Export writes the newest checkpoint of a run, or a checkpoint, as a folder that other programs read: of a decoder, one of
// the library transformers, of a network of features, a TKP1 file with the moments of its optimizer, and arch.json. A
// decoder whose routers have biases is refused, as no class of transformers has a place for them, unless biases says to
// write them all the same.
func Export(from, to string, biases bool) error {
	path, err := checkpointAt(from)
	if err != nil {
		return err
	}
	h, f, err := readCheckpoint(path)
	if err != nil {
		return err
	}
	c := &h.Origin.Config
	if err := c.checkNetwork(); err != nil {
		return badInput("%s: %w", path, err)
	}
	if c.HasFeatures() {
		return exportFeatures(c.Features, h.Origin.Before+h.Step, f, to)
	}
	if c.Mixture.Balance > 0 && !biases {
		return badInput("%s: transformers has no place for the biases of routers, such as %s, and would choose other experts without them", path, firstBias(f))
	}
	if err := huggingface.Write(to, c.Config, func(w *model.Value) ([]byte, error) { return storedAs(f, w) }, huggingface.WriteOptions{}); err != nil {
		return badInput("%s: %w", to, err)
	}
	return copyTokenizer(from, to)
}

// checkpointAt returns the path of the newest checkpoint of a run, or of a checkpoint.
func checkpointAt(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, err
	}
	list, err := Checkpoints(path)
	if err == nil && len(list) == 0 {
		err = badInput("%s: the run has no checkpoint yet", path)
	}
	if err != nil {
		return "", err
	}
	return list[len(list)-1].Path, nil
}

func firstBias(f *safetensors.File) string {
	for _, e := range f.Entries {
		if strings.HasSuffix(e.Name, model.BiasSuffix) {
			return e.Name
		}
	}
	return model.BiasSuffix
}

// values returns a tensor of a checkpoint; nil if there is none of the name.
func values(f *safetensors.File, name string) []float32 {
	e, ok := f.Entry(name)
	if !ok {
		return nil
	}
	return floats(&num.Array{Data: e.Data, DType: e.DType, Rows: 1, Cols: len(e.Data) / e.DType.Size()})
}

// storedAs returns a weight in the format in which the network reads it.
func storedAs(f *safetensors.File, w *model.Value) ([]byte, error) {
	list := values(f, w.Name)
	if len(list) != w.Len() {
		return nil, fmt.Errorf("the checkpoint has %d elements, want %d", len(list), w.Len())
	}
	a := num.NewArray(w.DType, 1, len(list))
	for i, v := range list {
		a.Set(0, i, v)
	}
	return a.Data, nil
}

func exportFeatures(x model.Features, step int, f *safetensors.File, to string) error {
	file, err := tkp1.New(x, step, func(name string) (weight, m, v []float32, err error) {
		return values(f, name), values(f, prefixM+name), values(f, prefixV+name), nil
	})
	if err != nil {
		return badInput("%s: %w", to, err)
	}
	beside, err := file.Architecture()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	if err := newfile.Write(filepath.Join(to, NetworkFile), file.Write); err != nil {
		return err
	}
	return writeText(filepath.Join(to, tkp1.ArchitectureFile), beside)
}

// copyTokenizer copies the tokenizer of a run, if it has a file of one.
func copyTokenizer(from, to string) error {
	text, err := os.ReadFile(filepath.Join(from, TokenizerFile))
	if err != nil {
		return nil // tokens are bytes, or from is a checkpoint alone
	}
	return writeText(filepath.Join(to, TokenizerFile), text)
}

func writeText(path string, text []byte) error {
	return newfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

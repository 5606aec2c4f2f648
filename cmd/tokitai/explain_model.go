package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"tokitai/answer"
	"tokitai/chat"
	"tokitai/data"
	"tokitai/model"
	"tokitai/model/huggingface"
)

// emitProgram is what --emit prints of a model: the text of its program for one token.
const emitProgram = "program"

// isModelFolder reports whether a path is a folder with a model, or a folder that no operation has the name of.
func isModelFolder(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil {
		return true
	}
	_, err = operationsNamed(path)
	return err != nil
}

// explainedFolder is the JSON output of explain for a folder of a language model.
type explainedFolder struct {
	Folder      string                  `json:"folder"`
	Family      string                  `json:"family"`
	Class       string                  `json:"class"`
	Parameters  int64                   `json:"parameters"`
	Config      model.Config            `json:"config"`
	Stored      map[string]int          `json:"stored"` // tensors by format
	Definitions []explainedDefinition   `json:"definitions"`
	Generation  *huggingface.Generation `json:"generation,omitempty"`
	Tokens      int                     `json:"tokens,omitempty"`        // of tokenizer.json
	Template    bool                    `json:"chat_template,omitempty"` // whether it has one
	Notes       []string                `json:"notes"`
}

// explainedDefinition is a definition that a network uses.
type explainedDefinition struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Calls  int    `json:"calls"` // for one token
}

func (f *explainFlags) explainFolder(w io.Writer, path string) error {
	if len(f.of) > 0 || len(f.emit) > 0 && !slices.Equal(f.emit, []string{emitProgram}) {
		return wrongUse("%s is a folder of a model: of --emit it has %s, and --of is for operations", path, emitProgram)
	}
	folder, err := huggingface.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Stat(filepath.Join(path, "config.json")); missing != nil {
			return wrongUse("%s is a folder without config.json: no folder of a language model", path)
		}
	}
	if err != nil {
		return wrongUse("%v", err)
	}
	defer folder.Close()
	x := explainedFolder{
		Folder: path, Family: folder.Family.Type, Class: folder.Family.Class, Parameters: folder.Parameters, Config: folder.Config,
		Stored: folder.Stored, Generation: folder.Generation, Notes: append([]string{}, folder.Notes...),
	}
	x.explainTexts()
	p, err := model.NewInference(folder.Config, model.InferenceShape{Tokens: 1, Sequences: 1, Rows: 1, Pages: 1, PageSize: 16, PerSequence: 1})
	if err != nil {
		return wrongUse("%s: %v", path, err)
	}
	if len(f.emit) > 0 {
		_, err := io.WriteString(w, p.Program.Text())
		return err
	}
	at := map[string]int{}
	for _, c := range p.Program.Calls {
		i, isKnown := at[c.Definition.Name]
		if !isKnown {
			i = len(x.Definitions)
			at[c.Definition.Name] = i
			x.Definitions = append(x.Definitions, explainedDefinition{Name: c.Definition.Name, SHA256: c.Definition.Hash()})
		}
		x.Definitions[i].Calls++
	}
	if f.json {
		return printJSON(w, x)
	}
	return x.print(w)
}

// explainTexts adds what the folder has for texts. What is not supported of that is a note, since the network is.
func (x *explainedFolder) explainTexts() {
	note := func(err error) {
		x.Notes = append(x.Notes, strings.TrimPrefix(err.Error(), x.Folder+string(filepath.Separator)))
	}
	switch t, notes, err := answer.OpenTokenizer(x.Folder, x.Config.Vocabulary); {
	case err == nil:
		x.Tokens, x.Notes = t.Size(), append(x.Notes, notes...)
	case !errors.Is(err, fs.ErrNotExist):
		note(err)
	case x.Config.Vocabulary != data.Vocabulary: // whose tokens are bytes
		x.Notes = append(x.Notes, "there is no tokenizer.json, which generate and serve need")
	}
	switch _, err := chat.Open(x.Folder); {
	case err == nil:
		x.Template = true
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, chat.ErrNone):
		note(err)
	}
}

func (x *explainedFolder) print(w io.Writer) error {
	c := &x.Config
	fmt.Fprintf(w, "%s: %s (%s)\n\n", x.Folder, x.Family, x.Class)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("parameters", "%s", grouped(x.Parameters))
	var stored []string
	for _, name := range slices.Sorted(maps.Keys(x.Stored)) {
		stored = append(stored, fmt.Sprintf("%d tensors of %s", x.Stored[name], name))
	}
	row("stored", "%s; weights and activations in %v", strings.Join(stored, ", "), c.Format())
	row("layers", "%d of width %d", c.Layers, c.Width)
	row("vocabulary", "%d%s", c.Vocabulary, when(c.Tied, ", the head is the embedding"))
	if x.Tokens > 0 {
		row("tokenizer", "ids up to %d", x.Tokens-1)
	}
	if x.Template {
		row("template", "for conversations")
	}
	row("attention", "%d heads of %d columns, %d of keys%s", c.Heads, headWidth(c), c.KVHeads, attentionText(c))
	row("positions", "%s", positionsText(c))
	row("norm", "%s", normText(c))
	if m := c.Mixture; m.Experts > 0 {
		row("mixture", "%d experts of width %d, %d for a token%s%s%s", m.Experts, m.Hidden, m.PerToken, when(m.IsNormalised, ", weights add up to 1"), when(m.Balance > 0, ", chosen by their scores and a bias each"), when(m.Dense != "", ", none in the layers "+string(m.Dense)))
	}
	if c.Mixture.Experts == 0 || c.Mixture.Dense != "" {
		row("feed forward", "%s of width %d%s", c.FeedForward, c.Hidden, when(c.Bias || c.HiddenBias, ", with biases"))
	}
	if c.FP8.IsUsed() {
		row("FP8", "%s", fp8Text(c))
	}
	if c.EmbedScale > 0 {
		row("embedding", "times %v", c.EmbedScale)
	}
	if c.LogitCap > 0 {
		row("logits", "bounded by %v", c.LogitCap)
	}
	if g := x.Generation; g != nil {
		row("sampling", "%s", samplingText(g))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ncalls for one token, by definition:\n")
	for _, d := range x.Definitions {
		fmt.Fprintf(t, "  %s\t%d\t%s\n", d.Name, d.Calls, d.SHA256)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(x.Notes) == 0 {
		_, err := fmt.Fprintf(w, "\neverything in it is supported\n")
		return err
	}
	fmt.Fprintf(w, "\nnot supported, or limited:\n")
	for _, n := range x.Notes {
		fmt.Fprintf(w, "  %s\n", n)
	}
	return nil
}

// fp8Text says which linear layers are in FP8, and how their factors are scaled.
func fp8Text(c *model.Config) string {
	scales := "a scale for each row of weights and of inputs"
	switch {
	case c.FP8.Scales == "blocks":
		scales = fmt.Sprintf("a scale for each block of %d×%[1]d of weights, and for each %[1]d columns of a row of inputs", model.FP8Block)
	case c.FP8.IsStatic:
		scales = "a scale for each row of weights, and one of the file for inputs"
	}
	all := len(c.LinearLayers())
	return fmt.Sprintf("%d of %d linear layers in e4m3, with %s", all-len(c.FP8.Except.Values()), all, scales)
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// grouped returns a number with a comma between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func headWidth(c *model.Config) int {
	if c.HeadWidth > 0 {
		return c.HeadWidth
	}
	return c.Width / c.Heads
}

func attentionText(c *model.Config) string {
	s := ""
	windows := map[float64]int{}
	for _, n := range c.Windows.Values() {
		windows[n]++
	}
	for _, n := range slices.Sorted(maps.Keys(windows)) {
		if n > 0 {
			s += fmt.Sprintf(", a window of %v in %d layers", n, windows[n])
		}
	}
	if c.AttentionCap > 0 {
		s += fmt.Sprintf(", scores bounded by %v", c.AttentionCap)
	}
	return s + when(c.AttentionScale > 0, fmt.Sprintf(", scaled by %v", c.AttentionScale)) + when(c.Bias || c.QKVBias, ", with biases")
}

func positionsText(c *model.Config) string {
	if c.Positions != "rope" {
		return fmt.Sprintf("%s, up to %d tokens", c.Positions, c.Block)
	}
	s := fmt.Sprintf("rope of base %v", c.RopeBase)
	s += when(c.Interleaved, ", pairs of neighbours")
	if c.Rope.Kind != "" {
		s += fmt.Sprintf(", scaled by %s, factor %v", c.Rope.Kind, c.Rope.Factor)
	}
	return fmt.Sprintf("%s, up to %d tokens", s, c.Block)
}

func normText(c *model.Config) string {
	kind := map[string]string{"rms": "RMS", "rms1": "RMS, times 1 + weight", "layer": "LayerNorm"}[c.Norm]
	place := map[string]string{"": "before", "before": "before", "after": "after", "both": "before and after"}[c.NormPlace]
	heads := map[string]string{"each": "; of queries and keys by head", "all": "; of queries and keys over all heads"}[c.HeadNorm]
	return fmt.Sprintf("%s, %s attention and the feed-forward layer%s; eps %v", kind, place, heads, c.Eps)
}

func samplingText(g *huggingface.Generation) string {
	end := fmt.Sprintf("ends with %v%s%s", g.End, when(g.IsGiven && g.Repetition != 1, fmt.Sprintf("; repetition penalty %v", g.Repetition)), when(len(g.Stops) > 0, fmt.Sprintf("; stops in front of %q", g.Stops)))
	switch {
	case !g.IsGiven:
		return "as a request says; " + end
	case !g.IsSampled:
		return "none, the most probable token; " + end
	}
	return fmt.Sprintf("temperature %v, top-k %d, top-p %v, min-p %v; %s", g.Temperature, g.TopK, g.TopP, g.MinP, end)
}

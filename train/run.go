package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"tokitai/data"
	"tokitai/engine"
	"tokitai/tensor/safetensors"
)

// ErrInUse is the error of a run whose folder another process holds.
var ErrInUse = errors.New("the run is in use by another process")

// Run is a run with its folder:
//
//	run.json                            settings, the origin of the chain, and where the data were
//	metrics.jsonl                       a line for each step and each validation
//	checkpoints/step-00000400.safetensors
//	tokenizer.json                      if the tokens are not bytes
//	lock                                held while a process trains
type Run struct {
	folder    string
	settings  Settings
	trainer   *Trainer
	evaluator *Evaluator
	sampler   *Sampler // nil if the run has no samples
	disk      disk
	held      *os.File
	metrics   file
	validated int // step of the last validation, 0 for none
	sampled   int // step of the last sample, 0 for none
	best      int // step of the best validation, 0 for none
	bestLoss  float64
	saved     int         // step of the newest checkpoint
	isWanted  atomic.Bool // a checkpoint, after the step that is under way
}

// Description is run.json.
type Description struct {
	Settings Settings `json:"settings"`
	Origin   Origin   `json:"origin"`
	Genesis  string   `json:"genesis"`
	DataPath string   `json:"data_path"`
	Suffix   string   `json:"suffix,omitempty"`
	Device   *Device  `json:"device,omitempty"`
}

// TokenizerFile is the name of the file with the tokenizer in the folder of a run, if its tokens are not bytes.
const TokenizerFile = "tokenizer.json"

// Tokenizer returns the tokenizer of a run.
func (d *Description) Tokenizer(folder string) (data.Tokenizer, error) {
	if d.Origin.Tokenizer == data.Bytes.Identity {
		return data.Bytes, nil
	}
	path := filepath.Join(folder, TokenizerFile)
	t, err := data.ReadTokenizer(path)
	if err != nil {
		return t, err
	}
	if t.Identity != d.Origin.Tokenizer {
		return t, badInput("%s: its digest is %s, want %s: it is not the tokenizer of the run", path, t.Identity, d.Origin.Tokenizer)
	}
	return t, nil
}

// ReadDescription reads the run.json of a run.
func ReadDescription(folder string) (*Description, error) {
	path := filepath.Join(folder, headerKey)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := new(Description)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// Open begins a run in a folder, or resumes the one that is there, from its newest checkpoint. path and
// suffix say where the data were read; run.json repeats them.
func Open(q *engine.Queue, folder string, s Settings, on Data, path, suffix string) (*Run, error) {
	return OpenRanked(q, Team{}, folder, s, on, path, suffix)
}

// OpenRanked is [Open] for rank 0 of several, which alone has the folder; the others call [Follow].
func OpenRanked(q *engine.Queue, with Team, folder string, s Settings, on Data, path, suffix string) (*Run, error) {
	if err := s.settle(q); err != nil {
		return nil, err
	}
	return open(q, with, osDisk{}, folder, s, on, path, suffix)
}

func open(q *engine.Queue, with Team, d disk, folder string, s Settings, on Data, path, suffix string) (*Run, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if _, err := newTask(&s.Config, on, false); err != nil { // before there is a folder
		return nil, err
	}
	if list, err := os.ReadDir(folder); err == nil && len(list) > 0 {
		if _, err := os.Stat(filepath.Join(folder, headerKey)); errors.Is(err, fs.ErrNotExist) && !hasOnlyOurs(list) {
			return nil, badInput("%s: the folder has files and is no run, want a run or an empty folder", folder)
		}
	}
	if err := d.Mkdir(filepath.Join(folder, checkpointFolder)); err != nil {
		return nil, err
	}
	held, isFree, err := lock(filepath.Join(folder, "lock"))
	if err != nil {
		return nil, err
	}
	if !isFree {
		return nil, badInput("%s: %w", folder, ErrInUse)
	}
	r := &Run{folder: folder, settings: s, disk: d, held: held}
	if err := r.begin(q, with, on, path, suffix); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// hasOnlyOurs reports whether a folder has nothing but what a run that was killed at its beginning leaves.
func hasOnlyOurs(list []fs.DirEntry) bool {
	for _, e := range list {
		if !slices.Contains([]string{checkpointFolder, "lock", headerKey + temporarySuffix, TokenizerFile, TokenizerFile + temporarySuffix}, e.Name()) {
			return false
		}
	}
	return true
}

// begin makes the trainer and brings it to where the run is.
func (r *Run) begin(q *engine.Queue, with Team, on Data, path, suffix string) error {
	var err error
	if r.trainer, err = NewRanked(q, with, r.settings.Config, on); err != nil {
		return err
	}
	isKept, err := r.trainer.startOf(r.folder)
	if err != nil {
		return err
	}
	if r.settings.Start != "" && !isKept {
		if err := r.trainer.startBy(&r.settings); err != nil {
			return err
		}
	}
	if r.evaluator, err = r.trainer.NewEvaluator(); err != nil {
		return err
	}
	if r.settings.SampleEvery > 0 {
		if r.sampler, err = r.trainer.NewSampler(r.settings.Temperature); err != nil {
			return err
		}
	}
	description := Description{r.settings, r.trainer.origin, r.trainer.origin.Genesis().String(), path, suffix, r.trainer.Device()}
	old, err := ReadDescription(r.folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := old.Origin.accepts(&r.trainer.origin, r.folder); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(description, "", "  ")
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{TokenizerFile, r.trainer.task.tokenizer().File}, {headerKey, append(text, '\n')}} {
		if f.text == nil {
			continue
		}
		err = replace(r.disk, r.folder, filepath.Join(r.folder, f.name), func(w io.Writer) error {
			_, err := w.Write(f.text)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := r.resume(); err != nil {
		return err
	}
	if r.metrics, err = r.disk.Append(filepath.Join(r.folder, metricsFile)); err != nil {
		return err
	}
	if r.settings.Start != "" && !isKept && r.trainer.step == 0 {
		if err := r.writeCheckpoint(); err != nil {
			return err
		}
	}
	return r.disk.SyncFolder(r.folder)
}

// accepts returns an error unless a run with the origin o can go on as other.
func (o *Origin) accepts(other *Origin, folder string) error {
	switch list := o.Config.Differences(other.Config); {
	case len(list) > 0:
		return badInput("%s: the run was begun with other settings: %s; begin another run, in another folder", folder, strings.Join(list, ", "))
	case o.Data != other.Data:
		return badInput("%s: the run was begun on other data, with the digest %s, not %s", folder, o.Data, other.Data)
	case o.Weights != other.Weights || o.Before != other.Before || o.Moments != other.Moments:
		return badInput("%s: the run was begun with other weights or moments", folder)
	case *o != *other:
		return badInput("%s: the run was begun by another version, whose definitions give other bits", folder)
	}
	return nil
}

// resume restores the newest checkpoint, and cuts the metrics to its step.
func (r *Run) resume() error {
	folder := filepath.Join(r.folder, checkpointFolder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries { // what a process that was killed has left
		if strings.HasSuffix(e.Name(), temporarySuffix) {
			if err := r.disk.Remove(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	list, err := Checkpoints(r.folder)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		newest := list[len(list)-1]
		err := r.trainer.restore(newest.Path)
		if e, isDamaged := errors.AsType[*safetensors.FormatError](err); isDamaged && len(list) > 1 {
			return fmt.Errorf("%w; without this file the run resumes behind step %d", e, list[len(list)-2].Step)
		}
		if err != nil {
			return err
		}
		r.saved = newest.Step
	}
	lines, size, err := readMetrics(r.folder, r.trainer.step)
	if errors.Is(err, fs.ErrNotExist) && r.trainer.step == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	taken, err := steps(lines)
	if err != nil {
		return fmt.Errorf("%s: %w", r.folder, err)
	}
	if len(taken) != r.trainer.step || len(taken) > 0 && taken[len(taken)-1].Chain != r.trainer.chain.String() {
		return badInput("%s: %s does not reach the entry of the checkpoint of step %d: it is damaged", r.folder, metricsFile, r.trainer.step)
	}
	for _, l := range lines {
		r.note(l)
	}
	return r.disk.Truncate(filepath.Join(r.folder, metricsFile), size)
}

// note remembers the last validation and sample, and the best validation.
func (r *Run) note(l Line) {
	if l.Validation != nil {
		r.validated = l.Step
	}
	if l.Sample != nil {
		r.sampled = l.Step
	}
	if l.Validation != nil && (r.best == 0 || *l.Validation < r.bestLoss) {
		r.best, r.bestLoss = l.Step, *l.Validation
	}
}

// Trainer returns the trainer of the run.
func (r *Run) Trainer() *Trainer { return r.trainer }

// Checkpoint has Train write a checkpoint after the step that is under way. It may be called from any
// goroutine.
func (r *Run) Checkpoint() { r.isWanted.Store(true) }

// Train takes the steps that are left. It calls tell with each line of the metrics. Once the context is
// done, or a step is a [NotFiniteError], it writes a checkpoint of the last step and returns the error.
func (r *Run) Train(ctx context.Context, tell func(Line)) error {
	c := &r.settings
	for {
		if err := r.finishStep(ctx, tell); err != nil {
			return err
		}
		if r.trainer.step >= c.Steps {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(err, r.save())
		}
		result, err := r.trainer.Step()
		if _, isNotFinite := errors.AsType[*NotFiniteError](err); isNotFinite {
			return errors.Join(err, r.save())
		}
		if err != nil {
			return err
		}
		line := lineOf(result, int64(result.Step)*int64(c.Rows()))
		line.Routing = r.trainer.Routing()
		if err := r.write(line, tell); err != nil {
			return err
		}
	}
}

// finishStep validates, samples and writes a checkpoint where that is due after the last step. A run that an interrupt stopped
// between a step and its validation is resumed from a checkpoint of that step, so what the metrics have already is not done again.
func (r *Run) finishStep(ctx context.Context, tell func(Line)) error {
	c, step := &r.settings, r.trainer.step
	isDue := func(every int) bool { return step > 0 && (step == c.Steps || every > 0 && step%every == 0) }
	if isDue(c.ValidateEvery) && r.validated != step {
		loss, err := r.evaluator.Validate(ctx.Err)
		if err != nil {
			return errors.Join(err, r.save())
		}
		if err := r.write(Line{Step: step, Validation: &loss}, tell); err != nil {
			return err
		}
	}
	if r.sampler != nil && isDue(c.SampleEvery) && r.sampled != step {
		text, err := r.sampler.Sample(c.Prompt, ctx.Err)
		if err != nil {
			return errors.Join(err, r.save())
		}
		if err := r.write(Line{Step: step, Sample: &text}, tell); err != nil {
			return err
		}
	}
	if isWanted := r.isWanted.Swap(false); isWanted || isDue(c.CheckpointEvery) {
		return r.save()
	}
	return nil
}

func (r *Run) write(l Line, tell func(Line)) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := r.metrics.Write(append(text, '\n')); err != nil {
		return err
	}
	r.note(l)
	if tell != nil {
		tell(l)
	}
	return nil
}

const checkpointFolder = "checkpoints"

// Checkpoint is a file with the state after a step.
type Checkpoint struct {
	Step int
	Path string
}

// Checkpoints lists the checkpoints of a run by their steps.
func Checkpoints(folder string) ([]Checkpoint, error) {
	entries, err := os.ReadDir(filepath.Join(folder, checkpointFolder))
	if err != nil {
		return nil, err
	}
	var list []Checkpoint
	for _, e := range entries {
		number, isOne := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".safetensors"), "step-")
		if step, err := strconv.Atoi(number); isOne && err == nil && e.Name() == checkpointName(step) {
			list = append(list, Checkpoint{step, filepath.Join(folder, checkpointFolder, e.Name())})
		}
	}
	slices.SortFunc(list, func(a, b Checkpoint) int { return a.Step - b.Step })
	return list, nil
}

func checkpointName(step int) string { return fmt.Sprintf("step-%08d.safetensors", step) }

// save writes a checkpoint of the last step, and removes those that need not stay.
func (r *Run) save() error {
	if r.trainer.step == r.saved {
		return nil
	}
	if err := r.writeCheckpoint(); err != nil {
		return err
	}
	r.saved = r.trainer.step
	list, err := Checkpoints(r.folder)
	if err != nil || r.settings.Keep == 0 {
		return err
	}
	for _, old := range list[:max(0, len(list)-r.settings.Keep)] {
		if old.Step != r.best && old.Step != 0 {
			if err := r.disk.Remove(old.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeCheckpoint writes the state, once the metrics up to it are on disk.
func (r *Run) writeCheckpoint() error {
	f, err := r.trainer.checkpoint()
	if err != nil {
		return err
	}
	if err := r.metrics.Sync(); err != nil {
		return err
	}
	folder := filepath.Join(r.folder, checkpointFolder)
	return replace(r.disk, folder, filepath.Join(folder, checkpointName(r.trainer.step)), func(w io.Writer) error { return safetensors.Write(w, f) })
}

// Close lets go of the folder and frees the memory.
func (r *Run) Close() error {
	var errs []error
	if r.metrics != nil {
		errs = append(errs, r.metrics.Close())
	}
	if r.trainer != nil {
		errs = append(errs, r.trainer.Close())
	}
	errs = append(errs, r.held.Close())
	return errors.Join(errs...)
}

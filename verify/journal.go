package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"tokitai/evidence"
	"tokitai/internal/filelock"
	"tokitai/promise"
)

// Journal records the cases that a verification has finished, so that an interrupted one
// can be resumed. It is a file of lines, each with the result of one case under a key
// that covers everything the result depends on; a truncated last line is ignored. A nil
// Journal records nothing.
type Journal struct {
	mu    sync.Mutex
	file  *os.File
	known map[string]map[string]caseResult
	notes map[string]json.RawMessage // lines that are no results, by their keys
	lines int                        // read
	taken int                        // of these, used
	err   error
}

// journalLine is the result of a case with its SHA-256: a line that was changed is not used
// as a result.
type journalLine struct {
	Key    string          `json:"key"`
	SHA256 string          `json:"sha256"`
	Result json.RawMessage `json:"result"`
}

func lineHash(key string, result []byte) string {
	return evidence.FingerprintOf(append([]byte(key+"\n"), result...))
}

// OpenJournal opens or creates a journal. If resume is set, the results in it are used;
// otherwise it is emptied.
func OpenJournal(path string, resume bool) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, known: map[string]map[string]caseResult{}}
	if err := filelock.Try(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: another verification is writing there: %w", path, err)
	}
	end := int64(0)
	if resume {
		if end, err = j.read(); err != nil {
			err = fmt.Errorf("%s: %w; begin anew without --resume", path, err)
		}
	}
	if err == nil {
		if err = f.Truncate(end); err == nil {
			_, err = f.Seek(end, io.SeekStart)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// read reads the complete lines and returns where they end.
func (j *Journal) read() (end int64, err error) {
	r := bufio.NewReader(j.file)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		if err := j.take(line); err != nil {
			return end, fmt.Errorf("byte %d: %w", end, err)
		}
		end += int64(len(line))
	}
}

func (j *Journal) take(line []byte) error {
	var l journalLine
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if l.SHA256 != lineHash(l.Key, l.Result) {
		return errors.New("a result is not what was written")
	}
	if isNote(l.Key) {
		if j.notes == nil {
			j.notes = map[string]json.RawMessage{}
		}
		j.notes[l.Key] = l.Result
		return nil
	}
	var r caseResult
	if err := json.Unmarshal(l.Result, &r); err != nil {
		return err
	}
	if j.known[l.Key] == nil {
		j.known[l.Key] = map[string]caseResult{}
	}
	j.known[l.Key][r.Name] = r
	j.lines++
	return nil
}

// Known returns how many results of earlier runs the journal has.
func (j *Journal) Known() int {
	if j == nil {
		return 0
	}
	return j.lines
}

// Taken returns how many of them have been used so far.
func (j *Journal) Taken() int {
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.taken
}

func (j *Journal) find(key, name string) (caseResult, bool) {
	if j == nil {
		return caseResult{}, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.known[key][name]
	if ok {
		j.taken++
	}
	return r, ok
}

// add appends a result.
func (j *Journal) add(key string, r caseResult) {
	if j == nil {
		return
	}
	result, err := json.Marshal(r)
	j.write(key, result, err)
}

// write appends a line. The first error is returned by Close: the verification itself goes on.
func (j *Journal) write(key string, result []byte, err error) {
	line := []byte(nil)
	if err == nil {
		line, err = json.Marshal(journalLine{key, lineHash(key, result), result})
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil && j.err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if j.err == nil {
		j.err = err
	}
}

// Close closes the file and returns the first error of writing it.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.err, j.file.Close())
}

// keyDevice returns the device in keys. Shards may run on any device of a kind.
func (o *Options) keyDevice() string {
	if o.Part == nil {
		return o.device()
	}
	kind, _, _ := strings.Cut(o.device(), ":")
	return kind
}

// key returns everything that a case's result depends on, besides its name.
func (s *verification) key() string {
	l := s.t.Lowering
	key := fmt.Sprintf("%s %s %s %s %s %s %s seed=%d level=%s promise=%s declared=%q functions=%g ieee=%t waived=%q interpreted=%t", s.o.Version, s.o.Program, s.t.Definition.Hash(), l.Name, l.Promise.Accum,
		s.t.DType, s.o.keyDevice(), s.o.Seed, s.o.Level, l.Promise.Named(), promise.Format(l.Promise.Declares, l.Promise.Order), l.Promise.FunctionULP, l.Promise.IsIEEE, s.o.Waive, s.o.InterpretAll)
	if s.o.Budget > 0 {
		key += " budgeted" // one of the cases is smaller
	}
	if len(s.t.fixed.Texts) > 0 {
		key += fmt.Sprintf(" params=%q", s.t.fixed.Texts)
	}
	if s.o.OnlyInvariance {
		key += " unjudged"
	}
	return key
}

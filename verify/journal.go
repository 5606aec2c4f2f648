package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Journal remembers the cases that a verification has done, so that one that was
// interrupted can go on. It is a file of lines, each the result of one case under a key
// that names everything the result depends on; a last line that was cut short is
// ignored. A nil Journal remembers nothing.
type Journal struct {
	mu    sync.Mutex
	file  *os.File
	known map[string]map[string]caseResult
	err   error
}

type journalLine struct {
	Key    string     `json:"key"`
	Result caseResult `json:"result"`
}

// OpenJournal opens or creates a journal. What is in it is used only if resume is set;
// otherwise it begins anew.
func OpenJournal(path string, resume bool) (*Journal, error) {
	flags := os.O_RDWR | os.O_CREATE
	if !resume {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, known: map[string]map[string]caseResult{}}
	end, err := j.read()
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

// read takes the lines that are whole, and returns where they end.
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
		var l journalLine
		if err := json.Unmarshal(line, &l); err != nil {
			return end, fmt.Errorf("%s: byte %d: %w", j.file.Name(), end, err)
		}
		if j.known[l.Key] == nil {
			j.known[l.Key] = map[string]caseResult{}
		}
		j.known[l.Key][l.Result.Name] = l.Result
		end += int64(len(line))
	}
}

func (j *Journal) find(key, name string) (caseResult, bool) {
	if j == nil {
		return caseResult{}, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.known[key][name]
	return r, ok
}

// add appends a result. An error is kept for Close: the verification itself goes on.
func (j *Journal) add(key string, r caseResult) {
	if j == nil {
		return
	}
	line, err := json.Marshal(journalLine{key, r})
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil && j.err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if j.err == nil {
		j.err = err
	}
}

// Close returns the first error that writing had.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.err, j.file.Close())
}

// key is what a case's result depends on, besides its name.
func (s *session) key() string {
	return fmt.Sprintf("%s %s %s %s %s %s %s seed=%d level=%s bounded=%t", s.o.Version, s.o.Program, s.t.Definition.Hash(), s.t.Lowering.Name, s.t.Lowering.Model,
		s.t.DType, s.o.device(), s.o.Seed, s.o.Level, s.t.Lowering.IsBounded)
}

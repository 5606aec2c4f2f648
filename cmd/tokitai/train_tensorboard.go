package main

import (
	"time"

	"tokitai/train"
	"tokitai/train/tensorboard"
)

// eventFile is a file of train --tensorboard; nil for none.
type eventFile struct{ *tensorboard.Writer }

// newEventFile begins a file in a folder, if one is given.
func newEventFile(folder string) (*eventFile, error) {
	if folder == "" {
		return nil, nil
	}
	w, err := tensorboard.Create(folder, time.Now())
	return &eventFile{w}, err
}

// write writes what a line of the metrics has; speed is in rows per second, which unit names.
func (e *eventFile) write(l *train.Line, speed float64, unit string) {
	switch {
	case e == nil:
	case l.Loss != nil:
		e.Write(l.Step, time.Now(), tensorboard.Scalar{Tag: "loss", Value: *l.Loss}, tensorboard.Scalar{Tag: "norm", Value: *l.Norm},
			tensorboard.Scalar{Tag: "rate", Value: float32(*l.Rate)}, tensorboard.Scalar{Tag: unit + "/s", Value: float32(speed)})
	case l.Validation != nil:
		e.Write(l.Step, time.Now(), tensorboard.Scalar{Tag: "validation", Value: float32(*l.Validation)})
	}
}

func (e *eventFile) end() error {
	if e == nil {
		return nil
	}
	return e.Close()
}

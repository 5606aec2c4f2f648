package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/tensor"
)

// modelTensors is the number of tensors of a model: half of them matrices, half of them
// vectors with an element per row.
const modelTensors = 808

const modelWidth = 1024

// model is the weights and gradients of a model, with an optimizer.
type model struct {
	q         *engine.Queue
	optimizer *adamw.Optimizer
	weights   []*tensor.Tensor
	grads     []*tensor.Tensor
	elements  int
}

// newModel returns a model with weights and moments on the queue's device and gradients on
// another.
func newModel(q *engine.Queue, gradsOn device.Device, parameters int) (*model, error) {
	m := &model{q: q}
	columns := max(1, (parameters/(modelTensors/2)-modelWidth)/modelWidth)
	var list []adamw.Parameter
	var raw []byte
	for i := range modelTensors {
		shape := []int{modelWidth}
		if i%2 == 0 {
			shape = append(shape, columns)
		}
		var pair [2]*tensor.Tensor
		for k, dev := range []device.Device{q.Device(), gradsOn} {
			t, err := tensor.New(dev, num.F16, shape...)
			if err != nil {
				return nil, err
			}
			if len(raw) < 2*t.Len() {
				raw = make([]byte, 2*t.Len())
			}
			fillNoise(raw[:2*t.Len()], uint64(2*i+k))
			if err := t.SetBytes(raw[:2*t.Len()]); err != nil {
				return nil, err
			}
			pair[k] = t
		}
		m.weights, m.grads = append(m.weights, pair[0]), append(m.grads, pair[1])
		m.elements += pair[0].Len()
		list = append(list, adamw.Parameter{Name: fmt.Sprint(i), Weight: pair[0], LRScale: 1, WeightDecay: 0.01})
	}
	var err error
	m.optimizer, err = adamw.New(q, adamw.Options{Hyper: hyper}, list)
	return m, err
}

// hash copies all weights to the host and returns their SHA-256.
func (m *model) hash() (string, error) {
	h := sha256.New()
	for _, w := range m.weights {
		raw, err := w.Bytes()
		if err != nil {
			return "", err
		}
		h.Write(raw)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

func (m *model) close() {
	m.optimizer.Close()
	for i := range m.weights {
		m.weights[i].Close()
		m.grads[i].Close()
	}
}

// stepModel takes steps with the state in a kernel process, then in this one, and
// compares all weights.
func stepModel(parameters int) error {
	p, err := openPools()
	if err != nil {
		return err
	}
	defer p.close()
	resident, err := engine.NewQueue(p.shared.Resident())
	if err != nil {
		return err
	}
	var hashes [2]string
	for i, where := range []struct {
		name    string
		q       *engine.Queue
		gradsOn device.Device
	}{{"state in the process, gradients shared", resident, p.shared}, {"in this process", cpu.Queue(), cpu.Queue().Device()}} {
		m, err := newModel(where.q, where.gradsOn, parameters)
		if err != nil {
			return fmt.Errorf("%s: %w", where.name, err)
		}
		fmt.Printf("%s: %d tensors, %d parameters, %.2f GB with gradients\n", where.name, len(m.weights), m.elements, 12*float64(m.elements)/1e9)
		for step := range 3 {
			begin := time.Now()
			if err := m.optimizer.StepAll(m.q, m.grads); err != nil {
				return fmt.Errorf("%s: %w", where.name, err)
			}
			fmt.Printf("  step %d: %.2f s\n", step+1, time.Since(begin).Seconds())
		}
		begin := time.Now()
		if hashes[i], err = m.hash(); err != nil {
			return fmt.Errorf("%s: %w", where.name, err)
		}
		fmt.Printf("  weights fetched and hashed: %.2f s, SHA-256 %s\n", time.Since(begin).Seconds(), hashes[i])
		for _, pid := range []int{p.shared.PID(), os.Getpid()} {
			printMemory(pid)
		}
		m.close()
		if i == 0 {
			if err := p.shared.Close(); err != nil { // which gives its memory back
				return err
			}
		}
	}
	if hashes[0] != hashes[1] {
		return errors.New("the two have different weights")
	}
	fmt.Println("the weights are the same, bit for bit")
	return nil
}

// printMemory prints the current and the peak memory use of a process, if the system
// reports them.
func printMemory(pid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		for _, key := range []string{"RssAnon:", "RssShmem:", "VmHWM:"} {
			if value, ok := strings.CutPrefix(line, key); ok {
				fmt.Printf("  process %d: %s %s\n", pid, key, strings.TrimSpace(value))
			}
		}
	}
}

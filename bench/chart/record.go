package chart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Record is what was measured on one device.
type Record struct {
	Device string // its name, with the number of threads of a CPU
	Driver string
	Points []Point
}

// Point is one measured call.
type Point struct {
	Op, Shape, DType, Lowering string

	MS    float64
	Bytes float64 // the fewest that must move
	Speed float64 // GB/s, or GFLOP/s of products
	Copy  float64 // the speed of a copy in GB/s; 0 if it is no limit
	Peers []Peer  // the fastest first

	isProduct bool
}

// Peer is a library that computed the same.
type Peer struct {
	Name  string
	Speed float64
}

// Limit is what the speed of a call is compared with: the speed of a copy, or for products that of
// the fastest peer. It is 0 if neither is known.
func (p *Point) Limit() float64 {
	switch {
	case !p.isProduct:
		return p.Copy
	case len(p.Peers) > 0:
		return p.Peers[0].Speed
	}
	return 0
}

// edge returns the edge of the cube M = N = K that takes as many multiplications.
func (p *Point) edge() float64 { return math.Cbrt(p.Speed * p.MS * 1e6 / 2) }

var rowShape = regexp.MustCompile(`^R=\d+,C=(\d+)$`)

// columns returns the length of a row, or 0 if the call has no rows alone.
func (p *Point) columns() float64 {
	m := rowShape.FindStringSubmatch(p.Shape)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	return n
}

// report is what bench --json and bench --peers --json print.
type report struct {
	Device struct {
		Name, Driver string
		Workers      int
	}
	Host struct {
		CPU     string
		Workers []int
	}
	Peers   []struct{ Peer, Name string }
	Results []result // of bench
	Rows    []result // of bench --peers
}

type result struct {
	Op, Shape, DType, Lowering, Device, Error string

	Workers                         int
	MS, Bytes, GBps, TFLOPS, GFLOPS float64
	Share                           float64
	Library                         *struct {
		Name, Error string
		Ratio       float64
	}
	Peers []struct {
		Peer, Error        string
		Ratio, Least, Most float64
	}
}

// Parse reads what `tokitai bench --json` prints, with or without --peers, or an array of such
// reports of one device. Of several numbers of threads it takes the greatest, and of several
// lowerings the first, which calls choose.
func Parse(data []byte) (*Record, error) {
	var reports []report
	if data = bytes.TrimSpace(data); !bytes.HasPrefix(data, []byte("[")) {
		data = slices.Concat([]byte("["), data, []byte("]"))
	}
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("not a report of bench --json: %w", err)
	}
	r := &Record{}
	for i := range reports {
		x := &reports[i]
		name := x.device()
		if r.Device != "" && r.Device != name {
			return nil, fmt.Errorf("the reports are of two devices, %s and %s", r.Device, name)
		}
		r.Device, r.Driver = name, x.Device.Driver
		r.add(x)
	}
	if len(r.Points) == 0 {
		return nil, errors.New("the report has no figures")
	}
	return r, nil
}

// device names the device, a CPU with its number of threads.
func (x *report) device() string {
	switch {
	case len(x.Host.Workers) > 0:
		return fmt.Sprintf("%s, %d threads", x.Host.CPU, slices.Max(x.Host.Workers))
	case len(x.Results) > 0 && x.Results[0].Device == "cpu":
		return fmt.Sprintf("%s, %d threads", x.Device.Name, x.Device.Workers)
	}
	return x.Device.Name
}

func (r *Record) add(x *report) {
	names := map[string]string{}
	for _, p := range x.Peers {
		names[p.Peer] = p.Name
	}
	for _, s := range slices.Concat(x.Results, x.Rows) {
		isKnown := slices.ContainsFunc(r.Points, func(p Point) bool { return p.Op == s.Op && p.Shape == s.Shape && p.DType == s.DType })
		if s.Error != "" || isKnown || len(x.Host.Workers) > 0 && s.Workers != slices.Max(x.Host.Workers) {
			continue
		}
		r.Points = append(r.Points, s.point(names))
	}
}

func (s *result) point(names map[string]string) Point {
	gflops := s.GFLOPS + s.TFLOPS*1e3
	p := Point{
		Op: s.Op, Shape: s.Shape, DType: s.DType, Lowering: s.Lowering[strings.LastIndexByte(s.Lowering, '/')+1:],
		MS: s.MS, Bytes: s.Bytes, Speed: s.GBps + gflops, isProduct: gflops > 0,
	}
	if s.Share > 0 {
		p.Copy = s.GBps / s.Share
	}
	if l := s.Library; l != nil && l.Error == "" && l.Ratio > 0 {
		p.Peers = append(p.Peers, Peer{l.Name, p.Speed / l.Ratio})
	}
	for _, o := range s.Peers {
		const far = 4 // rounds so far apart say nothing, as in the tables of bench/peers
		if o.Error == "" && o.Ratio > 0 && o.Most <= far*o.Least {
			p.Peers = append(p.Peers, Peer{names[o.Peer], p.Speed / o.Ratio})
		}
	}
	slices.SortStableFunc(p.Peers, func(a, b Peer) int { return cmp.Compare(b.Speed, a.Speed) })
	return p
}

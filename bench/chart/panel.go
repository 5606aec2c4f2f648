package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A panel shows one operation: a line for each format, over sizes.
type panel struct {
	op     string
	points []Point
	x      *quantity
}

// quantity is what the horizontal axis of a panel is.
type quantity struct {
	name string
	of   func(*Point) float64
}

var (
	columns = quantity{"columns of a row", (*Point).columns}
	traffic = quantity{"bytes read and written", func(p *Point) float64 { return p.Bytes }}
	edge    = quantity{"edge of a cube with as many products", (*Point).edge}
)

// panels returns those of the operations that were measured at several sizes.
func (r *Record) panels() (list []*panel) {
	for _, points := range r.byOperation() {
		p := &panel{op: points[0].Op, points: points, x: &traffic}
		switch {
		case points[0].isProduct:
			p.x = &edge
		case p.width(&columns) > p.width(&traffic):
			p.x = &columns
		}
		if p.width(p.x) > 1.01 {
			list = append(list, p)
		}
	}
	return list
}

// byOperation returns the points of each operation.
func (r *Record) byOperation() (list [][]Point) {
	for _, p := range r.Points {
		i := slices.IndexFunc(list, func(points []Point) bool { return points[0].Op == p.Op })
		if i < 0 {
			i, list = len(list), append(list, nil)
		}
		list[i] = append(list[i], p)
	}
	return list
}

// width returns how many times as great as the least the greatest size of one format is.
func (p *panel) width(x *quantity) (most float64) {
	for _, format := range formatsOf(p.points) {
		sizes := spanOf()
		for _, q := range p.of(format) {
			sizes = sizes.and(spanOf(x.of(&q)))
		}
		most = max(most, sizes.ratio())
	}
	return most
}

func (p *panel) of(format string) []Point {
	return slices.DeleteFunc(slices.Clone(p.points), func(q Point) bool { return q.DType != format })
}

// formatsOf returns the formats of points, in the order in which they occur.
func formatsOf(points []Point) (list []string) {
	for _, p := range points {
		if !slices.Contains(list, p.DType) {
			list = append(list, p.DType)
		}
	}
	return list
}

// unitOf returns the unit of speeds in a range, and how many GB/s or GFLOP/s it is.
func unitOf(points []Point, speeds span) (times float64, name string) {
	switch isFast := speeds.high >= 10e3; {
	case !points[0].isProduct:
		return 1, "GB/s"
	case isFast:
		return 1e3, "TFLOP/s"
	}
	return 1, "GFLOP/s"
}

// spans returns the ranges of sizes and speeds.
func (p *panel) spans() (x, y span) {
	x, y = spanOf(), spanOf()
	for i := range p.points {
		q := &p.points[i]
		x, y = x.and(spanOf(p.x.of(q))), y.and(spanOf(q.Speed))
		if q.Copy > 0 {
			y = y.and(spanOf(q.Copy))
		}
		if len(q.Peers) > 0 {
			y = y.and(spanOf(q.Peers[0].Speed))
		}
	}
	return x, y
}

// mark is a point of a line.
type mark struct{ x, y float64 }

// marks returns what value gives for points, in the order of sizes; 0 is nothing.
func (p *panel) marks(points []Point, value func(*Point) float64) (list []mark) {
	for i := range points {
		if v := value(&points[i]); v > 0 {
			list = append(list, mark{p.x.of(&points[i]), v})
		}
	}
	slices.SortStableFunc(list, func(a, b mark) int { return cmp.Compare(a.x, b.x) })
	return list
}

// means returns one mark for marks at the same size, to the nearest hundredth: their geometric mean.
func means(marks []mark) (list []mark) {
	for i := 0; i < len(marks); {
		sum, n := 0.0, 0
		for i+n < len(marks) && marks[i+n].x <= 1.01*marks[i].x {
			sum += math.Log(marks[i+n].y)
			n++
		}
		list = append(list, mark{marks[i].x, math.Exp(sum / float64(n))})
		i += n
	}
	return list
}

func fastestPeer(p *Point) float64 {
	if len(p.Peers) == 0 {
		return 0
	}
	return p.Peers[0].Speed
}

// Sizes of a panel.
const (
	panelWidth, panelHeight = 290.0, 210.0
	panelLeft, panelRight   = 46.0, 60.0 // of the plot; labels are right of it
	panelTop, panelBottom   = 52.0, 36.0
	plotRight, plotBottom   = panelWidth - panelRight, panelHeight - panelBottom
	labelHeight             = 11.5
)

// draw draws a panel. Panels with the same axes have the same scales.
func (p *panel) draw(c *canvas, xs, ys span) {
	x, y := xs.with(1.3, panelLeft, plotRight), ys.with(1.25, plotBottom, panelTop)
	c.text("title", 0, 13, p.op)
	c.text("soft", 0, 27, limits(p.points))
	scale, unit := unitOf(p.points, ys)
	for _, v := range y.roundTicks(5) {
		c.line("grid", panelLeft, y.at(v), plotRight, y.at(v))
		c.text("tick end", panelLeft-5, y.at(v)+3.5, figure(v/scale))
	}
	for _, v := range x.ticks(2, 5) {
		c.line("grid", x.at(v), plotBottom, x.at(v), plotBottom+3)
		c.text("tick middle", x.at(v), plotBottom+14, binary(v))
	}
	c.text("tick start", 0, panelTop-6, unit)
	c.text("tick middle", (panelLeft+plotRight)/2, plotBottom+28, p.x.name)

	var ends labels
	if list := means(p.marks(p.points, func(q *Point) float64 { return q.Copy })); len(list) > 0 {
		c.path("copy", x, y, list)
		ends.add("copy", "copy", y, list)
	}
	for _, format := range formatsOf(p.points) {
		points := p.of(format)
		if list := means(p.marks(points, fastestPeer)); len(list) > 0 {
			c.path("peer "+format, x, y, list)
			if len(list) == 1 {
				c.dot("hollow "+format, x.at(list[0].x), y.at(list[0].y), 2.8)
			}
			ends.add(format, p.peerName(points), y, list)
		}
		list := p.marks(points, func(q *Point) float64 { return q.Speed })
		c.path("ours "+format, x, y, means(list))
		for _, m := range list {
			c.dot(format, x.at(m.x), y.at(m.y), 2.8)
		}
		ends.add(format+" strong", format, y, means(list))
	}
	ends.draw(c)
	p.tips(c, x)
}

// peerName returns the name of the fastest peer at the greatest size.
func (p *panel) peerName(points []Point) string {
	points = slices.DeleteFunc(slices.Clone(points), func(q Point) bool { return len(q.Peers) == 0 })
	return slices.MaxFunc(points, func(a, b Point) int { return cmp.Compare(p.x.of(&a), p.x.of(&b)) }).Peers[0].Name
}

// limits formats the shares of the limit that points reach.
func limits(points []Point) string {
	s, of := spanOf(), ""
	for i := range points {
		q := &points[i]
		if l := q.Limit(); l > 0 {
			s = s.and(spanOf(q.Speed / l))
			switch {
			case !q.isProduct:
				of = "of a copy"
			case of == "" || of == "of "+q.Peers[0].Name:
				of = "of " + q.Peers[0].Name
			default:
				of = "of the fastest peer"
			}
		}
	}
	switch low, high := fmt.Sprintf("%.2f", s.low), fmt.Sprintf("%.2f", s.high); {
	case of == "":
		return ""
	case low == high:
		return low + " " + of
	default:
		return low + "–" + high + " " + of
	}
}

// labels are texts at the right ends of lines.
type labels []endLabel

type endLabel struct {
	class, text string
	y           float64
}

// add adds the label of a line, which has one if it is more than a dot.
func (l *labels) add(class, text string, y scale, line []mark) {
	if len(line) > 1 {
		*l = append(*l, endLabel{class, text, y.at(line[len(line)-1].y)})
	}
}

// draw draws labels, moved apart where they would touch, within the panel.
func (l labels) draw(c *canvas) {
	slices.SortStableFunc(l, func(a, b endLabel) int { return cmp.Compare(a.y, b.y) })
	for range 50 {
		for i := 1; i < len(l); i++ {
			if near := labelHeight - (l[i].y - l[i-1].y); near > 0 {
				l[i-1].y -= near / 2
				l[i].y += near / 2
			}
		}
		if n := len(l); n > 0 {
			l[0].y, l[n-1].y = max(l[0].y, panelTop), min(l[n-1].y, plotBottom)
		}
	}
	for _, e := range l {
		c.text("label "+e.class, plotRight+7, e.y+3.5, e.text)
	}
}

package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// figures says what was measured of a point, in one line.
func (p *Point) figures() string {
	text := fmt.Sprintf("%s: %s ms, %s", p.DType, figure(p.MS), p.SpeedText())
	if share := p.OfCopy(); share != "" {
		text += ", " + share + " of a copy"
	}
	if len(p.Peers) > 0 {
		text += ", " + p.Peers[0].share(p.Speed)
	}
	return text
}

// SpeedText formats the speed with its unit.
func (p *Point) SpeedText() string {
	times, unit := unitOf([]Point{*p}, spanOf(p.Speed))
	return figure(p.Speed/times) + " " + unit
}

// OfCopy formats the share of a copy's speed, if it is the limit.
func (p *Point) OfCopy() string {
	if p.Copy == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", p.Speed/p.Copy)
}

// OfPeers formats the shares of the peers' speeds.
func (p *Point) OfPeers() string {
	var list []string
	for _, o := range p.Peers {
		list = append(list, o.share(p.Speed))
	}
	return strings.Join(list, ", ")
}

// share formats a speed as a share of the peer's.
func (o *Peer) share(speed float64) string {
	return fmt.Sprintf("%.2f of %s", speed/o.Speed, o.Name)
}

// tips shows the figures of each size while a pointer is near it.
func (p *panel) tips(c *canvas, x scale) {
	groups := p.bySize()
	at := func(i int) float64 { return x.at(p.x.of(&groups[i][0])) }
	for i, points := range groups {
		left, right := panelLeft-8, plotRight+8
		if i > 0 {
			left = (at(i-1) + at(i)) / 2
		}
		if i+1 < len(groups) {
			right = (at(i) + at(i+1)) / 2
		}
		var lines []string
		for j, q := range points {
			if j == 0 || q.Shape != points[j-1].Shape {
				lines = append(lines, q.Shape)
			}
			lines = append(lines, q.figures())
		}
		area := fmt.Sprintf("M%.1f %.1fH%.1fV%.1fH%.1fz", left, panelTop-4, right, plotBottom, left)
		c.tip(area+fmt.Sprintf("M%.1f %.1fV%.1f", at(i), panelTop-4, plotBottom), left, plotBottom+34, panelWidth, lines)
	}
}

// bySize returns the points of each size, in ascending order.
func (p *panel) bySize() (groups [][]Point) {
	points := slices.Clone(p.points)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(p.x.of(&a), p.x.of(&b)) })
	for _, q := range points {
		last := len(groups) - 1
		if last < 0 || p.x.of(&q) > 1.01*p.x.of(&groups[last][0]) {
			groups = append(groups, nil)
			last++
		}
		groups[last] = append(groups[last], q)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, func(a, b Point) int { return strings.Compare(a.Shape, b.Shape) })
	}
	return groups
}

// tip shows the figures of a point while a pointer is over its dot.
func (p *Point) tip(c *canvas, x, y, right float64) {
	const radius = 7.0
	dot := fmt.Sprintf("M%.1f %.1fa%g %g 0 1 0 %g 0a%g %g 0 1 0 %g 0z", x-radius, y, radius, radius, 2*radius, radius, radius, -2*radius)
	c.tip(dot, x-radius, y+rowHeight*0.6, right, []string{p.Op + " " + p.Shape, p.figures()})
}

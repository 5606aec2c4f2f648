package chart

// Sizes of the overview.
const (
	overviewLeft, overviewRight = 190.0, 200.0 // names left of it, figures right
	overviewTop, rowHeight      = 40.0, 19.0
)

// overview shows every operation in a row: its speeds, and those of the fastest peers, as shares of
// the limit.
type overview struct {
	rows  [][]Point
	limit string // what 1 is
	span  span
}

// overviews returns one for the operations whose limit is a copy, and one for products.
func (r *Record) overviews() (list []*overview) {
	least := spanOf(0.5, 1.1)
	copies, products := &overview{limit: "as fast as a copy", span: least}, &overview{limit: "as fast as the fastest peer", span: least}
	for _, points := range r.byOperation() {
		o := copies
		if points[0].isProduct {
			o = products
		}
		o.add(points)
	}
	for _, o := range []*overview{copies, products} {
		if o.span = copies.span.and(products.span); len(o.rows) > 0 {
			list = append(list, o)
		}
	}
	return list
}

// add adds the points that have a limit.
func (o *overview) add(all []Point) {
	var points []Point
	for _, p := range all {
		l := p.Limit()
		if l == 0 {
			continue
		}
		points = append(points, p)
		o.span = o.span.and(spanOf(p.Speed / l))
		if fastest := fastestPeer(&p); fastest > 0 {
			o.span = o.span.and(spanOf(fastest / l))
		}
	}
	if len(points) > 0 {
		o.rows = append(o.rows, points)
	}
}

func (o *overview) height() float64 { return overviewTop + rowHeight*float64(len(o.rows)) + 26 }

func (o *overview) draw(c *canvas, width float64) {
	x := o.span.with(1.1, overviewLeft, width-overviewRight)
	end := overviewTop + rowHeight*float64(len(o.rows))
	c.text("soft middle", x.at(1), 12, o.limit)
	for _, v := range x.ticks(2, 8) {
		class := "grid"
		if v == 1 {
			class = "limit"
		}
		c.line(class, x.at(v), overviewTop-8, x.at(v), end)
		c.text("tick middle", x.at(v), overviewTop-14, fraction(v))
	}
	for i, points := range o.rows {
		y := overviewTop + rowHeight*(float64(i)+0.5)
		c.text("name end", overviewLeft-14, y+4, points[0].Op)
		c.text("soft start", width-overviewRight+14, y+4, limits(points))
		for i := range points {
			if p := &points[i]; !p.isProduct && len(p.Peers) > 0 {
				c.dot("hollow "+p.DType, x.at(fastestPeer(p)/p.Limit()), y, 3.2)
			}
		}
		for i := range points {
			p := &points[i]
			c.dot(p.DType, x.at(p.Speed/p.Limit()), y, 3.8)
		}
	}
	for i, points := range o.rows {
		for _, p := range points {
			p.tip(c, x.at(p.Speed/p.Limit()), overviewTop+rowHeight*(float64(i)+0.5), width)
		}
	}
}

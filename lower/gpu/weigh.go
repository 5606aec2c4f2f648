package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/weigh.cu
var weighText string

// weigh plans the launch of kernels/weigh.cu.
type weigh struct {
	d *def.Definition
	f *def.Stream
}

// The entries of kernels/weigh.cu, in their order: by columns of a thread.
var weighColumns = [...]int{2, 4, 8, 16}

// weighTile is the number of queries of a block.
const weighTile = 64

func compileWeigh(d *def.Definition, dtypes []num.DType, _ Variant, base string) *Kernel {
	f := d.Form.(*def.Stream)
	w := &weigh{d, f}
	dtype := dtypes[f.Query]
	var entries, pairs []string
	for _, columns := range weighColumns {
		entry := fmt.Sprintf("%s_%d", base, columns)
		entries = append(entries, entry)
		pairs = append([]string{fmt.Sprintf("ENTRY_%d,", columns), entry + ","}, pairs...)
	}
	entries = append(entries, base+"_check")

	source := weighSource(d, dtypes, base, weighText, pairs,
		"LOAD(AT)", fmt.Sprintf("load_%s(AT)", dtype),
		"STORE(AT, X)", fmt.Sprintf("store_%s(AT, X)", dtype),
		"ROUND(X)", fmt.Sprintf("round_%s(X)", dtype))
	return &Kernel{Source: Source{Name: base, Text: source, Entries: entries}, d: d, planner: w, check: len(weighColumns)}
}

// weighSource returns a source: what comes from the definition, then a file of kernels, in which pairs
// of names are replaced.
func weighSource(d *def.Definition, dtypes []num.DType, base, kernels string, pairs []string, more ...string) string {
	f, slope, scale := streamOf(d)
	s := &text{}
	heading(&s.Builder, d, dtypes)
	fmt.Fprintf(&s.Builder, "typedef %s Element;\n", dtypes[f.Query])
	macros(&s.Builder, append(more, "HAS_BASE", number(f.HasBase()), "IS_PAGED", number(f.IsPaged()))...)
	s.line("")
	body := newBody(d, f, dtypes)
	if slope < 0 {
		body.writeParams(s)
	} else {
		body.writeBackwardParams(s)
	}
	s.WriteString(checkSource(d, base) + "\n")
	weights := f.Weights(dtypes[f.Query])
	function(s, "power", weights)
	if near := weights.Near; near != nil {
		macros(&s.Builder, "NEAR", floatText(near.Least))
		function(s, "near_sum", near.Sum)
		function(s, "near_power", near.Of)
	}
	if slope < 0 {
		function(s, "logarithm", f.Functions.Log2)
	} else {
		body.scale(s, scale)
	}
	body.sight(s)
	head, rest, _ := strings.Cut(kernels, "DEVICE float origin")
	s.WriteString(head)
	body.keys(s)
	body.expression(s, slope)
	s.WriteString(named("DEVICE float origin"+rest, append(pairs, "IS_REFUSED", base+"_is_refused")...))
	return s.String()
}

// streamOf returns the stream of a definition or of its gradients, and which outputs of its body are the
// slope and the scale of these, or -1.
func streamOf(d *def.Definition) (f *def.Stream, slope, scale int) {
	if f, ok := d.Form.(*def.StreamBackward); ok {
		return &f.Stream, f.Slope(), f.Scale()
	}
	return d.Form.(*def.Stream), -1, -1
}

// function writes a function of a definition.
func function(s *text, as string, f *def.Function) {
	row := def.Must(def.Rowwise("row", func(b *def.Builder) {
		b.Out("y", f.Of(b.In("x", def.Only(num.F32))), def.Only(num.F32))
	}))
	k := &rowwise{d: row, dtypes: []num.DType{num.F32, num.F32}}
	s.open("DEVICE float %s(float x) {", as)
	for _, n := range row.Exec().Nodes {
		switch {
		case n.Op == def.OpInput:
			k.declare(s, n, "x")
		case !isInline(n):
			k.declare(s, n, k.expression(n))
		}
	}
	s.line("return %s;", k.value(row.Exec().Outputs[0].Value))
	s.close("}")
	s.line("")
}

// weighBody writes what depends on the body of a stream.
type weighBody struct {
	*rowwise
	stream *def.Definition
	f      *def.Stream
}

func newBody(d *def.Definition, f *def.Stream, dtypes []num.DType) *weighBody {
	b := &weighBody{rowwise: &rowwise{d: f.Body, dtypes: make([]num.DType, len(f.Body.Operands))}, stream: d, f: f}
	var names []string
	for i := range f.Body.Operands {
		b.dtypes[i] = num.F32
		if f.Body.Operands[i].IsInt() {
			b.dtypes[i] = num.I32
		}
		if i < len(f.Reads) && f.Reads[i] >= 0 {
			b.dtypes[i] = dtypes[f.Reads[i]]
		}
		names = append(names, "in_"+f.Body.Operands[i].Name)
	}
	for i := range d.Params {
		names = append(names, "param_"+d.Params[i].Name)
	}
	ids := uniqueIdentifiers(names, "_outer", "_inner")
	b.operands, b.params = ids[:len(f.Body.Operands)], ids[len(f.Body.Operands):]
	return b
}

// writeParams writes the struct of the kernel's parameters.
func (b *weighBody) writeParams(s *text) {
	s.open("struct Params {")
	s.line("const Element *q, *k, *v;")
	s.line("Element* o;")
	s.line("float* lse;")
	s.line("const i32 *qstart, *%s;", b.numbers())
	s.line("const u64* refused;")
	s.line("i64 q_token, q_group, q_head, k_token, k_group, v_token, v_group, o_token, o_group, o_head, lse_token, lse_group;")
	s.line("i64 qstart_stride, %s_stride, sequences, groups, shared, depth;", b.numbers())
	if b.f.IsPaged() {
		s.line("const i32* pages;")
		s.line("i64 pages_stride, page_bits, k_page, v_page;")
	}
	b.writeReads(s)
}

// writeReads writes the operands and parameters that the body reads, and ends the struct.
func (b *weighBody) writeReads(s *text) {
	for i, read := range b.f.Reads {
		if read >= 0 {
			s.line("const %s* %s;", b.dtypes[i], b.operands[i])
			s.line("i64 %s_outer, %s_inner;", b.operands[i], b.operands[i])
		}
	}
	for i := range b.stream.Params {
		kind := "float"
		if b.stream.Params[i].IsInt {
			kind = "i32"
		}
		s.line("%s %s;", kind, b.params[i])
	}
	if len(b.stream.Params)%2 == 1 {
		s.line("u32 pad;")
	}
	s.close("};")
	s.line("")
}

// numbers returns what the kernel calls the operand that says how many keys a sequence has.
func (b *weighBody) numbers() string {
	if b.f.IsPaged() {
		return "klen"
	}
	return "kstart"
}

// keys writes the functions that say how many keys a sequence has, and where they lie.
func (b *weighBody) keys(s *text) {
	s.open("DEVICE void find_keys(const Params& p, Tile& t, int sequence) {")
	if b.f.IsPaged() {
		s.line("t.table = p.pages + sequence * p.pages_stride;")
		s.line("t.first_key = 0;")
		s.line("t.keys = p.klen[sequence * p.klen_stride];")
	} else {
		s.line("t.table = nullptr;")
		s.line("t.first_key = p.kstart[sequence * p.kstart_stride];")
		s.line("t.keys = p.kstart[(sequence + 1) * p.kstart_stride] - t.first_key;")
	}
	s.close("}")
	s.line("")
	page, row := "0", "t.first_key + key"
	if b.f.IsPaged() {
		page, row = "t.table[key >> (int)p.page_bits]", "key & ((1 << (int)p.page_bits) - 1)"
	}
	s.line("DEVICE i32 page_of(const Params& p, const Tile& t, int key) { return %s; }", page)
	s.line("")
	for _, of := range []string{"k", "v"} {
		in := ""
		if b.f.IsPaged() {
			in = fmt.Sprintf("page * p.%s_page + ", of)
		}
		s.line("DEVICE const Element* %[1]s_in(const Params& p, const Tile& t, i32 page, int key) { return p.%[1]s + %[2]s(i64)(%[3]s) * p.%[1]s_token + t.group * p.%[1]s_group; }", of, in, row)
		s.line("")
		s.line("DEVICE const Element* %[1]s_at(const Params& p, const Tile& t, int key) { return %[1]s_in(p, t, page_of(p, t, key), key); }", of)
		s.line("")
	}
}

// expression writes the body for one query and key. Gradients have an output for the slope.
func (b *weighBody) expression(s *text, slope int) {
	results := map[int]string{0: "exponent", 1: "is_visible"}
	if b.f.HasBase() {
		results[2] = "base"
	}
	more := ""
	if slope >= 0 {
		results[slope], more = "slope", ", float& slope"
	}
	s.open("DEVICE void body(const Params& p, const Tile& t, i64 token, i64 at_key, float score, i32 query, i32 key, float& exponent, i32& is_visible, float& base%s) {", more)
	for _, n := range b.d.Exec().Nodes {
		switch {
		case n.Op == def.OpInput:
			b.declare(s, n, b.leaf(n))
		case !isInline(n):
			b.declare(s, n, b.rowwise.expression(n))
		}
	}
	for i, o := range b.d.Exec().Outputs {
		if name := results[i]; name != "" {
			s.line("%s = %s;", name, b.value(o.Value))
		}
	}
	s.close("}")
	s.line("")
}

// leaf returns the expression of an operand's element.
func (b *weighBody) leaf(n *def.Node) string {
	read := b.f.Reads[n.Operand]
	if read < 0 {
		return [...]string{"score", "query", "key", "(i32)t.head"}[n.Operand]
	}
	id := b.operands[n.Operand]
	dims := b.stream.Operands[read].Dims
	at := ""
	switch {
	case dims[0] == "G":
		at = fmt.Sprintf("t.group * p.%s_outer + t.shared", id)
	case dims[0] == "T" && len(dims) == 3:
		at = fmt.Sprintf("token * p.%s_outer + t.group * p.%[1]s_inner + t.shared", id)
	case dims[0] == "T":
		at = fmt.Sprintf("token * p.%s_outer", id)
	case len(dims) == 2:
		at = fmt.Sprintf("at_key * p.%s_outer + t.group", id)
	default:
		at = fmt.Sprintf("at_key * p.%s_outer", id)
	}
	return b.load(n.Operand, at)
}

// launches implements planner.
func (k *weigh) launches(p *Plan, c *lower.Call, _ Limits) error {
	entry, slices, err := k.slices(c, weighColumns[:])
	if err != nil {
		return err
	}
	return k.launchTiles(p, c, entry, weighTile, slices, 256, 0)
}

// slices returns which number of columns a thread has in a call, and among how many blocks the columns of
// a head are divided.
func (k *weigh) slices(c *lower.Call, columns []int) (entry, slices int, err error) {
	depth := c.Size(k.d, "D")
	for entry < len(columns)-1 && 16*columns[entry] < depth {
		entry++
	}
	slices = tiles(depth, 16*columns[entry])
	if slices > math.MaxUint16 {
		err = fmt.Errorf("%s: heads of %d columns are too wide for a GPU", k.d.Name, depth)
	}
	return entry, slices, err
}

// checkAxes returns an error for operands with more axes than the definition has.
func (k *weigh) checkAxes(c *lower.Call) error {
	for i := range c.Operands {
		if o := &k.d.Operands[i]; c.Operands[i].Batch.Count != len(o.BatchDims()) {
			return fmt.Errorf("%s: %s has more sizes than %v", k.d.Name, o.Name, o.Dims)
		}
	}
	return nil
}

// launchTiles plans a launch with a block for each tile of so many queries and head, and each slice of its columns.
func (k *weigh) launchTiles(p *Plan, c *lower.Call, entry, tile, slices, threads, sharedBytes int) error {
	blocks, err := k.blocksOf(c, tile)
	if err != nil || blocks == 0 {
		return err
	}
	p.launch(entry, [3]uint32{uint32(blocks), uint32(slices), 1}, [3]uint32{uint32(threads), 1, 1}, sharedBytes)
	k.params(p, c)
	return nil
}

// blocksOf returns the number of blocks that have tiles of so many queries, one for each head.
func (k *weigh) blocksOf(c *lower.Call, tile int) (int, error) {
	if err := k.checkAxes(c); err != nil {
		return 0, err
	}
	sequences := c.Operands[k.f.QueryStarts].Rows - 1
	blocks := lower.GroupSlots(c.Size(k.d, "T"), tile, sequences) * c.Size(k.d, "G") * c.Size(k.d, "J")
	if blocks > math.MaxInt32 {
		return 0, fmt.Errorf("%s: %d blocks are too many for one launch", k.d.Name, blocks)
	}
	return blocks, nil
}

// params adds the kernel's parameters.
func (k *weigh) params(p *Plan, c *lower.Call) {
	f := k.f
	q, key, v, o, lse := &c.Operands[f.Query], &c.Operands[f.Key], &c.Operands[f.Value], &c.Operands[f.Out], &c.Operands[f.LogSum]
	qstart, keys := &c.Operands[f.QueryStarts], &c.Operands[max(f.KeyStarts, f.Lengths)]
	p.pointers(q.Pointer, key.Pointer, v.Pointer, o.Pointer, lse.Pointer, qstart.Pointer, keys.Pointer)
	p.refused()
	axis := func(a *lower.Operand, i int) int { return a.Batch.Axes[i].Stride }
	token := len(k.d.Operands[f.Key].BatchDims()) - 1 // the axis of keys
	p.ints(axis(q, 0), axis(q, 1), q.Stride, axis(key, token), key.Stride, axis(v, token), v.Stride, axis(o, 0), axis(o, 1), o.Stride, axis(lse, 0), lse.Stride)
	p.ints(qstart.Stride, keys.Stride, qstart.Rows-1, c.Size(k.d, "G"), c.Size(k.d, "J"), c.Size(k.d, "D"))
	if f.IsPaged() {
		pages := &c.Operands[f.Pages]
		p.pointers(pages.Pointer)
		p.ints(pages.Stride, bits.TrailingZeros(uint(c.Size(k.d, "N"))), axis(key, 0), axis(v, 0))
	}
	k.passReads(p, c)
}

// passReads passes what the body reads.
func (k *weigh) passReads(p *Plan, c *lower.Call) {
	for _, read := range k.f.Reads {
		if read < 0 {
			continue
		}
		a := &c.Operands[read]
		p.pointers(a.Pointer)
		if a.Batch.Count == 1 {
			p.ints(a.Batch.Axes[0].Stride, a.Stride)
		} else {
			p.ints(a.Stride, 0)
		}
	}
	for i, v := range c.Params {
		if k.d.Params[i].IsInt {
			p.half(uint32(int32(v)))
		} else {
			p.half(math.Float32bits(float32(v)))
		}
	}
	p.align(8)
}

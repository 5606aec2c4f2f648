package matmul

import (
	"math"
	"unsafe"

	"tokitai/num"
)

// view is where a matrix lies, as lines of equal length: an element of a line is one step
// from the next. For operands lines are the rows of the left one and the columns of the
// right one, and steps run along the summed index. Distances are in bytes.
type view struct {
	at         unsafe.Pointer
	line, step int
}

func (v *view) element(line, step int) unsafe.Pointer {
	return unsafe.Add(v.at, line*v.line+step*v.step)
}

// mover calls the functions that move and convert data.
type mover struct {
	*code
	frame moveFrame
	ahead int // steps that are fetched while rows are packed
}

// forget drops the pointers to operands.
func (m *mover) forget() { m.frame = moveFrame{} }

func lowBits(n int) uint64 { return 1<<n - 1 }

// pack widens depth steps of some lines, from step k on, into rows of one element of each
// line: to[i][l] = v[first+l][k+i]. Rows are step bytes apart. It may write as far as the
// end of the last vector of each row, in ascending order of rows, and up to paddedDepth
// rows.
func (m *mover) pack(to unsafe.Pointer, step int, v *view, dtype num.DType, first, lines, k, depth int) {
	if depth == 0 {
		return
	}
	if v.line == dtype.Size() {
		m.packRows(to, step, v, dtype, first, lines, k, depth)
		return
	}
	for l := 0; l < lines; l += m.lanes {
		m.packLines(unsafe.Add(to, l*4), step, v, dtype, first+l, min(m.lanes, lines-l), k, depth)
	}
}

// packRows is pack for lines whose elements of one step are neighbours.
func (m *mover) packRows(to unsafe.Pointer, step int, v *view, dtype num.DType, first, lines, k, depth int) {
	f := &m.frame
	for l := 0; l < lines; {
		vectors := min(len(m.widen), parts(lines-l, m.lanes))
		n := min(vectors*m.lanes, lines-l)
		if n%m.lanes != 0 && !m.masks(dtype) {
			if vectors > 1 {
				vectors--
				n = vectors * m.lanes
			} else {
				packGo(unsafe.Add(to, l*4), step, v, dtype, first+l, n, k, depth)
				return
			}
		}
		f.from[0], f.to = v.element(first+l, k), unsafe.Add(to, l*4)
		f.fromStep, f.toStep, f.depth, f.times, f.ahead = v.step, step, depth, 1, m.ahead*v.step
		m.widenVectors(vectors, n, dtype)
		l += n
	}
}

// widenVectors widens rows of n elements, which are that many vectors.
func (m *mover) widenVectors(vectors, n int, dtype num.DType) {
	f, last := &m.frame, n-(vectors-1)*m.lanes
	f.mask, f.maskLanes = lowBits(last), unsafe.Pointer(&maskLanes[max(0, 8-last)])
	code := &m.widen
	if m.ahead > 0 {
		code = &m.widenFar
	}
	m.program.Call(code[vectors-1][dtype], unsafe.Pointer(f))
}

// packBeside packs count groups of lines, side by side, each as pack does; groups lie stride
// bytes apart in to. Where the elements of one step are neighbours it reads them in order, as
// the processor foresees.
func (m *mover) packBeside(to unsafe.Pointer, step, stride int, v *view, dtype num.DType, first, lines, count, k, depth int) {
	vectors := parts(lines, m.lanes)
	if v.line != dtype.Size() || vectors > len(m.widen) || lines%m.lanes != 0 && !m.masks(dtype) || count < 2 || depth == 0 {
		for i := range count {
			m.pack(unsafe.Add(to, i*stride), step, v, dtype, first+i*lines, lines, k, depth)
		}
		return
	}
	f := &m.frame
	f.from[0], f.to = v.element(first, k), to
	f.fromStep, f.toStep, f.depth = lines*v.line, stride, count
	f.fromNext, f.toNext, f.times, f.ahead = v.step, step, depth, m.ahead*v.step
	m.widenVectors(vectors, lines, dtype)
}

// packLines is pack for at most as many lines as a vector has lanes, whose steps are
// neighbours.
func (m *mover) packLines(to unsafe.Pointer, step int, v *view, dtype num.DType, first, lines, k, depth int) {
	whole := depth
	if !m.partial {
		whole -= depth % m.lanes
		if whole == 0 {
			packGo(to, step, v, dtype, first, lines, k, depth)
			return
		}
	}
	m.transposeLines(to, step, v, dtype, first, lines, k, whole)
	if whole < depth { // the last block overlaps the one before
		at := depth - m.lanes
		m.transposeLines(unsafe.Add(to, at*step), step, v, dtype, first, lines, k+at, m.lanes)
	}
}

func (m *mover) transposeLines(to unsafe.Pointer, step int, v *view, dtype num.DType, first, lines, k, depth int) {
	f := &m.frame
	for l := range m.lanes {
		f.from[l] = v.element(first+min(l, lines-1), k) // what is not there repeats the last line
	}
	f.to, f.toStep, f.depth, f.mask = to, step, depth, lowBits(depth%m.lanes)
	m.program.Call(m.transpose[dtype], unsafe.Pointer(f))
}

// packGo is pack in plain Go, for what the code of a set without masks leaves.
func packGo(to unsafe.Pointer, step int, v *view, dtype num.DType, first, lines, k, depth int) {
	for i := range depth {
		row := unsafe.Slice((*float32)(unsafe.Add(to, i*step)), lines)
		for l := range row {
			at := v.element(first+l, k+i)
			switch dtype.Size() {
			case 4:
				row[l] = *(*float32)(at)
			case 2:
				row[l] = num.Widen(dtype, uint32(*(*uint16)(at)))
			default:
				row[l] = num.Widen(dtype, uint32(*(*uint8)(at)))
			}
		}
	}
}

// unpack stores rows of binary32, each value rounded once: v[c][first+i] = from[i][c] for
// rows, cols. Rows of from are step bytes apart. It uses buffer, which has room for cols
// vectors, where lines are not neighbours.
func (m *mover) unpack(v *view, dtype num.DType, row, col int, from unsafe.Pointer, step, rows, cols int, buffer unsafe.Pointer) {
	if v.line == dtype.Size() {
		m.narrowRows(v.element(col, row), v.step, dtype, from, step, rows, cols)
		return
	}
	lines := view{from, step, 4}
	for r := 0; r < rows; r += m.lanes {
		n := min(m.lanes, rows-r)
		m.packLines(buffer, m.lanes*4, &lines, num.F32, r, n, 0, cols)
		m.narrowRows(v.element(col, row+r), v.line, dtype, buffer, m.lanes*4, cols, n)
	}
}

// narrowRows stores rows of count values, rounded. Distances between rows are in bytes.
func (m *mover) narrowRows(to unsafe.Pointer, toStep int, dtype num.DType, from unsafe.Pointer, fromStep, rows, count int) {
	f := &m.frame
	whole := count
	if !m.partial {
		whole -= count % m.lanes
	}
	if whole > 0 {
		f.from[0], f.fromStep, f.to, f.toStep = from, fromStep, to, toStep
		f.depth, f.count, f.mask = rows, whole, lowBits(whole%m.lanes)
		m.program.Call(m.narrow[dtype], unsafe.Pointer(f))
	}
	if whole == count {
		return
	}
	for r := range rows {
		values := unsafe.Slice((*uint32)(unsafe.Add(from, r*fromStep)), count)
		for c := whole; c < count; c++ {
			at := unsafe.Add(to, r*toStep+c*dtype.Size())
			if dtype == num.F32 {
				*(*uint32)(at) = values[c]
			} else {
				*(*uint16)(at) = uint16(num.Narrow(dtype, math.Float32frombits(values[c])))
			}
		}
	}
}

// padding is the number of bytes that pack may write beyond the last row.
const padding = 64

// padded returns a depth rounded up to whole blocks of a transposition.
func padded(depth int) int { return (depth + 15) &^ 15 }

// panels is memory for packed panels: each has padded rows of one element per line.
type panels struct {
	at     unsafe.Pointer
	step   int // bytes from a row to the next; 0 if rows of a panel follow without gaps
	stride int // bytes from a panel to the next
}

// panelStride returns the bytes of a panel.
func panelStride(step, depth int) int { return step*padded(depth) + padding }

// scratch is memory that grows to what was needed most.
type scratch struct{ memory []byte }

// get returns memory of that many bytes at a multiple of 64.
func (s *scratch) get(bytes int) unsafe.Pointer {
	if len(s.memory) < bytes+64 {
		s.memory = make([]byte, bytes+64)
	}
	p := unsafe.Pointer(unsafe.SliceData(s.memory))
	return unsafe.Add(p, -uintptr(p)&63)
}

package matmul

// fetcher hands out what multiplications fetch into the second-level cache while they
// work: what those after them read. A multiplication fetches prefetchBytes for every
// prefetchSteps steps of the summed index.
type fetcher struct {
	rightStride int  // bytes to the next panel of the right operand; 0 if it is not to be fetched
	left        span // the rest of the left operand's next block
	leftShare   int  // bytes of it for each column
	queue       [2]span
	idle        uintptr // what is in the cache anyway
}

// A multiplication fetches prefetchBytes for every prefetchSteps indices of the sum.
const (
	prefetchSteps = 2
	prefetchBytes = 32
)

// span is memory to fetch. Nothing is read through it.
type span struct {
	at    uintptr
	bytes int
}

// begin fills the queue for the multiplications with a panel of columns.
func (f *fetcher) begin(right uintptr, cols int) {
	f.queue, f.idle = [2]span{}, right
	if f.rightStride > 0 {
		f.queue[0] = span{right + uintptr(f.rightStride), f.rightStride}
	}
	if n := min(f.leftShare*cols, f.left.bytes); n > 0 {
		f.queue[1] = span{f.left.at, n}
		f.left = span{f.left.at + uintptr(n), f.left.bytes - n}
	}
}

// isEmpty reports whether there is nothing to fetch in any panel of columns.
func (f *fetcher) isEmpty() bool { return f.rightStride == 0 && f.left.bytes == 0 }

// take returns where the multiplication of some panels may fetch, and how many of the
// panels it is for.
func (f *fetcher) take(panels, depth int) (at uintptr, count int) {
	perPanel := depth / prefetchSteps * prefetchBytes
	for i := range f.queue {
		if s := &f.queue[i]; s.bytes > 0 && perPanel > 0 {
			count = min(panels, parts(s.bytes, perPanel))
			at = s.at
			s.at, s.bytes = at+uintptr(count*perPanel), s.bytes-count*perPanel
			return at, count
		}
	}
	return f.idle, panels
}

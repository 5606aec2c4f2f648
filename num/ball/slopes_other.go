//go:build !amd64

package ball

func setManyProducts(to, a, b []Ball) int                                  { return 0 }
func addManyProducts(to, a, b []Ball) int                                  { return 0 }
func addMany(to, a []Ball, isNegative bool) int                            { return 0 }
func setManyMeans(to, a, b []Ball) int                                     { return 0 }
func addManyMagnitudes(totals []float64, a []Ball, weights []float64) int  { return 0 }
func addManyWeighted(totals []float64, a []Ball, weight, grow float64) int { return 0 }

func (z *Noise) stepMany(kind stepKind, to, a, b []Ball) (n int, isBeyond, isBelow bool) {
	return 0, false, false
}

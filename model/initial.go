package model

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"

	"tokitai/num"
)

// invSqrt returns 1/sqrt(n), as binary64 rounds it twice.
func invSqrt(n int) float64 { return 1 / math.Sqrt(float64(n)) }

// deviation is the standard deviation of initial weights.
const deviation = 0.02

// Initial returns the initial values of a weight of a decoder: norms are 1, those by 1+w 0, biases 0, matrices normal
// numbers times 0.02, and those whose results are added to the residual stream times
// 0.02/sqrt(2*layers). They depend on the seed, the name and the element alone.
func (c *Config) Initial(w *Value, seed uint64) []float32 {
	values := make([]float32, w.Len())
	switch {
	case len(w.Shape) == 1 && strings.HasSuffix(w.Name, ".weight") && c.Norm != "rms1":
		for i := range values {
			values[i] = 1
		}
	case len(w.Shape) > 1:
		scale := float32(deviation)
		if strings.HasSuffix(w.Name, "o_proj.weight") || strings.HasSuffix(w.Name, "down_proj.weight") {
			scale = float32(deviation / math.Sqrt(float64(2*c.Layers)))
		}
		name := sha256.Sum256([]byte(w.Name))
		for i := range values {
			values[i] = normal(seed, name, uint64(i), scale)
		}
	}
	return values
}

// uniform sets values to limit times k/2^31, rounded once, where k is the first word, as a signed number, of a block of
// Philox, with the seed as key and the counter of the element as in normal.
func uniform(values []float32, seed uint64, name string, limit float64) {
	sum := sha256.Sum256([]byte(name))
	for i := range values {
		word := num.Philox(seed, counter(sum, uint64(i)))[0]
		values[i] = float32(math.Ldexp(limit*float64(int32(word)), -31))
	}
}

// counter returns the counter of a block of words of a tensor.
func counter(name [32]byte, n uint64) [4]uint32 {
	return [4]uint32{uint32(n), uint32(n >> 32), binary.LittleEndian.Uint32(name[:]), binary.LittleEndian.Uint32(name[4:])}
}

// normal returns scale times a number that is nearly normal: the sum of twelve 16-bit integers, less
// its mean, divided by 2^16, whose variance is 1 - 2^-32. The product is exact in binary64, and
// rounded once. The integers are the halves of the first six words of two blocks of Philox, with
// the seed as key and the counter (2*element or 2*element+1, low and high, the first words of the
// SHA-256 of the name).
func normal(seed uint64, name [32]byte, element uint64, scale float32) float32 {
	sum := int64(0)
	for half := range uint64(2) {
		words := num.Philox(seed, counter(name, 2*element+half))
		for _, w := range words[:4-2*half] {
			sum += int64(w&0xffff) + int64(w>>16)
		}
	}
	return float32(float64(scale) * math.Ldexp(float64(sum-6*0xffff), -16))
}

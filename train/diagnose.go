package train

import (
	"math"

	"tokitai/num"
)

// Diagnosis says how large a weight and its gradient are in a step.
type Diagnosis struct {
	Name     string  `json:"name"`
	Elements int     `json:"elements"`
	Weight   float64 `json:"weight"`   // root of the mean square
	Gradient float64 `json:"gradient"` // root of the mean square
	Largest  float64 `json:"largest"`  // absolute value of the gradient
	Zeros    int     `json:"zeros"`    // of the gradient
	Bad      int     `json:"bad"`      // elements of the gradient that are not finite
	F16      InF16   `json:"f16"`      // the gradient, stored in f16
}

// InF16 says what is lost of finite values of binary32 that are rounded to f16.
type InF16 struct {
	Zeros      int     `json:"zeros"`      // values other than 0 that become 0
	Subnormals int     `json:"subnormals"` // values that become subnormal, with fewer bits than others
	Infinite   int     `json:"infinite"`   // values that become infinite
	Error      float64 `json:"error"`      // root of the sum of squared differences, over that of the squares; without those that become infinite
}

// Diagnose computes the gradients of the next step, and changes nothing. The numbers are of binary64. What is lost in f16 follows
// from the format: nothing is computed in it, and no factor scales the loss.
func (t *Trainer) Diagnose() (loss, norm float32, list []Diagnosis, err error) {
	if loss, norm, _, err = t.gradients(t.step + 1); err != nil {
		return 0, 0, nil, err
	}
	for i, name := range t.names {
		weight, err := t.weights[i].Float32s()
		if err != nil {
			return 0, 0, nil, err
		}
		d := Diagnosis{Name: name, Elements: len(weight), Weight: rootMeanSquare(weight)}
		gradient, err := t.levels[0].grads[i].Float32s()
		if err != nil {
			return 0, 0, nil, err
		}
		d.Gradient = rootMeanSquare(gradient)
		for _, v := range gradient {
			switch {
			case v == 0:
				d.Zeros++
			case !isFinite(v):
				d.Bad++
			default:
				d.Largest = max(d.Largest, math.Abs(float64(v)))
			}
		}
		d.F16 = inF16(gradient)
		list = append(list, d)
	}
	return loss, norm, list, nil
}

func inF16(list []float32) InF16 {
	var r InF16
	var squares, differences float64
	for _, v := range list {
		if !isFinite(v) {
			continue
		}
		half := num.F16ToF32(num.F32ToF16(v))
		switch {
		case half == 0 && v != 0:
			r.Zeros++
		case !isFinite(half):
			r.Infinite++
			continue
		case half != 0 && math.Abs(float64(half)) < smallestNormalF16:
			r.Subnormals++
		}
		difference := float64(half) - float64(v)
		squares += float64(v) * float64(v)
		differences += difference * difference
	}
	if differences > 0 {
		r.Error = math.Sqrt(differences / squares)
	}
	return r
}

const smallestNormalF16 = 0x1p-14

// rootMeanSquare is over the finite values.
func rootMeanSquare(list []float32) float64 {
	sum := 0.0
	for _, v := range list {
		if isFinite(v) {
			sum += float64(v) * float64(v)
		}
	}
	return math.Sqrt(sum / float64(len(list)))
}

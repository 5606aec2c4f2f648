package train

import "math"

// Diagnosis says how large a weight and its gradient are in a step.
type Diagnosis struct {
	Name     string  `json:"name"`
	Elements int     `json:"elements"`
	Weight   float64 `json:"weight"`   // root of the mean square
	Gradient float64 `json:"gradient"` // root of the mean square
	Largest  float64 `json:"largest"`  // absolute value of the gradient
	Zeros    int     `json:"zeros"`    // of the gradient
	Bad      int     `json:"bad"`      // elements of the gradient that are not finite
}

// Diagnose computes the gradients of the next step, and changes nothing. The numbers are of binary64.
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
		list = append(list, d)
	}
	return loss, norm, list, nil
}

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

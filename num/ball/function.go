package ball

import "math"

// Functions of a Ball: the function at the midpoint, with the error proven in
// elementary.go, and a radius from a bound of the derivative over the ball. All
// functions here increase, so a ball too wide for that bound is enclosed by its
// endpoints. Sine and cosine are in wave.go.

// increasing encloses an increasing function by its values at the endpoints.
func increasing(a Ball, at func(float64) Ball) Ball {
	lo, hi := a.Bounds()
	lo, _ = at(lo).Bounds()
	_, hi = at(hi).Bounds()
	return between(lo, hi)
}

// Exp: exp(a+h) - exp(a) <= exp(a)*(exp(r)-1) <= exp(a)*r(1+r) for r <= 1, because
// the coefficients of exp(r)-1-r add up to e-2 < 1. Below -700 the result is
// [0, 2^-1009], above 709 it is unknown. exp(0) = 1 exactly.
func (a Ball) Exp() Ball {
	if a.Rad <= 1 && expMin <= a.Mid && a.Mid <= expMax && a != (Ball{}) {
		c := pointExp(a.Mid) // expErr is within the 2^-52 that outward allows for c
		return outward(c, c*a.Rad*(1+a.Rad))
	}
	if !a.Known() {
		return unknown
	}
	return increasing(a, expAt)
}

func expAt(x float64) Ball {
	switch {
	case x == 0:
		return Ball{Mid: 1}
	case x < expMin:
		return Ball{0x1p-1010, 0x1p-1010} // exp(-700) < 2^-1009
	case x > expMax:
		return unknown
	}
	return outward(pointExp(x), 0)
}

// Exp2 has the radius of Exp with r*ln2 in place of r. Below -1009 the result is
// [0, 2^-1009], above 1023 it is unknown. 2^n is exact.
func (a Ball) Exp2() Ball {
	switch {
	case !a.Known():
		return unknown
	case a.Rad == 0:
		return exp2At(a.Mid)
	case a.Rad <= 1 && exp2Min <= a.Mid && a.Mid <= exp2Max:
		c, r := pointExp2(a.Mid), float64(a.Rad*math.Ln2)
		return outward(c, c*r*(1+r))
	}
	return increasing(a, exp2At)
}

func exp2At(x float64) Ball {
	switch {
	case x < exp2Min:
		return Ball{0x1p-1010, 0x1p-1010}
	case x > exp2Max:
		return unknown
	case x == math.Trunc(x):
		return Ball{Mid: pow2(int(x))}
	}
	return outward(pointExp2(x), 0)
}

// Expm1 has the slope exp(a) = 1+c, with c off by expm1Err.
func (a Ball) Expm1() Ball {
	if a.Rad <= 1 && expMin <= a.Mid && a.Mid <= expMax && a != (Ball{}) {
		c := pointExpm1(a.Mid)
		m := math.Abs(c)
		slope := (1 + c) + float64((1+m)*0x1p-49)
		return outward(c, float64(m*expm1Err)+float64(slope*a.Rad*(1+a.Rad)))
	}
	if !a.Known() {
		return unknown
	}
	return increasing(a, expm1At)
}

func expm1At(x float64) Ball {
	switch {
	case x == 0:
		return Ball{}
	case x < expMin:
		return Ball{-1, 0x1p-1009}
	case x > expMax:
		return unknown
	}
	c := pointExpm1(x)
	return outward(c, math.Abs(c)*expm1Err)
}

// Log: with q = ra/a < 1, |log(x/a)| <= -log(1-q) <= q/(1-q) = ra/(a-ra).
// log(1) = 0 exactly.
func (a Ball) Log() Ball {
	d := a.Mid - a.Rad
	if !(0 < d && d <= math.MaxFloat64) {
		return unknown
	}
	if a.Rad <= a.Mid*0.25 && a != (Ball{Mid: 1}) {
		c := pointLog(a.Mid)
		return outward(c, float64(math.Abs(c)*logErr)+a.Rad/d)
	}
	return increasing(a, logAt)
}

func logAt(x float64) Ball {
	switch {
	case x == 1:
		return Ball{}
	case x <= 0 || x > math.MaxFloat64:
		return unknown
	}
	c := pointLog(x)
	return outward(c, math.Abs(c)*logErr)
}

// Log2 has the radius of Log times 1/ln 2. log2(2^n) = n exactly.
func (a Ball) Log2() Ball {
	d := a.Mid - a.Rad
	switch {
	case !(0 < d && d <= math.MaxFloat64):
		return unknown
	case a.Rad == 0:
		return log2At(a.Mid)
	case a.Rad <= a.Mid*0.25:
		c := pointLog2(a.Mid)
		return outward(c, float64(math.Abs(c)*log2Err)+float64(a.Rad/d*math.Log2E))
	}
	return increasing(a, log2At)
}

func log2At(x float64) Ball {
	if x <= 0 || x > math.MaxFloat64 {
		return unknown
	}
	if m, e := math.Frexp(x); m == 0.5 {
		return Ball{Mid: float64(e - 1)}
	}
	c := pointLog2(x)
	return outward(c, math.Abs(c)*log2Err)
}

// Log1p has the radius of Log around 1+a: ra/(1+a-ra). 1+a rounds by at most u, which
// d, at least three quarters of it, shows as less than 2u. log1p(0) = 0 exactly.
func (a Ball) Log1p() Ball {
	m := 1 + a.Mid
	switch d := m - a.Rad; {
	case !a.Known():
		return unknown
	case a.Rad <= m*0.25 && m > 0 && a != (Ball{}):
		c := pointLog1p(a.Mid)
		return outward(c, float64(math.Abs(c)*log1pErr)+a.Rad/d)
	}
	return increasing(a, log1pAt)
}

func log1pAt(x float64) Ball {
	switch {
	case x == 0:
		return Ball{}
	case x <= -1 || x > math.MaxFloat64:
		return unknown
	}
	c := pointLog1p(x)
	return outward(c, math.Abs(c)*log1pErr)
}

// Tanh has the slope 1-tanh², whose logarithm has a derivative of at most 2: over
// the ball it is at most (1-c²)*exp(2r) <= (1-c²)(1+4r) for r <= 1/4. 2^-46 stands
// above the error of c² and of the subtraction.
func (a Ball) Tanh() Ball {
	if a.Rad <= 0.25 && a != (Ball{}) && math.Abs(a.Mid) <= math.MaxFloat64 {
		c := pointTanh(a.Mid)
		slope := float64((1-float64(c*c))*(1+4*a.Rad)) + 0x1p-46
		return outward(c, float64(math.Abs(c)*tanhErr)+float64(slope*a.Rad))
	}
	if !a.Known() {
		return unknown
	}
	return increasing(a, tanhAt)
}

func tanhAt(x float64) Ball {
	if x == 0 {
		return Ball{}
	}
	c := pointTanh(x)
	return outward(c, math.Abs(c)*tanhErr)
}

// Sigmoid has the slope e/(1+e)², e = exp(-|a|), whose logarithm has a derivative of
// at most 1: over the ball it is at most exp(r) <= 1+2r times that for r <= 1.
func (a Ball) Sigmoid() Ball {
	if a.Rad <= 1 && math.Abs(a.Mid) <= -expMin {
		c, e := pointSigmoid(a.Mid)
		slope := e / float64((1+e)*(1+e)) * (1 + 2*a.Rad)
		return outward(c, float64(c*sigmoidErr)+float64(slope*a.Rad))
	}
	if !a.Known() {
		return unknown
	}
	return increasing(a, sigmoidAt)
}

func sigmoidAt(x float64) Ball {
	switch {
	case x < expMin:
		return Ball{0x1p-1010, 0x1p-1010}
	case x > -expMin:
		return Ball{1, 0x1p-1009}
	}
	c, _ := pointSigmoid(x)
	return outward(c, c*sigmoidErr)
}

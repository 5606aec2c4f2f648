package fn

import "tokitai/def"

// All lists the functions of the package.
var All = []*def.Function{
	ExpFunction, ExpNonPositiveFunction, ExpBoundedFunction, Exp2Function,
	Exp2Short3Function, Exp2Short4Function,
	LogFunction, Log2Function, Log1pFunction,
	RecipFunction, RecipBoundedFunction, RsqrtFunction,
	SigmoidFunction, TanhFunction,
	SinFunction, CosFunction,
	ErfFunction, ErfcxBoundedFunction,
}

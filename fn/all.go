package fn

import "tokitai/def"

// All is every function of the package.
var All = []*def.Function{
	ExpFunction, ExpNonPositiveFunction, ExpBoundedFunction,
	LogFunction,
	RecipFunction, RecipBoundedFunction, RsqrtFunction,
	SigmoidFunction, TanhFunction,
}

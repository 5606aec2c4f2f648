// Package tkp1 reads and writes TKP1 files: networks of features with the moments of their optimizer, as the ancestor of
// this project kept them.
//
// All numbers are little-endian, counts are uint32, and a text or a tensor stands behind its length, in bytes or elements:
//
//	"TKP1", version 1, step, number of parameters, configuration (JSON)
//	for each parameter: name, weight (float32), m, v, step, has_grad (a byte), and float32 like the weight if it is 1
//
// Parameters are router.param_0 and 1, a linear layer's weight and bias, and expert_E.param_I: for each hidden layer a weight, a bias, and a
// norm's gamma and beta, and then a weight and a bias. Weights of linear layers are [in, out], which is
// how the ancestor multiplied by them. The step of a parameter is how many steps its moments have seen.
// Read checks a file as a whole. Start with Read, File.Features, File.Take and New.
package tkp1

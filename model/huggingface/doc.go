// Package huggingface reads and writes the folders in which Hugging Face's library transformers keeps
// language models: config.json, generation_config.json, and weights in safetensors files, one or
// several with an index.
//
// Open reads the configuration and the headers of the weights. It returns the model.Config of the
// network, and knows where each weight of its program lies in the files. Every field of a configuration
// is used, known to change nothing, or refused by its name; every tensor that is missing, left over or of another
// shape is named. Load gives the weights to a device: those that a file has as the program wants
// them are mapped into memory, not copied. Others are put together: experts, which files have one by one, and fused
// or transposed projections. Write goes the other way.
//
// Families lists the supported families. Both spellings of a configuration are accepted: that of transformers 4
// (rope_theta, rope_scaling, torch_dtype) and that of transformers 5 (rope_parameters, dtype).
//
// Nothing in a folder is run, and nothing but the named files is read.
package huggingface

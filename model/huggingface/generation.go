package huggingface

import (
	"fmt"
	"slices"
	"strconv"

	"tokitai/internal/jsontree"
	"tokitai/internal/readfile"
)

// Generation is what generation_config.json says about sampling, or, in folders without it, config.json: what a caller asks
// for by default.
type Generation struct {
	Begin, Pad int   // tokens; -1 for none
	End        []int // tokens that end an answer

	IsGiven     bool    // whether the file says how tokens are drawn; otherwise the next six are what transformers does
	IsSampled   bool    // false for the most probable token
	Temperature float64 // 1 changes nothing
	TopK        int     // 0 for all
	TopP        float64 // 1 for all
	MinP        float64 // 0 for all
	Repetition  float64 // penalty of tokens that have occurred; 1 for none
	MaxNew      int     // tokens of an answer; 0 if it says nothing
	MaxLength   int     // tokens of prompt and answer; 0 if it says nothing
	Stops       []string

	// Unsupported lists settings that change answers and that are not supported, each as a sentence.
	Unsupported []string
}

// neutral are settings that are not supported, with the values that change nothing.
var neutral = []struct {
	name   string
	values []string
}{
	{"num_beams", []string{"1"}}, {"num_beam_groups", []string{"1"}}, {"num_return_sequences", []string{"1"}},
	{"encoder_repetition_penalty", []string{"1"}}, {"no_repeat_ngram_size", []string{"0"}}, {"encoder_no_repeat_ngram_size", []string{"0"}}, {"typical_p", []string{"1"}},
	{"epsilon_cutoff", []string{"0"}}, {"eta_cutoff", []string{"0"}}, {"top_h", nil}, {"diversity_penalty", []string{"0"}}, {"penalty_alpha", []string{"0"}},
	{"bad_words_ids", []string{"[]"}}, {"force_words_ids", []string{"[]"}}, {"constraints", []string{"[]"}}, {"sequence_bias", nil}, {"guidance_scale", []string{"1"}}, {"watermarking_config", nil},
	{"forced_bos_token_id", nil}, {"forced_eos_token_id", nil}, {"forced_decoder_ids", []string{"[]"}}, {"suppress_tokens", []string{"[]"}}, {"begin_suppress_tokens", []string{"[]"}},
	{"exponential_decay_length_penalty", nil}, {"min_length", []string{"0"}}, {"min_new_tokens", []string{"0"}}, {"max_time", nil}, {"dola_layers", nil}, {"token_healing", []string{"false"}},
	{"renormalize_logits", []string{"false"}}, {"remove_invalid_values", []string{"false"}}, {"low_memory", []string{"false"}}, {"prompt_lookup_num_tokens", nil}, {"is_assistant", []string{"false"}},
}

// used are the settings that Generation has.
var used = []string{"do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens", "max_length", "stop_strings"}

// generationFields are all settings of generation. Older versions wrote them to config.json.
var generationFields = func() []string {
	list := append([]string{"length_penalty", "early_stopping"}, used...)
	for _, n := range neutral {
		list = append(list, n.name)
	}
	return list
}()

// ParseGeneration reads the text of a generation_config.json.
func ParseGeneration(text []byte) (*Generation, error) {
	object, err := parseObject(text)
	if err != nil {
		return nil, err
	}
	return readGeneration(object)
}

func readGeneration(object *jsontree.Value) (*Generation, error) {
	f := newFields(object, "")
	f.nulls = true
	g := &Generation{
		Begin: f.token("bos_token_id"), Pad: f.token("pad_token_id"), End: f.integers("eos_token_id"),
		IsSampled: f.bool("do_sample", false), Temperature: f.number("temperature", 1), TopP: f.number("top_p", 1), MinP: f.number("min_p", 0), Repetition: f.number("repetition_penalty", 1),
		MaxNew: f.size("max_new_tokens", 0), MaxLength: f.size("max_length", 0), Stops: f.texts("stop_strings"),
	}
	for _, name := range []string{"do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty"} {
		g.IsGiven = g.IsGiven || f.get(name) != nil
	}
	if v := f.get("top_k"); v == nil {
		g.TopK = 50 // what transformers takes
	} else if v.Text != "0" {
		g.TopK = f.size("top_k", 0)
	}
	switch {
	case !(g.Temperature >= 0):
		f.fail("temperature is %v, want at least 0", g.Temperature)
	case !(g.TopP >= 0 && g.TopP <= 1):
		f.fail("top_p is %v, want 0 to 1", g.TopP)
	case !(g.Repetition > 0):
		f.fail("repetition_penalty is %v, want a number above 0", g.Repetition)
	case !(g.MinP >= 0 && g.MinP <= 1):
		f.fail("min_p is %v, want 0 to 1", g.MinP)
	}
	for _, n := range neutral {
		one := newFields(object, "")
		one.must(n.name, "answers would be other ones", n.values...)
		if f.ignore(n.name); one.err != nil {
			g.Unsupported = append(g.Unsupported, one.err.Error())
		}
	}
	f.ignore("transformers_version", "_from_model_config", "use_cache", "cache_implementation", "cache_config", "return_dict_in_generate", "return_legacy_cache", "output_attentions", "output_hidden_states", "output_scores", "output_logits",
		"length_penalty", "early_stopping", "decoder_start_token_id", "disable_compile", "compile_config", "generation_kwargs", "trust_remote_code", // length_penalty and early_stopping belong to beams
		"num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "max_matching_ngram_size", "prefill_chunk_size")
	err := f.err
	for _, m := range object.Members {
		if err == nil && !f.read[m.Name] && m.Value.Kind != jsontree.Null {
			g.Unsupported = append(g.Unsupported, fmt.Sprintf("%s is a setting that is not known here", readfile.Clip(m.Name)))
		}
	}
	return g, err
}

// generationOf returns the settings of generation in a config.json.
func generationOf(config *jsontree.Value) (*Generation, error) {
	settings := &jsontree.Value{Kind: jsontree.Object}
	for _, m := range config.Members {
		if slices.Contains(generationFields, m.Name) || slices.Contains(tokenFields, m.Name) {
			settings.Members = append(settings.Members, m)
		}
	}
	return readGeneration(settings)
}

// tokenFields are the tokens that both files may name.
var tokenFields = []string{"bos_token_id", "eos_token_id", "pad_token_id"}

// token returns the id of a token; -1 for none, which some files write too.
func (f *fields) token(name string) int {
	v := f.get(name)
	if v == nil {
		return -1
	}
	n, err := strconv.ParseInt(v.Text, 10, 32)
	if v.Kind != jsontree.Number || err != nil || n < -1 {
		f.wrong(name, v, "the id of a token")
		return -1
	}
	return int(n)
}

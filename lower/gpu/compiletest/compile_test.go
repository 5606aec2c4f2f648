// Package compiletest compiles the kernels of the shipped operations for GPUs that
// need not be there, and holds them to what they may take: nothing is spilled but what
// is known, and blocks fit into the registers there are. docs/kernels.md keeps what was
// seen.
//
// Compilers take seconds a source, so TOKITAI_LEVEL says how many there are: with quick
// a sample of one choice of formats with vector access, for one architecture of NVIDIA's and one
// of AMD's; without it a few of these; with full every source for sm_90a and that choice for all
// architectures; with exhaustive every source for all. What was compiled before is taken from the
// cache.
package compiletest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/compile/folds"
	"tokitai/device/gpu/gputest"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/attention"
	"tokitai/op/gemm"
)

// architecture is one that kernels are compiled for.
type architecture struct {
	name     string
	compiler func(testing.TB) compile.Compiler
	level    testlevel.Level  // from which on it is compiled for
	all      testlevel.Level  // from which on all sources are
	every    int              // at level quick: one source of so many (no multiple of 3: .ci/run takes one test of 3)
	limit    func(bounds) int // registers of a thread
}

func nvrtc(t testing.TB) compile.Compiler { return gputest.NeedsNVRTC(t) }
func clang(t testing.TB) compile.Compiler { return gputest.NeedsClang(t) }

var architectures = []architecture{
	{"sm_80", nvrtc, testlevel.Full, testlevel.Exhaustive, 1, nvidiaLimit},
	{"sm_90a", nvrtc, testlevel.Smoke, testlevel.Full, 20, nvidiaLimit},
	{"sm_100", nvrtc, testlevel.Full, testlevel.Exhaustive, 1, nvidiaLimit},
	{"gfx942", clang, testlevel.Smoke, testlevel.Exhaustive, 28, func(b bounds) int { return amdLimit(b.threads, 64, 512, 512) }},
	{"gfx1101", clang, testlevel.Full, testlevel.Exhaustive, 1, func(b bounds) int { return amdLimit(b.threads, 32, 1536, 256) }},
}

// nvidiaLimit is how many registers a thread can have so that the blocks run: 65,536 a
// multiprocessor, given out in eights, 255 at most.
func nvidiaLimit(b bounds) int { return min(65_536/(b.threads*b.blocks)/8*8, 255) }

// amdLimit is the same for one block on AMD's four SIMDs, over which its waves are spread:
// each has so many registers for a lane, of which an instruction reaches the first few.
func amdLimit(threads, wave, registers, reached int) int {
	waves := (threads + wave - 1) / wave
	return min(registers/((waves+3)/4), reached)
}

// columns has the nodes that no shipped definition has: columns of extremes, in one pass
// and after one, columns as floats, and int32 stored.
var columns = def.Must(def.Rowwise("columns", func(b *def.Builder) {
	x := b.In("x")
	best := def.RowArgMax(x)
	far := x.Sub(x.At(best)).Mul(b.ColFloat())
	hot := def.Select(b.Col().Equal(def.RowArgMin(far)), x, def.Zero)
	b.OutRow("best", best)
	b.Out("mark", def.Select(hot.Less(far), best, b.Col()))
	b.OutCol("sign", def.Select(def.ColSum(hot).Less(def.Zero), def.IntConst(-1), def.IntConst(1)))
}))

// program is a source of a definition.
type program struct {
	d       *def.Definition
	dtypes  []num.DType
	variant gpu.Variant
	source  gpu.Source
	isFirst bool // the first choice of formats, with vector access
	isMany  bool // it computes many calls
}

// programs are all sources of shipped definitions, each once.
func programs(t testing.TB) []program {
	t.Helper()
	var definitions []*def.Definition
	for _, o := range all.Operations {
		definitions = append(definitions, o.Definitions...)
	}
	return programsOf(t, definitions...)
}

func programsOf(t testing.TB, definitions ...*def.Definition) []program {
	t.Helper()
	var list []program
	seen := map[string]bool{}
	for _, d := range definitions {
		for i, dtypes := range d.Formats() {
			for _, v := range []gpu.Variant{gpu.Vector, gpu.Element} {
				add := func(s gpu.Source, isMany bool) {
					if !seen[s.Text] {
						seen[s.Text] = true
						list = append(list, program{d, dtypes, v, s, i == 0 && v == gpu.Vector, isMany})
					}
				}
				k, err := gpu.Compile(d, dtypes, v)
				if err != nil {
					t.Fatal(err)
				}
				add(k.Source, false)
				if gpu.TakesMany(d) {
					m, err := gpu.CompileMany(d, dtypes, v)
					if err != nil {
						t.Fatal(err)
					}
					add(m.Source, true)
				}
			}
		}
	}
	return list
}

// String names the program as compilers do.
func (p *program) String() string {
	name := p.d.Name
	for _, t := range p.dtypes {
		name += "." + t.String()
	}
	if p.d.Expression() != nil || p.source.NeedsTensorCores {
		name += "." + p.variant.String()
	}
	if p.isMany {
		name += ".many"
	}
	return name
}

func (p *program) text() compile.Source {
	s := complete(p.String(), p.source.Text)
	if p.source.NeedsTensorCores {
		s.Headers = append(s.Headers, compile.Header{Name: "tensorcore.h", Text: gpu.TensorCores})
		s.Text = "#include \"prelude.h\"\n#include \"tensorcore.h\"\n" + strings.TrimPrefix(s.Text, "#include \"prelude.h\"\n")
	}
	return s
}

// complete is a source with its prelude.
func complete(name, text string) compile.Source {
	return compile.Source{
		Name: name, Text: fmt.Sprintf("#include \"prelude.h\"\n#line 1 %q\n%s", name, text),
		Headers: []compile.Header{{Name: "prelude.h", Text: gpu.Prelude}},
	}
}

var bound = regexp.MustCompile(`(?m)^KERNEL(?:_BLOCKS|_ALONE)?\((\w+), (\d+)(?:, (\d+))?\)`)

// bounds are what a kernel is launched with at most: threads of a block, and how many
// such blocks a multiprocessor of NVIDIA's has to run at once.
type bounds struct{ threads, blocks int }

// bounds finds those of a source's entries.
func (p *program) bounds(t testing.TB) map[string]bounds {
	t.Helper()
	found := map[string]bounds{}
	for _, m := range bound.FindAllStringSubmatch(p.source.Text, -1) {
		threads, _ := strconv.Atoi(m[2])
		blocks := 1
		if m[3] != "" {
			blocks, _ = strconv.Atoi(m[3])
		}
		found[m[1]] = bounds{threads, blocks}
	}
	for _, entry := range p.source.Entries {
		if found[entry].threads == 0 {
			t.Fatalf("%s: %s has no launch bound", p, entry)
		}
	}
	return found
}

// TestKernels compiles and compares.
func TestKernels(t *testing.T) {
	list := append(programs(t), programsOf(t, columns)...)
	t.Logf("%d sources", len(list))
	for _, a := range architectures {
		if testlevel.Current() < a.level {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := a.compiler(t)
			first := 0
			for i := range list {
				p := &list[i]
				if p.isFirst {
					first++
				}
				if p.isFirst && testlevel.InSample(first, testlevel.Pick(40, a.every, 1)) || testlevel.Current() >= a.all {
					t.Run(p.String(), func(t *testing.T) {
						t.Parallel()
						check(t, p, &a, usage(t, c, &a, p))
					})
				}
			}
		})
	}
}

// mmaPrograms lists the sources of products by mma.sync.
func mmaPrograms(t testing.TB) []program {
	t.Helper()
	var list []program
	for _, p := range programs(t) {
		if p.d.Product() == nil || !slices.Contains([]num.DType{num.F16, num.BF16}, p.dtypes[0]) {
			continue
		}
		for _, v := range []gpu.Variant{gpu.Vector, gpu.Element} {
			k, err := gpu.CompileMMA(p.d, p.dtypes, v)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, program{d: p.d, dtypes: p.dtypes, variant: v, source: k.Source, isFirst: p.isFirst})
		}
	}
	return list
}

// TestMMAKernels does so for products by mma.sync, which NVIDIA's GPUs compute.
func TestMMAKernels(t *testing.T) {
	list := mmaPrograms(t)
	for _, a := range architectures {
		if testlevel.Current() < a.level || !strings.HasPrefix(a.name, "sm_") {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := a.compiler(t)
			for i := range list {
				p := &list[i]
				if i == 0 || p.isFirst && testlevel.Current() >= testlevel.Full || testlevel.Current() >= testlevel.Exhaustive {
					t.Run(p.String(), func(t *testing.T) {
						t.Parallel()
						check(t, p, &a, usage(t, c, &a, p))
					})
				}
			}
		})
	}
}

// TestGradientsByWgmma compiles the gradients of attention by wgmma, at the lowest level the entries for narrow heads alone: nothing is
// spilled, and no product waits for the one before.
func TestGradientsByWgmma(t *testing.T) {
	c := nvrtc(t)
	d := attention.BackwardDefinition
	formats := [][]num.DType{d.DTypes(num.BF16), d.DTypes(num.F16)}
	for _, dtypes := range formats[:testlevel.Pick(1, 1, 2)] {
		k, err := gpu.CompileWeighBackwardHopper(d, dtypes)
		if err != nil {
			t.Fatal(err)
		}
		p := &program{d: d, dtypes: dtypes, source: k.Source}
		if testlevel.Current() < testlevel.Quick {
			p.source.Text = wideHeads.ReplaceAllString(p.source.Text, "")
			p.source.Entries = slices.DeleteFunc(slices.Clone(p.source.Entries), func(e string) bool { return strings.HasSuffix(e, "_96") || strings.HasSuffix(e, "_128") })
		}
		made, err := compile.Default().Compile(c, "sm_90a", p.text())
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, &architectures[1], made.Usage)
		if strings.Contains(made.Log, "are serialized") {
			t.Errorf("%s: %s", p, made.Log)
		}
	}
}

// TestGroupsByWgmma compiles products of groups by wgmma: nothing is spilled, and no product waits for the one before.
func TestGroupsByWgmma(t *testing.T) {
	c := nvrtc(t)
	definitions := []*def.Definition{gemm.GroupedGradBDefinition, gemm.GroupedForwardDefinition, gemm.GroupedGradADefinition}
	for i, d := range definitions[:testlevel.Pick(1, 3, 3)] {
		dtypes := d.DTypes(num.BF16)
		if i == 0 {
			dtypes[2] = num.F32
		}
		k, err := gpu.CompileHopper(d, dtypes)
		if err != nil {
			t.Fatal(err)
		}
		p := &program{d: d, dtypes: dtypes, source: k.Source}
		made, err := compile.Default().Compile(c, "sm_90a", p.text())
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, &architectures[1], made.Usage)
		if strings.Contains(made.Log, "are serialized") {
			t.Errorf("%s: %s", p, made.Log)
		}
	}
}

var wideHeads = regexp.MustCompile(`(?m)^KERNEL_ALONE\(\w+_(96|128),.*$`)

// usage compiles a source, or finds it in the cache, and searches the code for AMD GPUs for
// folds.
func usage(t testing.TB, c compile.Compiler, a *architecture, p *program) []compile.Usage {
	t.Helper()
	made, err := compile.Default().Compile(c, a.name, p.text())
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(a.name, "gfx") {
		found, err := folds.FindInObject(made.Image, a.name)
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", a.name, found, err)
		}
	}
	return made.Usage
}

// knownSpills are kernels that spill, with how many bytes. One that spills no more has to be
// taken off the list.
var knownSpills = map[string]int{
	// Elements that are moved one by one, with many groups of a row kept: budgets are those of NVIDIA's compiler.
	"gfx1101 layernorm.backward.bf16.bf16.f32.f32.f32.bf16.f32.f32.element layernorm_backward_rows128_registers8": 24,
	"gfx1101 layernorm.backward.f16.f16.f32.f32.f32.f16.f32.f32.element layernorm_backward_rows128_registers8":    24,
	"gfx1101 layernorm.forward.bf16.bf16.bf16.bf16.f32.f32.element layernorm_forward_rows128_registers8":          16,
	"gfx1101 layernorm.forward.bf16.f32.f32.bf16.f32.f32.element layernorm_forward_rows128_registers8":            160,
	"gfx1101 layernorm.forward.f16.f16.f16.f16.f32.f32.element layernorm_forward_rows128_registers8":              24,
	"gfx1101 layernorm.forward.f16.f32.f32.f16.f32.f32.element layernorm_forward_rows128_registers8":              176,
	"gfx1101 layernorm.forward.f32.f32.f32.f32.f32.f32.element layernorm_forward_rows128_registers8":              352,
	"gfx1101 layernorm.forward.f32.f32.f32.f32.f32.f32.element layernorm_forward_rows32_registers8":               24,
	"gfx942 layernorm.forward.bf16.bf16.bf16.bf16.f32.f32.element layernorm_forward_rows1024_registers4":          72,
	"gfx942 layernorm.forward.bf16.f32.f32.bf16.f32.f32.element layernorm_forward_rows1024_registers4":            96,
	"gfx942 layernorm.forward.f16.f16.f16.f16.f32.f32.element layernorm_forward_rows1024_registers4":              72,
	"gfx942 layernorm.forward.f16.f32.f32.f16.f32.f32.element layernorm_forward_rows1024_registers4":              104,

	// Several groups of all operands, loaded before the first is used, in the registers of four blocks.
	"sm_90a adamw.step.stochastic.f16.f32.f32.f16.vector adamw_step_stochastic_flat":   24,
	"sm_90a adamw.step.stochastic.f16.f32.f32.bf16.vector adamw_step_stochastic_flat":  24,
	"sm_90a adamw.step.stochastic.bf16.f32.f32.f16.vector adamw_step_stochastic_flat":  8,
	"sm_90a adamw.step.stochastic.bf16.f32.f32.bf16.vector adamw_step_stochastic_flat": 8,
	"sm_90a adamw.step.master.f32.f32.f32.f32.f16.element adamw_step_master_flat":      4,
	"sm_100 adamw.step.f16.f32.f32.f16.vector.many adamw_step_many_flat":               4,

	// Rows of 1,024 threads, which have 64 registers.
	"sm_100 layernorm.forward.f16.f16.f16.f16.f32.f32.vector layernorm_forward_rows1024_staged4_whole": 4,
	"sm_90a columns.bf16.i32.i32.i32.vector columns_rows1024_staged8_whole":                            8,
	"sm_100 columns.f16.i32.i32.i32.vector columns_rows1024_staged4_whole":                             32,
	"sm_100 columns.f16.i32.i32.i32.vector columns_rows1024_staged8_whole":                             32,

	// Many values of an element at once, or rows that are read ahead, in the registers that so many threads have.
	"gfx942 rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_partly8":       136,
	"gfx942 rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_partly8_whole": 1200,
	"gfx942 rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_reread":        116,
	"gfx942 rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_shared":        124,
	"gfx942 rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_staged2":       8,
	"gfx942 rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_staged2_whole": 8,
	"gfx942 router.balance.forward.f16.i32.f32.f32.vector router_balance_forward_rows1024_staged8_whole":                                 144,
	"gfx942 router.sigmoid.forward.f16.f32.f32.i32.vector router_sigmoid_forward_part3_rows1024_partly4_whole":                           88,
	"sm_90a attention.decode.f16.f16.f16.i32.i32.i32.f16.f32 attention_decode_2":                                                         168,
	"sm_90a attention.forward.f16.f16.f16.i32.i32.f16.f32 attention_forward_2":                                                           148,
	"sm_90a columns.f16.i32.i32.i32.vector columns_rows128_fused4_whole":                                                                 40,
	"sm_90a columns.f16.i32.i32.i32.vector columns_rows32_fused8_whole":                                                                  380,
	"sm_90a rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_partly8_whole": 56,
	"sm_90a rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_reread":        32,
	"sm_90a rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_shared":        40,
	"sm_90a rope.norm.backward.f16.f16.f16.f16.f16.f16.f32.i32.f32.f32.f16.f16.f16.f16.vector rope_norm_backward_rows1024_staged2_whole": 24,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows1024_staged4":                                 12,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows1024_staged4_whole":                           36,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows128_registers4_whole":                         48,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows128_registers8_whole":                         8,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows16_registers1_whole":                          36,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows32_registers1_whole":                          36,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows32_registers4_whole":                          20,
	"sm_90a router.balance.backward.f16.i32.f32.f32.f16.vector router_balance_backward_rows8_registers1_whole":                           32,
	"sm_90a router.bias.step.f32.i32.vector router_bias_step_rows128_registers4_whole":                                                   8,
	"sm_90a router.bias.step.f32.i32.vector router_bias_step_rows128_registers8_whole":                                                   8,
	"sm_90a router.bias.step.f32.i32.vector router_bias_step_rows32_registers8_whole":                                                    44,
	"sm_90a sample.f16.i32.i32.f32.i32.f32.f32.i32.f32.vector sample_part5_rows1024_reread":                                              40,
	"sm_90a sample.f16.i32.i32.f32.i32.f32.f32.i32.f32.vector sample_part5_rows1024_shared":                                              72,
	"sm_90a sample.f16.i32.i32.f32.i32.f32.f32.i32.f32.vector sample_part5_rows16_registers1_whole":                                      56,
	"sm_90a sample.f16.i32.i32.f32.i32.f32.f32.i32.f32.vector sample_part5_rows32_registers1_whole":                                      56,
	"sm_90a sample.f16.i32.i32.f32.i32.f32.f32.i32.f32.vector sample_part5_rows8_registers1_whole":                                       56,

	// Products by mma.sync whose sums take half of the registers, with old results or batch axes: addresses of results.
	"sm_90a gemm.batched.forward.accumulate.f16.f16.f16.vector gemm_batched_forward_accumulate_128x128": 28,
	"sm_90a gemm.batched.forward.accumulate.f16.f16.f16.vector gemm_batched_forward_accumulate_128x256": 28,
	"sm_90a gemm.batched.forward.f16.f16.f16.vector gemm_batched_forward_128x128":                       72,
	"sm_90a gemm.batched.grad_a.accumulate.f16.f16.f16.vector gemm_batched_grad_a_accumulate_128x256":   28,
	"sm_90a gemm.batched.grad_b.accumulate.f16.f16.f16.vector gemm_batched_grad_b_accumulate_128x256":   28,
	"sm_90a gemm.forward.accumulate.f16.f16.f16.vector gemm_forward_accumulate_128x128":                 20,
	"sm_80 gemm.batched.forward.accumulate.f16.f16.f16.vector gemm_batched_forward_accumulate_128x256":  12,
	"sm_80 gemm.batched.forward.f16.f16.f16.vector gemm_batched_forward_128x128":                        76,
	"sm_80 gemm.batched.grad_a.f16.f16.f16.vector gemm_batched_grad_a_128x128":                          40,
	"sm_80 gemm.batched.grad_b.accumulate.f16.f16.f16.vector gemm_batched_grad_b_accumulate_128x128":    28,
	"sm_80 gemm.batched.grad_b.accumulate.f16.f16.f16.vector gemm_batched_grad_b_accumulate_128x256":    60,
	"sm_80 gemm.batched.grad_b.f16.f16.f16.vector gemm_batched_grad_b_128x256":                          72,
	"sm_80 gemm.forward.accumulate.f16.f16.f16.vector gemm_forward_accumulate_128x256":                  12,
	"sm_100 gemm.batched.forward.accumulate.f16.f16.f16.vector gemm_batched_forward_accumulate_128x128": 116,
	"sm_100 gemm.batched.forward.accumulate.f16.f16.f16.vector gemm_batched_forward_accumulate_128x256": 108,
	"sm_100 gemm.batched.grad_a.accumulate.f16.f16.f16.vector gemm_batched_grad_a_accumulate_128x128":   52,
	"sm_100 gemm.batched.grad_a.accumulate.f16.f16.f16.vector gemm_batched_grad_a_accumulate_128x256":   52,
	"sm_100 gemm.batched.grad_b.accumulate.f16.f16.f16.vector gemm_batched_grad_b_accumulate_128x256":   24,
	"sm_100 gemm.forward.accumulate.f16.f16.f16.vector gemm_forward_accumulate_128x128":                 100,
	"sm_100 gemm.grad_a.accumulate.f16.f16.f16.vector gemm_grad_a_accumulate_128x128":                   184,
}

// check wants every entry, with nothing spilled, in registers that a block can have.
func check(t testing.TB, p *program, a *architecture, list []compile.Usage) {
	t.Helper()
	limits := p.bounds(t)
	var found []string
	for _, u := range list {
		found = append(found, u.Entry)
		spilled, known := max(u.SpillStoreBytes, u.SpillLoadBytes), knownSpills[fmt.Sprintf("%s %s %s", a.name, p, u.Entry)]
		if spilled > known {
			t.Errorf("%s, %s: spills %d bytes, want %d, with %d registers", u.Entry, a.name, spilled, known, u.Registers)
		}
		if spilled == 0 && known > 0 {
			t.Errorf("%s, %s: spills nothing: take it off knownSpills", u.Entry, a.name)
		}
		if most := a.limit(limits[u.Entry]); u.Registers == 0 || u.Registers > most {
			t.Errorf("%s, %s: got %d registers, want at most %d for %+v", u.Entry, a.name, u.Registers, most, limits[u.Entry])
		}
	}
	if want := slices.Sorted(slices.Values(p.source.Entries)); !slices.Equal(found, want) {
		t.Errorf("%s: got entries %v, want %v", a.name, found, want)
	}
}

// Spills that are known are of kernels that exist.
func TestKnownSpills(t *testing.T) {
	unseen := maps.Clone(knownSpills)
	for _, p := range slices.Concat(programs(t), programsOf(t, columns), mmaPrograms(t)) {
		for _, a := range architectures {
			for _, entry := range p.source.Entries {
				delete(unseen, fmt.Sprintf("%s %s %s", a.name, &p, entry))
			}
		}
	}
	for name := range unseen {
		t.Errorf("no kernel %s", name)
	}
}

// A spill, one less or more than is known, too many registers and a missing entry are
// each seen.
func TestCheckFinds(t *testing.T) {
	p := &programs(t)[0]
	a := &architectures[1]
	good := func() (list []compile.Usage) {
		for _, e := range slices.Sorted(slices.Values(p.source.Entries)) {
			list = append(list, compile.Usage{Entry: e, Registers: 64})
		}
		return list
	}
	for name, plant := range map[string]func(list []compile.Usage) []compile.Usage{
		"a spill":            func(l []compile.Usage) []compile.Usage { l[0].SpillStoreBytes = 4; return l },
		"too many registers": func(l []compile.Usage) []compile.Usage { l[1].Registers = 256; return l },
		"no registers":       func(l []compile.Usage) []compile.Usage { l[1].Registers = 0; return l },
		"an entry missing":   func(l []compile.Usage) []compile.Usage { return l[1:] },
		"nothing":            func(l []compile.Usage) []compile.Usage { return l },
	} {
		seen := &recorder{TB: t}
		check(seen, p, a, plant(good()))
		if got, want := len(seen.errors) > 0, name != "nothing"; got != want {
			t.Errorf("%s: found %q", name, seen.errors)
		}
	}
	known := fmt.Sprintf("%s %s %s", a.name, p, good()[0].Entry)
	knownSpills[known] = 8
	defer delete(knownSpills, known)
	for _, x := range []struct {
		spilled int
		isFound bool
	}{{0, true}, {8, false}, {9, true}} {
		seen, list := &recorder{TB: t}, good()
		list[0].SpillLoadBytes = x.spilled
		if check(seen, p, a, list); (len(seen.errors) > 0) != x.isFound {
			t.Errorf("%d bytes spilled where 8 are known: found %q", x.spilled, seen.errors)
		}
	}
}

// recorder keeps what a check finds.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestLimits(t *testing.T) {
	for _, x := range []struct {
		architecture string
		bounds       bounds
		want         int
	}{
		{"sm_90a", bounds{1024, 1}, 64}, {"sm_90a", bounds{256, 1}, 255}, {"sm_90a", bounds{768, 1}, 80}, {"sm_90a", bounds{1024, 2}, 32},
		{"gfx942", bounds{1024, 1}, 128}, {"gfx942", bounds{256, 1}, 512}, {"gfx942", bounds{128, 1}, 512}, {"gfx942", bounds{1024, 2}, 128},
		{"gfx1101", bounds{1024, 1}, 192}, {"gfx1101", bounds{256, 1}, 256},
	} {
		i := slices.IndexFunc(architectures, func(a architecture) bool { return a.name == x.architecture })
		if got := architectures[i].limit(x.bounds); got != x.want {
			t.Errorf("%s, %+v: got %d registers, want %d", x.architecture, x.bounds, got, x.want)
		}
	}
}

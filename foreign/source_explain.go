package foreign

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tokitai/device/gpu/compile"
	"tokitai/num"
)

var (
	countMessage    = regexp.MustCompile(`count<(\d+), ?(\d+)>|\[with Takes=(\d+), Gives=(\d+)\]`)
	argumentMessage = regexp.MustCompile(`argument<(\d+), (.*?), (?:tokitai_launch::(?:data|memory)|int|long long|unsigned(?: int| long long)?|float|double)\b|\[with Position=(\d+), Takes=(.*?), Gives=`)
	launchLine      = regexp.MustCompile(launchFile + `[:(](\d+)`)
)

// explained returns the error of a compiler in terms of the launch, where it is about that.
func (k *sourceKernel) explained(err error, formats []num.DType) error {
	failure, ok := errors.AsType[*compile.Error](err)
	if !ok {
		return err
	}
	compiled := fmt.Sprintf("%s does not compile for %s with %s", k.file, k.d.Format(formats), failure.Compiler)
	if failure.File != launchFile {
		return &CompileError{compiled, failure.Log}
	}
	launch := k.program.launches[0]
	for _, m := range launchLine.FindAllStringSubmatch(failure.Log, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && n >= 1 && n <= len(k.program.launches) {
			launch = k.program.launches[n-1]
		}
	}
	if m := countMessage.FindStringSubmatch(failure.Log); m != nil {
		return fmt.Errorf("%s takes %s arguments, and args has %s: %s", launch.entry, m[1]+m[3], m[2]+m[4], argumentList(launch))
	}
	if m := argumentMessage.FindStringSubmatch(failure.Log); m != nil {
		position, _ := strconv.Atoi(m[1] + m[3])
		if position >= 1 && position <= len(launch.arguments) {
			return k.mismatch(launch, position, m[2]+m[4], formats)
		}
	}
	name, _, _ := strings.Cut(launch.entry, "<")
	if kernels := kernelsIn(k.text); !slices.Contains(kernels, name[strings.LastIndex(name, ":")+1:]) {
		return fmt.Errorf("%s has no kernel %s%s; it has %s", k.file, launch.entry, meant(name, kernels), listed(kernels))
	}
	return &CompileError{fmt.Sprintf("%s: the kernel %s cannot be launched; a template needs its arguments, as in --entry '%s<T>'", compiled, launch.entry, name), failure.Log}
}

// mismatch explains an argument, counted from 1, that the kernel takes as another type.
func (k *sourceKernel) mismatch(l *launch, position int, takes string, formats []num.DType) error {
	a := &l.arguments[position-1]
	takes = strings.NewReplacer("sim::Small<sim::Binary16>", "__half", "sim::Small<sim::Brain16>", k.language.types[num.BF16], " const*", "*").Replace(strings.TrimSpace(takes))
	isPointer := strings.HasSuffix(takes, "*")
	head := fmt.Sprintf("argument %d of %s is %s", position, l.entry, takes)
	switch {
	case a.operand >= 0 && isPointer:
		dtype := formats[a.operand]
		return &MismatchError{fmt.Sprintf("%s, and %s is stored in %s; T_%s is its type, or --dtype chooses formats", head, a.text, dtype, a.text)}
	case a.kind.isPointer():
		return fmt.Errorf("%s, and %s is a pointer", head, a.text)
	case isPointer:
		return fmt.Errorf("%s, and %s is a number", head, a.text)
	}
	wants := map[string]string{"long": "i64", "long int": "i64", "long long": "i64", "long long int": "i64", "int": "i32", "unsigned int": "u32", "unsigned": "u32",
		"unsigned long": "u64", "long unsigned int": "u64", "unsigned long long": "u64", "long long unsigned int": "u64", "float": "f32", "double": "f64"}
	if want := wants[strings.TrimPrefix(takes, "const ")]; want != "" {
		return fmt.Errorf("%s, and %s is passed as %s; write %s:%s", head, a.text, a.kind, a.text, want)
	}
	return fmt.Errorf("%s, which no number of a launch is; %s is passed as %s", head, a.text, a.kind)
}

func argumentList(l *launch) string {
	var texts []string
	for _, a := range l.arguments {
		texts = append(texts, a.text)
	}
	return strings.Join(texts, ", ")
}

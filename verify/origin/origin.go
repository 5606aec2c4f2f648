// Package origin fills in what every report says about itself: host, machine, toolchain, the
// fingerprints of compilers and libraries, and how each field was obtained.
package origin

import (
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
)

// Host describes the host of a program, which is named by the SHA-256 of its executable.
func Host(program string) evidence.Host {
	h := evidence.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), ProgramSHA256: program}
	if dev, err := cpu.New(cpu.Options{}); err == nil {
		d := dev.Describe()
		h.CPU, h.MemoryBytes = d.Name, d.MemoryBytes
		dev.Close()
	}
	return h
}

// Machine describes a device.
func Machine(d device.Description) evidence.Machine {
	arch := d.Architecture
	if len(d.Features) > 0 {
		arch += " with " + strings.Join(d.Features, " ")
	}
	return evidence.Machine{Name: d.Name, Architecture: arch, Driver: d.Driver, MemoryBytes: d.MemoryBytes, Workers: d.Units}
}

// Toolchain returns the compiler of this program, and so of the kernels for the CPU.
func Toolchain() evidence.Toolchain {
	t := evidence.Toolchain{Compiler: runtime.Compiler, Version: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		var options []string
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "GO") || strings.HasPrefix(s.Key, "-") || s.Key == "CGO_ENABLED" {
				options = append(options, s.Key+"="+s.Value)
			}
		}
		t.Options = strings.Join(options, " ")
	}
	return t
}

// SetCompiler names the compiler that the device uses at run time, if there is one.
func SetCompiler(r *evidence.Report, dev engine.Device, artifacts []string) {
	c, err := dev.Compiler()
	if c == nil || err != nil {
		return
	}
	hash, err := c.Hash()
	if err != nil {
		return
	}
	name, version, _ := strings.Cut(c.String(), " ")
	r.Toolchain = evidence.Toolchain{Compiler: name, Version: version, Options: strings.Join(c.Options(), " ")}
	for i := range r.Fingerprints {
		switch f := &r.Fingerprints[i]; f.Of {
		case "compiler":
			f.SHA256, f.Note = hex.EncodeToString(hash[:]), "the files of the compiler"
		case "artifact":
			f.Note = "nothing was compiled"
			if len(artifacts) > 0 {
				SetArtifacts(f, artifacts)
			}
		}
	}
}

// SetArtifacts sets the fingerprint of compiled programs, given by their SHA-256.
func SetArtifacts(f *evidence.Fingerprint, artifacts []string) {
	slices.Sort(artifacts)
	f.SHA256 = evidence.FingerprintOf([]byte(strings.Join(artifacts, "\n")))
	f.Note = fmt.Sprintf("the SHA-256 of %d compiled programs in hexadecimal, sorted, a newline between them", len(artifacts))
}

// SetLibrary names the vendor's library that computed the results.
func SetLibrary(r *evidence.Report, lowering *engine.Lowering) {
	l, err := lowering.OpenLibrary()
	if err != nil {
		return
	}
	name, version, _ := strings.Cut(l.String(), " ")
	r.Toolchain = evidence.Toolchain{Compiler: name, Version: version, Options: strings.Join(l.Options(), ", ")}
	hash, err := l.Hash()
	for i := range r.Fingerprints {
		switch f := &r.Fingerprints[i]; f.Of {
		case "compiler":
			if f.Note = "the library's file"; err != nil {
				f.Note = "the library's file cannot be read: " + FirstLine(err.Error())
			} else {
				f.SHA256 = hex.EncodeToString(hash[:])
			}
		case "artifact":
			f.Note = "the kernels are part of the library"
		}
	}
}

// Finish records how every field was obtained.
func Finish(r *evidence.Report) {
	r.Obtained = map[string]string{}
	for _, field := range evidence.Fields() {
		if !r.IsAbsent(field) {
			r.Obtained[field] = obtained[field]
		}
	}
}

// FirstLine returns the first line of a message, as reports state it.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

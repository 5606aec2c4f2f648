package codeobject

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
)

// maxLineBytes limits the sections that Line reads, which a file may hold compressed.
const maxLineBytes = 256 << 20

// Line returns the file and the line that an address was compiled from, as "softmax.cu:12",
// or "" where the object has no line for it. Of code that was inlined into a kernel it is
// "prelude.h:310, called at softmax.cu:12".
func (o *Object) Line(address uint64) string {
	for _, s := range o.file.Sections {
		if s.Flags&elf.SHF_COMPRESSED != 0 && s.Size > maxLineBytes {
			return ""
		}
	}
	data, err := o.file.DWARF()
	if err != nil {
		return ""
	}
	units := data.Reader()
	for {
		unit, err := units.Next()
		if err != nil || unit == nil {
			return ""
		}
		if unit.Tag != dwarf.TagCompileUnit {
			units.SkipChildren()
			continue
		}
		lines, err := data.LineReader(unit)
		if err != nil || lines == nil {
			units.SkipChildren()
			continue
		}
		var entry dwarf.LineEntry
		if lines.SeekPC(address, &entry) != nil || entry.File == nil || entry.Line <= 0 {
			units.SkipChildren()
			continue
		}
		text := place(entry.File, int64(entry.Line))
		if call := callSite(data, units, lines.Files(), address); call != "" {
			text += ", called at " + call
		}
		return text
	}
}

func place(f *dwarf.LineFile, line int64) string {
	return fmt.Sprintf("%s:%d", filepath.Base(f.Name), line)
}

// callSite returns where the function that an address is in calls what was inlined there, or
// "" if the address is the function's own. The reader is after the entry of the unit.
func callSite(data *dwarf.Data, entries *dwarf.Reader, files []*dwarf.LineFile, address uint64) string {
	for {
		e, err := entries.Next()
		if err != nil || e == nil || e.Tag == dwarf.TagCompileUnit {
			return ""
		}
		if e.Tag != dwarf.TagSubprogram && e.Tag != dwarf.TagInlinedSubroutine {
			continue
		}
		ranges, err := data.Ranges(e)
		if err != nil || !contains(ranges, address) {
			entries.SkipChildren()
			continue
		}
		if e.Tag == dwarf.TagInlinedSubroutine { // the outermost
			file, _ := e.Val(dwarf.AttrCallFile).(int64)
			line, _ := e.Val(dwarf.AttrCallLine).(int64)
			if file < 0 || file >= int64(len(files)) || files[file] == nil || line <= 0 {
				return ""
			}
			return place(files[file], line)
		}
	}
}

func contains(ranges [][2]uint64, address uint64) bool {
	for _, r := range ranges {
		if address >= r[0] && address < r[1] {
			return true
		}
	}
	return false
}

// SourceLine says that the instructions from an address on were compiled from a line.
type SourceLine struct {
	Address uint64
	Text    string // "softmax.cu:12", or "" where there is none
}

// Lines returns where the line changes, ascending by address.
func (o *Object) Lines() []SourceLine {
	data, err := o.file.DWARF()
	if err != nil {
		return nil
	}
	var list []SourceLine
	for units := data.Reader(); ; units.SkipChildren() {
		unit, err := units.Next()
		if err != nil || unit == nil {
			break
		}
		lines, err := data.LineReader(unit)
		if err != nil || lines == nil {
			continue
		}
		for entry := (dwarf.LineEntry{}); lines.Next(&entry) == nil; {
			l := SourceLine{Address: entry.Address}
			if !entry.EndSequence && entry.File != nil && entry.Line > 0 {
				l.Text = place(entry.File, int64(entry.Line))
			}
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b SourceLine) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

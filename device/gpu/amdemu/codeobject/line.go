package codeobject

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"path/filepath"
)

// maxLineBytes limits the sections that Line reads, which a file may hold compressed.
const maxLineBytes = 256 << 20

// Line returns the file and the line that an address was compiled from, as "softmax.cu:12",
// or "" where the object has no line for it.
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
		if unit.Tag == dwarf.TagCompileUnit {
			lines, err := data.LineReader(unit)
			if err != nil || lines == nil {
				continue
			}
			var entry dwarf.LineEntry
			if lines.SeekPC(address, &entry) == nil && entry.File != nil && entry.Line > 0 {
				return fmt.Sprintf("%s:%d", filepath.Base(entry.File.Name), entry.Line)
			}
		}
		units.SkipChildren()
	}
}

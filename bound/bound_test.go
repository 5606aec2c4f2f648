package bound_test

import (
	"testing"

	"tokitai/bound"
)

func TestHeightsAsDocumented(t *testing.T) {
	for _, test := range [][2]int{
		{bound.RowHeight(1), 0}, {bound.RowHeight(256), 8}, {bound.RowHeight(257), 9}, {bound.RowHeight(2048), 15}, {bound.RowHeight(2049), 12},
		{bound.RowHeight(8192), 17}, {bound.RowHeight(32768), 16}, {bound.RowHeight(65536), 20},
		{bound.ColHeight(64, 1024), 6}, {bound.ColHeight(4096, 256), 12}, {bound.TotalHeight(131072), 21},
	} {
		if test[0] != test[1] {
			t.Errorf("got %d, want %d", test[0], test[1])
		}
	}
}

package valu

import "golang.org/x/sys/cpu"

// The processor's own binary32 arithmetic has the bits of the GPU's in the plain mode, but for
// NaNs, which the loops choose by the GPU's rule.

var hasAVX = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// fmaAVX sets d[i] to a[i]·b[i] + c[i] for i < n, a multiple of 8.
//
//go:noescape
func fmaAVX(d, a, b, c *uint32, n int)

// addAVX sets d[i] to a[i] + (b[i] ^ sign).
//
//go:noescape
func addAVX(d, a, b *uint32, sign uint32, n int)

// mulAVX sets d[i] to a[i]·b[i].
//
//go:noescape
func mulAVX(d, a, b *uint32, n int)

func fmaWords(d, a, b, c []uint32) {
	if hasAVX && len(a)%8 == 0 {
		fmaAVX(&d[0], &a[0], &b[0], &c[0], len(a))
		return
	}
	fmaWordsGo(d, a, b, c)
}

func addWords(d, a, b []uint32, sign uint32) {
	if hasAVX && len(a)%8 == 0 {
		addAVX(&d[0], &a[0], &b[0], sign, len(a))
		return
	}
	addWordsGo(d, a, b, sign)
}

func mulWords(d, a, b []uint32) {
	if hasAVX && len(a)%8 == 0 {
		mulAVX(&d[0], &a[0], &b[0], len(a))
		return
	}
	mulWordsGo(d, a, b)
}

//go:build !amd64

package valu

func fmaWords(d, a, b, c []uint32)           { fmaWordsGo(d, a, b, c) }
func addWords(d, a, b []uint32, sign uint32) { addWordsGo(d, a, b, sign) }
func mulWords(d, a, b []uint32)              { mulWordsGo(d, a, b) }

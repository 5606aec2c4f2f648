package tokenizer

// Byte-level vocabularies write each byte as a printable character: most of Latin-1 as itself, the
// other 68 bytes from U+0100 on.
var (
	byteChars [256]rune
	charBytes = map[rune]byte{}
)

func init() {
	next := rune(0x100)
	for c := range 256 {
		r := rune(c)
		if c >= '!' && c <= '~' || c >= 0xA1 && c <= 0xAC || c >= 0xAE {
			byteChars[c] = r
		} else {
			byteChars[c] = next
			next++
		}
		charBytes[byteChars[c]] = byte(c)
	}
}

// rawBytes returns the bytes that the characters of a token stand for, or false if one stands for
// none.
func rawBytes(text string) (string, bool) {
	raw := make([]byte, 0, len(text))
	for _, r := range text {
		b, ok := charBytes[r]
		if !ok {
			return "", false
		}
		raw = append(raw, b)
	}
	return string(raw), true
}

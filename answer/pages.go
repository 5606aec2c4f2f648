package answer

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// pages are the pages of the caches. A page belongs to the sequences that use it; those whose keys are complete
// stay, when no sequence uses them any more, until their memory is needed, so that a later prompt that begins
// with the same tokens finds them.
type pages struct {
	size  int
	pages []page
	free  []int32
	index map[pageKey]int32
	idle  *list.List // of int32: kept pages that nobody uses, the one to be given up first in front
}

// pageKey is the SHA-256 over the key of the page before it, or the salt and the model, and the tokens.
type pageKey [sha256.Size]byte

type page struct {
	users  int
	key    pageKey
	tokens []int32 // of a page in the index
	idle   *list.Element
}

func newPages(count, size int) *pages {
	p := &pages{size: size, pages: make([]page, count), index: map[pageKey]int32{}, idle: list.New()}
	for i := count - 1; i >= 0; i-- {
		p.free = append(p.free, int32(i))
	}
	return p
}

// take returns a page for new keys, or false if all are in use.
func (p *pages) take() (int32, bool) {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.pages[i].users = 1
		return i, true
	}
	e := p.idle.Front()
	if e == nil {
		return 0, false
	}
	i := p.idle.Remove(e).(int32)
	delete(p.index, p.pages[i].key)
	p.pages[i] = page{users: 1}
	return i, true
}

// giveBack ends one use of pages. Later pages of a sequence are given up before those in front of them.
func (p *pages) giveBack(list []int32) {
	for _, i := range slices.Backward(list) {
		x := &p.pages[i]
		if x.users--; x.users > 0 {
			continue
		}
		if x.tokens == nil {
			p.free = append(p.free, i)
			continue
		}
		x.idle = p.idle.PushBack(i)
	}
}

// available returns how many pages take can give.
func (p *pages) available() int { return len(p.free) + p.idle.Len() }

// pagesOf returns how many pages of a size tokens fill.
func pagesOf(tokens, size int) int { return (tokens + size - 1) / size }

// root returns the key in front of the first page.
func root(identity *Identity, salt string) pageKey {
	return sha256.Sum256([]byte(identity.Model + "\n" + identity.Program + "\n" + salt))
}

func (k pageKey) next(tokens []int32) pageKey {
	b := append([]byte(nil), k[:]...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// keep puts a page with all its keys into the index.
func (p *pages) keep(i int32, key pageKey, tokens []int32) {
	if _, isThere := p.index[key]; isThere || p.pages[i].tokens != nil {
		return
	}
	p.index[key] = i
	p.pages[i].key, p.pages[i].tokens = key, slices.Clone(tokens)
}

// find returns the kept page of a key, in use once more. It compares the tokens.
func (p *pages) find(key pageKey, tokens []int32) (int32, bool) {
	i, ok := p.index[key]
	if !ok || !slices.Equal(p.pages[i].tokens, tokens) {
		return 0, false
	}
	x := &p.pages[i]
	if x.users == 0 {
		p.idle.Remove(x.idle)
		x.idle = nil
	}
	x.users++
	return i, true
}

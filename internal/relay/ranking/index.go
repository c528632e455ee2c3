package ranking

import (
	"slices"
	"strings"
)

// Tool is what an index knows of a tool. It must not be modified.
type Tool struct {
	Name   string // as the client calls it
	Bare   string // Name without the server's prefix; "" if it has none
	Server string
	// Hint is what the server is about: its operator's words for it, or its title. It may be empty.
	Hint       string
	Definition []byte // valid JSON, as tools/list has it
}

// Index has the tools of one server, ready to be searched.
type Index struct {
	tools   []*Tool
	lengths [][fields]uint16  // how many words each tool has in each field
	terms   map[string]extent // by stem; and whole names, see nameTerm
	// posts are the places of all terms, one term after another, and in the order of tools within a term.
	posts []post
}

type extent struct{ from, to uint32 }

// post says how often a tool has a form of a term in a field: 20 bits of the tool's number, 3 of the field, 4
// of the form, and 5 of the count. Half a million of them are in an index of 5,000 tools.
type post uint32

const (
	maxTools = 1 << 20
	maxCount = 1<<5 - 1
)

// form tells the words that share a term apart, such as issue and issues. Two of sixteen may be equal.
type form uint8

const (
	forms   = 1 << 4
	anyForm = form(forms)
)

func formOf(word []byte) form {
	h := uint32(2166136261) // FNV-1a
	for _, c := range word {
		h = (h ^ uint32(c)) * 16777619
	}
	return form(h >> 28)
}

func newPost(tool int, in field, as form, count uint8) post {
	return post(tool<<12 | int(in)<<9 | int(as)<<5 | int(count))
}
func (p post) tool() int      { return int(p >> 12) }
func (p post) field() field   { return field(p >> 9 & 7) }
func (p post) form() form     { return form(p >> 5 & (forms - 1)) }
func (p post) count() float64 { return float64(p & maxCount) }

// New indexes the tools of one server. It keeps their definitions, which must not be modified afterwards.
func New(tools []Tool) *Index {
	tools = tools[:min(len(tools), maxTools)]
	x := &Index{tools: make([]*Tool, len(tools)), lengths: make([][fields]uint16, len(tools))}
	b := builder{x: x, ids: map[string]uint32{}, terms: map[string]uint32{}}
	b.split.yield = b.add
	for i := range tools {
		x.tools[i] = &tools[i]
		b.tool(i)
	}
	b.finish()
	return x
}

// Tools returns the tools of the index in the order in which New got them.
func (x *Index) Tools() []*Tool { return x.tools }

// builder counts the words of tools.
type builder struct {
	x     *Index
	split splitter
	in    field
	ids   map[string]uint32 // of words, so that each is shortened once
	words []word
	terms map[string]uint32
	sizes []uint32 // how many posts each term has
	term  []byte   // memory for the term that is being made

	touched []uint32 // the words that the current tool has
	found   []found
}

type word struct {
	term   uint32
	form   form
	counts [fields]uint8 // in the current tool
}

type found struct {
	term uint32
	post post
}

func (b *builder) tool(i int) {
	b.x.tools[i].read(func(in field, text string) {
		b.in, b.split.parts = in, in == inName || in == inParameter
		b.split.split(text)
	})
	b.name(i)
	var length [fields]int
	for _, id := range b.touched {
		w := &b.words[id]
		for in, n := range w.counts {
			if n > 0 {
				b.post(w.term, newPost(i, field(in), w.form, n))
				length[in] += int(n)
			}
		}
		w.counts = [fields]uint8{}
	}
	for in, n := range length {
		b.x.lengths[i][in] = uint16(min(n, 1<<16-1))
	}
	b.touched = b.touched[:0]
}

func (b *builder) post(term uint32, p post) {
	b.found = append(b.found, found{term, p})
	b.sizes[term]++
}

// nameTerm is the term of a tool's whole name. No word has a space.
func nameTerm(name string) string { return " " + strings.ToLower(cut(name, maxNote)) }

// name makes the tool's names known, of which the field says whether it's the name without a prefix.
func (b *builder) name(i int) {
	t := b.x.tools[i]
	b.post(b.termID(nameTerm(t.Name)), newPost(i, inName, 0, 1))
	if t.Bare != "" && t.Bare != t.Name {
		b.post(b.termID(nameTerm(t.Bare)), newPost(i, inServer, 0, 1))
	}
}

func (b *builder) termID(term string) uint32 {
	id, ok := b.terms[term]
	if !ok {
		id = uint32(len(b.terms))
		b.terms[term] = id
		b.sizes = append(b.sizes, 0)
	}
	return id
}

// add counts a word of the current field.
func (b *builder) add(text []byte, _ bool) {
	id, ok := b.ids[string(text)]
	if !ok {
		id = uint32(len(b.words))
		b.ids[string(text)] = id
		b.term = termOf(append(b.term[:0], text...))
		b.words = append(b.words, word{term: b.termID(string(b.term)), form: formOf(text)})
	}
	w := &b.words[id]
	if w.counts == [fields]uint8{} {
		b.touched = append(b.touched, id)
	}
	if w.counts[b.in] < maxCount {
		w.counts[b.in]++
	}
}

// finish sorts what was found by its term.
func (b *builder) finish() {
	starts, n := make([]uint32, len(b.sizes)), uint32(0)
	b.x.terms = make(map[string]extent, len(b.terms))
	for id, size := range b.sizes {
		starts[id] = n
		n += size
	}
	for term, id := range b.terms {
		b.x.terms[term] = extent{starts[id], starts[id] + b.sizes[id]}
	}
	b.x.posts = make([]post, n)
	for _, f := range b.found {
		b.x.posts[starts[f.term]] = f.post
		starts[f.term]++
	}
}

// of returns the places of a term.
func (x *Index) of(term string) []post {
	at := x.terms[term]
	return x.posts[at.from:at.to]
}

// termOf returns the term of a word: what all its forms share. It changes word.
func termOf(word []byte) []byte {
	if len(word) <= maxStemmed && !slices.ContainsFunc(word, func(c byte) bool { return c < 'a' || c > 'z' }) {
		return stem(word)
	}
	return word
}

// maxStemmed is the length of the longest word that stem shortens: longer ones are not English.
const maxStemmed = 32

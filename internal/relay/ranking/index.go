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

// post says how often a tool has a term in a field: 21 bits of the tool's number, 3 of the field, and 8 of
// the count. Half a million of them are in an index of 5,000 tools.
type post uint32

const (
	maxTools = 1 << 21
	maxCount = 1<<8 - 1
)

func newPost(tool int, in field, count uint8) post { return post(tool<<11 | int(in)<<8 | int(count)) }
func (p post) tool() int                           { return int(p >> 11) }
func (p post) field() field                        { return field(p >> 8 & 7) }
func (p post) count() float64                      { return float64(p & maxCount) }

// New indexes the tools of one server. It keeps their definitions, which must not be modified afterwards.
func New(tools []Tool) *Index {
	tools = tools[:min(len(tools), maxTools)]
	x := &Index{tools: make([]*Tool, len(tools)), lengths: make([][fields]uint16, len(tools))}
	b := builder{x: x, words: map[string]uint32{}, terms: map[string]uint32{}}
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
	words map[string]uint32 // the term of each word as it is written, so that each is shortened once
	terms map[string]uint32
	in    field
	term  []byte // memory for the term that is being made

	counts  [][fields]uint8 // of each term in the current tool
	touched []uint32        // the terms that the current tool has
	found   []found
	sizes   []uint32 // how many posts each term has
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
	for _, term := range b.touched {
		for in, n := range b.counts[term] {
			if n > 0 {
				b.found = append(b.found, found{term, newPost(i, field(in), n)})
				b.sizes[term]++
				length[in] += int(n)
			}
		}
		b.counts[term] = [fields]uint8{}
	}
	for in, n := range length {
		b.x.lengths[i][in] = uint16(min(n, 1<<16-1))
	}
	b.touched = b.touched[:0]
}

// nameTerm is the term of a tool's whole name. No word has a space.
func nameTerm(name string) string { return " " + strings.ToLower(cut(name, maxNote)) }

// name makes the tool's names known, of which the field says whether it's the name without a prefix.
func (b *builder) name(i int) {
	t := b.x.tools[i]
	add := func(name string, in field) {
		id := b.id(nameTerm(name))
		b.found = append(b.found, found{id, newPost(i, in, 1)})
		b.sizes[id]++
	}
	add(t.Name, inName)
	if t.Bare != "" && t.Bare != t.Name {
		add(t.Bare, inServer)
	}
}

func (b *builder) id(term string) uint32 {
	id, ok := b.terms[term]
	if !ok {
		id = uint32(len(b.terms))
		b.terms[term] = id
		b.counts, b.sizes = append(b.counts, [fields]uint8{}), append(b.sizes, 0)
	}
	return id
}

// add counts a word of the current field.
func (b *builder) add(word []byte, _ bool) {
	id, ok := b.words[string(word)]
	if !ok {
		w := string(word)
		b.term = termOf(append(b.term[:0], word...))
		id = b.id(string(b.term))
		b.words[w] = id
	}
	c := &b.counts[id]
	if *c == [fields]uint8{} {
		b.touched = append(b.touched, id)
	}
	if c[b.in] < maxCount {
		c[b.in]++
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

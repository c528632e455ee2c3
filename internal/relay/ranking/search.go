package ranking

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Hit is a tool that was found. Scores of different searches can't be compared.
type Hit struct {
	Tool  *Tool
	Score float64 // 0 if nothing in the tool fits the query
	Named bool    // whether its name stands in the query
	sure  naming
}

// naming says how surely a query names a tool.
type naming uint8

const (
	unnamed   naming = iota
	bareNamed        // without the server's prefix
	named            // in other case
	exactly
)

// Bounds of a query. What is longer is not looked at.
const (
	maxQuery = 4 << 10
	maxTerms = 24
)

// weights are those of BM25F for the fields; see docs/adr/0050. lengths says how much a field that is longer
// than usual weighs less.
type weights struct {
	field   [fields]float64
	lengths [fields]float64
	k1      float64
	synonym float64
	form    float64 // of another form of a word, such as the singular of issues
	rare    float64 // a power below 1 takes weight from rare words, which in a sentence often mean nothing
}

var standard = weights{
	field:   [fields]float64{2, 1.2, 1, 0.4, 0.5, 0.2},
	lengths: [fields]float64{0.3, 0.6, 0.6, 0.6, 0.6, 0.6},
	k1:      1.2,
	synonym: 0.5,
	form:    0.6,
	rare:    0.6,
}

// Search returns the n tools that fit the query best, of those that may allows; a nil may allows all. Tools
// that the query names come first, and of equal tools the one whose name sorts first. If n is 0 or less, it
// returns all allowed tools, also those that fit nothing.
func Search(query string, in []*Index, may func(*Tool) bool, n int) []Hit {
	return standard.search(query, in, may, n)
}

func (w *weights) search(query string, in []*Index, may func(*Tool) bool, n int) []Hit {
	query = cut(query, maxQuery)
	s := newSearch(w, in, may)
	for _, c := range s.concepts(query) {
		s.add(c)
	}
	s.name(query)
	if n <= 0 {
		return s.hits(len(s.may), true)
	}
	return s.hits(n, false)
}

// search is one search.
type search struct {
	w     *weights
	in    []*Index
	first []int     // of each index: the number of its first tool among all
	may   []bool    // of each tool
	sure  []naming  // of each tool
	score []float64 // of each tool
	best  []float64 // of each tool: for the concept that is being scored
	met   []int32   // the tools of which best is not 0
	had   []has     // the tools with the term that is being weighed
	count float64   // how many tools are allowed
	mean  [fields]float64
}

// has says how much of a term a tool has.
type has struct {
	tool int32
	much float64
}

func newSearch(w *weights, in []*Index, may func(*Tool) bool) *search {
	s := &search{w: w, in: in, first: make([]int, len(in))}
	all := 0
	for i, x := range in {
		s.first[i] = all
		all += len(x.tools)
	}
	s.may, s.sure = make([]bool, all), make([]naming, all)
	s.score, s.best = make([]float64, all), make([]float64, all)
	for i, x := range in {
		for j, t := range x.tools {
			if may != nil && !may(t) {
				continue
			}
			s.may[s.first[i]+j] = true
			s.count++
			for f, n := range x.lengths[j] {
				s.mean[f] += float64(n)
			}
		}
	}
	for f := range s.mean {
		s.mean[f] = max(s.mean[f]/max(s.count, 1), 1)
	}
	return s
}

// concept is a word of the query, and what else it may be called.
type concept struct{ terms []weighted }

type weighted struct {
	term   string
	form   form
	weight float64
}

// queried is a word of a query.
type queried struct {
	word  string
	parts []queried
}

func (q queried) term() string { return string(termOf([]byte(q.word))) }

// queriedIn returns the words of a query, without those that say nothing.
func queriedIn(query string) (out []queried) {
	skipped := false // whether the last word was left out
	split := splitter{parts: true, yield: func(word []byte, part bool) {
		switch {
		case part && skipped:
		case part:
			last := &out[len(out)-1]
			last.parts = append(last.parts, queried{word: string(word)})
		default:
			if skipped = empty()[string(word)] || len(out) == maxTerms; !skipped {
				out = append(out, queried{word: string(word)})
			}
		}
	}}
	split.split(query)
	return out
}

// concepts returns what the query asks for.
func (s *search) concepts(query string) (out []concept) {
	seen := map[string]bool{}
	add := func(all ...queried) {
		for _, q := range all {
			if term := q.term(); !seen[term] {
				seen[term] = true
				out = append(out, s.concept(term, formOf([]byte(q.word))))
			}
		}
	}
	words := queriedIn(query)
	for i, q := range words {
		// What people write as two words may be one in a name: a file system.
		if i > 0 {
			if both := (queried{word: words[i-1].word + q.word}); s.known(both.term()) {
				add(both)
			}
		}
		if len(q.parts) > 0 && !s.known(q.term()) {
			add(q.parts...)
		} else {
			add(q)
		}
	}
	return out
}

func (s *search) concept(term string, as form) concept {
	c := concept{[]weighted{{term, as, 1}}}
	for _, t := range synonyms()[term] {
		c.terms = append(c.terms, weighted{t, anyForm, s.w.synonym})
	}
	return c
}

// known reports whether an allowed tool has the term.
func (s *search) known(term string) bool {
	for i, x := range s.in {
		for _, p := range x.of(term) {
			if s.may[s.first[i]+p.tool()] {
				return true
			}
		}
	}
	return false
}

// add gives each tool what it has of a concept: the best of its terms.
func (s *search) add(c concept) {
	for _, t := range c.terms {
		s.term(t)
	}
	for _, i := range s.met {
		s.score[i] += s.best[i]
		s.best[i] = 0
	}
	s.met = s.met[:0]
}

// term weighs a term with BM25F: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25
// and Beyond" (2009), section 3.5.
func (s *search) term(t weighted) {
	s.had = s.had[:0]
	for i, x := range s.in {
		posts := x.of(t.term)
		for len(posts) > 0 {
			tool := posts[0].tool()
			n, much := 0, 0.0
			for ; n < len(posts) && posts[n].tool() == tool; n++ {
				f := posts[n].field()
				b := s.w.lengths[f]
				worth := s.w.field[f] * posts[n].count() / (1 - b + b*float64(x.lengths[tool][f])/s.mean[f])
				if t.form != anyForm && t.form != posts[n].form() {
					worth *= s.w.form
				}
				much += worth
			}
			posts = posts[n:]
			if at := s.first[i] + tool; s.may[at] {
				s.had = append(s.had, has{int32(at), much})
			}
		}
	}
	df := float64(len(s.had))
	rare := math.Pow(math.Log(1+(s.count-df+0.5)/(df+0.5)), s.w.rare)
	for _, h := range s.had {
		if s.best[h.tool] == 0 {
			s.met = append(s.met, h.tool)
		}
		s.best[h.tool] = max(s.best[h.tool], t.weight*rare*h.much/(s.w.k1+h.much))
	}
}

// name marks the tools that the query names. A name that could be an ordinary word, such as search, must be
// the whole query.
func (s *search) name(query string) {
	s.mark(strings.TrimSpace(query))
	for _, word := range strings.FieldsFunc(query, func(r rune) bool { return !inNames(r) }) {
		if word = strings.Trim(word, "-./"); special(word) {
			s.mark(word)
		}
	}
}

// inNames reports whether a character may be in a name. Others may be too, but then the name must be the
// whole query.
func inNames(r rune) bool {
	return strings.ContainsRune("_-./", r) || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// special reports whether a word looks like a name of a program's.
func special(word string) bool {
	parts := 0
	s := splitter{parts: true, yield: func([]byte, bool) { parts++ }}
	s.split(word)
	return parts > 1
}

// mark marks the tools with this name.
func (s *search) mark(name string) {
	if name == "" {
		return
	}
	term := nameTerm(name)
	for i, x := range s.in {
		for _, p := range x.of(term) {
			sure := named
			if p.field() != inName {
				sure = bareNamed
			} else if x.tools[p.tool()].Name == name {
				sure = exactly
			}
			at := s.first[i] + p.tool()
			s.sure[at] = max(s.sure[at], sure)
		}
	}
}

// hits returns the n best tools in their order. Without all, those that fit nothing are left out.
func (s *search) hits(n int, all bool) (out []Hit) {
	var worst *Hit // the last of the n best so far
	for i, x := range s.in {
		for j, t := range x.tools {
			at := s.first[i] + j
			h := Hit{t, s.score[at], s.sure[at] > unnamed, s.sure[at]}
			if !s.may[at] || !all && !h.Named && h.Score == 0 || worst != nil && better(h, *worst) > 0 {
				continue
			}
			if out = append(out, h); len(out)/2 >= n {
				slices.SortFunc(out, better)
				out = out[:n]
				last := out[n-1]
				worst = &last
			}
		}
	}
	slices.SortFunc(out, better)
	return out[:min(n, len(out))]
}

// better sorts hits. Names are compared only if they must be.
func better(a, b Hit) int {
	if order := cmp.Or(cmp.Compare(b.sure, a.sure), cmp.Compare(b.Score, a.Score)); order != 0 {
		return order
	}
	return cmp.Or(strings.Compare(a.Tool.Name, b.Tool.Name), strings.Compare(a.Tool.Server, b.Tool.Server))
}

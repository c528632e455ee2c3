package ranking

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// verbs are words of names that say what a tool does, and not with what. Words that mean nothing alone are
// among them.
var verbs = setOf(`add aggregate allocate apply archive assign attach batch bulk cancel check clear click close complete
	connect convert copy count create delete describe disconnect download drop edit exec execute explain export extract
	fetch fill find generate get handle import inspect install invoke launch list log login logout make manage mark merge
	move navigate open parse patch perform ping post press publish pull push put query read remove rename reply request
	reset retrieve run save search send set show start stop submit subscribe take type unarchive uninstall unpublish update
	upload validate view wait write
	api by id ids info multiple my of or self single to for from in on with all the and a`)

// Words returns the n commonest nouns in the names of the tools, for a directory that says what each server
// is about, such as issues and repository. It returns fewer if there are no more. If names have only verbs, as
// that of a server's only tool often has, the nouns are those of titles, or else the words are verbs.
func (x *Index) Words(n int) []string {
	named := func(t *Tool) string { return t.bare() }
	out := x.words(named, verbs())
	if len(out) == 0 {
		out = x.words((*Tool).title, verbs())
	}
	if len(out) == 0 {
		out = x.words(named, nil)
	}
	return out[:max(0, min(n, len(out)))]
}

// title returns the titles of a tool.
func (t *Tool) title() string {
	def := jsonrpc.ValueOf(t.Definition)
	own, _ := def.Get("title").Text()
	hint, _ := def.Get("annotations", "title").Text()
	return cut(own, maxNote) + " " + cut(hint, maxNote)
}

// words returns the words of a text of each tool, without those of its server and some others, the commonest first.
func (x *Index) words(text func(*Tool) string, without map[string]bool) []string {
	tools, spelt := map[string]int{}, map[string]map[string]int{}
	for _, t := range x.tools {
		seen := setOf(strings.Join(wordsOf(t.Server), " "))()
		for _, w := range wordsOf(text(t)) {
			term := string(termOf([]byte(w)))
			if seen[w] || seen[term] || without[w] || len(w) < 2 {
				continue
			}
			seen[term] = true
			tools[term]++
			if spelt[term] == nil {
				spelt[term] = map[string]int{}
			}
			spelt[term][w]++
		}
	}
	out := commonest(tools)
	for i, term := range out {
		out[i] = commonest(spelt[term])[0]
	}
	return out
}

// commonest returns the words, those that are counted most first.
func commonest(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}

// wordsOf returns the words of a name.
func wordsOf(name string) (out []string) {
	whole := false // whether the last word may have parts
	s := splitter{parts: true, yield: func(word []byte, part bool) {
		if part && whole {
			out = out[:len(out)-1]
		}
		out, whole = append(out, string(word)), !part
	}}
	s.split(cut(name, maxNote))
	return out
}

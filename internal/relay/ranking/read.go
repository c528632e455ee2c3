package ranking

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// field is a part of a tool in which words weigh alike.
type field uint8

const (
	inName field = iota
	inServer
	inSentence
	inText
	inParameter
	inDetail // of parameters
	fields
)

// Bounds of what is read of one definition. The description of a parameter is as short as a sentence, so
// that a schema can't be a way to say more than the description.
const (
	maxNodes = 10_000
	maxDepth = 12
	maxAbout = 16 << 10
	maxNote  = 1 << 10
)

// reader reads the texts of a definition.
type reader struct {
	text  func(in field, text string)
	nodes int
}

// read calls text with all texts of the tool by which it can be found.
func (t *Tool) read(text func(in field, text string)) {
	text(inName, t.bare())
	text(inServer, t.Server)
	text(inServer, t.Hint)
	def := jsonrpc.Whole(t.Definition)
	var at [4]jsonrpc.Span
	jsonrpc.FindAll(t.Definition, def, []string{"title", "annotations", "description", "inputSchema"}, at[:])
	for _, title := range [2]jsonrpc.Span{at[0], jsonrpc.Find(t.Definition, at[1], "title")} {
		s, _ := jsonrpc.Text(t.Definition, title)
		text(inServer, cut(s, maxNote))
	}
	about, _ := jsonrpc.Text(t.Definition, at[2])
	about = cut(about, maxAbout)
	first, rest := sentence(about)
	text(inSentence, first)
	text(inText, rest)
	r := reader{text, maxNodes}
	r.schema(jsonrpc.ValueOf(at[3].Of(t.Definition)), 0)
}

func (t *Tool) bare() string {
	if t.Bare != "" {
		return t.Bare
	}
	return t.Name
}

// schema reads the parameters that a JSON Schema declares, at whatever depth.
func (r *reader) schema(v jsonrpc.Value, depth int) {
	if depth > maxDepth {
		return
	}
	for name, sub := range v.Members() {
		if r.nodes--; r.nodes < 0 {
			return
		}
		switch {
		case name.Is("properties"):
			for name, sub := range sub.Members() {
				if r.nodes--; r.nodes < 0 {
					return
				}
				s, _ := name.Text()
				r.text(inParameter, cut(s, maxNote))
				r.schema(sub, depth+1)
			}
		case name.Is("description") || name.Is("title"):
			s, _ := sub.Text()
			r.text(inDetail, cut(s, maxNote))
		case name.Is("enum"):
			for word := range sub.Elements() {
				if r.nodes--; r.nodes < 0 {
					return
				}
				s, _ := word.Text()
				r.text(inDetail, cut(s, maxNote))
			}
		case sub.Kind() == '{':
			r.schema(sub, depth+1)
		case sub.Kind() == '[':
			for sub := range sub.Elements() {
				if r.nodes--; r.nodes < 0 {
					return
				}
				r.schema(sub, depth+1)
			}
		}
	}
}

// cut returns the beginning of s. It may end in the middle of a character, which is no word then.
func cut(s string, most int) string { return s[:min(len(s), most)] }

// sentence returns the first sentence of a description, and what follows it.
func sentence(s string) (first, rest string) {
	s = strings.TrimLeft(s, " \t\r\n#*-")
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\n':
			// Many wrap their lines. An empty line and an item of a list end the sentence.
			if after := strings.TrimLeft(s[i+1:], " \t\r"); after == "" || strings.ContainsRune("\n-*#", rune(after[0])) {
				return s[:i], s[i:]
			}
		case '.', '!', '?':
			if i+1 == len(s) || (s[i+1] == ' ' || s[i+1] == '\n' || s[i+1] == '\t' || s[i+1] == '\r') && !abbreviated(s[:i]) {
				return s[:i+1], s[i+1:]
			}
		case 0xE3: // 。 ends a sentence without a space
			if strings.HasPrefix(s[i:], "。") {
				return s[:i+len("。")], s[i+len("。"):]
			}
		}
	}
	return s, ""
}

// abbreviated reports whether a text ends with an abbreviation that needs a full stop.
func abbreviated(s string) bool {
	word := s[strings.LastIndexAny(s, " \n(")+1:]
	switch strings.ToLower(word) {
	case "e.g", "i.e", "etc", "vs", "cf", "incl", "approx":
		return true
	}
	return false
}

package clientfile

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a text in YAML. The parser is recursive, and the library copies what an alias stands for, so a short text
// could take all memory.
const (
	maxLevels  = 64      // the most levels of brackets, braces and indented blocks
	maxAliased = 100_000 // the most values that all aliases together stand for
)

var (
	errDeep    = errors.New("the text is nested too deeply")
	errAliases = errors.New("the aliases of the text stand for too much, or for something that has no anchor before them")
)

// Deep returns the token with which a text in YAML gets nested too deeply for the parser, or nil. A bracket opens a
// level. A key or a dash also opens a level if its block is further to the right than the enclosing block. The
// column alone does not show the depth, because JSON is often one long line. If stray is true, the text isn't deep,
// but has many closing brackets without an opening one, for which the parser takes minutes.
func Deep(tokens token.Tokens) (at *token.Token, stray bool) {
	brackets, strays := 0, 0
	dashes := 0      // the number of dashes and question marks directly before this point inside brackets
	var blocks []int // the columns in which the enclosing blocks begin
	for _, tk := range tokens {
		at := tk
		if brackets > 0 && (tk.Type == token.SequenceEntryType || tk.Type == token.MappingKeyType) {
			dashes++ // YAML does not allow [- - a], but the parser takes each dash for a level
		} else {
			dashes = 0
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			if brackets > 0 {
				brackets--
				continue
			}
			if strays++; strays > maxLevels {
				return tk, true
			}
			continue
		case token.MappingValueType:
			if tk.Prev != nil {
				at = tk.Prev // the key
			}
		case token.SequenceEntryType, token.MappingKeyType:
		default:
			continue
		}
		if brackets == 0 {
			column := at.Position.Column
			for len(blocks) > 0 && blocks[len(blocks)-1] >= column {
				blocks = blocks[:len(blocks)-1]
			}
			blocks = append(blocks, column)
		}
		if brackets+dashes+len(blocks) > maxLevels {
			return tk, false
		}
	}
	return nil, false
}

// parseYAML parses a text in YAML, unless that could take very long.
func parseYAML(b []byte) (*ast.File, error) {
	tokens := lexer.Tokenize(string(bytes.TrimPrefix(b, bom)))
	if at, _ := Deep(tokens); at != nil {
		return nil, errDeep
	}
	return parser.Parse(tokens, 0)
}

// bounded returns an error if a text in YAML can't be parsed, or if its aliases stand for too much.
func bounded(b []byte) (err error) {
	defer func() {
		if v := recover(); v != nil { // the library may panic on an incomplete file
			err = fmt.Errorf("the text is not YAML: %v", v)
		}
	}()
	file, err := parseYAML(b)
	if err != nil {
		return err
	}
	e := expansion{anchors: map[string]int{}}
	for _, d := range file.Docs {
		e.count(d.Body)
	}
	if e.over || e.aliased > maxAliased {
		return errAliases
	}
	return nil
}

// expansion counts what the aliases of a text stand for.
type expansion struct {
	anchors map[string]int // how many values each anchor has, with those of its aliases
	aliased int            // how many values the aliases read so far stand for
	over    bool           // there is an alias that cannot be counted
}

// count returns how many values a node has.
func (e *expansion) count(n ast.Node) (values int) {
	if n == nil || e.over || e.aliased > maxAliased {
		return 0
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			values += e.count(v)
		}
	case *ast.MappingValueNode:
		values = e.count(n.Key) + e.count(n.Value)
	case *ast.MappingKeyNode:
		return e.count(n.Value)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			values += e.count(v)
		}
	case *ast.TagNode:
		return e.count(n.Value)
	case *ast.AnchorNode:
		values = e.count(n.Value) // before its name is known, so that it cannot contain itself
		e.anchors[n.Name.GetToken().Value] = values
		return values
	case *ast.AliasNode:
		values, known := e.anchors[n.Value.GetToken().Value]
		e.over = e.over || !known
		e.aliased += values
		return values
	}
	return values + 1
}

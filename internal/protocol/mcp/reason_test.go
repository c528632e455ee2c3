package mcp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// unread lists the packages with edits that are not shown to users, because these packages do not
// handle the calls of clients.
var unread = []string{"jsonrpc", "fake", "tape", "doctor", "demo"}

// TestReasons checks in the sources that every reason has a sentence and is used outside its
// table. It also checks that every edit has a reason in the packages that handle calls.
func TestReasons(t *testing.T) {
	names := reasonNames(t)
	if len(names) != int(reasonEnd)-1 {
		t.Errorf("%d reasons in the source, %d in the table", len(names), reasonEnd-1)
	}
	seen := make(map[string]string)
	for r := jsonrpc.NoReason + 1; r < reasonEnd; r++ {
		text := ReasonText(r)
		switch {
		case text == "":
			t.Errorf("%s has no sentence", names[r-1])
		case strings.Count(text, ".") != 1 || !strings.HasSuffix(text, ".") || len(strings.Fields(text)) > 20:
			t.Errorf("the explanation of %s is not one short sentence: %s", names[r-1], text)
		case seen[text] != "":
			t.Errorf("%s and %s have the same sentence", seen[text], names[r-1])
		}
		seen[text] = names[r-1]
	}
	for _, r := range []jsonrpc.Reason{jsonrpc.NoReason, reasonEnd, 255} {
		if ReasonText(r) != "" {
			t.Errorf("reason %d has an explanation, but does not exist: %s", r, ReasonText(r))
		}
	}

	used := usedNames(t)
	for _, name := range names {
		if !used[name] {
			t.Errorf("no edit uses %s", name)
		}
	}
}

// reasonNames returns the names of the constants in reason.go, in their order.
func reasonNames(t *testing.T) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				if name := s.(*ast.ValueSpec).Names[0].Name; strings.HasPrefix(name, "Why") {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// usedNames returns the identifiers in the sources, except reason.go and tests. It reports an
// error for an edit without a reason in a package that handles calls.
func usedNames(t *testing.T) map[string]bool {
	used := make(map[string]bool)
	tree := os.DirFS("../..")
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || name == "protocol/mcp/reason.go" {
			return err
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			return err
		}
		room := path.Base(path.Dir(name))
		bridge := name != "app/runtime/visit.go" // the client there edits what it writes itself
		for _, u := range unread {
			bridge = bridge && room != u
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				used[n.Name] = true
			case *ast.CallExpr:
				if bridge && isEdit(n) && givesNoReason(n.Args[0]) {
					t.Errorf("%s has an edit without a reason", name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// isEdit reports whether a function call may add an edit.
func isEdit(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) == 0 {
		return false
	}
	switch s.Sel.Name {
	case "Replace", "Insert", "Object":
		return true
	}
	return false
}

func givesNoReason(arg ast.Expr) bool {
	switch x := arg.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name == "NoReason"
	case *ast.BasicLit:
		return x.Value == "0"
	}
	return false
}

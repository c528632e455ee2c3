package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mappedPages are the pages whose file and function names must exist.
var mappedPages = []string{"docs/architecture.md", "internal/threads.md"}

var (
	quotedWord = regexp.MustCompile("`([^`]+)`")
	goName     = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$`)
	filePath   = regexp.MustCompile(`^[\w./*-]+\.(go|md)$`)
	dirPath    = regexp.MustCompile(`^[a-z]+(/[a-z]+)*$`)
	anyWord    = regexp.MustCompile(`\w+`)
	linkTarget = regexp.MustCompile(`\]\(([^)#]+)\)`)
)

// TestDocsNameWhatExists checks that each name in the pages exists: files, Type.Method,
// pkg.Name, and single words with an upper-case letter. A file name without a folder must be
// in a folder that the same line mentions before the file.
func TestDocsNameWhatExists(t *testing.T) {
	skipUnderRace(t)
	tree, err := Load(os.DirFS(filepath.Join("..", "..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	names := declared(tree)
	for _, page := range mappedPages {
		text := tree.Texts[page]
		if text == "" {
			t.Fatalf("%s is missing", page)
		}
		for i, line := range strings.Split(text, "\n") {
			for _, m := range linkTarget.FindAllStringSubmatch(line, -1) {
				if !strings.Contains(m[1], "://") && !exists(path.Join(path.Dir(page), m[1])) {
					t.Errorf("%s:%d: %s does not exist", page, i+1, m[1])
				}
			}
			dirs := []string{".", "internal"}
			for _, m := range quotedWord.FindAllStringSubmatch(line, -1) {
				word := strings.TrimSuffix(m[1], "/")
				switch {
				case filePath.MatchString(word):
					at := slices.IndexFunc(dirs, func(d string) bool { return exists(path.Join(d, word)) })
					if at < 0 {
						t.Errorf("%s:%d: there is no file %s", page, i+1, word)
						continue
					}
					dirs = append(dirs, path.Dir(path.Join(dirs[at], word)))
				case dirPath.MatchString(word) && exists(path.Join("internal", word)):
					dirs = append(dirs, path.Join("internal", word), path.Dir(path.Join("internal", word)))
				case goName.MatchString(word) && word != strings.ToLower(word) && !names[word] && !strings.HasPrefix(word, "sync."):
					t.Errorf("%s:%d: there is no %s", page, i+1, word)
				}
			}
		}
	}
}

// exists reports whether a file matches a path or a pattern. Paths are relative to the
// module's root.
func exists(name string) bool {
	found, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(name)))
	return err == nil && len(found) > 0
}

// declared returns the names that product files declare, alone and in the forms Type.Method,
// Type.Field and pkg.Name. It also returns the words in string literals.
func declared(t *Tree) map[string]bool {
	names := map[string]bool{}
	add := func(owner string, id *ast.Ident) {
		names[id.Name] = true
		names[owner+"."+id.Name] = true
	}
	members := func(owner string, list *ast.FieldList) {
		if list == nil {
			return
		}
		for _, f := range list.List {
			for _, id := range f.Names {
				add(owner, id)
			}
		}
	}
	for _, f := range t.product() {
		pkg := f.AST.Name.Name
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				owner := pkg
				if n.Recv != nil {
					owner = exprName(n.Recv.List[0].Type)
				}
				add(owner, n.Name)
			case *ast.TypeSpec:
				add(pkg, n.Name)
				switch typ := n.Type.(type) {
				case *ast.StructType:
					members(n.Name.Name, typ.Fields)
				case *ast.InterfaceType:
					members(n.Name.Name, typ.Methods)
				}
			case *ast.ValueSpec:
				for _, id := range n.Names {
					add(pkg, id)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					for _, word := range anyWord.FindAllString(n.Value, -1) {
						names[word] = true
					}
				}
			}
			return true
		})
	}
	return names
}

// exprName returns the name of a receiver's type.
func exprName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return exprName(e.X)
	case *ast.IndexExpr:
		return exprName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

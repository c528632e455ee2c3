package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path of the main module.
const Module = "github.com/dragoman-mcp/dragoman"

// File is one parsed Go file.
type File struct {
	Path      string // slash-separated, relative to the module's root
	Dir       string
	Test      bool
	Generated bool
	Lines     int
	AST       *ast.File
}

// Tree holds a module's Go files, sorted by path, and its documentation for users. It does not
// change after Load.
type Tree struct {
	Fset  *token.FileSet
	Files []*File
	Texts map[string]string // the contents of README.md, docs/*.md and internal/*.md, by path
}

// Load parses the Go files and reads the documentation below root. It skips nested modules, and the
// folders that the go command ignores (testdata, and names beginning with "." or "_").
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet(), Texts: map[string]string{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, name, d.Name())
		}
		page := path.Ext(name) == ".md" && (name == "README.md" || path.Dir(name) == "docs" || path.Dir(name) == "internal")
		if !page && path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if page {
			t.Texts[name] = string(src)
			return nil
		}
		parsed, err := parser.ParseFile(t.Fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		t.Files = append(t.Files, &File{
			Path:      name,
			Dir:       path.Dir(name),
			Test:      strings.HasSuffix(name, "_test.go"),
			Generated: ast.IsGenerated(parsed),
			Lines:     bytes.Count(src, []byte("\n")),
			AST:       parsed,
		})
		return nil
	})
	return t, err
}

func skipDir(root fs.FS, name, base string) error {
	if name == "." {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// Imports returns the import paths of a file.
func (f *File) Imports() []string {
	var paths []string
	for _, spec := range f.AST.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// product returns the files of the program itself, without tests.
func (t *Tree) product() []*File {
	return slices.DeleteFunc(slices.Clone(t.Files), func(f *File) bool { return f.Test })
}

// packages returns the folders that have product files, sorted.
func (t *Tree) packages() []string {
	var dirs []string
	for _, f := range t.product() {
		dirs = append(dirs, f.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// at returns the position of a node as file:line.
func (t *Tree) at(n ast.Node) string {
	p := t.Fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// within reports whether dir is the folder room or below it.
func within(dir, room string) bool {
	return dir == room || strings.HasPrefix(dir, room+"/")
}

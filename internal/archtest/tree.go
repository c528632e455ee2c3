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

// Tree is a module's Go files, sorted by path. It does not change once loaded.
type Tree struct {
	Fset  *token.FileSet
	Files []*File
}

// Load parses the Go files below root. Folders that the go command ignores
// (testdata, names beginning with "." or "_") and nested modules are left out.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, name, d.Name())
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
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

// product yields the files that are part of the program.
func (t *Tree) product() []*File {
	return slices.DeleteFunc(slices.Clone(t.Files), func(f *File) bool { return f.Test })
}

// packages returns the folders that hold product files, sorted.
func (t *Tree) packages() []string {
	var dirs []string
	for _, f := range t.product() {
		dirs = append(dirs, f.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// at says where a node is: file:line.
func (t *Tree) at(n ast.Node) string {
	p := t.Fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// within says whether dir is room or lies below it.
func within(dir, room string) bool {
	return dir == room || strings.HasPrefix(dir, room+"/")
}

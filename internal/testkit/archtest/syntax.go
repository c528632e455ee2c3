package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Contracts reports each package that does not have exactly one package comment of 5 to 20 lines.
// The comment of a command may be shorter, because the help text describes the command.
func Contracts(t *Tree) (breaches []string) {
	docs := map[string][]*File{}
	for _, f := range t.product() {
		if f.AST.Doc != nil {
			docs[f.Dir] = append(docs[f.Dir], f)
		}
	}
	for _, dir := range t.packages() {
		atLeast := contractAtLeast
		if within(dir, "cmd") {
			atLeast = 1
		}
		files := docs[dir]
		switch len(files) {
		case 0:
			breaches = append(breaches, fmt.Sprintf("%s: no package comment: say what the package is, what it refuses to do and who calls it", dir))
			continue
		case 1:
		default:
			breaches = append(breaches, fmt.Sprintf("%s: both %s and %s have a package comment: keep one", dir, files[0].Path, files[1].Path))
		}
		text := strings.TrimSuffix(files[0].AST.Doc.Text(), "\n")
		if n := strings.Count(text, "\n") + 1; n < atLeast || n > contractAtMost {
			breaches = append(breaches, fmt.Sprintf("%s: the package comment has %d lines, not %d to %d", files[0].Path, n, atLeast, contractAtMost))
		}
	}
	return breaches
}

// Names reports each package with a vague name, or with a name that differs from the name of its
// folder.
func Names(t *Tree) (breaches []string) {
	for _, f := range t.product() {
		name, base := f.AST.Name.Name, path.Base(f.Dir)
		if slices.Contains(vagueNames, name) || slices.Contains(vagueNames, base) {
			breaches = append(breaches, fmt.Sprintf("%s: a package is not called %q: name it for what it provides or adapts", f.Path, base))
		} else if name != base && name != "main" && f.Dir != "." {
			breaches = append(breaches, fmt.Sprintf("%s: package %s is in a folder named %s", f.Path, name, base))
		}
	}
	return slices.Compact(breaches)
}

// Sizes reports each file that has too many lines, except generated files.
func Sizes(t *Tree) (breaches []string) {
	for _, f := range t.Files {
		if f.Lines > fileAtMost && !f.Generated {
			breaches = append(breaches, fmt.Sprintf("%s: %d lines, more than %d: give one message family one file", f.Path, f.Lines, fileAtMost))
		}
	}
	return breaches
}

// GoStatements reports each go statement in a file that is not in allowed. It also reports each
// file in allowed that contains no go statement.
func GoStatements(t *Tree, allowed map[string]string) []string {
	return excepted(t, allowed, "go statement: use sync.WaitGroup.Go or errgroup, so that whoever starts a goroutine waits for it", func(n ast.Node) bool {
		_, is := n.(*ast.GoStmt)
		return is
	})
}

// WaitGroupFields reports each struct with a sync.WaitGroup, or with a work.Crew, which has the same
// rules, that is in a package in rooms but not in a file in allowed. It also reports each file in allowed that
// contains no such struct.
func WaitGroupFields(t *Tree, rooms []string, allowed map[string]string) []string {
	concerned := &Tree{Fset: t.Fset}
	for _, f := range t.Files {
		if slices.ContainsFunc(rooms, func(r string) bool { return within(f.Dir, r) }) {
			concerned.Files = append(concerned.Files, f)
		}
	}
	return excepted(concerned, allowed, "sync.WaitGroup or work.Crew in a struct: hold what an owner has started in a work.Group, which refuses more once it is closed", func(n ast.Node) bool {
		s, is := n.(*ast.StructType)
		return is && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
			x, is := f.Type.(*ast.SelectorExpr)
			if !is {
				return false
			}
			from, is := x.X.(*ast.Ident)
			return is && (from.Name == "sync" && x.Sel.Name == "WaitGroup" || from.Name == "work" && x.Sel.Name == "Crew")
		})
	})
}

// InitFunctions reports each init function in a file that is not in allowed. It also reports each
// file in allowed that contains no init function.
func InitFunctions(t *Tree, allowed map[string]string) []string {
	return excepted(t, allowed, "init function: nothing registers itself; the composition root calls constructors", func(n ast.Node) bool {
		f, is := n.(*ast.FuncDecl)
		return is && f.Recv == nil && f.Name.Name == "init"
	})
}

func excepted(t *Tree, allowed map[string]string, breach string, is func(ast.Node) bool) (breaches []string) {
	unused := maps.Clone(allowed)
	for _, f := range t.product() {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if n == nil || !is(n) {
				return true
			}
			if _, ok := allowed[f.Path]; ok {
				delete(unused, f.Path)
			} else {
				breaches = append(breaches, t.at(n)+": "+breach)
			}
			return true
		})
	}
	for _, path := range slices.Sorted(maps.Keys(unused)) {
		breaches = append(breaches, path+": is excepted in archtest/rooms.go and has no "+strings.SplitN(breach, ":", 2)[0])
	}
	return breaches
}

// Dates reports each place outside of internal/protocol/mcp that contains the date of a revision, or that
// compares a revision with a specific revision. Code should call mcp.Revision.Can to find out what
// a peer can do; see docs/adr.
func Dates(t *Tree) (breaches []string) {
	for _, f := range t.product() {
		if within(f.Dir, datesLiveIn) || isRig(f.Dir) {
			continue
		}
		mayName := slices.ContainsFunc(datesNamedIn, func(r string) bool { return within(f.Dir, r) })
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if isDate(n) && !mayName {
					breaches = append(breaches, fmt.Sprintf("%s: %s is spelt out: only %s knows dates", t.at(n), n.Value, datesLiveIn))
				}
			case *ast.BinaryExpr:
				if comparison(n.Op) && (isRevision(n.X) || isRevision(n.Y)) {
					breaches = append(breaches, t.at(n)+": a comparison of revisions: ask what the peer can do (mcp.Revision.Can)")
				}
			case *ast.CaseClause:
				if slices.ContainsFunc(n.List, isRevision) {
					breaches = append(breaches, t.at(n)+": a case of a revision: ask what the peer can do (mcp.Revision.Can)")
				}
			}
			return true
		})
	}
	return breaches
}

func comparison(op token.Token) bool {
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
}

var (
	date     = regexp.MustCompile(`^202\d-\d\d-\d\d$`)
	revision = regexp.MustCompile(`^(R20\d{6}|Latest|LatestLegacy|Assumed)$`)
)

func isDate(lit *ast.BasicLit) bool {
	if lit.Kind != token.STRING {
		return false
	}
	s, err := strconv.Unquote(lit.Value)
	return err == nil && date.MatchString(s)
}

// isRevision reports whether an expression is a specific revision: a date, or a constant of package
// mcp.
func isRevision(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.BasicLit:
		return isDate(e)
	case *ast.SelectorExpr:
		pkg, ok := e.X.(*ast.Ident)
		return ok && pkg.Name == "mcp" && revision.MatchString(e.Sel.Name)
	}
	return false
}

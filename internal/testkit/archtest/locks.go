package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// Locks reports operations that may block while a lock is held: calls of callbacks, calls through
// interfaces, log calls, waits, and channel operations that are not in a select with a default. A
// function whose name ends in Locked runs while its caller holds a lock. So does any function, method
// or function literal with a pointer to a state in doorRooms, where only the lock's owner gives it
// away. allowed lists exceptions, as "file: function: operation", with the reason for each.
//
// Locks uses only the syntax of the files. A lock is any value whose method Lock or RLock is
// called. Locks follows calls to functions of the same package, which it finds by name, but not
// calls to other packages.
func Locks(t *Tree, allowed map[string]string) (breaches []string) {
	interfaces := t.interfaces()
	used := map[string]bool{}
	for _, dir := range t.packages() {
		if isRig(dir) || slices.Contains(ownLocks, dir) {
			continue
		}
		p := newLockPackage(t, dir, interfaces)
		for _, f := range p.functions {
			for _, b := range p.underLock(f) {
				key := fmt.Sprintf("%s: %s: %s", f.file.Path, f.name, b.what)
				if _, ok := allowed[key]; ok {
					used[key] = true
					continue
				}
				breaches = append(breaches, fmt.Sprintf("%s: in %s, under a lock: %s: do it after the unlock, or say in lockExceptions why it cannot block", t.at(b.node), f.name, b.what))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(allowed)) {
		if !used[key] {
			breaches = append(breaches, key+": needs no exception any more: remove it from the list")
		}
	}
	return breaches
}

// interfaces returns the names of interface types, as "package.Name": all interface types of the
// program, and those of the standard library whose methods may block.
func (t *Tree) interfaces() map[string]bool {
	out := map[string]bool{
		"io.Reader": true, "io.Writer": true, "io.Closer": true, "io.ReadCloser": true, "io.WriteCloser": true,
		"net.Conn": true, "net.Listener": true, "http.ResponseWriter": true, "http.RoundTripper": true,
	}
	for _, f := range t.product() {
		for _, d := range f.AST.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok {
					if _, is := ts.Type.(*ast.InterfaceType); is {
						out[path.Base(f.Dir)+"."+ts.Name.Name] = true
					}
				}
			}
		}
	}
	return out
}

// lockPackage contains what Locks needs to know about one package.
type lockPackage struct {
	name       string
	states     []string // the states of the package; see doorRooms
	interfaces map[string]bool
	callbacks  map[string]bool              // names of fields with a function type
	adapters   map[string]bool              // names of fields with an interface type
	methods    map[string][]string          // names of the types that have a method, by method name
	fields     map[string]map[string]string // types of the fields of this package's structs, by struct name and field name
	embeds     map[string][]string          // types that a struct of this package embeds, by struct name
	functions  []*lockFunction
	does       map[string]string // the first blocking operation of each function, by function name
	imports    map[string]bool   // the names of imported packages
}

type lockFunction struct {
	file *File
	name string
	decl *ast.FuncDecl
}

type lockBreach struct {
	node ast.Node
	what string
}

func newLockPackage(t *Tree, dir string, interfaces map[string]bool) *lockPackage {
	p := &lockPackage{
		name: path.Base(dir), states: doorRooms[dir], interfaces: interfaces,
		callbacks: map[string]bool{}, adapters: map[string]bool{}, methods: map[string][]string{}, fields: map[string]map[string]string{}, embeds: map[string][]string{}, does: map[string]string{}, imports: map[string]bool{},
	}
	funcTypes := map[string]bool{}
	var structs []*ast.StructType
	for _, f := range t.product() {
		if f.Dir != dir {
			continue
		}
		for _, i := range f.AST.Imports {
			name := path.Base(strings.Trim(i.Path.Value, `"`))
			if i.Name != nil {
				name = i.Name.Name
			}
			p.imports[name] = true
		}
		for _, d := range f.AST.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body == nil {
					continue
				}
				p.functions = append(p.functions, &lockFunction{f, functionName(d), d})
				if d.Recv != nil {
					p.methods[d.Name.Name] = append(p.methods[d.Name.Name], receiverType(d))
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					switch x := ts.Type.(type) {
					case *ast.FuncType:
						funcTypes[ts.Name.Name] = true
					case *ast.StructType:
						structs = append(structs, x)
						p.fields[ts.Name.Name] = fieldTypes(x)
						for _, f := range x.Fields.List {
							if len(f.Names) == 0 {
								p.embeds[ts.Name.Name] = append(p.embeds[ts.Name.Name], typeName(f.Type))
							}
						}
					}
				}
			}
		}
	}
	for _, s := range structs {
		for _, f := range s.Fields.List {
			_, isFunc := f.Type.(*ast.FuncType)
			name := typeName(f.Type)
			for _, n := range f.Names {
				if isFunc || funcTypes[name] {
					p.callbacks[n.Name] = true
				}
				if interfaces[name] || interfaces[p.name+"."+name] {
					p.adapters[n.Name] = true
				}
			}
		}
	}
	p.spread()
	return p
}

func fieldTypes(s *ast.StructType) map[string]string {
	out := map[string]string{}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			out[n.Name] = typeName(f.Type)
		}
		if len(f.Names) == 0 {
			name := typeName(f.Type)
			out[name[strings.LastIndexByte(name, '.')+1:]] = name
		}
	}
	return out
}

// functionName returns the name of a function, or Type.Method for a method.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiverType(d) + "." + d.Name.Name
}

func receiverType(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	return typeName(t)
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
	}
	return ""
}

// getsState reports whether a function or method gets a state of a package in doorRooms. It then runs
// under the lock.
func (p *lockPackage) getsState(recv *ast.FieldList, t *ast.FuncType) bool {
	for _, l := range []*ast.FieldList{recv, t.Params} {
		if l == nil {
			continue
		}
		for _, f := range l.List {
			if star, ok := f.Type.(*ast.StarExpr); ok && slices.Contains(p.states, typeName(star)) {
				return true
			}
		}
	}
	return false
}

// spread fills p.does. It finds for each function the first operation that may block, in the
// function itself or in the functions that it calls.
func (p *lockPackage) spread() {
	calls := map[string][]string{}
	for _, f := range p.functions {
		if strings.HasSuffix(f.name, "Locked") {
			// A Locked function may release its caller's lock. Ignore the operations after the
			// release.
			w := &lockWalk{p: p, in: f.decl, held: map[string]bool{"the caller's": true}, calls: map[string]bool{}}
			w.block(f.decl.Body.List)
			if len(w.breaches) > 0 {
				p.does[f.name] = w.breaches[0].what
			}
			calls[f.name] = slices.Sorted(maps.Keys(w.calls))
			continue
		}
		p.inspect(f.decl, func(n ast.Node) {
			if what := p.blocks(f.decl, n); what != "" && p.does[f.name] == "" {
				p.does[f.name] = what
			}
			if callee := p.callee(f.decl, n); callee != "" {
				calls[f.name] = append(calls[f.name], callee)
			}
		})
	}
	for changed := true; changed; {
		changed = false
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			for _, callee := range calls[name] {
				if what := p.does[callee]; what != "" && p.does[name] == "" {
					root, _, _ := strings.Cut(what, ", by way of")
					p.does[name] = root + ", by way of " + callee
					changed = true
				}
			}
		}
	}
}

// inspect visits the nodes that run when the function runs. It skips function literals, and go and
// defer statements. It also skips the channel operations of a select statement with a default,
// because they do not block.
func (p *lockPackage) inspect(root ast.Node, f func(ast.Node)) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil:
			return false
		case *ast.FuncLit:
			return false
		case *ast.DeferStmt, *ast.GoStmt:
			return false
		case *ast.SelectStmt:
			if hasDefault(n) {
				for _, c := range n.Body.List {
					for _, s := range c.(*ast.CommClause).Body {
						p.inspect(s, f)
					}
				}
				return false
			}
		}
		f(n)
		return true
	})
}

func hasDefault(s *ast.SelectStmt) bool {
	for _, c := range s.Body.List {
		if c.(*ast.CommClause).Comm == nil {
			return true
		}
	}
	return false
}

// pureMethods are interface methods that only return a value and cannot block.
var pureMethods = []string{"Name", "Header", "Error", "String", "Addr", "Stalled"}

var logMethods = []string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs"}

// blocks describes the operation of a node if the operation may block. Otherwise it returns "".
func (p *lockPackage) blocks(in *ast.FuncDecl, n ast.Node) string {
	switch n := n.(type) {
	case *ast.SendStmt:
		return "a channel is sent to"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel is received from"
		}
	case *ast.CallExpr:
		switch fun := n.Fun.(type) {
		case *ast.Ident:
			// All callers of an unexported function are in this package, so the functions that they
			// pass as arguments are checked too.
			if in.Name.IsExported() && isFuncParameter(in, fun.Name) {
				return "the parameter " + fun.Name + " is called"
			}
		case *ast.SelectorExpr:
			name := fun.Sel.Name
			owner := lastName(fun.X)
			switch {
			case slices.Contains(logMethods, name) && (strings.EqualFold(owner, "log") || strings.EqualFold(owner, "logger") || owner == "slog"):
				return "a line is logged"
			case name == "Publish" && strings.EqualFold(owner, "events"):
				return "an event is published"
			case p.callbacks[name] && p.methods[name] == nil:
				return "the callback " + name + " is called"
			case p.adapters[owner] && !slices.Contains(pureMethods, name):
				if _, field := fun.X.(*ast.SelectorExpr); field {
					return "the interface " + owner + " is called"
				}
			case name == "Wait" && len(n.Args) == 0 && p.fieldType(owner) != "sync.Cond": // Wait of a sync.Cond releases the lock
				return "something is waited for"
			}
		}
	}
	return ""
}

func isFuncParameter(in *ast.FuncDecl, name string) bool {
	for _, f := range in.Type.Params.List {
		if _, is := f.Type.(*ast.FuncType); !is {
			continue
		}
		for _, n := range f.Names {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// callee returns the name of the function of this package that a node calls. It returns "" if the
// node calls no such function, or if the function cannot be determined.
func (p *lockPackage) callee(in *ast.FuncDecl, n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		types := p.methods[fun.Sel.Name]
		if x, ok := fun.X.(*ast.Ident); ok && x.Obj == nil && p.imports[x.Name] {
			return "" // a function of another package
		}
		if t := p.typeOf(in, fun.X); t != "" {
			if t = p.owner(types, t); t == "" {
				return ""
			}
			return t + "." + fun.Sel.Name
		}
		if len(types) == 1 && !p.isField(fun.Sel.Name) {
			return types[0] + "." + fun.Sel.Name
		}
	}
	return ""
}

// owner returns the type that has a method which the type t has: t itself, or a type that t embeds. The
// parameter types lists the types with a method of this name.
func (p *lockPackage) owner(types []string, t string) string {
	if slices.Contains(types, t) {
		return t
	}
	for _, embedded := range p.embeds[t] {
		if o := p.owner(types, embedded); o != "" {
			return o
		}
	}
	return ""
}

// field returns the type of a field of the struct t, or of a struct that t embeds.
func (p *lockPackage) field(t, name string) string {
	if has := p.fields[t][name]; has != "" {
		return has
	}
	for _, embedded := range p.embeds[t] {
		if has := p.field(embedded, name); has != "" {
			return has
		}
	}
	return ""
}

// typeOf returns the name of an expression's type if the expression is the receiver, a parameter or
// a field. For any other expression, and if the type is not known, it returns "".
func (p *lockPackage) typeOf(in *ast.FuncDecl, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		lists := []*ast.FieldList{in.Recv, in.Type.Params}
		for _, l := range lists {
			if l == nil {
				continue
			}
			for _, f := range l.List {
				for _, n := range f.Names {
					if n.Name == e.Name {
						return typeName(f.Type)
					}
				}
			}
		}
	case *ast.SelectorExpr:
		if t := p.typeOf(in, e.X); t != "" {
			return p.field(t, e.Sel.Name)
		}
		return p.fieldType(e.Sel.Name)
	}
	return ""
}

func (p *lockPackage) isField(name string) bool {
	for _, fields := range p.fields {
		if fields[name] != "" {
			return true
		}
	}
	return false
}

// fieldType returns the type of the fields with the given name. It returns "" if there is no such
// field, or if the fields have different types.
func (p *lockPackage) fieldType(name string) (t string) {
	for _, fields := range p.fields {
		switch has := fields[name]; {
		case has == "" || has == t:
		case t == "":
			t = has
		default:
			return ""
		}
	}
	return t
}

// underLock returns the operations of a function that may block and that run while a lock is held.
func (p *lockPackage) underLock(f *lockFunction) []lockBreach {
	w := &lockWalk{p: p, in: f.decl, held: map[string]bool{}}
	if strings.HasSuffix(f.name, "Locked") || p.getsState(f.decl.Recv, f.decl.Type) {
		w.held["the caller's"] = true
	}
	w.block(f.decl.Body.List)
	// Function literals may run later, without the locks of this function. So they are checked
	// separately.
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if made, ok := n.(*ast.FuncLit); ok {
			later := &lockWalk{p: p, in: f.decl, held: map[string]bool{}}
			if p.getsState(nil, made.Type) {
				later.held["the caller's"] = true
			}
			later.block(made.Body.List)
			w.breaches = append(w.breaches, later.breaches...)
		}
		return true
	})
	return w.breaches
}

// lockWalk follows a function's statements and tracks the locks that are held.
type lockWalk struct {
	p        *lockPackage
	in       *ast.FuncDecl
	held     map[string]bool
	breaches []lockBreach
	calls    map[string]bool // the functions of this package that are called while a lock is held; nil if they are not recorded
}

// block visits statements in order, and reports whether execution continues after them.
func (w *lockWalk) block(list []ast.Stmt) (goesOn bool) {
	for _, s := range list {
		if !w.statement(s) {
			return false
		}
	}
	return true
}

func (w *lockWalk) statement(s ast.Stmt) (goesOn bool) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 0 {
				switch what := exprText(sel.X); sel.Sel.Name {
				case "Lock", "RLock":
					w.held[what] = true
					return true
				case "unlock": // unlock is a method that releases mu and then does pending work
					delete(w.held, what+".mu")
					return true
				case "Unlock", "RUnlock":
					if delete(w.held, what); strings.HasSuffix(w.in.Name.Name, "Locked") {
						delete(w.held, "the caller's")
					}
					return true
				}
			}
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
				return false
			}
		}
		w.look(s)
	case *ast.DeferStmt, *ast.GoStmt:
	case *ast.ReturnStmt:
		w.look(s)
		return false
	case *ast.BranchStmt:
		return false
	case *ast.BlockStmt:
		return w.block(s.List)
	case *ast.LabeledStmt:
		return w.statement(s.Stmt)
	case *ast.IfStmt:
		if s.Init != nil {
			w.statement(s.Init)
		}
		w.look(s.Cond)
		ways := [][]ast.Stmt{s.Body.List, nil}
		if s.Else != nil {
			ways[1] = []ast.Stmt{s.Else}
		}
		return w.ways(ways)
	case *ast.ForStmt:
		if s.Init != nil {
			w.statement(s.Init)
		}
		if s.Cond != nil {
			w.look(s.Cond)
		}
		w.ways([][]ast.Stmt{s.Body.List, nil})
		return s.Cond != nil || hasBreak(s.Body)
	case *ast.RangeStmt:
		w.look(s.X)
		w.ways([][]ast.Stmt{s.Body.List, nil})
	case *ast.SwitchStmt:
		if s.Init != nil {
			w.statement(s.Init)
		}
		if s.Tag != nil {
			w.look(s.Tag)
		}
		return w.clauses(s.Body)
	case *ast.TypeSwitchStmt:
		return w.clauses(s.Body)
	case *ast.SelectStmt:
		waits := !hasDefault(s)
		var ways [][]ast.Stmt
		for _, c := range s.Body.List {
			c := c.(*ast.CommClause)
			if waits && c.Comm != nil {
				w.look(c.Comm)
			}
			ways = append(ways, c.Body)
		}
		return w.ways(ways)
	default:
		w.look(s)
	}
	return true
}

func (w *lockWalk) clauses(body *ast.BlockStmt) bool {
	var ways [][]ast.Stmt
	all := false
	for _, c := range body.List {
		c := c.(*ast.CaseClause)
		all = all || c.List == nil
		for _, e := range c.List {
			w.look(e)
		}
		ways = append(ways, c.Body)
	}
	if !all {
		ways = append(ways, nil)
	}
	// A break leaves only the switch statement, so execution continues after the statement.
	w.ways(ways)
	return true
}

// ways visits the branches of a statement, and reports whether execution continues after any of
// them. Afterwards, held contains each lock that is held at the end of at least one branch after
// which execution continues.
func (w *lockWalk) ways(all [][]ast.Stmt) (goesOn bool) {
	before := w.held
	after := map[string]bool{}
	for _, list := range all {
		w.held = maps.Clone(before)
		if w.block(list) {
			goesOn = true
			maps.Copy(after, w.held)
		}
	}
	if w.held = after; !goesOn {
		w.held = before
	}
	return goesOn
}

func hasBreak(b *ast.BlockStmt) (found bool) {
	ast.Inspect(b, func(n ast.Node) bool {
		if s, ok := n.(*ast.BranchStmt); ok && s.Tok == token.BREAK {
			found = true
		}
		return !found
	})
	return found
}

// look records the operations of a statement or expression that may block, if a lock is held.
func (w *lockWalk) look(n ast.Node) {
	if len(w.held) == 0 {
		return
	}
	w.p.inspect(n, func(n ast.Node) {
		what := w.p.blocks(w.in, n)
		switch callee := w.p.callee(w.in, n); {
		case callee == "":
		case w.calls != nil:
			w.calls[callee] = true
		case what == "" && w.p.does[callee] != "":
			what = fmt.Sprintf("%s is called: %s", callee, w.p.does[callee])
		}
		if what != "" {
			w.breaches = append(w.breaches, lockBreach{n, what})
		}
	})
}

func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprText(e.X) + "." + e.Sel.Name
	}
	return "?"
}

package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// attrMakers are the functions of log/slog that return an attribute for a key and a value.
var attrMakers = []string{"Any", "Bool", "Duration", "Float64", "Group", "Int", "Int64", "String", "Time", "Uint64"}

// logMessageAt maps each method that writes a log record to the index of the message in its
// arguments. The index of With is -1, because With has no message. With the method
// log of a state, package upstream queues a log record until the lock is released.
var logMessageAt = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "Log": 2, "LogAttrs": 2, "With": -1, "log": 1,
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// LogKeys reports each key of a log attribute that is not snake_case.
func LogKeys(t *Tree) (breaches []string) {
	for _, f := range t.product() {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, key := range keysOf(call) {
				text, err := strconv.Unquote(key.Value)
				if err == nil && !snakeCase.MatchString(text) {
					breaches = append(breaches, fmt.Sprintf("%s:%d: the log key %q is not snake_case", f.Path, t.Fset.Position(key.Pos()).Line, text))
				}
			}
			return true
		})
	}
	return breaches
}

// keysOf returns those keys of the attributes in a call that are string literals.
func keysOf(call *ast.CallExpr) (keys []*ast.BasicLit) {
	owner, name := calleeOf(call)
	literal := func(x ast.Expr) {
		if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			keys = append(keys, lit)
		}
	}
	if owner == "slog" && slices.Contains(attrMakers, name) && len(call.Args) > 0 {
		literal(call.Args[0])
		return keys
	}
	at, ok := logMessageAt[name]
	if !ok || !queues(owner, name) && !isLog(owner) {
		return nil
	}
	for i := at + 1; i < len(call.Args); i++ {
		if _, made := call.Args[i].(*ast.CallExpr); made {
			continue // the argument is an attribute, which contains its own key
		}
		literal(call.Args[i])
		i++ // skip the value of the key
	}
	return keys
}

// calleeOf returns the name of a called method, and the name of the variable or field before it.
// For u.opts.Log.Warn, it returns Log and Warn.
func calleeOf(call *ast.CallExpr) (owner, name string) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	switch x := s.X.(type) {
	case *ast.Ident:
		owner = x.Name
	case *ast.SelectorExpr:
		owner = x.Sel.Name
	}
	return owner, s.Sel.Name
}

// queues reports whether a call makes a state log a record when the lock is released.
func queues(owner, name string) bool { return owner == "st" && name == "log" }

// isLog reports whether the name of a variable or field is the name of a logger.
func isLog(name string) bool {
	return strings.EqualFold(name, "log") || strings.EqualFold(name, "logger") || name == "slog" || name == "plain" || name == "limited"
}

// LogCodes reports each log call at level info or above that has no code: the call has no attribute
// "code", and codes does not contain its message. forwarders lists the files in which the message
// of a log call need not be a literal, with the reason. LogCodes also reports the messages and
// codes in codes that do not occur in the program.
func LogCodes(t *Tree, codes []LogCode, forwarders map[string]string) (breaches []string) {
	known, literals, needed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range codes {
		known[c.Message] = c.Message != ""
	}
	for _, f := range t.product() {
		if within(f.Dir, "internal/base/logcode") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					literals[text] = true
				}
			case *ast.CallExpr:
				text, logs := messageOf(f, n)
				if !logs || hasCode(n) || known[text] {
					break
				}
				if text == "" && forwarders[f.Path] != "" {
					needed[f.Path] = true
					break
				}
				breaches = append(breaches, fmt.Sprintf("%s:%d: the message %q has no code: add it to internal/base/logcode/table.go, or add the attribute", f.Path, t.Fset.Position(n.Pos()).Line, text))
			}
			return true
		})
	}
	for _, c := range codes {
		switch {
		case !snakeCase.MatchString(c.Code):
			breaches = append(breaches, fmt.Sprintf("the code %q is not snake_case", c.Code))
		case c.Message != "" && !literals[c.Message]:
			breaches = append(breaches, fmt.Sprintf("nothing logs %q of the code %s", c.Message, c.Code))
		case c.Message == "" && !literals[c.Code]:
			breaches = append(breaches, fmt.Sprintf("nothing logs the code %s", c.Code))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(forwarders)) {
		if !needed[path] {
			breaches = append(breaches, path+": needs no exception any more: remove it from the list")
		}
	}
	return breaches
}

// LogCode is a log message and its code; see package logcode.
type LogCode struct{ Code, Message string }

// messageOf returns the message of a log call at level info or above. text is "" if the message is
// not a literal. logs is false for any other call.
func messageOf(f *File, call *ast.CallExpr) (text string, logs bool) {
	owner, name := calleeOf(call)
	at, ok := logMessageAt[name]
	switch {
	case name == "record" && within(f.Dir, "internal/app/telemetry"):
		at = 1
	case !ok || at < 0 || !queues(owner, name) && !isLog(owner) || name == "Debug" || len(call.Args) <= at:
		return "", false
	case at > 0:
		if s, ok := call.Args[at-1].(*ast.SelectorExpr); ok && s.Sel.Name == "LevelDebug" {
			return "", false
		}
	}
	if lit, ok := call.Args[at].(*ast.BasicLit); ok {
		text, _ = strconv.Unquote(lit.Value)
	}
	return text, true
}

// hasCode reports whether a call has the attribute "code".
func hasCode(call *ast.CallExpr) bool {
	for _, key := range keysOf(call) {
		if key.Value == `"code"` {
			return true
		}
	}
	for _, arg := range call.Args {
		if made, ok := arg.(*ast.CallExpr); ok {
			for _, key := range keysOf(made) {
				if key.Value == `"code"` {
					return true
				}
			}
		}
	}
	return false
}

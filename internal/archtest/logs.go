package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// attrMakers are the functions of log/slog that make an attribute of a key and a value.
var attrMakers = []string{"Any", "Bool", "Duration", "Float64", "Group", "Int", "Int64", "String", "Time", "Uint64"}

// logMessageAt has the methods that write a log record, with the position of the message
// among their arguments. With and logLocked are a logger with attributes and a method of
// upstream that logs after an unlock.
var logMessageAt = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "Log": 2, "LogAttrs": 2, "With": -1, "logLocked": 1,
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// LogKeys returns the keys of log attributes that are not snake_case.
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

// keysOf returns the literal keys of the attributes that a call makes or logs.
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
	if !ok || name != "logLocked" && !isLog(owner) {
		return nil
	}
	for i := at + 1; i < len(call.Args); i++ {
		if _, made := call.Args[i].(*ast.CallExpr); made {
			continue // an attribute
		}
		literal(call.Args[i])
		i++ // its value
	}
	return keys
}

// calleeOf returns the name of a called function and the last word before it, as in
// u.opts.Log.Warn: Log and Warn.
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

// isLog reports whether a variable or field with this name is a logger.
func isLog(name string) bool {
	return strings.EqualFold(name, "log") || strings.EqualFold(name, "logger") || name == "slog" || name == "plain" || name == "limited"
}

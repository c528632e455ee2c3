package runtime

import (
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// unusable is the error of a server whose configuration uses a variable or a secret that is not set.
type unusable struct {
	server  string
	problem config.Problem
}

// unusableOf returns the reason why Dragoman cannot open a configured server. For a usable
// server, unusableOf returns nil.
func unusableOf(c config.Server) error {
	if c.Unusable == nil {
		return nil
	}
	return &unusable{c.Name, *c.Unusable}
}

// UnusableFailure returns the failure of a server that is unusable because of a problem in its
// configuration. The status of the server contains the same failure.
func UnusableFailure(p config.Problem) *failure.Failure {
	return failure.Of(&unusable{p.Server, p}, failure.Facts{Server: p.Server})
}

func (e *unusable) Error() string {
	return fmt.Sprintf("%s, so server %q is not started", e.problem.Text, e.server)
}

// DescribeFailure implements failure.Source.
func (e *unusable) DescribeFailure(f *failure.Facts) {
	f.Class, f.Cause, f.Sentence = failure.MissingVariable, "unset_variable", e.Error()
	f.Action = "set " + e.problem.Variable + " and restart Dragoman"
	switch {
	case e.problem.Missing == config.Missing{}: // default has no such server
		f.Cause, f.Action = "no_such_server", e.problem.Hint
	case e.problem.Secret != "":
		f.Cause, f.Action = "missing_secret", e.problem.Hint
	case e.problem.EnvFile != "":
		f.Action = "write " + e.problem.Variable + "=VALUE into " + e.problem.EnvFile
	}
}

package cli

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// usageError is a command line that cannot be understood: exit code 2.
type usageError struct {
	text string
	hint string // what to type; "" points at the command's help
}

func (e *usageError) Error() string { return e.text }

func usagef(hint, format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...), hint: hint}
}

// hinted is an error together with the next step.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

func withHint(err error, format string, args ...any) error {
	return &hinted{err: err, hint: fmt.Sprintf(format, args...)}
}

// printError prints what went wrong, and one line for each thing to do about it. An
// error is always one line: text from a peer could otherwise begin a second line and
// look like Dragoman's own.
func (a *app) printError(err error) {
	var bad *config.Error
	if errors.As(err, &bad) {
		for _, p := range bad.Problems {
			a.status.line(p.String())
		}
		first := bad.Problems[0]
		text := "the configuration has 1 problem"
		if n := len(bad.Problems); n > 1 {
			text = fmt.Sprintf("the configuration has %d problems", n)
		}
		a.status.label(red, "error", text)
		if first.Line > 0 {
			a.status.label(yellow, "hint", "fix "+first.File+", then run `dragoman config check -c "+first.File+"`")
		}
		return
	}
	for _, one := range parts(err) {
		text, more := explain(one)
		a.status.label(red, "error", oneLine(text))
		if more != "" {
			a.status.label(yellow, "hint", oneLine(more))
		}
	}
	for _, h := range hintsOf(err) {
		a.status.label(yellow, "hint", h)
	}
}

// parts returns the errors that were joined, or the one that there is.
func parts(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	var texts []string
	for _, e := range several.Unwrap() {
		out = append(out, parts(e)...)
		texts = append(texts, e.Error())
	}
	if strings.Join(texts, "\n") != err.Error() {
		return []error{err} // it says more than the errors within it
	}
	return out
}

// oneLine folds a text of several lines.
func oneLine(s string) string {
	var lines []string
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, " ")
}

// maxQuoted bounds what is repeated of a peer in an error or a notice, in bytes.
const maxQuoted = 1 << 10

// explain returns the text of an error and further details, "" for none. An *mcp.Error
// has a message for clients and a cause for the log. The cause may repeat the end of
// the message and continue it.
func explain(err error) (text, more string) {
	var e *mcp.Error
	if !errors.As(err, &e) || e.Message == "" {
		return quoteWire(err), ""
	}
	if e.Err == nil {
		return e.Message, ""
	}
	cause := quoteWire(e.Err)
	for i := range e.Message {
		if rest, ok := strings.CutPrefix(cause, e.Message[i:]); ok {
			return e.Message, strings.TrimLeft(rest, ";:, ")
		}
	}
	return e.Message + ": " + cause, ""
}

// quoteWire returns the text of an error in which an error answer of the server
// stands in quotes, and is said to be the server's.
func quoteWire(err error) string {
	var w *jsonrpc.Error
	if !errors.As(err, &w) {
		return err.Error()
	}
	said := "the server answered " + excerpt.Quote(w.Message, maxQuoted) + " (" + strconv.FormatInt(w.Code, 10) + ")"
	before, after, found := strings.Cut(err.Error(), w.Error())
	if !found {
		return said
	}
	return before + said + after
}

func hintsOf(err error) []string {
	var out []string
	var u *usageError
	if errors.As(err, &u) && u.hint != "" {
		out = append(out, u.hint)
	}
	var h *hinted
	if errors.As(err, &h) {
		out = append(out, h.hint)
	}
	var given interface{ Hint() string }
	if errors.As(err, &given) && given.Hint() != "" {
		out = append(out, given.Hint())
	}
	if len(out) > 0 {
		return out
	}
	var op *net.OpError
	listening := errors.As(err, &op) && op.Op == "listen"
	switch {
	case listening && errors.Is(err, syscall.EADDRINUSE):
		out = append(out, "the address is in use; stop the other program or choose another address with --listen")
	case listening && errors.Is(err, syscall.EACCES):
		out = append(out, "ports below 1024 need privileges; choose a higher port with --listen")
	case listening:
		out = append(out, "choose another address with --listen, for example 127.0.0.1:7300")
	case errors.Is(err, exec.ErrNotFound):
		out = append(out, "check the spelling and PATH, or use the full path of the program")
	}
	return out
}

// traceOf returns the trace of the handshake that an error ended.
func traceOf(err error) string {
	var h *handshake.Error
	if errors.As(err, &h) {
		return h.Trace.String()
	}
	return ""
}

// checked makes a usage error of whatever cobra finds wrong with flags.
func checked(c *cobra.Command, err error) error {
	return usagef("run `"+c.CommandPath()+" --help`", "%s", lowerFirst(err.Error()))
}

func lowerFirst(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'a' && s[1] <= 'z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

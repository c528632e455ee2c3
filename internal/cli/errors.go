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
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// usageError is a mistake in the arguments. The exit code is 2.
type usageError struct {
	text string
	hint string // what to do; "" for no hint
}

func (e *usageError) Error() string { return e.text }

func usagef(hint, format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...), hint: hint}
}

// hinted is an error with a hint: one thing to do about it.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

func withHint(err error, format string, args ...any) error {
	return &hinted{err: err, hint: fmt.Sprintf(format, args...)}
}

// printError prints an error and its hints, each on one line. If an error had several
// lines, text from a peer could look like a message of Dragoman.
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

// parts returns the errors that errors.Join joined, or err itself.
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
		return []error{err} // its text has more than those of the errors in it
	}
	return out
}

// oneLine joins the lines of a text with spaces.
func oneLine(s string) string {
	var lines []string
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, " ")
}

// maxQuoted bounds the text of a peer in an error or another message, in bytes.
const maxQuoted = 1 << 10

// explain returns the text of an error and more details, or "". An *mcp.Error has a message
// for clients and a cause for the log. The cause may repeat the end of the message and
// continue it.
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

// quoteWire returns the text of an error. If the error wraps an error response of the
// server, the text says so and quotes the response.
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

// traceOf returns the trace of a failed handshake, or "".
func traceOf(err error) string {
	var h *handshake.Error
	if errors.As(err, &h) {
		return h.Trace.String()
	}
	return ""
}

// flagError converts an error of cobra about flags to a usageError.
func flagError(c *cobra.Command, err error) error {
	if c.Flags().Lookup("cwd") != nil && errors.As(err, new(*pflag.NotExistError)) {
		return usagef("put -- before a command that has flags of its own, or run `"+c.CommandPath()+" --help`", "%s", lowerFirst(err.Error()))
	}
	return usagef("run `"+c.CommandPath()+" --help`", "%s", lowerFirst(err.Error()))
}

func lowerFirst(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'a' && s[1] <= 'z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// usageError is an error in the command line arguments. The exit code is 2.
type usageError struct {
	text string
	hint string // what the user can do; "" for no hint
}

func (e *usageError) Error() string { return e.text }

func usagef(hint, format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...), hint: hint}
}

// hinted is an error with a hint. The hint says what the user can do about the error.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

func withHint(err error, format string, args ...any) error {
	return &hinted{err: err, hint: fmt.Sprintf(format, args...)}
}

// printError prints an error and its hints. It prints each error and each hint on one line, so that
// text from a server or a client cannot start a new line and look like a message of Dragoman.
func (a *app) printError(err error) {
	var bad *config.Error
	if errors.As(err, &bad) {
		for _, p := range bad.Problems {
			_, _ = io.WriteString(a.status, a.status.folded(p.String())+"\n")
			if a.status.records.Load() == nil { // a JSON record already contains the position, so it does not need the line of the file
				_, _ = io.WriteString(a.status, sourceOf(p, a.status.width()))
			}
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
		if f := failureIn(one); f != nil {
			a.printFailure(f, hintsOf(one))
			continue
		}
		a.status.label(red, "error", oneLine(errorText(one)))
		for _, h := range hintsOf(one) {
			a.status.label(yellow, "hint", h)
		}
	}
}

// codeFailure is the attribute "code" of the log record for a failure.
var codeFailure = slog.String("code", "failure")

// printFailure prints a failure: first the sentence, then each line of the evidence with its
// origin, and then the action. If hints is not empty, it prints hints instead of the action. With
// --log-format json, it prints the failure as one log record.
func (a *app) printFailure(f *failure.Failure, hints []string) {
	if len(hints) == 0 && f.Action != "" {
		hints = []string{f.Action}
		if line := a.given.with(f.Flag()); line != "" {
			hints[0] += ": `" + line + "`"
		}
	}
	record := []slog.Attr{codeFailure}
	if f.Server != "" {
		record = append(record, slog.String("server", clean(f.Server)))
	}
	for _, attr := range f.Attrs() {
		if attr, ok := attr.(slog.Attr); ok && attr.Key != "action" {
			record = append(record, attr)
		}
	}
	if len(hints) > 0 {
		record = append(record, slog.String("action", clean(strings.Join(hints, "; "))))
	}
	if a.status.record(slog.LevelError, oneLine(f.Sentence), record...) {
		return
	}
	a.status.label(red, "error", oneLine(f.Sentence))
	for _, line := range unsaid(f) {
		a.status.label(plain, string(f.EvidenceFrom), oneLine(line))
	}
	for _, h := range hints {
		a.status.label(yellow, "hint", oneLine(h))
	}
}

// unsaid returns the evidence of a failure without what its sentence quotes already: its only line, or the body
// of a response. Of several lines of stderr none is left out, since each is easier to read among the others.
func unsaid(f *failure.Failure) (out []string) {
	for _, line := range f.Evidence {
		body, isBody := strings.CutPrefix(line, "body: ")
		switch {
		case isBody && len(body) > 2 && strings.Contains(f.Sentence, body):
		case len(f.Evidence) == 1 && strings.Contains(f.Sentence, strconv.Quote(line)):
		default:
			out = append(out, line)
		}
	}
	return out
}

// failureIn returns the failure that err contains or describes. It returns nil if err is not about
// the failure of a server or of a listener.
func failureIn(err error) *failure.Failure {
	var u *usageError
	if errors.As(err, &u) {
		return nil
	}
	var f *failure.Failure
	if errors.As(err, &f) {
		return f
	}
	var source failure.Source
	var op *net.OpError
	if !errors.As(err, &source) && !errors.Is(err, exec.ErrNotFound) && !(errors.As(err, &op) && op.Op == "listen") {
		return nil
	}
	var e *mcp.Error
	if errors.As(err, &e) && e.Message != "" {
		return nil // an error of Dragoman itself, not a failure of a server
	}
	facts := failure.Facts{Given: true}
	if op != nil && op.Addr != nil {
		facts.Listen = op.Addr.String()
	}
	if f = failure.Of(err, facts); f.Class == failure.Internal {
		return nil
	}
	return f
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
		return []error{err} // the text of err contains more than the texts of the wrapped errors
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

// maxQuoted is the maximum number of bytes of a text from a server or a client that one message
// quotes.
const maxQuoted = 1 << 10

// errorText returns the text of an error. For an *mcp.Error, this is the message for clients and
// the cause for the log. errorText quotes the message of a server's error response.
func errorText(err error) string {
	var e *mcp.Error
	if errors.As(err, &e) && e.Message != "" {
		if e.Err == nil {
			return e.Message
		}
		return e.Message + ": " + errorText(e.Err)
	}
	var w *jsonrpc.Error
	if !errors.As(err, &w) {
		return err.Error()
	}
	said := "the server answered " + excerpt.Quote(w.Message, maxQuoted) + " (" + strconv.FormatInt(w.Code, 10) + ")"
	if _, ok := mcp.OverLimit(w.Data); ok {
		said = "a limit of the Dragoman that serves it has refused the request: " + excerpt.Quote(w.Message, maxQuoted)
	}
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
	var next interface{ NextStep() string }
	if len(out) == 0 && errors.As(err, &next) && next.NextStep() != "" {
		out = append(out, next.NextStep())
	}
	var given interface{ Hint() string }
	if errors.As(err, &given) && given.Hint() != "" {
		out = append(out, given.Hint())
	}
	return out
}

// flagError converts an error that cobra returns for a flag to a usageError.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if word := c.Flags().Arg(0); !c.HasParent() && word != "" {
		return unknownCommand(c, c.Flags().Args()) // the flag is one of the command that was meant
	}
	text := lowerFirst(err.Error())
	switch {
	case !errors.As(err, &unknown):
	case unknown.GetSpecifiedShortnames() != "":
		text = "unknown flag: -" + unknown.GetSpecifiedName()
	default:
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		if hint := didYouMean("--"+unknown.GetSpecifiedName(), names, ""); hint != "" {
			return usagef(hint, "%s", text)
		}
	}
	hint := "run `" + c.CommandPath() + " --help`"
	var invalid *pflag.InvalidValueError
	var empty *pflag.ValueRequiredError
	switch {
	case errors.As(err, &invalid):
		name := invalid.GetFlag().Name
		switch invalid.GetFlag().Value.Type() {
		case "duration":
			hint = "write a number and a unit, for example 90s, 10m or 1h30m"
		case "bool":
			hint = "write --" + name + " or --" + name + "=false"
		case "int":
			hint = "write a whole number"
		}
		return usagef(hint, "--%s does not accept %q", name, invalid.GetValue())
	case errors.As(err, &empty):
		text = "--" + empty.GetFlag().Name + " needs a value"
	case c.Flags().Lookup("cwd") != nil && unknown != nil:
		hint = "put -- before a command that has flags of its own, or " + hint
	}
	return usagef(hint, "%s", text)
}

func lowerFirst(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && (s[1] >= 'a' && s[1] <= 'z' || s[1] == ' ') {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

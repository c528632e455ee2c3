package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// textEdit is how a command lets the user edit a text that the serve process keeps.
type textEdit struct {
	file  string // what the text is called
	from  string // the value of --file; "" for an editor
	again string // the command line that edits the text
	get   func(ctx context.Context, s *running) (text []byte, tag string, err error)
	// put replaces the text that has an ETag.
	put func(ctx context.Context, s *running, tag string, text []byte) error
}

// editText lets the user edit a text, and replaces it if they have changed it.
func (f *houseFlags) editText(cmd *cobra.Command, w *world, e textEdit) error {
	var given []byte
	if e.from != "" {
		var err error
		if given, err = w.readText(e.from); err != nil {
			return err
		}
	}
	return f.with(cmd, w, func(ctx context.Context, s *running) error {
		before, tag, err := e.get(ctx, s)
		if err != nil {
			return err
		}
		after, kept := given, e.from
		if e.from == "" {
			if after, kept, err = w.inEditor(ctx, e.file, before); err != nil {
				return err
			}
		}
		if bytes.Equal(before, after) {
			if e.from == "" {
				_ = os.Remove(kept)
			}
			w.status.Printf("the text is as before, so nothing was changed")
			return nil
		}
		if err := e.put(ctx, s, tag, after); err != nil {
			return f.refusedEdit(ctx, w, s, e, refusedEdit{err, before, kept})
		}
		if e.from == "" {
			_ = os.Remove(kept)
		}
		return nil
	})
}

// refusedEdit is a change that the serve process has refused.
type refusedEdit struct {
	err    error
	before []byte // the text that the user has changed
	kept   string // the file with what the user wrote
}

// refusedEdit says what somebody else has changed, if that is why a change was refused, and where the user's text
// is.
func (f *houseFlags) refusedEdit(ctx context.Context, w *world, s *running, e textEdit, x refusedEdit) error {
	var bad *problemError
	if errors.As(x.err, &bad) && bad.kind == "outdated" {
		if now, _, err := e.get(ctx, s); err == nil {
			w.status.Printf("this was changed meanwhile:")
			w.announce(maskedDiff(e.file, x.before, now))
		}
	}
	if x.kept == "-" {
		return x.err
	}
	return withHint(x.err, "your text is in %s; when it's right, run `%s --file %s%s`", x.kept, e.again, shellWord(x.kept), f.words())
}

// inEditor lets the user edit a text, and returns what they wrote, with the file in which it is. name ends with .yaml.
func (w *world) inEditor(ctx context.Context, name string, text []byte) (after []byte, file string, err error) {
	visual, _ := w.env("VISUAL")
	editor, _ := w.env("EDITOR")
	words := strings.Fields(cmp.Or(visual, editor))
	if len(words) == 0 {
		return nil, "", usagef("set EDITOR, or write the text into a file and name it with --file", "there is no editor: neither VISUAL nor EDITOR is set")
	}
	f, err := os.CreateTemp("", "dragoman-"+strings.TrimSuffix(name, ".yaml")+"-*.yaml") // only this user can read it
	if err != nil {
		return nil, "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, "", err
	}
	e := exec.CommandContext(ctx, words[0], append(words[1:], f.Name())...)
	e.Stdin, e.Stdout, e.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := e.Run(); err != nil {
		_ = os.Remove(f.Name())
		return nil, "", withHint(fmt.Errorf("the editor %s failed, so nothing was changed: %w", words[0], err), "set EDITOR to another one")
	}
	after, err = w.readText(f.Name())
	return after, f.Name(), err
}

// readText returns the content of a file, or of stdin for -.
func (w *world) readText(path string) (b []byte, err error) {
	if path == "-" {
		b, err = io.ReadAll(io.LimitReader(w.stdin, config.MaxFile+1))
		path = "stdin"
	} else {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			b, err = io.ReadAll(io.LimitReader(f, config.MaxFile+1))
			_ = f.Close()
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %s", clean(path), failure.Reason(err))
	case len(b) > config.MaxFile:
		return nil, usagef("write less into it", "%s has more than 1 MiB", path)
	}
	return b, nil
}

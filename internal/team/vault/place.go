package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
)

// place is where the keys are. Its methods may wait for the disk or for a person.
type place interface {
	// String names the place in a sentence.
	String() string
	// read returns the text with the keys. If there is none, the error wraps fs.ErrNotExist.
	read(ctx context.Context) (string, error)
	// write replaces the text. The caller holds the lock.
	write(ctx context.Context, text string) error
	// lock keeps other processes from writing.
	lock(ctx context.Context) (unlock func(), err error)
	// make says how somebody makes a key, if the vault can't do it itself.
	make() string
}

// place returns where the keys are.
func (v *Vault) place() (place, error) {
	if v.options.Memory {
		return v.memory, nil
	}
	return placeOf(v.options)
}

// placeOf returns the place that the options name.
func placeOf(o Options) (place, error) {
	name, isVariable := strings.CutPrefix(o.Key, "env:")
	switch {
	case o.Key == "" && o.File == "", o.Key == "keyring" && o.File == "":
		return nil, fail("set HOME, or give the key in a variable", nil, "there is no folder for the vault's key")
	case o.Key == "":
		return &keyFile{path: o.File, step: o.step}, nil
	case o.Key == "keyring":
		return newKeyring(o.File), nil
	case isVariable && name != "":
		return variable{name, o.Getenv}, nil
	}
	// It isn't quoted, because somebody may have written the key itself.
	return nil, fail("write keyring or env:NAME, or remove it to use a file", nil, "the setting for the vault's key does not name a place")
}

// These are the next steps if the keys in a place can't be read.
const (
	restoreKey = "restore it from a backup"
	correctKey = "correct it, or remove it: nothing is sealed with it yet"
)

// keysIn returns the keys in a place. next is what to do if they are malformed.
func keysIn(ctx context.Context, p place, next string) ([]*key, error) {
	text, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fail(next, err, "the vault's key in %s is malformed: %v", p, err)
	}
	return keys, nil
}

// change replaces the keys in a place by those that f returns. If there are none, f gets nil. next is
// what to do if they are malformed.
func change(ctx context.Context, p place, next string, f func([]*key) ([]*key, error)) ([]*key, error) {
	unlock, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, err := keysIn(ctx, p, next)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	after, err := f(before)
	if err != nil || len(after) == len(before) { // keys are only added
		return after, err
	}
	if err := p.write(ctx, formatKeys(after)); err != nil {
		return nil, err
	}
	return after, nil
}

// variable is an environment variable with the keys. The vault can't change it.
type variable struct {
	name   string
	getenv func(string) (string, bool)
}

func (v variable) String() string { return "the variable " + v.name }

func (v variable) read(context.Context) (string, error) {
	text, ok := v.getenv(v.name)
	if !ok || strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("%s is not set: %w", v, fs.ErrNotExist)
	}
	return text, nil
}

func (v variable) lock(context.Context) (func(), error) { return func() {}, nil }

func (v variable) write(context.Context, string) error {
	return fail("put a new key and a space in front of the key in "+v.name+", start again, and then rotate", nil, "dragoman cannot change %s", v)
}

func (v variable) make() string {
	return "set " + v.name + " to the output of `openssl rand -base64 32`"
}

// memory keeps the keys until the vault is gone.
type memory struct {
	turn chan struct{} // a lock
	text atomic.Pointer[string]
}

func (m *memory) String() string { return "memory" }

func (m *memory) read(context.Context) (string, error) {
	if text := m.text.Load(); text != nil {
		return *text, nil
	}
	return "", fs.ErrNotExist
}

func (m *memory) lock(ctx context.Context) (func(), error) {
	select {
	case m.turn <- struct{}{}:
		return func() { <-m.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) write(_ context.Context, text string) error {
	m.text.Store(&text)
	return nil
}

func (m *memory) make() string { return "" }

package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/zalando/go-keyring"
)

const keyringService = "dragoman"

// keyringWait is how long we wait for the keyring, which may ask somebody for a password.
const keyringWait = time.Minute

// osKeyring is the keyring of the operating system: the Keychain, the Credential Manager or the Secret
// Service. The account of its entry is the path that the key file would have, so that each database
// has an entry of its own.
type osKeyring struct {
	account string
	wait    time.Duration
	get     func(service, account string) (string, error)
	set     func(service, account, text string) error
}

func newKeyring(file string) *osKeyring {
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	get := func(service, account string) (string, error) {
		if err := reachable(); err != nil {
			return "", err
		}
		return keyring.Get(service, account)
	}
	return &osKeyring{file, keyringWait, get, keyring.Set}
}

func (k *osKeyring) String() string {
	return "the entry " + keyringService + " (" + k.account + ") of the operating system's keyring"
}

func (k *osKeyring) make() string { return "" }

func (k *osKeyring) read(ctx context.Context) (string, error) {
	text, err := k.ask(ctx, func() (string, error) { return k.get(keyringService, k.account) })
	if errors.Is(err, keyring.ErrNotFound) {
		return "", fmt.Errorf("there is no %s: %w", k, fs.ErrNotExist)
	}
	return text, k.explain(err)
}

func (k *osKeyring) write(ctx context.Context, text string) error {
	_, err := k.ask(ctx, func() (string, error) { return "", k.set(keyringService, k.account, text) })
	return k.explain(err)
}

// lock locks the folder of the database, because the keyring replaces an entry without looking at it.
func (k *osKeyring) lock(ctx context.Context) (func(), error) {
	folder := filepath.Dir(k.account)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, explainFile(err, "write", vaultKey+" "+folder)
	}
	return lockFolder(ctx, folder)
}

func (k *osKeyring) explain(err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return fail("unlock the keyring in a desktop session, or keep the key in a file or a variable", err, "the operating system's keyring cannot be used: %v", err)
}

// ask asks the keyring. The library takes no context, and panics if a service answers with something
// odd. If the keyring answers too late or never, its goroutine is left alone with what it's waiting for.
func (k *osKeyring) ask(ctx context.Context, f func() (string, error)) (string, error) {
	silent := fmt.Errorf("it has not answered for %s", k.wait)
	ctx, cancel := context.WithTimeoutCause(ctx, k.wait, silent)
	defer cancel()
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("it gave an answer that cannot be read")}
		defer func() {
			_ = recover()
			answers <- a
		}()
		a.text, a.err = f()
	}()
	select {
	case a := <-answers:
		return a.text, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// reachable returns an error if there's no session bus, on which the Secret Service would be. The
// library would run dbus-launch then, which starts a bus that nobody ends.
func reachable() error {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" || os.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return nil
	}
	folder := "/run/user/" + strconv.Itoa(os.Getuid())
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return nil
		}
	}
	return errors.New("there is no session bus")
}

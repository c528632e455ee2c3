package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// terminals returns both ends of a pseudo-terminal.
func terminals(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals")
	}
	t.Cleanup(func() { _ = person.Close() })
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return person, program
}

// TestLoginAtATerminal signs in at a pseudo-terminal without a display: the link is opened elsewhere, and the address at
// which that browser ends is pasted. It does so with a home, and without a place for a file, as in a container without
// volumes, where the person hears that the sign-in doesn't last.
func TestLoginAtATerminal(t *testing.T) {
	t.Run("with a home", func(t *testing.T) { loginAtATerminal(t, t.TempDir(), false) })
	t.Run("without a home", func(t *testing.T) { loginAtATerminal(t, "/nonexistent", true) })
}

func loginAtATerminal(t *testing.T, home string, forgets bool) {
	a, address := secured(t, "ok")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	person, program := terminals(t)
	cmd := &exec.Cmd{
		Path: self, Args: []string{"dragoman-daemon", "login", address}, Dir: t.TempDir(), Stdin: program, Stdout: program, Stderr: program,
		Env:         []string{"HOME=" + home, "XDG_DATA_HOME=" + filepath.Join(home, "data"), "TERM=xterm", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	if forgets && os.Getuid() == 0 { // who could make the home
		cmd.SysProcAttr.Credential, cmd.Path = &syscall.Credential{Uid: 65534, Gid: 65534}, forAll(t, self)
		cmd.Dir = filepath.Dir(cmd.Path)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	p := &visitor{user: &user{T: t, home: home}, said: &logtest.Buffer{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(plainText{p.said}, person) // ends with an error when the program has ended
	}()
	// A terminal breaks no line of its own, so the link is whole, however long it is.
	end := p.visit(p.find(anyLink), false)
	p.find(`(paste the address)`)
	if _, err := io.WriteString(person, end+"\n"); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, p.said)
	}
	<-read
	if said := p.said.String(); !strings.Contains(said, "you are signed in to") || forgets != strings.Contains(said, "is gone when this command ends") {
		t.Error(said)
	}
	if n := a.Counts(); n["authorization_code"] != 1 {
		t.Errorf("%v", n)
	}
}

// forAll returns a copy of a program that every user may start.
func forAll(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := os.ReadFile(program)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "dragoman"), b, 0o755), os.Chmod(dir, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "dragoman")
}

// plainText leaves out the carriage returns of a terminal.
type plainText struct{ w io.Writer }

func (p plainText) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.w, strings.ReplaceAll(string(b), "\r\n", "\n"))
	return len(b), err
}

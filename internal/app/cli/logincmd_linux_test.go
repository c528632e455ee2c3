package cli

import (
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
// which that browser ends is pasted.
func TestLoginAtATerminal(t *testing.T) {
	a, address := secured(t, "ok")
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	person, program := terminals(t)
	cmd := &exec.Cmd{
		Path: self, Args: []string{"dragoman-daemon", "login", address}, Dir: home, Stdin: program, Stdout: program, Stderr: program,
		Env:         []string{"HOME=" + home, "XDG_DATA_HOME=" + filepath.Join(home, "data"), "TERM=xterm", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
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
	if said := p.said.String(); !strings.Contains(said, "you are signed in to") {
		t.Error(said)
	}
	if n := a.Counts(); n["authorization_code"] != 1 {
		t.Errorf("%v", n)
	}
}

// plainText leaves out the carriage returns of a terminal.
type plainText struct{ w io.Writer }

func (p plainText) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.w, strings.ReplaceAll(string(b), "\r\n", "\n"))
	return len(b), err
}

//go:build unix

package built

import (
	"net"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// Serve starts `dragoman serve` on a free port, and returns its base URL. It stops the process when the test ends.
func Serve(t testing.TB, program string, args ...string) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command(program, append([]string{"serve", "--listen", address}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log logtest.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("dragoman ended with %v", err)
			}
		case <-time.After(time.Minute):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-done
			t.Error("dragoman did not stop")
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for range 600 {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
			return "http://" + address
		}
		time.Sleep(50 * time.Millisecond) // the server is a separate process, so poll until it listens
	}
	t.Fatalf("dragoman does not listen\n%s", log.String())
	return ""
}

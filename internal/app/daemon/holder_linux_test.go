package daemon

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// TestPortInUse checks that the error names the process that already listens on the port, not
// one of its children, and says what to do.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 4 { // children that share the port; the pid of some may be the first that is found
		child := exec.Command("sleep", "60")
		child.ExtraFiles = []*os.File{f}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		}()
	}
	_, bad := net.Listen("tcp", l.Addr().String())
	said := failure.Of(listenError(l.Addr().String(), bad), failure.Facts{})
	if said.Class != failure.PortInUse || !strings.HasSuffix(said.Sentence, fmt.Sprintf("(pid %d)", os.Getpid())) || !strings.Contains(said.Action, "--listen") {
		t.Errorf("got %+v", said)
	}
	if h := holderOf("127.0.0.1"); h != "" {
		t.Errorf("an address without a port has the holder %s", h)
	}
}

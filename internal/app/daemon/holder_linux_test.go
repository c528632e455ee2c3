package daemon

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// TestPortInUse checks that the error names the process that already listens on the port, and
// says what to do.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, bad := net.Listen("tcp", l.Addr().String())
	f := failure.Of(listenError(l.Addr().String(), bad), failure.Facts{})
	if f.Class != failure.PortInUse || !strings.HasSuffix(f.Sentence, fmt.Sprintf("(pid %d)", os.Getpid())) || !strings.Contains(f.Action, "--listen") {
		t.Errorf("got %+v", f)
	}
	if h := holderOf("127.0.0.1"); h != "" {
		t.Errorf("an address without a port has the holder %s", h)
	}
}

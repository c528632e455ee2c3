package admin

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

// asServer is the environment variable that makes the test binary run as a demo server. Its value is
// the era of the server.
const asServer = "DRAGOMAN_ADMIN_TEST_SERVER"

func TestMain(m *testing.M) {
	if era := os.Getenv(asServer); era != "" {
		if err := demo.Serve(context.Background(), era, os.Stdin, os.Stdout, "test"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

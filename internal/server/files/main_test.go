package files

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

// serveVariable makes the test binary a server of the folder that the variable names.
const serveVariable = "DRAGOMAN_TEST_SERVE_FOLDER"

func TestMain(m *testing.M) {
	if root := os.Getenv(serveVariable); root != "" {
		if err := serveFolder(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

func serveFolder(root string) error {
	s, err := Open(Options{Roots: []string{root}, Undo: Undo{Size: 1 << 30}})
	if err != nil {
		return err
	}
	s.volatile = true
	defer func() { _ = s.Close() }()
	return s.Serve(context.Background(), os.Stdin, os.Stdout)
}

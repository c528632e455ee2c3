package stdio

import (
	"os"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/leaktest"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("STDIO_TEST_CHILD"); mode != "" {
		child(mode)
		return
	}
	leaktest.Main(m)
}

func child(string) {}

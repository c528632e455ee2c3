package conn

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	checking = true
	leaktest.Main(m)
}

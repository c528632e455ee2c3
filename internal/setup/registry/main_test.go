package registry

import (
	"os"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Run(m)) }

package cluster

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

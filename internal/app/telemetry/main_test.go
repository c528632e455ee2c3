package telemetry

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

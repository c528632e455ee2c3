package try

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails what passed when a goroutine is left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

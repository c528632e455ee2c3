package admin

import (
	"strings"
	"testing"
)

// TestAliases checks that aliases differ, are stable, and depend on a random key.
func TestAliases(t *testing.T) {
	var a, b aliases
	first := a.of("x")
	if a.of("") != "" || first != a.of("x") || first == a.of("y") || first == b.of("x") || strings.Contains(a.of("secret"), "secret") {
		t.Error(a.of("x"), a.of("y"), b.of("x"))
	}
}

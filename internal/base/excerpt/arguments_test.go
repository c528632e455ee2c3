package excerpt_test

import (
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

func TestArguments(t *testing.T) {
	args := []string{"-y", "--token", "one", "--api-key=two", "TOKEN=three", "Authorization: four", "--token", "--port", "80"}
	want := []string{"-y", "--token", "***", "--api-key=***", "TOKEN=***", "Authorization:***", "--token", "--port", "80"}
	if got := excerpt.Arguments(args, "***"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := excerpt.SecretArguments(args), []string{"one", "two", "three", "four"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

package config

import (
	"strings"
	"testing"
)

// TestPrintUnsetVariables checks that a setting with an unset variable is printed with a note about
// the variable.
func TestPrintUnsetVariables(t *testing.T) {
	s, problems := Parse("f", []byte(`
mcpServers:
  web: {url: "https://h.example/${A}", headers: {Authorization: "Bearer ${B}", X-C: c}}
  masked: {url: "https://u:hunter2@${A}.example/x?key=hunter2&b=${B:-hunter2}"}
  other: {httpUrl: "${A}"}
  child: {command: "${C}", args: [a, "${D}", b], cwd: "${E}", env: {F: "${F}", G: g}}
`), nil)
	if s == nil {
		t.Fatal(problems)
	}
	printed := string(s.AppendYAML(nil))
	for _, want := range []string{
		`url: "https://h.example/${A}"  # ${A} is not set`, `url: "${A}"  # this variable is not set`,
		`url: "https://***@${A}.example/x?***"  # ${A} is not set`, `Authorization: "***"  # ${B} is not set`, `X-C: "***"`,
		`command: "${C}"  # this variable is not set`, `args: [a, "${D}", b]`, `cwd: "${E}"  # this variable is not set`,
		`F: "***"  # ${F} is not set`, `G: "***"`,
	} {
		if !strings.Contains(printed, want+"\n") {
			t.Errorf("no %s in\n%s", want, printed)
		}
	}
	if strings.Contains(printed, "hunter2") {
		t.Errorf("a secret in\n%s", printed)
	}
}

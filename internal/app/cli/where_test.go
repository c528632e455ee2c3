package cli

import "testing"

// TestCommandLineWithFlag checks the command line that an error proposes.
func TestCommandLineWithFlag(t *testing.T) {
	long := make([]byte, maxCommandLine)
	for i := range long {
		long[i] = 'x'
	}
	for _, tt := range []struct {
		flag string
		args []string
		want string
	}{
		{"--env A=VALUE", []string{"list", "--", "npx", "-y", "a b"}, "dragoman list --env A=VALUE -- npx -y 'a b'"},
		{"--env A=VALUE", []string{"-v", "list", "tools", "--", "list"}, "dragoman -v list --env A=VALUE tools -- list"},
		{"", []string{"list", "http://h"}, ""},
		{"--env A=VALUE", []string{"call", "http://h"}, ""},
		{"--env A=VALUE", []string{"list", "--", string(long)}, ""},
		{"--env A=VALUE", []string{"list", "--header", "Authorization: Bearer 0123456789abcdef0123", "http://h"}, ""},
	} {
		// The command login has no flags of a server.
		if got := (commandLine{"login", append([]string{"login"}, tt.args...)}).with(tt.flag); got != "" {
			t.Errorf("login proposes %s", got)
		}
		if got := (commandLine{"list", tt.args}).with(tt.flag); got != tt.want {
			t.Errorf("%q with %s: %s, want %s", tt.args, tt.flag, got, tt.want)
		}
	}
}

package stdio

import "testing"

func TestMissing(t *testing.T) {
	ours := []string{"PATH=/bin", "TOKEN=t", "=C:=C:\\", "Path=x", "bare", "TOKEN=again", "A=1"}
	wantLines(t, missing(ours, []string{"PATH=/bin", "A="}, false), "=C:", "Path", "TOKEN")
	wantLines(t, missing(ours, []string{"path=/bin", "token=", "a="}, true), "=C:")
}

func TestMentioned(t *testing.T) {
	names := []string{"GITHUB_TOKEN", "API_KEY", "DEBUG", "HOST", "CI", "_", "npm_config_registry", "Path", "TOKEN"}
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"Error: GITHUB_TOKEN environment variable is required", []string{"GITHUB_TOKEN"}},
		{"KeyError: 'API_KEY'", []string{"API_KEY"}},
		{"    at process.env.API_KEY, process.env.GITHUB_TOKEN", []string{"API_KEY", "GITHUB_TOKEN"}},
		{"API_KEY and again API_KEY", []string{"API_KEY"}},
		{"using MY_API_KEY, API_KEY2 and api_key", nil},
		{"npm_config_registry=http://127.0.0.1", []string{"npm_config_registry"}},
		{"[DEBUG] connected to HOST", nil},
		{"DEBUG: a token is required", nil},
		{"HOST is not set", []string{"HOST"}},
		{"set $TOKEN first", []string{"TOKEN"}},
		{"set ${TOKEN} first", []string{"TOKEN"}},
		{"TOKENS are required, as is CI", nil},
		{"Path is required", []string{"Path"}},
		{"", nil},
	} {
		wantLines(t, Mentioned([]string{"an earlier line", tt.line}, names), tt.want...)
	}
}

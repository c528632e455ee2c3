package config

import (
	"strings"
	"testing"
)

// TestTracesSettings checks the settings for traces, and that headers are not shown.
func TestTracesSettings(t *testing.T) {
	parse := func(traces string) (*Snapshot, string) {
		s, problems := Parse("f", []byte("dragoman: {telemetry: {traces: {"+traces+"}}}"), env("TOKEN=s3cr3t-token"))
		return s, listing(problems)
	}
	s, problems := parse(`endpoint: "http://127.0.0.1:4318", headers: {Authorization: "Bearer ${TOKEN}", X-Tenant: a}`)
	if problems != "" || s.Traces.Endpoint != "http://127.0.0.1:4318" || len(s.Traces.Header) != 2 || s.Traces.Header[0].Value.Reveal() != "Bearer s3cr3t-token" {
		t.Fatalf("%s %+v", problems, s)
	}
	shown := string(s.AppendYAML(nil))
	if strings.Contains(shown, "s3cr3t") || !strings.Contains(shown, "  telemetry:\n    traces:\n      endpoint: http://127.0.0.1:4318\n      headers:\n        Authorization: ") {
		t.Error(shown)
	}
	if again, problems := Parse("f", []byte(shown), nil); len(problems) > 0 || again.Traces.Endpoint != s.Traces.Endpoint {
		t.Errorf("%s\n%s", listing(problems), shown)
	}
	if d := s.Since(Default()); strings.Join(d.Settings, " ") != "telemetry.traces" {
		t.Errorf("%v", d.Settings)
	}
	for in, want := range map[string]string{
		`endpoint: "localhost:4317"`:               "must be an http or https URL",
		`endpoint: "http://u:swordfish@h"`:         "must not contain a user",
		`endpoint: "http://h/?token=swordfish"`:    "must not contain a user",
		`headers: {A: b}`:                          "works only with an endpoint",
		`endpoint: "http://h", headers: {Host: x}`: "headers.Host",
		`endpiont: "http://h"`:                     "did you mean endpoint?",
	} {
		if _, got := parse(in); !strings.Contains(got, want) || strings.Contains(got, "swordfish") {
			t.Errorf("%s: %s", in, got)
		}
	}
}

package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestAudit checks what the audit says of changes that came through the API: through what, and what was there before
// and after, without secrets.
func TestAudit(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var kept KeptSecret
	r.tell("PUT", "/secrets/gh", `{"value":"hunter22"}`, 200, &kept)
	for _, text := range []string{"title: Shop\nserver: {name: old}\n", "title: Shop\nserver: {name: new}\nmcpServers: {a: {command: x, env: {TOKEN: hunter22}}}\n"} {
		tag := ""
		if a := r.do("GET", "/api/v1/projects/shop", ""); a.status == 200 {
			tag = a.header.Get("ETag")
		}
		header := []string{"Authorization", r.key(), "Content-Type", yamlType, "If-Match", tag}
		if tag == "" {
			header[4], header[5] = "If-None-Match", "*"
		}
		if a := r.ask("PUT", "/api/v1/projects/shop", text, header...); a.status/100 != 2 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	var found AuditEntries
	r.tell("GET", "/audit?what=shop&who=local", "", 200, &found)
	var got []string
	for _, x := range found.Entries {
		got = append(got, fmt.Sprintf("%s %s %s %s %s: %s -> %s", x.Kind, x.Who, x.Via, x.What, x.Object, x.Was, x.Became))
	}
	text := regexp.MustCompile(`\s+`).ReplaceAllString(strings.Join(got, "\n"), " ")
	for _, part := range []string{"act local api changed project:shop:", `"dragoman.server.name": "old"`, `"dragoman.server.name": "new"`, `"mcpServers.a.command": "x"`, "act local api made project:shop:"} {
		if !strings.Contains(text, part) {
			t.Errorf("the audit lacks %s: %s", part, text)
		}
	}
	if a := r.do("GET", "/api/v1/audit", ""); strings.Contains(a.body, "hunter22") || !strings.Contains(a.body, "secret:default/gh") {
		t.Error(a.body)
	}
	var v AuditVerified
	if r.tell("GET", "/audit/verify", "", 200, &v); !v.Whole || v.Acts.Last == 0 || v.Acts.Sum == "" {
		t.Errorf("%+v", v)
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "since=yesterday"} {
		if a := r.do("GET", "/api/v1/audit?"+query, ""); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, a.status)
		}
	}
}

package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
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

// TestAuditOf checks who sees what in the audit: an operator what happened in their project, and an admin of default
// everything; whoever has no such role, and an operator of another project, nothing. The file has what the pages have.
func TestAuditOf(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var kept KeptSecret
	r.tell("PUT", "/secrets/mine", `{"value":"hunter22"}`, 200, &kept)
	if a := r.ask("PUT", "/api/v1/projects/shop", "title: Shop\n", "Authorization", r.key(), "Content-Type", yamlType, "If-None-Match", "*"); a.status/100 != 2 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r.tell("PUT", "/secrets/theirs?project=shop", `{"value":"hunter22"}`, 200, &kept)
	doors := r.api.Access()
	doors.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		name, of, _ := strings.Cut(who.Subject, " of ")
		if role, ok := identity.RoleOf(name); ok && of == project {
			return []identity.Role{role}
		}
		return nil
	})
	for who, want := range map[string][2]string{
		"admin of default": {"mine theirs", "theirs"}, "operator of default": {"mine", "404"}, "operator of shop": {"403", "theirs"}, "admin of shop": {"403", "theirs"},
		"viewer of default": {"403", "404"}, "viewer of shop": {"403", "403"}, "nobody": {"403", "404"},
	} {
		cookie := enter(doors, doors.LinkFor(identity.Named(who), ""))
		for i, query := range []string{"", "&project=shop"} {
			for _, path := range []string{"/audit?what=secret:", "/audit/lines?what=secret:"} {
				a := r.ask("GET", "/api/v1"+path+query, "", "Cookie", cookie, "Host", doors.Name()+":7300")
				got := fmt.Sprint(a.status)
				if a.status == 200 {
					var found []string
					for _, name := range []string{"mine", "theirs"} {
						if strings.Contains(a.body, "/"+name+`"`) {
							found = append(found, name)
						}
					}
					got = strings.Join(found, " ")
				}
				if got != want[i] {
					t.Errorf("%s%s as %s: %s, want %s", path, query, who, got, want[i])
				}
			}
		}
	}
	doors.RolesFrom(ranked)
	all, next := "", ""
	for range 20 {
		var page AuditEntries
		r.tell("GET", "/audit?limit=2&before="+next, "", 200, &page)
		for _, x := range page.Entries {
			b, _ := json.Marshal(x)
			all += string(b) + "\n"
		}
		if next = page.Next; !page.More {
			break
		}
	}
	lines := r.do("GET", "/api/v1/audit/lines", "")
	if lines.status != 200 || lines.body != all || strings.Count(all, "\n") < 4 || strings.Contains(all, "hunter22") || lines.header.Get("Content-Type") != linesType {
		t.Errorf("%d: the file has\n%s, and the pages\n%s", lines.status, lines.body, all)
	}
	if a := r.do("GET", "/api/v1/audit?before=x", ""); a.status != http.StatusBadRequest {
		t.Errorf("before=x: %d", a.status)
	}
}

// TestCheckAudit checks that a look at both chains begins only if that is asked for and the last is old, that nobody
// waits for it, and that it's remembered.
func TestCheckAudit(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var kept KeptSecret
	r.tell("PUT", "/secrets/gh", `{"value":"hunter22"}`, 200, &kept)
	if c := r.api.CheckAudit(false); c.Running || !c.At.IsZero() {
		t.Errorf("%+v before anybody has asked", c)
	}
	for range 3 {
		r.api.CheckAudit(true)
	}
	await(t, "a look", func() bool { return !r.api.CheckAudit(false).At.IsZero() })
	first := r.api.CheckAudit(true)
	if first.Running || !first.Found.Whole || first.Found.Acts.Last == 0 || r.api.CheckAudit(false).At != first.At {
		t.Errorf("%+v", first)
	}
	act, bad := r.api.FindAct(t.Context(), first.Found.Acts.Last, "")
	if bad != nil || act.Seq != first.Found.Acts.Last {
		t.Errorf("%+v %v", act, bad)
	}
	for _, seq := range []int64{-1, 0, act.Seq + 100} {
		if _, bad := r.api.FindAct(t.Context(), seq, ""); bad == nil || bad.Status != 404 {
			t.Errorf("act %d: %v", seq, bad)
		}
	}
	if _, bad := r.api.FindAct(t.Context(), act.Seq, "elsewhere"); bad == nil {
		t.Error("an act is found in another project")
	}
}

package cli

import (
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// linkLine is what a command prints that shows a link: the link alone.
var linkLine = regexp.MustCompile(`^(https?://[^/]+)/console/invitation\?token=[0-9A-Za-z_-]{43}\n$`)

// TestPeopleCommand invites people with a running serve, and gives and takes what they have.
func TestPeopleCommand(t *testing.T) {
	u := newUser(t)
	at := u.house()
	if code, out, said := u.run("people"); code != exitOK || out != "" || !strings.Contains(said, "`dragoman people invite NAME` makes a link") {
		t.Errorf("nobody: %d %s%s", code, out, said)
	}
	code, link, said := u.run("people", "invite", "ada")
	if found := linkLine.FindStringSubmatch(link); code != exitOK || found == nil || found[1] != "http://"+at || !strings.Contains(said, "invited ada to the project default as caller, viewer") || strings.Contains(said, "token=") {
		t.Fatalf("invite: %d %s", code, said)
	}
	if _, link, said := u.run("-q", "people", "invite", "Bob Ross", "--role", "operator"); !linkLine.MatchString(link) || said != "" {
		t.Errorf("invite -q: %s", said)
	}
	for _, c := range []struct {
		line []string
		code int
		want string
	}{
		{[]string{"role", "ada", "caller", "admin"}, exitOK, "ada has the roles: caller, admin"},
		{[]string{"role", "Bob Ross", "none"}, exitOK, "Bob Ross has the roles: none"},
		{[]string{"link", "ADA"}, exitOK, "made another link for ada"},
		{[]string{"sessions", "ada"}, exitOK, "signed in nowhere"},
		{[]string{"sign-out", "ada", "--session", "KJDTVLHC2UXQ"}, exitUsage, "`dragoman people sessions ada` lists the sessions"},
		{[]string{"sign-out", "ada", "--session", ""}, exitUsage, "ada has no session"},
		{[]string{"sign-out", "ada"}, exitOK, "signed ada out of 0 browsers"},
		{[]string{"invite", "ada"}, exitUsage, "`dragoman people link ada` makes another link"},
		{[]string{"invite"}, exitUsage, "name is missing"},
		{[]string{"invite", "a\nb"}, exitUsage, "control characters"},
		{[]string{"invite", "me"}, exitUsage, "nobody can be named"},
		{[]string{"invite", "x", "--role", "owner"}, exitUsage, "caller, viewer, operator and admin"},
		{[]string{"invite", "x", "--project", "shop"}, exitUsage, `no project is named "shop"`},
		{[]string{"role", "ada"}, exitUsage, "as in `dragoman people role"},
		{[]string{"role", "ada", "caller,viewer"}, exitUsage, "each by itself"},
		{[]string{"role", "eve", "viewer"}, exitUsage, "`dragoman people` lists the people"},
		{[]string{"link", "eve"}, exitUsage, "nobody is named"},
		{[]string{"sign-out", "eve"}, exitUsage, "nobody is named"},
		{[]string{"sessions", "eve"}, exitUsage, "nobody is named"},
		{[]string{"remove", "eve"}, exitUsage, "nobody is named"},
		{[]string{"remove", "ada", "--project", "shop"}, exitUsage, "--project"},
		{[]string{"remove", "Bob Ross"}, exitOK, "removed Bob Ross"},
	} {
		code, out, said := u.run(append([]string{"people"}, c.line...)...)
		if code != c.code || !strings.Contains(said, c.want) || code != exitOK && (out != "" || !strings.Contains(said, "dragoman: error")) {
			t.Errorf("%q: %d, want %d with %q\n%s%s", c.line, code, c.code, c.want, out, said)
		}
	}
	if code, key, said := u.run("keys", "add", "laptop", "--owner", "ada"); code != exitOK || !soon(func() bool { return enters(t, at, strings.TrimSpace(key)) }) {
		t.Errorf("a key of ada's: %d %s", code, said)
	} else if code, _, _ := u.run("people", "role", "ada", "admin"); code != exitOK || !soon(func() bool { return !enters(t, at, strings.TrimSpace(key)) }) {
		t.Error("ada's key still works without her role")
	}
	if code, _, said := u.run("keys", "add", "laptop", "--owner", "eve"); code != exitUsage || !strings.Contains(said, "nobody in the project is named") {
		t.Errorf("a key of nobody's: %d %s", code, said)
	}
	_, text, _ := u.run("people", "--json")
	var people []admin.Person
	if err := json.Unmarshal([]byte(text), &people); err != nil || len(people) != 1 || people[0].Name != "ada" || people[0].Invited != nil || strings.Contains(text, "token") {
		t.Errorf("%v %s", err, text)
	}
}

// TestPeopleWithoutServe invites people while no serve runs, and while one runs whose API is off. The link leads to the
// serve that there will be, and not to the one that has made it.
func TestPeopleWithoutServe(t *testing.T) {
	u := newUser(t)
	file := u.write("team.yaml", "mcpServers: {}\ndragoman: {listen: \"127.0.0.1:7398\", database: team.db}\n")
	_, link, said := u.run("people", "invite", "ada", "-c", file)
	if found := linkLine.FindStringSubmatch(link); found == nil || found[1] != "http://127.0.0.1:7398" {
		t.Errorf("no serve: %q %s", link, said)
	}
	file = u.write("team.yaml", "mcpServers: {}\ndragoman: {listen: \"0.0.0.0:7398\", database: team.db}\n")
	if code, link, said := u.run("people", "invite", "bob", "-c", file); code != exitFailure || link != "" || !strings.Contains(said, "dragoman.publicURL") {
		t.Errorf("no public URL: %d %q %s", code, link, said)
	}
	file = u.write("team.yaml", "mcpServers: {}\ndragoman: {listen: \"0.0.0.0:7398\", database: team.db, publicURL: \"https://mcp.example.com/\"}\n")
	_, port, _ := net.SplitHostPort(u.serve("-c", file, "--listen", "0.0.0.0:0")) // ada is there, so it starts
	_, link, said = u.run("people", "invite", "bob", "-c", file)
	if found := linkLine.FindStringSubmatch(link); found == nil || found[1] != "https://mcp.example.com" {
		t.Errorf("a serve at a network address: %q %s", link, said)
	}
	if code, list, said := u.run("people", "-c", file); code != exitOK || !strings.Contains(list, "ada ") || !strings.Contains(list, "bob ") {
		t.Errorf("port %s: %s%s", port, list, said)
	}
}

// TestLinkBase checks where the links of people lead that are made while no serve runs.
func TestLinkBase(t *testing.T) {
	for _, c := range []struct {
		public, listen string
		tls            bool
		hosts          []string
		want           string
	}{
		{"", "127.0.0.1:7300", false, nil, "http://127.0.0.1:7300"},
		{"", "127.0.0.1:7300", true, nil, "http://127.0.0.1:7300"}, // tls isn't used there
		{"https://mcp.example.com", "0.0.0.0:443", true, []string{"x"}, "https://mcp.example.com"},
		{"https://mcp.example.com/below", "0.0.0.0:443", false, nil, ""},
		{"", "192.0.2.7:7300", false, nil, ""},
		{"", "192.0.2.7:7300", true, nil, "https://192.0.2.7:7300"},
		{"", "mcp.example.com:443", true, nil, "https://mcp.example.com"},
		{"", ":443", true, nil, ""},
		{"", "0.0.0.0:7300", true, []string{"gateway.internal", "x"}, "https://gateway.internal:7300"},
		{"", "[::]:7300", true, []string{"gateway.internal:444"}, "https://gateway.internal:444"},
		{"", "[::]:7300", true, []string{"[2001:db8::7]"}, "https://[2001:db8::7]:7300"},
		{"", "[::]:7300", false, []string{"gateway.internal"}, ""},
	} {
		x := &config.Snapshot{PublicURL: c.public, Hosts: c.hosts}
		if c.tls {
			x.TLS = config.TLS{Cert: "a", Key: "b"}
		}
		if got := linkBase(x, c.listen); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestPeopleTable checks how people look in 80 columns.
func TestPeopleTable(t *testing.T) {
	until := noon.AddDate(0, 0, 7)
	table := peopleTable([]admin.Person{
		{Name: "ada", Roles: []admin.PersonRoles{{Project: "default", Roles: []string{"caller", "operator"}}, {Project: "shop", Roles: []string{"admin"}}}, Sessions: 2, Seen: "2026-11-28"},
		{Name: "a name as long as people make them\x1b[2J", Roles: []admin.PersonRoles{{Project: "a-project-with-a-long-name", Roles: []string{"caller", "viewer"}}}, Invited: &until},
		{Name: "运维"},
	}, time.UTC)
	golden(t, "people.txt", table.Text())
}

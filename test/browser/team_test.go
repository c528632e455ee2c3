//go:build unix

package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/console"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// team goes the way of docs/teams.md with a SQLite file and with PostgreSQL.
func (r *rig) team(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { r.teamWith(t, "") })
	t.Run("postgres", func(t *testing.T) {
		at, err := url.Parse(dbtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("dragoman_browser_", os.Getpid())
		dbtest.Exec(t, dbtest.URL(t), "CREATE DATABASE "+name)
		t.Cleanup(func() { dbtest.Exec(t, dbtest.URL(t), "DROP DATABASE "+name) })
		at.Path = "/" + name
		r.teamWith(t, at.String())
	})
}

// crew is a team at work: three people in browsers of their own, in front of a serve that other machines could reach.
type crew struct {
	*rig
	t                *testing.T
	h                *serveRun
	grace, ada, ben  *tab // the admin, the operator and the viewer
	node             string
	changed          string // if there is this file, the server notes describes its tool differently
	everything, disk string // the programs of the servers from npm
}

// shop is where the console has the pages of the team's project.
const shop = "/console/p/shop"

// teamWith has Grace, who runs a serve with https, make a project with servers from npm, and invite Ada as operator and
// Ben as viewer. Ada makes a key for a client of the TypeScript SDK, and decides what it gets: she switches a tool off,
// approves a definition that has changed, publishes a prompt, and revokes the key in the end. Ben sees all of it and can
// do nothing. The audit has every act in order, and its chain holds.
func (r *rig) teamWith(t *testing.T, database string) {
	peers := install(t, filepath.Join("..", "peers"))
	clients := install(t, filepath.Join("..", "clients"))
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("make browser needs node")
	}
	servers := filepath.Join(peers, "node_modules", "@modelcontextprotocol")
	c := &crew{rig: r, t: t, node: node, changed: filepath.Join(t.TempDir(), "changed"), everything: filepath.Join(servers, "server-everything", "dist", "index.js"), disk: filepath.Join(servers, "server-filesystem", "dist", "index.js")}
	c.moveIn(database)

	c.makeProject()
	c.ada, c.ben = c.invited("Ada", "caller", "operator"), c.invited("Ben", "viewer")
	c.seen("/", "everything")
	c.seen("/servers", "everything", "filesystem", "notes")
	c.seen("/servers/everything/tools/echo", "echo")
	c.seen("/tools", "read_text_file")

	key, page := c.makeKey()
	client := c.connects(clients, key)
	c.seen("/clients", "sdk-team")
	c.seen("/calls", "echo")
	c.switchOff(client)
	c.review(client)
	c.prompt(clients, key)
	c.revoke(client, page)
	c.powerless(page)
	c.audited()
	c.grace.clean("Grace")
	c.ada.clean("Ada")
	c.ben.clean("Ben", "status of 403", "status of 404") // what he has sent, and the review, which is over
}

// moveIn starts serve with https, and lets Grace in.
func (c *crew) moveIn(database string) {
	settings := "  audit: {calls: names}\n"
	if database != "" {
		settings += fmt.Sprintf("  database: %q\n", database)
	}
	h, link := c.open(c.t, "", settings)
	c.h, c.grace = h, c.chrome.newTab(c.t, "")
	c.grace.accept(link, "Grace")
}

// open starts serve at an address that other machines could reach, with https. servers and settings are parts of its
// configuration, with those below dragoman. It returns the link of Grace, the admin, who was invited before the start.
func (r *rig) open(t *testing.T, servers, settings string) (h *serveRun, link string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	h = r.home(t, fmt.Sprintf("%[1]sdragoman:\n  listen: 0.0.0.0:%[2]s\n  publicURL: https://%[3]s:%[2]s\n  tls: {cert: %[4]q, key: %[5]q}\n%[6]s", servers, port, publicName, r.cert, r.key, settings))
	link = strings.TrimSpace(h.run("people", "invite", "Grace", "--role", "caller", "--role", "admin", "-c", h.config))
	h.start()
	return h, link
}

// makeProject makes the project shop, and adds servers to it: two from npm, and one that changes.
func (c *crew) makeProject() {
	p := c.grace
	p.open(p.origin + "/console/projects")
	p.fill("Name", "shop")
	p.fill("Settings, as YAML", "title: The shop\npins: hold\n")
	p.click(button("Add the project"))
	p.wait("the project", `location.pathname === "/console/projects/shop" && document.querySelector("h1").textContent === "shop"`)
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	p.fill("Settings, as YAML", fmt.Sprintf("title: The shop\npins: hold\nmcpServers:\n  everything: {command: %[1]q, args: [%[2]q]}\n  filesystem: {command: %[1]q, args: [%[3]q, %[4]q]}\n  notes: {command: %[5]q, env: {BROWSER_TEST_SERVER: mildly, BROWSER_TEST_CHANGED: %[6]q}}\n", c.node, c.everything, c.disk, c.t.TempDir(), self, c.changed))
	p.click(button("Preview"))
	p.wait("what changes", `document.querySelector("main ins")?.textContent.length > 0`)
	p.click(button("Save"))
	p.wait("the servers", `!document.querySelector("main ins") && document.querySelector("main .facts").textContent.includes("servers3")`)
	// Who sees its pages is up to her, and so far nobody does.
	p.open(p.origin + "/console/people")
	p.click(`[...document.querySelectorAll("main .lead a")].find((a) => a.textContent === "Grace")`)
	p.wait("her page", `document.querySelector("h1").textContent === "Grace"`)
	p.click(`(() => { const form = [...document.querySelectorAll("main form")].find((f) => f.elements.project?.value === "shop"); form.querySelector("[value=admin]").checked = true; return form.querySelector("button[value=roles]"); })()`)
	p.wait("her role", `document.getElementById("toast")`)
	p.open(p.origin + shop + "/tools")
	p.wait("the tools of all servers", `fetch(location.href).then((a) => a.text()).then((text) => ["echo", "read_text_file", "search"].every((name) => text.includes(">" + name + "<")))`)
}

// invited lets somebody in to the project, with a link from the page People, in a browser of their own.
func (c *crew) invited(name string, roles ...string) *tab {
	p := c.grace
	p.open(p.origin + "/console/people")
	p.fill("Name", name)
	list, err := json.Marshal(roles)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := p.try(fmt.Sprintf(`document.getElementById("i-project").value = "shop"; for (const box of document.querySelectorAll("#i-roles input")) box.checked = %s.includes(box.value);`, list), nil); err != nil {
		c.t.Fatal(err)
	}
	p.click(button("Invite"))
	p.wait("the link", `document.getElementById("own-link")`)
	other := c.chrome.newTab(c.t, "")
	other.accept(eval[string](p, ownLink), name)
	other.wait("the project", `location.pathname === "`+shop+`/"`)
	return other
}

// seen has Ben look at a page of the project. It has these texts, and no form or link with which something is done.
func (c *crew) seen(path string, texts ...string) {
	c.t.Helper()
	p := c.ben
	p.open(p.origin + shop + path)
	for _, text := range texts {
		p.wait("that Ben sees "+text, fmt.Sprintf(`document.querySelector("main").textContent.includes(%q)`, text))
	}
	if acts := eval[[]string](p, `[...document.querySelectorAll('main form[method=post]:not([action$="/connect"]), main button[name=do], main a[href$="/edit"], main a[href*="/rules/edit"], main a[href$="/servers/add"]')].map((e) => e.outerHTML.slice(0, 160))`); len(acts) > 0 {
		c.t.Errorf("%s: a viewer gets %q", path, acts)
	}
}

// makeKey has Ada make a key, and returns it with the path of its page.
func (c *crew) makeKey() (key, page string) {
	p := c.ada
	p.open(p.origin + shop + "/keys/new")
	p.fill("Name", "laptop")
	p.click(button("Make the key"))
	p.wait("the key", `document.getElementById("own-key")`)
	key = eval[string](p, `document.getElementById("own-key").textContent`)
	p.click(`document.getElementById("own-key-kept")`)
	p.click(button("Show the key's page"))
	p.wait("the key's page", `document.querySelector("h1").textContent === "laptop"`)
	return key, eval[string](p, `location.pathname`)
}

// sdkTeam is a client of the TypeScript SDK v2 that prints what it gets: the instructions, the tools, at first and each
// time that the server says that they have changed, and how the stream has ended that says so.
const sdkTeam = `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
const say = (said) => console.log(JSON.stringify(said))
const told = (tools) => say({ tools: Object.fromEntries(tools.map((t) => [t.name, t.description ?? ''])) })
const client = new Client({ name: 'sdk-team', version: '1' }, {
  versionNegotiation: { mode: 'auto' },
  listChanged: { tools: { onChanged: (error, tools) => error ? say({ failed: String(error) }) : told(tools) } },
})
const headers = { Authorization: 'Bearer ' + process.env.DRAGOMAN_KEY }
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2]), { requestInit: { headers } }))
say({ instructions: client.getInstructions() ?? '' })
told((await client.listTools()).tools)
say({ called: await client.callTool({ name: 'everything__echo', arguments: { message: 'hello' } }).then((r) => r.content[0].text, String) })
say({ ended: await client.autoOpenedSubscription.closed })
process.exit(0)
`

// said is a line of sdkTeam; one of its members is set.
type said struct {
	Instructions          *string
	Tools                 map[string]string // the descriptions, by name
	Called, Failed, Ended string
}

// sdkClient is a running sdkTeam.
type sdkClient struct {
	t     *testing.T
	lines <-chan said
}

// client starts a client with a key, which ends with the test.
func (c *crew) client(packages, key string) *sdkClient {
	c.t.Helper()
	folder := c.t.TempDir()
	file := filepath.Join(folder, "client.mjs")
	if err := os.WriteFile(file, []byte(sdkTeam), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(folder, "node_modules")); err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(c.node, file, strings.Replace(c.h.origin, publicName, "127.0.0.1", 1)+"/p/shop/mcp")
	cmd.Env = append(os.Environ(), "DRAGOMAN_KEY="+key, "NODE_EXTRA_CA_CERTS="+c.cert)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	lines, read := make(chan said, 100), make(chan struct{})
	go func() {
		defer close(read)
		defer close(lines)
		in := bufio.NewScanner(out)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var x said
			if json.Unmarshal(in.Bytes(), &x) == nil {
				lines <- x
			}
		}
	}()
	c.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-read
		_ = cmd.Wait()
	})
	return &sdkClient{c.t, lines}
}

// until waits for a line of which holds is true.
func (x *sdkClient) until(what string, holds func(said) bool) said {
	x.t.Helper()
	limit, last := time.After(patience), said{}
	for {
		select {
		case line, ok := <-x.lines:
			switch {
			case !ok:
				x.t.Fatalf("%s: the client has ended after %+v", what, last)
			case holds(line):
				return line
			}
			last = line
		case <-limit:
			x.t.Fatalf("%s: the last that the client has said is %+v", what, last)
		}
	}
}

// connects starts a client while Ada's page Connect waits for it. The page says who it is and what it sees.
func (c *crew) connects(packages, key string) *sdkClient {
	p := c.ada
	p.open(p.origin + shop + "/connect")
	p.wait("live updates", `document.getElementById("live").textContent !== ""`)
	if text := eval[string](p, `document.documentElement.outerHTML`); strings.Contains(text, key) || !strings.Contains(text, publicName) || !strings.Contains(text, "DRAGOMAN_KEY") {
		c.t.Error("the snippet has the key, or not the address and the variable")
	}
	client := c.client(packages, key)
	client.until("the tools", func(x said) bool {
		_, echo := x.Tools["everything__echo"]
		_, file := x.Tools["filesystem__read_text_file"]
		return echo && file && x.Tools["notes__search"] != ""
	})
	p.wait("the first message", `/^sdk-team 1 connected at .* It speaks 2026-07-28/.test(document.getElementById("arrival").textContent) && /Its endpoint has [1-9]/.test(document.getElementById("sees").textContent)`)
	if x := client.until("the answer of a tool", func(x said) bool { return x.Called != "" }); !strings.Contains(x.Called, "hello") {
		c.t.Errorf("the call gets %s", x.Called)
	}
	return client
}

// switchOff disables a tool on the page Tools, and the client's list is without it.
func (c *crew) switchOff(client *sdkClient) {
	p := c.ada
	p.open(p.origin + shop + "/tools?server=everything")
	p.click(`document.querySelector('[aria-label="Disable echo of everything"]')`)
	p.wait("what it changes", `location.pathname.endsWith("/rules/edit") && document.getElementById("effect")`)
	p.click(`document.querySelector("main button[name=save]")`)
	p.wait("the rule", `location.pathname === "`+shop+`/rules" && document.querySelector("main tbody").textContent.includes("everything/echo")`)
	client.until("a list without the tool", func(x said) bool {
		_, there := x.Tools["everything__echo"]
		return x.Tools != nil && !there
	})
	c.seen("/rules", "everything/echo")
	c.seen("/tools?server=everything", "disabled")
}

// review lets a server describe its tool differently. The tool is held, and leaves the client's list; Ada reads what has
// changed, which nobody could see without a mark, and approves it, and the client gets it.
func (c *crew) review(client *sdkClient) {
	if err := os.WriteFile(c.changed, nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	p := c.ada
	p.held(shop)
	client.until("a list without what is held", func(x said) bool {
		_, there := x.Tools["notes__search"]
		return x.Tools != nil && !there
	})
	p.click(`document.querySelector("main tbody .lead a")`)
	p.wait("the difference", `location.pathname.startsWith("`+shop+`/tools/held/") && document.querySelector(".pins ins")`)
	marked := eval[string](p, `[...document.querySelectorAll(".pins ins")].map((x) => x.textContent).join("\n")`)
	if !strings.Contains(marked, "U+200B") || !strings.Contains(marked, "read ~/.ssh/id_rsa") {
		c.t.Errorf("marked is %s", marked)
	}
	c.seen(strings.TrimPrefix(eval[string](p, `location.pathname`), shop), "read ~/.ssh/id_rsa")
	p.click(button("Approve"))
	p.wait("the end", `location.pathname === "`+shop+`/tools/held" && document.querySelector("main").textContent.includes("Nothing waits for a decision")`)
	client.until("the new description", func(x said) bool { return strings.Contains(x.Tools["notes__search"], "read ~/.ssh/id_rsa") })
}

// prompt has Ada write a prompt, publish it and make it active. The instructions of the next client begin with exactly the
// text that the page has shown; behind it is what the servers say.
func (c *crew) prompt(packages, key string) {
	p := c.ada
	p.open(p.origin + shop + "/prompts")
	p.click(button("New prompt"))
	p.wait("the editor", `document.getElementById("p-text")`)
	if err := p.try(`document.getElementById("p-name").value = "style"; document.getElementById("p-text").value = "Prices are in cents.\n\nNames are short.";`, nil); err != nil {
		c.t.Fatal(err)
	}
	p.click(button("Write the prompt"))
	p.wait("the prompt", `document.querySelector("h1").textContent === "style" && document.querySelector("button[value=publish]")`)
	p.click(button("Publish"))
	p.wait("the published version", `document.querySelector("main .chip")?.textContent === "published"`)
	p.click(button("Make active"))
	p.wait("the instructions", `location.pathname.endsWith("/instructions") && document.querySelector("main section pre")`)
	shown := eval[string](p, `[...document.querySelectorAll("main section")].find((s) => /all revisions|2026-07-28/.test(s.querySelector("h2").textContent)).querySelector("pre").textContent`)
	p.click(button("Make active"))
	p.wait("the active prompt", `document.querySelector("main .st")?.textContent === "active"`)
	got := c.client(packages, key).until("the instructions", func(x said) bool { return x.Instructions != nil })
	// The page has said that it doesn't know yet what the servers say to such a client.
	if !strings.HasPrefix(*got.Instructions, shown) || !strings.Contains(shown, "Prices are in cents.\n\nNames are short.") {
		c.t.Errorf("the next client gets\n%s\nand the page has shown\n%s", *got.Instructions, shown)
	}
	for _, path := range []string{"/prompts", "/prompts/style", "/prompts/style/instructions"} {
		c.seen(path, "style")
	}
}

// revoke has Ada revoke the key, which ends the client's stream.
func (c *crew) revoke(client *sdkClient, page string) {
	p := c.ada
	p.open(p.origin + page)
	p.click(button("Revoke the key"))
	p.wait("what ends", `document.getElementById("toast")?.textContent.includes("open stream")`)
	client.until("the end of the stream", func(x said) bool { return x.Ended == "remote" || x.Ended == "graceful" })
}

// powerless sends every form of the console for which a viewer has too low a role, as a script of Ben's page would.
func (c *crew) powerless(key string) {
	for _, path := range []string{"/", "/connect", "/events", "/settings", "/compatibility", "/playground", "/questions", "/servers/filesystem"} {
		c.seen(path)
	}
	all := console.New(console.Options{Off: "the test needs only its table"})
	c.t.Cleanup(all.Close)
	sent := 0
	for _, x := range all.Table() {
		if x.Method != http.MethodPost || !strings.HasPrefix(x.Path, "/console/") || x.Least.String() != "operator" && x.Least.String() != "admin" {
			continue
		}
		path := strings.NewReplacer("prompts/{name}", "prompts/style", "{name}", "everything", "{operation}", "restart", "held/{id}", "held/notes", "{id}", "none").Replace(x.Path)
		if !x.Whole {
			path = shop + strings.TrimPrefix(path, "/console")
		}
		if got := c.posts(path, "do=remove"); got != http.StatusForbidden {
			c.t.Errorf("Ben's POST to %s: %d", path, got)
		}
		sent++
	}
	if sent < 20 {
		c.t.Errorf("%d forms were sent", sent)
	}
	// Anybody may have keys and projects, but not these.
	for path, form := range map[string]string{key: "do=revoke&number=AAAA", "/console/projects": "name=own&number=AAAA", "/console/projects/shop": "do=save&text=title: Ben's"} {
		if got := c.posts(path, form); got != http.StatusForbidden && got != http.StatusNotFound {
			c.t.Errorf("Ben's POST to %s: %d", path, got)
		}
	}
}

// posts sends a form as Ben, and returns the status of the answer.
func (c *crew) posts(path, form string) int {
	c.t.Helper()
	return eval[int](c.ben, fmt.Sprintf(`fetch(%q, { method: "POST", redirect: "manual", body: new URLSearchParams(%q) }).then((a) => a.status)`, path, form))
}

// audited reads on the page Audit what has happened, which is every act in order, none of Ben's among them but that he
// came in. The command finds that nothing was changed in it.
func (c *crew) audited() {
	p := c.grace
	p.open(p.origin + "/console/audit?project=shop")
	acts := eval[[]string](p, `[...document.querySelectorAll("main tbody tr")].reverse().filter((row) => row.querySelector(".lead a")).map((row) => row.querySelector(".who").firstChild.textContent + ": " + row.querySelector(".lead a").textContent)`)
	want := []string{
		"Grace: made project:shop", "Grace: changed project:shop", "Grace: set roles admin person:", "Grace: set roles caller operator person:", "Grace: invited person:", "Grace: set roles viewer person:", "Grace: invited person:",
		"Ada: made key:shop/", "Ada: changed project:shop", "Ada: approved pin:shop/notes/tool:search@", "Ada: wrote version 1 prompt:shop/style", "Ada: published version 1 prompt:shop/style", "Ada: activated version 1 prompt:shop/style", "Ada: revoked key:shop/",
	}
	if !slices.EqualFunc(acts, want, strings.HasPrefix) {
		c.t.Errorf("the acts are\n%s", strings.Join(acts, "\n"))
	}
	if out := c.h.run("audit", "verify", "-c", c.h.config); strings.Contains(out, "broken") {
		c.t.Errorf("audit verify says\n%s", out)
	}
}

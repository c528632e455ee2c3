package failure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// TestOf checks class, sentence and action for one failure of each kind.
func TestOf(t *testing.T) {
	stderr := func(lines ...string) Facts {
		return Facts{Server: "gh", Command: "npx", Cause: "exited", Exit: "exit status 1", Stderr: lines}
	}
	with := func(f Facts, change func(*Facts)) Facts { change(&f); return f }
	at := func(status int, more ...func(*Facts)) Facts {
		f := Facts{Server: "gh", Given: true, Cause: "refused", Address: "https://h.example/x", Status: status}
		for _, m := range more {
			m(&f)
		}
		return f
	}
	page := func(title string) func(*Facts) {
		return func(f *Facts) {
			f.ContentType, f.Body = "text/html; charset=utf-8", []byte("<html><head><title>"+title+"</title>")
		}
	}
	dial := func(err error) error { return fmt.Errorf("not sent: %w", &net.OpError{Op: "dial", Err: err}) }
	listen := func(n syscall.Errno) error {
		return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", n)}
	}
	for _, tt := range []struct {
		err              error
		facts            Facts
		class            Class
		sentence, action string
		flag             string // the expected result of Flag; "" if the test does not check it
	}{
		{facts: Facts{Server: "gh", Address: "https://h.example/x", Cause: "exited"}, class: CutOff},
		{facts: Facts{Server: "gh", Address: "https://h.example/x"}, err: io.EOF, class: CutOff},
		{facts: at(404, func(f *Facts) { f.Call = true }), class: Rejected, sentence: `server "gh" refused the request (HTTP 404)`},
		{facts: stderr("Error: no such option"), class: Exited,
			sentence: `server "gh" exited with status 1 before it was ready: "Error: no such option"`, action: "run the command by hand to see its complete output"},
		{facts: stderr(), class: Exited, sentence: `server "gh" exited with status 1 before it was ready and printed nothing to stderr`},
		{facts: with(stderr(), func(f *Facts) {
			f.Exit = "signal: killed"
			f.Running = true
			f.Stderr = []string{"Server running on stdio"}
		}), class: Exited,
			sentence: `server "gh" was killed by SIGKILL`, action: "if you did not stop the server, look for an out-of-memory message in the system log"},
		{facts: with(stderr(), func(f *Facts) { f.Exit = "signal: killed"; f.Call = true; f.Stderr = []string{"out of memory"} }), class: Exited,
			sentence: `server "gh" was killed by SIGKILL before it answered: "out of memory"`},
		{facts: with(stderr(), func(f *Facts) { f.Exit = "signal: segmentation fault (core dumped)" }), class: Exited,
			sentence: `server "gh" was killed by SIGSEGV before it was ready and printed nothing to stderr`},
		{facts: with(stderr(), func(f *Facts) { f.Exit = "signal: signal 40" }), class: Exited,
			sentence: `server "gh" was killed by the signal "signal 40" before it was ready and printed nothing to stderr`},
		{facts: stderr("Error: Cannot find module '/x/y.js'"), class: Exited, action: "install the packages of the server (npm install), or correct the path of the script"},
		{facts: with(stderr("Error: Cannot find module '/x/dist/y.js'"), func(f *Facts) { f.Args = []string{"--no-warnings", "./dist/y.js"} }), class: Exited,
			sentence: `server "gh" exited with status 1 before it was ready: the file /x/dist/y.js does not exist`, action: "correct the path of the file"},
		{facts: with(stderr("python3: can't open file '/x/y.py': [Errno 2] No such file or directory"), func(f *Facts) { f.Args = []string{"/x/y.py"} }), class: Exited,
			sentence: `server "gh" exited with status 1 before it was ready: the file /x/y.py does not exist`, action: "correct the path of the file"},
		{facts: with(stderr("Error: Cannot find module './lib'"), func(f *Facts) { f.Args = []string{"y.js"} }), class: Exited, action: "install the packages of the server (npm install), or correct the path of the script"},
		{facts: Facts{Server: "gh", Class: CommandNotFound, Command: "node ./good.mjs", PATH: "/bin"}, class: CommandNotFound,
			sentence: `server "gh" cannot start: the program "node ./good.mjs" was not found`, action: "put the first word into `command`, and the other words into `args`"},
		{facts: Facts{Server: "gh", Class: CannotStart, Command: "node", Given: true, Start: "no such file or directory", Hint: "the working directory /nope does not exist"}, class: CannotStart,
			sentence: `server "gh" cannot start: the working directory /nope does not exist`, action: "correct --cwd"},
		{facts: with(stderr("KeyError: 'API_KEY'"), func(f *Facts) { f.Withheld = []string{"API_KEY"} }), class: MissingVariable,
			action: `add API_KEY to inheritEnv, or to the env of server "gh"`},
		{facts: stderr("npm error 404  'mcp-nope@*' is not in this registry."), class: Exited, action: "check the name of the package"},
		{facts: stderr("Error: GITHUB_TOKEN environment variable is required"), class: MissingVariable,
			sentence: `server "gh" exited with status 1 before it was ready: the environment variable GITHUB_TOKEN is missing; its stderr says "Error: GITHUB_TOKEN environment variable is required"`,
			action:   "set it with env: {GITHUB_TOKEN: …} in the configuration"},
		{facts: with(stderr("KeyError: 'API_KEY'"), func(f *Facts) { f.Given, f.Withheld = true, []string{"API_KEY"} }), class: MissingVariable,
			sentence: `server "gh" exited with status 1 before it was ready: the environment variable API_KEY is set for Dragoman, but was not passed to the server; its stderr says "KeyError: 'API_KEY'"`,
			action:   "pass it on with --env API_KEY", flag: "--env API_KEY"},
		{facts: with(stderr("KeyError: 'API_KEY'"), func(f *Facts) { f.Given = true }), class: MissingVariable,
			action: "set it with --env API_KEY=VALUE", flag: "--env API_KEY=VALUE"},
		{facts: with(stderr("KeyError: 'API_KEY'"), func(f *Facts) { f.Given, f.ByClient = true, true }), class: MissingVariable,
			action: "add API_KEY to the env of this server in the client's configuration"},
		{facts: Facts{Server: "gh", Command: "npx", Cause: "timeout", Stdout: []string{"Listening on http://localhost:3000"}}, class: NotJSON,
			sentence: `server "gh" prints text to stdout instead of MCP messages: "Listening on http://localhost:3000"`,
			action:   "start the server in its stdio mode, or use its URL instead of the command"},
		{facts: Facts{Server: "gh", Command: "npx", Cause: "timeout", Waited: 30e9}, class: Silent, sentence: `server "gh" did not answer within 30s`},
		{err: exec.ErrNotFound, facts: Facts{Server: "gh", Command: "npx", PATH: "/bin"}, class: CommandNotFound,
			sentence: `server "gh" cannot start: the command npx was not found in PATH`, action: "install Node.js (https://nodejs.org), which has npx, or use the full path of npx"},
		{err: exec.ErrNotFound, facts: Facts{Server: "gh", Command: "pyhton", PATH: "/bin", Near: []string{"python"}}, class: CommandNotFound, action: "use python instead, or correct the spelling"},
		{err: fs.ErrPermission, facts: Facts{Server: "gh", Cause: "exec", Command: "./x", Hint: "/d/x is not executable"}, class: CannotStart,
			sentence: `server "gh" cannot start: /d/x is not executable`, action: "run chmod +x /d/x"},
		{err: dial(&net.DNSError{Name: "h.example", Err: "no such host"}), facts: at(0, func(f *Facts) { f.Cause = "unreachable" }), class: DNS, sentence: `server "gh" cannot be reached: the host name "h.example" cannot be resolved`},
		{err: dial(syscall.ECONNREFUSED), facts: at(0, func(f *Facts) { f.Cause = "unreachable" }), class: ConnectionRefused, sentence: `server "gh" refused the connection: nothing listens at h.example`},
		{err: dial(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}),
			facts: at(0, func(f *Facts) { f.Cause = "unreachable" }), class: Unreachable, sentence: `server "gh" cannot be reached: its proxy at 127.0.0.1:1 does not answer: connection refused`,
			action: "correct HTTP_PROXY or HTTPS_PROXY in the environment, or add the host of the server to NO_PROXY"},
		{err: &net.OpError{Op: "proxyconnect", Net: "tcp", Err: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "p.example", Err: "no such host"}}},
			facts: at(0, func(f *Facts) { f.Cause = "unreachable" }), class: Unreachable, sentence: `server "gh" cannot be reached: its proxy does not answer: the host name "p.example" cannot be resolved`},
		{err: errors.New("http: server gave HTTP response to HTTPS client"), facts: at(0, func(f *Facts) { f.Cause = "unreachable" }), class: WrongScheme,
			sentence: `server "gh" uses http at this port, but its URL begins with https`, action: "use http://h.example/x"},
		{facts: at(400, func(f *Facts) {
			f.Address, f.Body = "http://h.example/x", []byte("Client sent an HTTP request to an HTTPS server.")
		}), class: WrongScheme, action: "use https://h.example/x"},
		{facts: at(404), class: WrongPath, sentence: `server "gh" has no MCP endpoint at https://h.example/x: it answered HTTP 404 Not Found`, action: "look up the URL of the MCP endpoint in the documentation of the server; its path is often /mcp or /sse"},
		{facts: at(404, page("404 Not Found | nginx")), class: WrongPath, sentence: `server "gh" has no MCP endpoint at https://h.example/x: it answered HTTP 404 Not Found, with a web page`},
		{facts: at(404, func(f *Facts) { f.Address = "" }), class: WrongPath, sentence: `server "gh" has no MCP endpoint at its URL: it answered HTTP 404 Not Found`},
		{facts: at(501, page("Error response")), class: WrongPath, sentence: `server "gh" has no MCP endpoint at https://h.example/x: it answered HTTP 501 Not Implemented, with the web page "Error response"`,
			action: "look up the URL of the MCP endpoint in the documentation of the server; its path is often /mcp or /sse"},
		{facts: at(501, func(f *Facts) { f.Call = true }), class: ServerError},
		{facts: at(200, page("Welcome")), class: WrongPath, sentence: `server "gh" has no MCP endpoint at https://h.example/x: it answered HTTP 200 OK, with the web page "Welcome"`,
			action: "look up the URL of the MCP endpoint in the documentation of the server; its path is often /mcp or /sse"},
		{facts: at(400, page("Bad")), class: WrongPath, sentence: `server "gh" has no MCP endpoint at https://h.example/x: it answered HTTP 400 Bad Request, with the web page "Bad"`},
		{facts: at(400, page("Bad"), func(f *Facts) { f.Call = true }), class: Rejected},
		{facts: at(200, page("Sign in to Corp")), class: WrongPath, sentence: `server "gh" answered with a sign-in page instead of MCP (HTTP 200): "Sign in to Corp"`,
			action: "check that https://h.example/x is the address of an MCP server; if it is, send a token with --header 'Authorization: Bearer …'", flag: "--header 'Authorization: Bearer …'"},
		{facts: at(403, page("Forbidden")), class: Unauthorized, sentence: `server "gh" refuses access to https://h.example/x (HTTP 403), with the web page "Forbidden"`,
			action: "check the path of the URL, which is often /mcp or /sse; if it is right, send a token with --header 'Authorization: Bearer …'"},
		{facts: at(200, func(f *Facts) { f.ContentType, f.Body = "text/plain", []byte("OK") }), class: ProtocolError, sentence: `server "gh" answered HTTP 200 at https://h.example/x without an MCP message: "OK"`,
			action: "check that https://h.example/x is the address of an MCP server; its path is often /mcp or /sse"},
		{facts: at(405, func(f *Facts) { f.Found = []string{"https://h.example/mcp"} }), class: WrongPath, action: "use https://h.example/mcp, where Dragoman found an MCP endpoint"},
		{facts: at(302, func(f *Facts) { f.Location = "https://id.example/login" }), class: Redirected,
			sentence: `server "gh" redirects to a sign-in page: https://id.example/login`, action: "send a token with --header 'Authorization: Bearer …'"},
		{facts: at(401, func(f *Facts) { f.Challenge = `Bearer resource_metadata="https://h.example/.well-known/x"` }), class: NeedsSignIn,
			sentence: `server "gh" wants you to sign in (HTTP 401)`,
			action:   "run `dragoman login URL`, with the URL of the server, or send a token with --header 'Authorization: Bearer …'"},
		{facts: at(401, func(f *Facts) {
			f.Challenge, f.Credentials = `Bearer resource_metadata="https://h.example/.well-known/x"`, true
		}), class: Unauthorized,
			sentence: `server "gh" refused the token in the request (HTTP 401)`},
		{facts: at(401, func(f *Facts) { f.Given, f.Body = false, []byte(`{"error":{"message":"no key"}}`) }), class: Unauthorized,
			sentence: `server "gh" requires credentials (HTTP 401): "no key"`, action: "send a token with headers: {Authorization: 'Bearer …'} in the configuration"},
		{facts: at(429, func(f *Facts) { f.RetryAfter = 7e9 }), class: Overloaded, sentence: `server "gh" is overloaded (HTTP 429)`, action: "try again in 7s"},
		{facts: Facts{Server: "gh", Cause: "cut_off"}, class: CutOff, action: "try again; if the connection breaks again, read the log of the server"},
		{facts: Facts{Server: "gh", Cause: "cut_off", Call: true}, class: CutOff, sentence: `the connection to server "gh" broke before the answer was complete`,
			action: "before you repeat the call, check whether the server has executed it; if the connection breaks again, read the log of the server"},
		{facts: at(502, func(f *Facts) { f.Body = []byte("<html><head><title>502 Bad  Gateway</title>") }), class: ServerError, sentence: `server "gh" failed with HTTP status 502: "502 Bad Gateway"`},
		{facts: at(200, func(f *Facts) { f.ContentType = "text/html" }), class: WrongPath, sentence: `server "gh" has no MCP endpoint at https://h.example/x: it answered HTTP 200 OK, with a web page`},
		{facts: Facts{Server: "gh", Cause: "no_common_version", Theirs: []string{"2099-01-01"}, Ours: []string{"2025-11-25", "2025-06-18"}}, class: WrongVersion,
			sentence: `server "gh" and Dragoman have no protocol revision in common: the server supports 2099-01-01, and Dragoman supports 2025-11-25, 2025-06-18`},
		{facts: Facts{Server: "gh", Cause: "refused", Sent: "initialize (2025-11-25)", Got: "error -32603", Answer: "database locked"}, class: Rejected,
			sentence: `server "gh" refused initialize: "database locked"`},
		{facts: Facts{Server: "gh", Cause: "echo", Sent: "initialize (2025-11-25)", Got: "error -32601", Answer: "initialize cannot be answered: x"}, class: ProtocolError,
			sentence: `server "gh" sends Dragoman's own messages back`},
		{err: listen(syscall.EADDRINUSE), facts: Facts{Listen: "127.0.0.1:7300", Holder: "node (pid 12)"}, class: PortInUse,
			sentence: "address 127.0.0.1:7300 is already in use by node (pid 12)", action: "stop that program, or choose another address with --listen"},
		{err: listen(syscall.EACCES), facts: Facts{Listen: ":80"}, class: Permission, sentence: "no permission to listen on address :80"},
		{err: errors.New("odd"), facts: Facts{Server: "gh"}, class: Internal, sentence: `server "gh" cannot be used: odd`},
	} {
		f := Of(tt.err, tt.facts)
		if f.Class != tt.class || tt.sentence != "" && f.Sentence != tt.sentence || tt.action != "" && (f.Action != tt.action || tt.flag != "" && f.Flag() != tt.flag || strings.Contains(tt.action, "in the") && f.Flag() != "") {
			t.Errorf("%v %+v:\n got %s: %s; %s\nwant %s: %s; %s", tt.err, tt.facts, f.Class, f.Sentence, f.Action, tt.class, tt.sentence, tt.action)
		}
		if !f.Class.Known() {
			t.Errorf("class %s is not in the list", f.Class)
		}
	}
}

// TestRank checks which lines of stderr rank returns, and which line it selects as the best one.
func TestRank(t *testing.T) {
	for name, tt := range map[string]struct{ in, best, first string }{
		"node": {`node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/nope/server.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at node:internal/main/run_main_module:36:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v22.11.0`, "Error: Cannot find module '/nope/server.js'", ""},
		"thrown": {`file:///srv/index.js:3
throw new Error("GITHUB_TOKEN is not set");
      ^

Error: GITHUB_TOKEN is not set
    at file:///srv/index.js:3:7

Node.js v22.11.0`, "Error: GITHUB_TOKEN is not set", ""},
		"python": {`Traceback (most recent call last):
  File "/srv/server.py", line 1, in <module>
    import fastmcp
ModuleNotFoundError: No module named 'fastmcp'`, "ModuleNotFoundError: No module named 'fastmcp'", ""},
		"python chain": {`Traceback (most recent call last):
  File "a.py", line 2, in f
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
ValueError: bad x`, "ValueError: bad x", ""},
		"npm": {`npm error code E404
npm error 404 Not Found - GET https://registry.example/mcp-nope - Not found
npm error 404
npm error 404  'mcp-nope@*' is not in this registry.
npm error A complete log of this run can be found in: /home/u/.npm/_logs/x.log`, "npm error 404  'mcp-nope@*' is not in this registry.", ""},
		"npm scoped": {`npm error code E404
npm error 404 Not Found - GET https://registry.example/@a%2fnope
npm error 404
npm error 404  The requested resource '@a/nope@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/u/.npm/_logs/x.log`, "npm error 404  The requested resource '@a/nope@*' could not be found or you do not have permission to access it.", ""},
		"npm version": {`npm error code ETARGET
npm error notarget No matching version found for a@9.
npm error notarget In most cases you or one of your dependencies are requesting a package version that doesn't exist.
npm error A complete log of this run can be found in: /home/u/.npm/_logs/x.log`, "npm error notarget No matching version found for a@9.", ""},
		"npm offline": {`npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:1/a failed, reason: connect ECONNREFUSED 127.0.0.1:1
npm error     at ClientRequest.<anonymous> (/usr/lib/node_modules/npm/node_modules/minipass-fetch/lib/index.js:130:14)
npm error   code: 'ECONNREFUSED',
npm error   type: 'system'
npm error }
npm error
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /home/u/.npm/_logs/x.log`, "npm error FetchError: request to http://127.0.0.1:1/a failed, reason: connect ECONNREFUSED 127.0.0.1:1", ""},
		"npm no name": {`npm error code ENOTFOUND
npm error syscall getaddrinfo
npm error errno ENOTFOUND
npm error network request to https://registry.example/a failed, reason: getaddrinfo ENOTFOUND registry.example
npm error network This is a problem related to network connectivity.
npm error network In most cases you are behind a proxy or have bad network settings.
npm error network
npm error network If you are behind a proxy, please make sure that the
npm error network 'proxy' config is set properly.  See: 'npm help config'`, "npm error network request to https://registry.example/a failed, reason: getaddrinfo ENOTFOUND registry.example", ""},
		"npm file": {`npm error code ENOENT
npm error syscall open
npm error path /srv/package.json
npm error errno -2
npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/srv/package.json'
npm error enoent This is related to npm not being able to find a file.
npm error enoent`, "npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/srv/package.json'", ""},
		"npm code alone": {"npm error code E500", "npm error code E500", ""},
		"uvx": {`  × No solution found when resolving tool dependencies:
  ╰─▶ Because nope was not found in the package registry and you require nope, we can conclude that your requirements are unsatisfiable.`, "╰─▶ Because nope was not found in the package registry and you require nope, we can conclude that your requirements are unsatisfiable.", ""},
		"docker": {`Unable to find image 'a/nope:latest' locally
docker: Error response from daemon: pull access denied for a/nope, repository does not exist or may require 'docker login'.
See 'docker run --help'.`, "docker: Error response from daemon: pull access denied for a/nope, repository does not exist or may require 'docker login'.", ""},
		"go": {`2026/11/22 10:00:00 starting
panic: runtime error: invalid memory address or nil pointer dereference

goroutine 1 [running]:
main.main()
	/src/main.go:5 +0x18
exit status 2`, "panic: runtime error: invalid memory address or nil pointer dereference", ""},
		"rust":    {"thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1`", "thread 'main' panicked at src/main.rs:2:5:", ""},
		"shell":   {"/bin/sh: 1: foo: command not found", "/bin/sh: 1: foo: command not found", ""},
		"notices": {"npm notice New major version of npm available!\n(node:12) [DEP0040] DeprecationWarning: punycode\n(Use `node --trace-deprecation ...`)\nlogin failed", "login failed", ""},
		"nothing": {"npm notice\n\n", "", ""},
		"plain":   {"starting\nwaiting", "waiting", ""},
	} {
		lines, best := rank(strings.Split(tt.in, "\n"))
		if best != tt.best {
			t.Errorf("%s: best is %q, want %q", name, best, tt.best)
		}
		if best != "" && strings.TrimSpace(lines[0]) != best {
			t.Errorf("%s: the first line is %q", name, lines[0])
		}
		if len(lines) > MaxEvidence {
			t.Errorf("%s: %d lines", name, len(lines))
		}
		for _, l := range lines {
			if strings.Contains(l, "notice") || strings.Contains(l, "DeprecationWarning") || strings.Contains(l, "Node.js v") {
				t.Errorf("%s shows %q", name, l)
			}
		}
	}
}

func TestMissingVariable(t *testing.T) {
	for in, want := range map[string]string{
		"Error: GITHUB_PERSONAL_ACCESS_TOKEN not set":                         "GITHUB_PERSONAL_ACCESS_TOKEN",
		"Missing required environment variable: SLACK_BOT_TOKEN":              "SLACK_BOT_TOKEN",
		"Error: BRAVE_API_KEY environment variable is required":               "BRAVE_API_KEY",
		"Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables":  "SLACK_BOT_TOKEN",
		"run.sh: line 3: API_TOKEN: unbound variable":                         "API_TOKEN",
		`panic: environment variable "DATABASE_URL" is not set`:               "DATABASE_URL",
		"KeyError: 'NOTION_KEY'":                                              "NOTION_KEY",
		"TAVILY_API_KEY is required":                                          "TAVILY_API_KEY",
		"The OPENAI_API_KEY environment variable is missing or empty; set it": "OPENAI_API_KEY",
		"Error: Cannot find module 'x'":                                       "",
		"  code: 'MODULE_NOT_FOUND'":                                          "",
		"KeyError: 'name'":                                                    "",
		"file not found":                                                      "",
		"the argument DIR is required":                                        "",
		"HTTP 404 is not found":                                               "",
	} {
		if got, _ := missingVariable([]string{in}); got != want {
			t.Errorf("%q names %q, want %q", in, got, want)
		}
	}
}

// TestSafe checks that text from a server is masked, printable and bounded in a failure.
func TestSafe(t *testing.T) {
	long := strings.Repeat("x", 5000)
	f := Of(nil, Facts{
		Server: "gh", Command: "npx", Cause: "exited", Exit: "exit status 1", Clean: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") },
		Stderr: append([]string{"Error: bad password hunter2\x1b[2J\u202e", "Authorization: Bearer abcdefghijklmnop", long}, strings.Split(strings.Repeat("failed x\n", 1)+long, "\n")...),
	})
	all := f.Sentence + f.Action + strings.Join(f.Evidence, "\n")
	for _, bad := range []string{"hunter2", "abcdefghijklmnop", "\x1b", "\u202e"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q is shown: %s", bad, all)
		}
	}
	if len(all) > maxSentence+maxAction+MaxEvidence*(maxLine+1) || len(f.Evidence) == 0 {
		t.Errorf("%d bytes, %d lines", len(all), len(f.Evidence))
	}
	p := f.Public()
	if p.Evidence != nil || p.Class != f.Class || strings.Contains(p.Sentence, "bad password") || p.Sentence != `server "gh" exited with status 1 before it was ready` {
		t.Errorf("%+v", p)
	}
	if w := Of(nil, Facts{Server: "gh", Status: 401, Body: []byte("no")}); w.Public() != w {
		t.Error("the text of the server's answer is missing")
	}
}

// TestJSON checks that json.Marshal and AppendJSON write the same JSON, and that Parse reads this
// JSON.
func TestJSON(t *testing.T) {
	for _, f := range []*Failure{
		{Class: Internal, Sentence: `a "b"`},
		{Class: Exited, Server: "gh", Sentence: "s", Evidence: []string{"a", "é"}, EvidenceFrom: Stderr, Action: "do", Status: 404, Cause: "exited"},
	} {
		a, err := json.Marshal(f)
		if b := f.AppendJSON(nil); err != nil || string(a) != string(b) {
			t.Errorf("%s\n%s", a, b)
		}
		if got := Parse(a); !reflect.DeepEqual(got, f) {
			t.Errorf("%+v is read as %+v", f, got)
		}
	}
	for _, bad := range []string{`{}`, `{"class":"x"}`, `[]`, `"x"`, `null`} {
		if f := Parse([]byte(bad)); f != nil {
			t.Errorf("%s is %+v", bad, f)
		}
	}
}

type source struct{ error }

func (source) DescribeFailure(f *Facts) {
	if f.Status == 0 {
		f.Status = 404
	}
}

func TestSources(t *testing.T) {
	f := Of(fmt.Errorf("open: %w", errors.Join(errors.New("x"), source{errors.New("y")})), Facts{Server: "gh"})
	if f.Class != WrongPath || f.Status != 404 {
		t.Errorf("%+v", f)
	}
	if Of(fmt.Errorf("again: %w", f), Facts{Server: "other"}) != f {
		t.Error("Of made a new failure instead of returning the one in the chain")
	}
}

// TestBinary checks that the bytes of a program that is no server at all don't fill the screen.
func TestBinary(t *testing.T) {
	noise := strings.Repeat(`\xc5\xdc1W\xcb\xe9\xa1\xd0-\x1d\x9f`, 30)
	for _, tt := range []struct {
		stdout []string
		binary bool
	}{
		{[]string{noise, noise, noise}, true},
		{[]string{`a progress bar: \x1b[2K\x1b[1A 100%, and then a lot of text that anybody can read, at some length`}, false},
		{[]string{"Server started", "listening"}, false},
	} {
		f := Of(errors.New("x"), Facts{Server: "s", Command: "cat", Cause: "exited", Stdout: tt.stdout})
		if f.Class != NotJSON || strings.Contains(f.Sentence, `\x`) == tt.binary && tt.binary || (len(f.Evidence) < len(tt.stdout)) != tt.binary {
			t.Errorf("%.60q: %s %q %q", tt.stdout[0], f.Class, f.Sentence, f.Evidence)
		}
	}
}

package servername

import (
	"strings"
	"testing"
)

func TestOfCommand(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		// npm
		{"npx -y @modelcontextprotocol/server-filesystem /srv", "server-filesystem"},
		{"npx -y @modelcontextprotocol/server-filesystem@2025.8.21 /srv", "server-filesystem"},
		{"npx --yes @scope/name@1.2", "name"},
		{"npx name@latest --flag", "name"},
		{"npx name@^1.2", "name"},
		{"npx -y --package=@scope/name@1.2 some-bin", "name"},
		{"npx -p name@1 -- some-bin --port 1", "name"},
		{"npx --registry http://127.0.0.1:1 -y name", "name"},
		{"npx -- name", "name"},
		{"npx", "npx"},
		{"npx -y", "npx"},
		{`C:\Program' 'Files\nodejs\npx.cmd -y name`, "name"},
		{"NPX.CMD -y name", "name"},
		{"npx -y @playwright/mcp@latest", "playwright-mcp"},
		{"npx -y @upstash/context7-mcp", "context7-mcp"},
		{"npx -y github:owner/repository#main", "repository"},
		{"npx -y owner/repository", "repository"},
		{"npx -y git+https://example.com/owner/repository.git", "repository"},
		{"npx -y https://example.com/name-1.2.3.tgz", "name"},
		{"npx ./tools/weather", "weather"},
		{"npx tsx src/server.ts", "project"},
		{"npx -y tsx weather.ts", "weather"},
		{"npx tsx", "tsx"},
		{"npx -y mcp-remote https://mcp.example.com/sse --header a", "mcp.example.com"},
		{"npx -y mcp-remote", "mcp-remote"},
		{"npm exec -- @scope/name@1.2", "name"},
		{"npm exec --yes --package=name -- bin", "name"},
		{"npm x name", "name"},
		{"npm --prefix /srv/weather start", "npm"},
		{"pnpm dlx @scope/name", "name"},
		{"pnpm --package=name dlx bin", "name"},
		{"pnpx name", "name"},
		{"yarn dlx -q @scope/name", "name"},
		{"bunx @scope/name@1", "name"},
		{"bun x @scope/name@1", "name"},
		{"dnx Some.Package@1.0 --yes", "Some.Package"},
		// Python
		{"uvx mcp-server-git --repository /srv", "mcp-server-git"},
		{"uvx name[extra]==1.0", "name"},
		{"uvx name@latest", "name"},
		{"uvx name>=1,<2", "name"},
		{"uvx --python 3.12 --with other name", "name"},
		{"uvx --from name[cli]==1.0 bin --flag", "name"},
		{"uvx --from git+https://github.com/owner/repository@main bin", "repository"},
		{"uvx --from git+ssh://git@github.com/owner/repository.git bin", "repository"},
		{"uv tool run name==1.0", "name"},
		{"uv run name", "name"},
		{"uv --directory /srv/weather run server.py", "weather"},
		{"uv run --directory /srv/weather main.py", "weather"},
		{"uv run --with mcp[cli] mcp run weather.py:app", "weather"},
		{"uv run --with fastmcp fastmcp run /srv/weather/server.py", "weather"},
		{"uv run python -m mcp_server_time --local-timezone UTC", "mcp_server_time"},
		{"uv run -m package.server", "package"},
		{"uv sync", "uv"},
		{"pipx run name==1.0", "name"},
		{"pipx run --spec name[extra] bin", "name"},
		{"python -m mcp_server_fetch", "mcp_server_fetch"},
		{"python3.12 -u -m package.server --port 1", "package"},
		{"/usr/bin/python3 -X dev /srv/weather.py", "weather"},
		{"python server.py", "project"},
		{"python -c print(1)", "python"},
		{"py -m name", "name"},
		// Scripts
		{"node dist/index.js", "project"},
		{"node /srv/weather/dist/index.js", "weather"},
		{`node C:\srv\weather\build\index.js`, "weather"},
		{"node --require ./trace.js --env-file=.env /srv/weather/index.mjs", "weather"},
		{"node node_modules/@scope/name/dist/index.js", "name"},
		{"node node_modules/@playwright/mcp/cli.js", "playwright-mcp"},
		{"node weather-server.cjs", "weather-server"},
		{"node", "node"},
		{"node -e require('./dist/index.js').start()", "node"},
		{"node --input-type=module --eval=import('./weather.js')", "node"},
		{"node -pe 1 weather.js", "node"},
		{"fastmcp run -p 8000 weather.py", "weather"},
		{"deno eval await(1)", "deno"},
		{"perl -e print", "perl"},
		{"tsx watch weather.ts", "weather"},
		{"bun run weather.ts", "weather"},
		{"bun start", "project"},
		{"deno run -A --allow-net=host npm:@scope/name@1.2", "name"},
		{"deno run --allow-all jsr:@scope/name", "name"},
		{"deno run https://deno.land/x/weather@v1.0/mod.ts", "weather"},
		{"deno run weather.ts", "weather"},
		{"php weather.php", "weather"},
		// Containers
		{"docker run -i --rm mcp/fetch", "fetch"},
		{"docker run --rm -it -e TOKEN -v /a:/b --network host ghcr.io/github/github-mcp-server:1.0 stdio", "github-mcp-server"},
		{"docker run -i -eTOKEN --env=A=b localhost:5000/owner/name@sha256:0123", "name"},
		{"docker run --mount type=bind,src=/a,dst=/b -i example/server", "example-server"},
		{"docker container run -i name", "name"},
		{"docker compose run -T name", "name"},
		{"docker exec -i name server", "name"},
		{"docker ps", "docker"},
		{"podman run -i docker.io/library/name:tag", "name"},
		// Others
		{"go run github.com/owner/repository/cmd/name@latest", "name"},
		{"go run github.com/owner/repository/v2@v2.1.0", "repository"},
		{"go run -tags x ./cmd/name", "name"},
		{"go run .", "project"},
		{"go run -C /srv/weather .", "weather"},
		{"go run main.go", "project"},
		{"cargo run --quiet --bin name", "name"},
		{"cargo run --manifest-path /srv/weather/Cargo.toml", "weather"},
		{"cargo run", "project"},
		{"dotnet run --project /srv/Weather/Weather.csproj", "Weather"},
		{"dotnet /srv/Weather.dll", "Weather"},
		{"dotnet run", "project"},
		{"java -Xmx1g -jar /srv/weather-1.2.3.jar", "weather"},
		{"/usr/local/bin/github-mcp-server stdio", "github-mcp-server"},
		{`C:\tools\weather.EXE`, "weather"},
		{"./server", "server"},
		{"weather.py", "weather"},
		{"./server --dir /x/y", "server"},
		// Wrappers
		{"env A=1 B=2 npx -y name", "name"},
		{"cmd /c npx -y @scope/name", "name"},
		{"cmd.exe /C npx -y @scope/name", "name"},
		{"bash -lc npx' '-y' '@scope/name", "name"},
		{"sh -c exec' 'A=1' '/srv/weather' '--x", "weather"},
		{"sh -c ", "sh"},
		{"op run --env-file=.env -- npx -y name", "name"},
		{"sudo -E uvx name", "name"},
		{"env", "env"},
		// Names are converted to valid names.
		{"some' 'program", "some-program"},
		{"...", "server"},
		{"/", "server"},
		{"naïve", "na-ve"},
	} {
		if got := OfCommand(split(tt.command), "/home/me/project"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.command, got, tt.want)
		}
	}
	if got := OfCommand([]string{"node", "index.js"}, ""); got != "index" {
		t.Errorf("without a directory: %q", got)
	}
	if got := OfCommand([]string{"node", "index.js"}, "/"); got != "index" {
		t.Errorf("in the root: %q", got)
	}
}

// split splits a command at spaces, except those in single quotes.
func split(s string) (out []string) {
	word, quoted := "", false
	for _, r := range s {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			out, word = append(out, word), ""
		default:
			word += string(r)
		}
	}
	return append(out, word)
}

// FuzzOfCommand checks that every command gets a valid name.
func FuzzOfCommand(f *testing.F) {
	for _, s := range []string{"npx -y a", "docker run -e", "uv run -m", "sh -c env' 'sh", "go run @", "node -r", "env env env", "x' @ 'y", "uvx a' @ 'b"} {
		f.Add(s, "/x")
	}
	f.Fuzz(func(t *testing.T, s, dir string) {
		if name := OfCommand(split(s), dir); name == "" || len(name) > 64 || valid(name) != name {
			t.Errorf("%q: %q", s, name)
		}
	})
}

func TestOfHost(t *testing.T) {
	for in, want := range map[string]string{
		"mcp.example.com": "mcp.example.com",
		"127.0.0.1:7300":  "127.0.0.1:7300",
		"[::1]:7300":      "[::1]:7300",
	} {
		if got := OfHost(in); got != want {
			t.Errorf("OfHost(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRunnerOf(t *testing.T) {
	for _, tt := range []struct{ command, runner, pkg string }{
		{"npx -y @scope/name@1.2 /srv", "npx", "@scope/name@1.2"},
		{"npx -p name@1 -- bin", "npx", "name@1"},
		{`C:\nodejs\NPX.CMD -y name`, "npx", "name"},
		{"cmd /c npx -y name", "npx", "name"},
		{"env A=b npx -y name", "npx", "name"},
		{"op run -- uvx name", "uvx", "name"},
		{"uvx --python 3.12 --from name==1 bin", "uvx", "name==1"},
		{"npm exec --package=name -- bin", "npm exec", "name"},
		{"pnpm --package=name dlx bin", "pnpm dlx", "name"},
		{"yarn dlx name", "yarn dlx", "name"},
		{"bun x name", "bun x", "name"},
		{"dnx Some.Package@1.0 --yes", "dnx", "Some.Package@1.0"},
		{"uv tool run --from name bin", "uvx", "name"},
		{"pipx run name", "pipx run", "name"},
		{"uv run server.py", "uv run", "server.py"},
		{"docker run -i name", "docker run", "name"},
		{"docker exec -i name bin", "", ""},
		{"npm start", "", ""},
		{"bun server.ts", "", ""},
		{"node npx", "", ""},
		{"npx", "npx", ""},
		{"sh -c", "", ""},
		{"", "", ""},
	} {
		if runner, pkg := RunnerOf(strings.Fields(tt.command)); runner != tt.runner || pkg != tt.pkg {
			t.Errorf("%s: %q %q, want %q %q", tt.command, runner, pkg, tt.runner, tt.pkg)
		}
	}
}

package servername

import (
	"cmp"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// OfCommand returns a name for the server that a command starts: the name of the package, script or
// image, and not the name of the launcher. command has at least one word. dir is the working
// directory of the command. If the path of a script is vague, such as dist/index.js, the name comes
// from dir.
func OfCommand(command []string, dir string) string {
	return valid(commandName(command, filepath.ToSlash(dir), 8))
}

// Launches reports whether a command runs a program with a common launcher of servers, such as npx,
// uvx, node or docker run. It returns false for other subcommands of a launcher, such as npm
// install, for other programs such as rm, and for a path such as ./npx.
func Launches(command []string) bool {
	if len(command) == 0 || strings.ContainsAny(command[0], `/\`) {
		return false
	}
	l, ok := launcherOf(programOf(command[0]))
	if !ok || l.subcommands == nil {
		return ok
	}
	run := launch{flags: map[string]string{}}
	run.read(l, command[1:])
	return slices.Contains(l.subcommands, run.word)
}

// RunnerOf returns the name of the package runner that a command uses, such as "npx", "pnpm dlx" or
// "docker run", and the package that it runs. A runner may have to download the package before the
// server starts. The name is "" for every other command, and the package is "" where it isn't known.
func RunnerOf(command []string) (name, pkg string) {
	for range 8 { // wrappers in wrappers
		if len(command) == 0 {
			return "", ""
		}
		program := programOf(command[0])
		inner := unwrap(program, command[1:])
		if inner == nil {
			return runnerOf(program, command[1:])
		}
		command = inner
	}
	return "", ""
}

// runnerWords are the programs that download a package and run it. Nil means that the program needs no
// subcommand for that.
var runnerWords = map[string][]string{
	"npx": nil, "pnpx": nil, "bunx": nil, "dnx": nil, "uvx": nil,
	"npm": words("exec x"), "pnpm": words("dlx"), "yarn": words("dlx"), "bun": words("x"),
	"uv": words("run"), "pipx": words("run"),
	"docker": words("run"), "podman": words("run"), "nerdctl": words("run"),
}

func runnerOf(program string, args []string) (name, pkg string) {
	subcommands, ok := runnerWords[program]
	if !ok {
		return "", ""
	}
	l, _ := launcherOf(program)
	run := launch{flags: map[string]string{}}
	run.read(l, args)
	if program == "uv" && run.word == "tool" && len(run.rest) > 0 && run.rest[0] == "run" {
		return runnerOf("uvx", run.rest[1:]) // uvx is short for uv tool run
	}
	if subcommands != nil {
		if !slices.Contains(subcommands, run.word) {
			return "", ""
		}
		program += " " + run.word
		run.read(l, run.rest)
	}
	pkg = run.word
	for _, flag := range l.source {
		pkg = cmp.Or(run.flags[flag], pkg)
	}
	return program, pkg
}

// OfHost returns a server name for the host of a URL. The name includes the port, because one host
// may run several servers. A name with a port is not valid in a configuration file, because it
// contains a colon.
func OfHost(host string) string {
	h, port, err := net.SplitHostPort(host)
	if err != nil {
		return valid(strings.Trim(host, "[]"))
	}
	if net.ParseIP(h) == nil {
		h = valid(h)
	}
	return net.JoinHostPort(h, port)
}

// valid converts any text to a valid server name.
func valid(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_.-", r):
			return r
		}
		return '-'
	}, s)
	if len(s) > 64 {
		s = s[:64]
	}
	if strings.Trim(s, ".-") == "" {
		return "server"
	}
	return s
}

// isURL reports whether a word of a command looks like a URL.
func isURL(s string) bool { return strings.Contains(s, "://") }

// launcher describes a program such as npx, which runs another program. The server is named after
// that other program.
type launcher struct {
	// subcommands are the subcommands with which the launcher runs another program. Nil means that
	// the launcher needs no subcommand.
	subcommands []string
	// valued are the flags that take their value from the next argument.
	valued []string
	// source are the flags whose value is the name of the package. The program in the package may
	// have another name.
	source []string
	// folder are the flags that set the working directory.
	folder []string
	// name returns the server name from the parsed command line.
	name func(l *launch) string
}

// launch is a parsed command line of a launcher, without the subcommand.
type launch struct {
	flags map[string]string // the last value of each flag; the names include the dashes
	args  []string          // all arguments after the subcommand
	word  string            // the first argument that is not a flag
	rest  []string          // the arguments after word
	dir   string
	depth int // the number of nested commands that may still be read
}

func words(s string) []string { return strings.Fields(s) }

var (
	npmFlags  = words("-c --call -w --workspace --prefix -C --dir --filter -F --registry --cache --userconfig --loglevel --node-options --script-shell --shell --cwd")
	pipFlags  = words("--with --with-editable --with-requirements -p --python --index-url --default-index --extra-index-url --index -i --refresh-package --reinstall-package -P --upgrade-package -c --constraints --env-file --cache-dir --config-file --package --extra --group --pip-args")
	nodeFlags = words("-r --require --import --loader --experimental-loader --env-file --env-file-if-exists -C --conditions --tsconfig --project -P -c --config -d --define")
)

// launcherOf returns the launcher with the name program. The name must be in lower case, and must
// have no Windows extension.
func launcherOf(program string) (l launcher, ok bool) {
	npm := launcher{valued: npmFlags, source: words("-p --package"), folder: words("--prefix -C --dir --cwd"), name: npmLaunch}
	python := launcher{valued: pipFlags, folder: words("--directory --project"), name: pythonLaunch}
	script := launcher{valued: nodeFlags, folder: words("--cwd"), name: scriptLaunch}
	switch program {
	case "npx", "pnpx", "bunx", "dnx":
		return npm, true
	case "npm", "pnpm", "yarn":
		npm.subcommands = words("exec x dlx")
		return npm, true
	case "uvx":
		python.source = words("--from")
		return python, true
	case "uv":
		python.subcommands = words("run tool")
		return python, true
	case "pipx":
		python.subcommands, python.source = words("run"), words("--spec")
		return python, true
	case "python":
		return launcher{valued: words("-X -W -Q"), name: scriptLaunch}, true
	case "node", "nodejs", "tsx", "ts-node", "php", "ruby", "perl", "bun", "deno":
		return script, true
	case "mcp", "fastmcp":
		script.subcommands, script.valued = words("run dev"), words("--with --python --project --transport -t --host --port -p --path --env-file -f -v")
		return script, true
	case "docker", "podman", "nerdctl":
		return launcher{subcommands: words("run exec container compose"), name: containerLaunch}, true
	case "go":
		return launcher{subcommands: words("run"), valued: words("-tags -ldflags -gcflags -mod -modfile -overlay -exec -p"), folder: words("-C"), name: goLaunch}, true
	case "cargo":
		return launcher{subcommands: words("run r"), valued: words("--bin --example -p --package --manifest-path -F --features --target --profile --config -Z -j"), name: cargoLaunch}, true
	case "dotnet":
		return launcher{valued: words("--project -c --configuration -f --framework -r --runtime"), name: dotnetLaunch}, true
	case "java":
		return launcher{valued: words("-cp -classpath --class-path -p --module-path -jar -m"), name: javaLaunch}, true
	}
	return launcher{}, false
}

// wrappers are programs that run another command. The value is the flag whose argument is the
// command. The value "--" means that the command follows the argument "--". The value "" means that
// the command follows the wrapper's own arguments.
var wrappers = map[string]string{
	"sh": "-c", "bash": "-c", "zsh": "-c", "dash": "-c", "cmd": "/c",
	"env": "", "sudo": "", "nice": "", "nohup": "", "time": "", "wsl": "",
	"op": "--", "doppler": "--", "dotenv": "--", "dotenvx": "--", "infisical": "--", "mise": "--", "direnv": "--", "nix": "--",
	"dragoman": "--",
}

// commandName returns a name for the server that a command starts. depth is the maximum number of
// nested commands that it reads.
func commandName(command []string, dir string, depth int) string {
	program := programOf(command[0])
	if depth == 0 {
		return program
	}
	if inner := unwrap(program, command[1:]); len(inner) > 0 {
		return commandName(inner, dir, depth-1)
	}
	l, ok := launcherOf(program)
	if !ok {
		return program
	}
	run := launch{flags: map[string]string{}, dir: dir, depth: depth}
	run.read(l, command[1:])
	if l.subcommands != nil {
		if !slices.Contains(l.subcommands, run.word) {
			return program
		}
		run.read(l, run.rest)
	}
	for _, flag := range l.folder {
		if folder := filepath.ToSlash(run.flags[flag]); folder != "" {
			run.dir = folder
		}
	}
	for _, flag := range l.source {
		if source := run.flags[flag]; source != "" {
			run.word, run.rest = source, nil
		}
	}
	if name := l.name(&run); name != "" {
		return name
	}
	return program
}

var pythons = pattern.Later(`^(?:python|pypy|py)w?[0-9.]*$`)

// programOf returns the name of a program without its directory. It also removes the extension of a
// script or of a Windows program. For each Python interpreter, it returns "python".
func programOf(command string) string {
	name := path.Base(strings.ReplaceAll(command, `\`, "/"))
	lower := strings.ToLower(name)
	for _, ending := range []string{".exe", ".cmd", ".bat", ".ps1"} {
		if strings.HasSuffix(lower, ending) && len(name) > len(ending) {
			name = name[:len(name)-len(ending)]
		}
	}
	if pythons().MatchString(strings.ToLower(name)) {
		return "python"
	}
	l := strings.ToLower(name)
	_, launches := launcherOf(l)
	if _, wraps := wrappers[l]; wraps || launches {
		return l
	}
	return withoutExtension(name)
}

// unwrap returns the command that a wrapper runs. It returns nil if program is not a wrapper, or if
// args contains no command.
func unwrap(program string, args []string) []string {
	flag, ok := wrappers[program]
	if !ok {
		return nil
	}
	switch flag {
	case "--":
		if i := slices.Index(args, "--"); i >= 0 {
			return args[i+1:]
		}
		return nil
	case "":
		for i, a := range args {
			if a == "--" {
				return args[i+1:]
			}
			if !strings.HasPrefix(a, "-") && !isAssignment(a) {
				return args[i:]
			}
		}
		return nil
	}
	for i, a := range args {
		// The flags of a shell may be combined, as in -lc.
		found := strings.EqualFold(a, flag) || flag == "-c" && strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c")
		if !found || i+1 == len(args) {
			continue
		}
		inner := args[i+1:]
		if flag == "-c" || len(inner) == 1 {
			inner = words(inner[0])
		}
		for len(inner) > 0 && (inner[0] == "exec" || isAssignment(inner[0])) {
			inner = inner[1:]
		}
		return inner
	}
	return nil
}

var assignment = pattern.Later(`^[A-Za-z_][A-Za-z0-9_]*=`)

func isAssignment(word string) bool { return assignment().MatchString(word) }

// read splits args into flags, the first word that is not a flag, and the arguments after this
// word.
func (r *launch) read(l launcher, args []string) {
	r.args, r.word, r.rest = args, "", nil
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			if i+1 < len(args) {
				r.word, r.rest = args[i+1], args[i+2:]
			}
			return
		}
		if len(a) < 2 || a[0] != '-' {
			r.word, r.rest = a, args[i+1:]
			return
		}
		flag, value, inline := strings.Cut(a, "=")
		if !inline && i+1 < len(args) && (slices.Contains(l.valued, flag) || slices.Contains(l.source, flag) || slices.Contains(l.folder, flag)) {
			i++
			value = args[i]
		}
		r.flags[flag] = value
		if (flag == "-m" || flag == "-c") && l.name != nil && !inline && !slices.Contains(l.valued, flag) && i+1 < len(args) {
			// In python -m MODULE, all arguments after MODULE are for the module.
			r.flags[flag], r.rest = args[i+1], args[i+2:]
			return
		}
	}
}

func npmLaunch(r *launch) string {
	name := npmName(r.word)
	if _, known := launcherOf(name); known && len(r.rest) > 0 {
		return commandName(append([]string{name}, r.rest...), r.dir, r.depth-1) // for example npx tsx server.ts
	}
	if name == "mcp-remote" {
		for _, a := range r.rest {
			if u, err := url.Parse(a); err == nil && isURL(a) && u.Host != "" {
				return OfHost(u.Host)
			}
		}
	}
	return name
}

// vague are names that say little about a server without their scope or directory.
var vague = []string{
	"index", "main", "server", "mcp", "mcp-server", "mcp_server", "cli", "app", "mod", "core",
	"start", "run", "serve", "dev", "stdio", "__main__", "__init__",
	"bin", "build", "dist", "lib", "out", "src", "target", "release", "debug", "cmd", "js", "cjs", "esm", ".", "..",
}

// npmName returns the name of a package on npm or JSR: "name" for @scope/name@1.2. If the name is
// vague, the result includes the scope: "playwright-mcp" for @playwright/mcp.
func npmName(pkg string) string {
	for _, prefix := range []string{"npm:", "jsr:", "file:"} {
		pkg = strings.TrimPrefix(pkg, prefix)
	}
	if strings.Contains(pkg, ":") || strings.HasPrefix(pkg, ".") || strings.HasPrefix(pkg, "/") {
		return sourceName(pkg) // the package is a repository, an archive or a directory
	}
	scope, name, scoped := strings.Cut(pkg, "/")
	if !scoped {
		scope, name = "", pkg
	} else if !strings.HasPrefix(scope, "@") {
		return sourceName(pkg) // for example owner/repository
	}
	name, _, _ = strings.Cut(name, "/") // deno: npm:name/file
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	if scope != "" && slices.Contains(vague, name) {
		return strings.TrimPrefix(scope, "@") + "-" + name
	}
	return name
}

var versionSuffix = pattern.Later(`[-_]v?[0-9]+(?:\.[0-9A-Za-z]+)+$`)

// sourceName returns the name at the end of the address of a repository or an archive, or at the
// end of the path of a directory.
func sourceName(address string) string {
	address, _, _ = strings.Cut(address, "#")
	address, _, _ = strings.Cut(address, "?")
	address = strings.TrimRight(strings.ReplaceAll(address, `\`, "/"), "/")
	name := address[strings.LastIndexAny(address, "/:")+1:]
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	for _, ending := range []string{".git", ".tgz", ".tar.gz", ".zip", ".whl"} {
		name = strings.TrimSuffix(name, ending)
	}
	return versionSuffix().ReplaceAllString(name, "")
}

func pythonLaunch(r *launch) string {
	if module := r.flags["-m"]; module != "" {
		return moduleName(module)
	}
	if module := r.flags["--module"]; module != "" {
		return moduleName(module)
	}
	if r.word == "run" && r.flags["--from"] == "" && len(r.rest) > 0 { // for example uv tool run
		return commandName(append([]string{"uvx"}, r.rest...), r.dir, r.depth-1)
	}
	_, known := launcherOf(programOf(r.word))
	switch {
	case r.word == "":
		return ""
	case len(r.rest) > 0 && known:
		return commandName(append([]string{r.word}, r.rest...), r.dir, r.depth-1) // for example uv run python server.py
	case withoutExtension(r.word) != r.word && !strings.Contains(r.word, "://"):
		return scriptName(r.word, r.dir)
	}
	return pythonName(r.word)
}

// pythonName returns the name of a Python requirement: "name" for name[extra]==1.0, and
// "repository" for git+https://host/owner/repository@ref.
func pythonName(requirement string) string {
	if name, _, ok := strings.Cut(requirement, " @ "); ok { // for example name @ https://…
		requirement = name
	}
	if strings.Contains(requirement, "://") || strings.ContainsAny(requirement, `/\`) {
		return sourceName(requirement)
	}
	return strings.TrimSpace(first(requirement, "[@=<>!~; "))
}

// first returns the part of s before the first character that is in ends. It returns s if there is
// no such character, or if s begins with it.
func first(s, ends string) string {
	if i := strings.IndexAny(s, ends); i > 0 {
		return s[:i]
	}
	return s
}

// moduleName returns the last part of a module name that is not in vague, or the whole name if all
// parts are in vague.
func moduleName(module string) string {
	parts := strings.Split(module, ".")
	for _, p := range slices.Backward(parts) {
		if p != "" && !slices.Contains(vague, p) {
			return p
		}
	}
	return module
}

func scriptLaunch(r *launch) string {
	if module := r.flags["-m"]; module != "" {
		return moduleName(module)
	}
	if r.flags["-c"] != "" || r.runsCode() {
		return ""
	}
	for (r.word == "run" || r.word == "watch" || r.word == "serve" || r.word == "x") && len(r.rest) > 0 {
		if r.word == "x" { // for example bun x
			return commandName(append([]string{"bunx"}, r.rest...), r.dir, r.depth-1)
		}
		next := launch{flags: r.flags}
		next.read(launcher{valued: nodeFlags, folder: words("--cwd")}, r.rest)
		r.word, r.rest = next.word, next.rest
	}
	switch {
	case r.word == "":
		return ""
	case strings.HasPrefix(r.word, "npm:"), strings.HasPrefix(r.word, "jsr:"):
		return npmName(r.word)
	}
	file, _, _ := strings.Cut(r.word, ".py:") // for example file.py:object
	if u, err := url.Parse(file); err == nil && isURL(file) {
		file = u.Path
	}
	return scriptName(file, r.dir)
}

// codeFlags are the flags with which an interpreter runs code from the command line.
var codeFlags = words("-e --eval -p --print -pe")

// runsCode reports whether the command line contains the code of the program, as in node -e CODE or
// deno eval CODE.
func (r *launch) runsCode() bool {
	if r.word == "eval" {
		return true
	}
	for _, flag := range codeFlags {
		// A short flag with a value has another meaning, such as the port in fastmcp run -p 8000.
		if value, ok := r.flags[flag]; ok && (value == "" || strings.HasPrefix(flag, "--")) {
			return true
		}
	}
	return false
}

// extensions are the file extensions of scripts and programs.
var extensions = words(".js .mjs .cjs .ts .mts .cts .jsx .tsx .py .pyz .rb .php .pl .sh .jar .dll .csproj .exe .cs")

func withoutExtension(name string) string {
	if ext := path.Ext(name); ext != name && slices.Contains(extensions, strings.ToLower(ext)) {
		return strings.TrimSuffix(name, ext)
	}
	return name
}

// scriptName returns a name for the server in a file: the last part of the file's path that is not
// in vague. If the path is relative and all its parts are in vague, the name comes from dir.
func scriptName(file, dir string) string {
	file = strings.ReplaceAll(file, `\`, "/")
	parts := strings.Split(withoutExtension(path.Clean(file)), "/")
	if !path.IsAbs(file) {
		parts = append(strings.Split(path.Clean(dir), "/"), parts...)
	}
	for i, p := range slices.Backward(parts) {
		if p == "" || slices.Contains(vague, strings.ToLower(p)) {
			continue
		}
		if strings.HasPrefix(p, "@") && i+1 < len(parts) { // the scope in node_modules/@scope/mcp
			return npmName(p + "/" + parts[i+1])
		}
		return npmName(versionSuffix().ReplaceAllString(p, ""))
	}
	return parts[len(parts)-1]
}

// switches are the long flags of docker run that take no value. All other long flags take a value.
var switches = words("--rm --init --privileged --read-only --interactive --tty --detach --publish-all --quiet --sig-proxy --no-healthcheck --oom-kill-disable --no-deps --service-ports --build --remove-orphans --replace --tls-verify")

func containerLaunch(r *launch) string {
	for i := 0; i < len(r.args); i++ {
		a := r.args[i]
		switch {
		case a == "run" || a == "exec": // the subcommand after docker compose or docker container
		case strings.HasPrefix(a, "--"):
			if !strings.Contains(a, "=") && !slices.Contains(switches, a) {
				i++
			}
		case strings.HasPrefix(a, "-"):
			// The flags -it have no value, -eNAME contains its value, and -e takes the next
			// argument as its value.
			if len(a) == 2 && !strings.Contains("itdPqT", a[1:]) {
				i++
			}
		case a != "":
			return imageName(a)
		}
	}
	return ""
}

// imageName returns the last part of an image's name, without tag and digest. If the last part is
// vague, the result also contains the part before it.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	parts := strings.Split(image, "/")
	last := len(parts) - 1
	parts[last] = first(parts[last], ":")
	if last > 0 && slices.Contains(vague, parts[last]) && !strings.ContainsAny(parts[last-1], ".:") {
		return parts[last-1] + "-" + parts[last]
	}
	return parts[last]
}

var goMajor = pattern.Later(`/v[0-9]+$`)

func goLaunch(r *launch) string {
	pkg := first(r.word, "@")
	if strings.HasPrefix(pkg, ".") || strings.HasSuffix(pkg, ".go") || path.IsAbs(pkg) {
		return scriptName(strings.TrimSuffix(pkg, ".go"), r.dir)
	}
	return scriptName("/"+goMajor().ReplaceAllString(pkg, ""), "")
}

func cargoLaunch(r *launch) string {
	for _, flag := range []string{"--bin", "--example", "-p", "--package"} {
		if name := r.flags[flag]; name != "" {
			return first(name, "@")
		}
	}
	dir := r.dir
	if manifest := r.flags["--manifest-path"]; manifest != "" {
		dir = path.Dir(filepath.ToSlash(manifest))
	}
	return scriptName(dir, "")
}

func dotnetLaunch(r *launch) string {
	if l, ok := launcherOf("dotnet"); ok && (r.word == "run" || r.word == "exec") {
		r.read(l, r.rest)
	}
	if project := r.flags["--project"]; project != "" {
		return scriptName(project, r.dir)
	}
	if r.word == "" {
		return scriptName(".", r.dir)
	}
	return scriptName(r.word, r.dir)
}

func javaLaunch(r *launch) string {
	if jar := r.flags["-jar"]; jar != "" {
		return scriptName(jar, r.dir)
	}
	return moduleName(r.word)
}

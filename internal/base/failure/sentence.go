package failure

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// saying has the texts of a failure. plain and plainAction leave out text that must not leave this
// machine. If one of them is "", the full text may leave this machine.
type saying struct {
	sentence, plain     string
	action, plainAction string
}

// tell sets the texts of out: its sentence, action, flag and evidence.
func (f *Facts) tell(out *Failure, err error) {
	evidence, best, from := f.evidence()
	s := f.sentence(err, best)
	if f.Sentence != "" {
		s.sentence, s.plain = f.Sentence, ""
	}
	if f.Action != "" {
		s.action, s.plainAction = f.Action, ""
	}
	out.Sentence = f.say(s.sentence, maxSentence)
	out.Action = f.say(s.action, maxAction)
	if f.added != "" && strings.Contains(s.action, f.added) {
		out.flag = f.say(f.added, maxAction)
	}
	out.Evidence, out.EvidenceFrom = evidence, from
	if s.plain != "" {
		out.plain = f.say(s.plain, maxSentence)
	}
	if s.plainAction != "" {
		out.plainAction = f.say(s.plainAction, maxAction)
	}
}

// evidence returns the evidence and its origin. best is the line that the sentence quotes, or "" if
// it does not quote a line.
func (f *Facts) evidence() (out []string, best string, from From) {
	add := func(line string) {
		if line = f.say(line, maxLine); line != "" && len(out) < MaxEvidence {
			out = append(out, line)
		}
	}
	process, line := rank(f.Stderr)
	if f.Class == MissingVariable {
		if _, quoted := missingVariable(f.Stderr); quoted != "" {
			process, line = first(quoted, process), quoted
		}
	}
	best = f.say(line, maxQuoted)
	switch {
	case f.Status != 0:
		all, said := f.httpEvidence()
		return all, said, Response
	case f.Class == NotJSON && binary(f.Stdout):
		add(excerpt.Line(f.Stdout[0], 60)) // the rest says no more
		return out, "", Stdout
	case f.Class == NotJSON:
		for _, l := range f.Stdout {
			add(l)
		}
		if len(out) > 0 {
			return out, f.say(f.Stdout[0], maxQuoted), Stdout
		}
	case f.Class == CommandNotFound || f.Class == CannotStart:
		add(f.Start)
		add(f.Hint)
		if len(f.PATH) > 0 {
			add("PATH=" + f.PATH)
		}
		return out, "", System
	}
	for _, l := range process {
		add(l)
	}
	if len(out) > 0 {
		return out, best, Stderr
	}
	if f.Sent != "" {
		exchange := "sent " + f.Sent + ", got " + f.Got
		if f.Unsent {
			exchange = f.Sent + ": " + f.Got
		}
		add(exchange)
		return out, f.say(f.Answer, maxQuoted), Exchange
	}
	return nil, f.say(f.Answer, maxQuoted), ""
}

func (f *Facts) who() string {
	if f.Server == "" {
		return "the server"
	}
	return "server " + strconv.Quote(f.Server)
}

// said returns ": " and words in quotes. It returns "" if words is "".
func said(words string) string {
	if words == "" {
		return ""
	}
	return ": " + strconv.Quote(words)
}

// flag returns a phrase that tells the user how to set something: with the flag if the server
// comes from the command line, otherwise with the setting.
func (f *Facts) flag(flag, setting string) string {
	switch {
	case f.Given && f.ByClient:
		return flag + " in the client's configuration"
	case f.Given:
		return flag
	}
	return setting + " in the configuration"
}

// add returns the same phrase as the method flag. If the phrase is only the flag, add also records
// the flag.
func (f *Facts) add(flag, setting string) string {
	if f.Given && !f.ByClient {
		f.added = flag
	}
	return f.flag(flag, setting)
}

func (f *Facts) sentence(err error, best string) saying {
	who := f.who()
	coded := func(text string) string { return text + " (HTTP " + strconv.Itoa(f.Status) + ")" }
	switch f.Class {
	case CommandNotFound:
		return f.notFound()
	case CannotStart:
		return f.cannotStart(err)
	case NotAdmitted:
		return saying{sentence: who + " was not started" + after(err)}
	case Exited:
		if file := f.noScript(); file != "" {
			return saying{sentence: who + " " + f.exit() + ": the file " + file + " does not exist", plain: who + " " + f.exit(), action: "correct the path of the file"}
		}
		head := who + " " + f.exit()
		if f.killed() && weigh(best) <= neutral {
			return saying{sentence: head, action: "if you did not stop the server, look for an out-of-memory message in the system log"}
		}
		if best == "" && len(f.Stderr) == 0 {
			head += " and printed nothing to stderr"
		}
		return saying{sentence: head + said(best), plain: who + " " + f.exit(), action: f.exitAction(best)}
	case MissingVariable:
		return f.missing()
	case NotJSON:
		head := who + " prints text to stdout instead of MCP messages"
		if binary(f.Stdout) {
			head = who + " prints binary data to stdout instead of MCP messages"
		}
		action := "start the server in its stdio mode, and make it log to stderr"
		if servesHTTP(f.Stdout) {
			action = "start the server in its stdio mode, or use its URL instead of the command"
		}
		return saying{sentence: head + said(best), plain: head, action: action}
	case OutOfFiles:
		return saying{sentence: who + " cannot be opened: Dragoman has no free file descriptors", action: "raise the limit of open files with `ulimit -n`"}
	case BadAddress:
		return saying{sentence: "the URL of " + who + " cannot be used" + after(err), action: "write an absolute URL that begins with http:// or https://"}
	case DNS:
		return saying{sentence: who + " cannot be reached: the host name " + quoteHost(f.Address) + "cannot be resolved", action: "check the spelling of the host name, and check the network connection"}
	case ConnectionRefused:
		return saying{sentence: who + " refused the connection: nothing listens at " + hostOf(f.Address), action: "start the server, or correct the host and port of its URL"}
	case Unreachable:
		if fault := proxyFault(err); fault != nil {
			return f.proxy(fault)
		}
		return saying{sentence: who + " cannot be reached" + f.reason(err), action: "check the address, and check that the server is running"}
	case TLS:
		return f.tls(err)
	case WrongScheme:
		return f.scheme()
	case WrongPath:
		return f.path(best)
	case Redirected:
		return f.redirected()
	case NeedsSignIn:
		s := saying{sentence: who + " wants you to sign in", action: "run `dragoman login URL`, with the URL of the server"}
		if f.Status != 0 {
			s.sentence = coded(s.sentence)
		}
		if f.Server != "" && !f.Given {
			s.action = "run `dragoman login " + f.Server + "`"
		}
		s.action += ", or send a token with " + f.add("--header 'Authorization: Bearer …'", "headers: {Authorization: 'Bearer …'}")
		return s
	case Unauthorized:
		return f.unauthorized(best)
	case Overloaded:
		s := saying{sentence: who + " has reached a limit", action: "try again later"}
		if f.Status != 0 {
			s.sentence = coded(who+" is overloaded") + said(best)
		}
		if f.RetryAfter > 0 {
			s.action = "try again in " + f.RetryAfter.String()
		}
		return s
	case ServerError:
		return saying{sentence: who + " failed with HTTP status " + strconv.Itoa(f.Status) + said(best), action: "read the log of the server"}
	case Silent:
		s := saying{sentence: who + " did not answer" + f.within()}
		switch {
		case f.Runner != "" && !f.Call:
			s.action = "run the command in a terminal, which shows whether " + f.Runner + " still downloads the package, or waits for something else"
		case f.Given && f.Command != "":
			s.action = "check that the command speaks MCP on stdin and stdout, and is not waiting for something else"
		case f.Given:
			s.action = "check that the URL is the address of an MCP server"
		case f.Call:
			s.action = "if the call needs more time, raise callTimeout or limits.call in the configuration"
		case f.Command != "":
			s.action = "check that the command speaks MCP on stdin and stdout; if the server starts slowly, raise startTimeout or limits.start in the configuration"
		default:
			s.action = "check that the URL is the address of an MCP server; if the server is slow, raise startTimeout or limits.start in the configuration"
		}
		return s
	case Stalled:
		return saying{sentence: who + " has stopped reading its input", action: "restart the server"}
	case WrongVersion:
		return f.version()
	case OtherProtocol:
		return saying{sentence: who + " speaks " + f.Dialect + ", which is not MCP", action: "use " + f.add("--dialect "+f.Dialect, "dialect: "+f.Dialect)}
	case Rejected:
		head := who + " refused the request"
		if f.Sent != "" {
			head = who + " refused " + firstWord(f.Sent)
		}
		if f.Status != 0 {
			head = coded(head)
		}
		return saying{sentence: head + said(best), action: "read the log of the server for the reason"}
	case NotReady:
		return saying{sentence: who + " is still not ready after several attempts" + said(best), action: "try again later"}
	case ProtocolError:
		return f.protocol(best)
	case TooLarge:
		return saying{sentence: who + " sent a message that is larger than limits.message", action: "raise limits.message in the configuration"}
	case CutOff:
		s := saying{sentence: "the connection to " + who + " broke before the answer was complete", action: "try again; if the connection breaks again, read the log of the server"}
		if f.Call {
			s.action = "before you repeat the call, check whether the server has executed it; if the connection breaks again, read the log of the server"
		}
		return s
	case SessionLost:
		return saying{sentence: who + " has lost the session", action: "call again; Dragoman opens a new session"}
	case CannotListen:
		return saying{sentence: "cannot listen on " + f.listen() + after(err), action: "choose another address with --listen, for example 127.0.0.1:7300"}
	case PortInUse:
		s := saying{sentence: f.listen() + " is already in use", action: "stop the program that uses the address, or choose another address with --listen"}
		if f.Holder != "" {
			s.sentence += " by " + f.Holder
			s.action = "stop that program, or choose another address with --listen"
		}
		return s
	case Permission:
		return saying{sentence: "no permission to listen on " + f.listen(), action: "choose a port above 1023 with --listen"}
	case Cancelled:
		if f.Unready {
			s := saying{sentence: "Dragoman had to stop before " + who + " was ready" + said(best), plain: "Dragoman had to stop before " + who + " was ready"}
			if f.Given { // by dragoman run or another command that ends with its input
				s.action = "keep the input of Dragoman open until the answers have arrived"
			}
			return s
		}
		return saying{sentence: "the request to " + who + " was cancelled"}
	case Stopped:
		if f.Cause == "restarted" {
			return saying{sentence: who + " was restarted by an operator while the call was running", action: "before you repeat the call, check whether the server has executed it"}
		}
		return saying{sentence: strings.TrimSpace(who + " was stopped by an operator " + f.By), action: f.startAgain()}
	case KeyEnded:
		return saying{sentence: "the API key was revoked or has expired while the call to " + who + " was running", action: "use another key; before you repeat the call, check whether the server has executed it"}
	case Removed:
		return saying{sentence: who + " was removed from the configuration, or Dragoman is stopping"}
	}
	return saying{sentence: who + " cannot be used" + after(err)}
}

// startAgain says how a server starts again that an operator has stopped.
func (f *Facts) startAgain() string {
	command := "`dragoman restart`"
	if f.Server != "" {
		command = "`dragoman restart " + f.Server + "`"
	}
	return "run " + command + ", or start the server in the console"
}

func (f *Facts) listen() string {
	if f.Listen == "" {
		return "the address"
	}
	return "address " + f.Listen
}

// exit returns a phrase that says how the process ended.
func (f *Facts) exit() string {
	code, isStatus := strings.CutPrefix(f.Exit, "exit status ")
	signal, isSignal := strings.CutPrefix(f.Exit, "signal: ")
	before := " before it was ready"
	switch {
	case f.Running:
		before = ""
	case f.Call:
		before = " before it answered"
	}
	switch {
	case isStatus:
		return "exited with status " + code + before
	case isSignal:
		return "was killed by " + signalName(signal) + before
	case f.Exit != "":
		return "exited (" + f.Exit + ")" + before
	case f.Command != "" && !f.Call:
		return "closed its stdout" + before
	}
	return "exited" + before
}

// signalName returns the name of a signal, for example SIGKILL for "killed". text is the signal as
// package os writes it.
func signalName(text string) string {
	text = strings.TrimSuffix(text, " (core dumped)")
	if name := signals[text]; name != "" {
		return name
	}
	return "the signal " + strconv.Quote(text)
}

// signals has the names of the signals that end a process, by their texts in package syscall.
var signals = map[string]string{
	"aborted": "SIGABRT", "alarm clock": "SIGALRM", "bad system call": "SIGSYS", "broken pipe": "SIGPIPE", "bus error": "SIGBUS",
	"floating point exception": "SIGFPE", "hangup": "SIGHUP", "illegal instruction": "SIGILL", "interrupt": "SIGINT", "killed": "SIGKILL",
	"quit": "SIGQUIT", "segmentation fault": "SIGSEGV", "terminated": "SIGTERM", "trace/breakpoint trap": "SIGTRAP", "CPU time limit exceeded": "SIGXCPU",
	"file size limit exceeded": "SIGXFSZ", "user defined signal 1": "SIGUSR1", "user defined signal 2": "SIGUSR2",
}

// killed reports whether the process was ended by SIGKILL or SIGTERM.
func (f *Facts) killed() bool { return f.Exit == "signal: killed" || f.Exit == "signal: terminated" }

// exitAction returns what the user should do after the process has exited. best is the most useful
// line of stderr.
func (f *Facts) exitAction(best string) string {
	low := strings.ToLower(best)
	switch {
	case strings.Contains(low, "is not in this registry"), strings.Contains(low, "npm") && strings.Contains(low, "404"), strings.Contains(low, "not found in the package registry"):
		return "check the name of the package"
	case strings.Contains(low, "no matching version found"):
		return "check the version of the package"
	case strings.HasPrefix(low, "npm") && strings.Contains(low, "request to "):
		return "check the network, and whether npm's registry is the right one (npm config get registry)"
	case strings.Contains(low, "cannot find module"), strings.Contains(low, "cannot find package"), strings.Contains(low, "module_not_found"):
		return "install the packages of the server (npm install), or correct the path of the script"
	case strings.Contains(low, "no module named"):
		return "install the missing Python package, or use the Python of the server's virtual environment"
	case strings.Contains(low, "eaddrinuse"):
		return "stop the program that uses the port of the server"
	case strings.Contains(low, "eacces"), strings.Contains(low, "permission denied"):
		return "give the server the permission that its stderr names"
	case strings.Contains(low, "unknown option"), strings.Contains(low, "unrecognized argument"), strings.HasPrefix(low, "usage:"):
		return "correct the arguments of the command"
	}
	return "run the command by hand to see its complete output"
}

var missingScript = pattern.Later(`(?:Cannot find module|can't open file) '([^']+)'`)

// noScript returns the file that an interpreter did not find, if the command line names this file
// as the script. Otherwise it returns "".
func (f *Facts) noScript() string {
	for _, line := range f.Stderr {
		m := missingScript().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		file := strings.ReplaceAll(m[1], `\`, "/")
		for _, arg := range f.Args {
			arg = strings.TrimPrefix(strings.ReplaceAll(arg, `\`, "/"), "./")
			if arg != "" && (file == arg || strings.HasSuffix(file, "/"+strings.TrimPrefix(arg, "../"))) {
				return f.say(m[1], maxQuoted)
			}
		}
	}
	return ""
}

func (f *Facts) missing() saying {
	name, line := missingVariable(f.Stderr)
	who := f.who()
	s := saying{
		plain:       who + " " + f.exit() + ": an environment variable is missing",
		plainAction: "set the environment variable that the stderr of the server names",
	}
	if len(f.Withheld) > 0 {
		if name == "" {
			name = f.Withheld[0]
		}
		if slices.Contains(f.Withheld, name) {
			s.sentence = who + " " + f.exit() + ": the environment variable " + name + " is set for Dragoman, but was not passed to the server" + more(line, f)
			switch {
			case f.Given && f.ByClient:
				s.action = "add " + name + " to the env of this server in the client's configuration"
			case f.Given:
				s.action = "pass it on with " + f.add("--env "+name, "")
			default:
				s.action = "add " + name + " to inheritEnv, or to the env of " + who
			}
			return s
		}
	}
	s.sentence = who + " " + f.exit() + ": the environment variable " + name + " is missing" + more(line, f)
	s.action = "set it with " + f.add("--env "+name+"=VALUE", "env: {"+name+": …}")
	if f.Given && f.ByClient {
		s.action = "add " + name + " to the env of this server in the client's configuration"
	}
	return s
}

// more returns the end of a sentence that already has a colon. The end quotes a line of the
// server's stderr. more returns "" if the line is empty.
func more(line string, f *Facts) string {
	if line = f.say(line, maxQuoted); line != "" {
		return "; its stderr says " + strconv.Quote(line)
	}
	return ""
}

// installs has instructions to install programs that often start servers.
var installs = map[string]string{
	"node": "install Node.js (https://nodejs.org)", "npm": "install Node.js (https://nodejs.org)", "npx": "install Node.js (https://nodejs.org), which has npx",
	"uv": "install uv (https://docs.astral.sh/uv/)", "uvx": "install uv (https://docs.astral.sh/uv/), which has uvx",
	"docker": "install Docker (https://docs.docker.com/get-docker/)", "podman": "install Podman (https://podman.io)",
	"bun": "install Bun (https://bun.sh)", "bunx": "install Bun (https://bun.sh), which has bunx", "deno": "install Deno (https://deno.com)",
	"pipx": "install pipx (https://pipx.pypa.io)", "python": "install Python (https://www.python.org)", "python3": "install Python (https://www.python.org)",
	"pnpm": "install pnpm (https://pnpm.io)", "go": "install Go (https://go.dev)", "java": "install a Java runtime", "dotnet": "install .NET (https://dotnet.microsoft.com)",
}

func (f *Facts) notFound() saying {
	s := saying{plain: f.who() + " cannot start: its command was not found", plainAction: "check the spelling of the command"}
	word := excerpt.Word(f.Command, 200)
	if strings.Contains(f.Command, " ") && len(f.Args) == 0 && !filepath.IsAbs(f.Command) {
		s.sentence = f.who() + " cannot start: the program " + word + " was not found"
		s.action = "put the first word into `command`, and the other words into `args`"
		if f.Given {
			s.action = "remove the quotes around the command, so that each argument is a separate word"
		}
		return s
	}
	base := strings.TrimSuffix(strings.ToLower(filepath.Base(f.Command)), ".exe")
	if strings.ContainsAny(f.Command, `/\`) {
		s.sentence = f.who() + " cannot start: the file " + word + " does not exist"
		s.action = "correct the path of the command"
		return s
	}
	s.sentence = f.who() + " cannot start: the command " + word + " was not found in PATH"
	switch {
	case len(f.Near) > 0:
		s.action = "use " + strings.Join(f.Near, " or ") + " instead, or correct the spelling"
	case installs[base] != "":
		s.action = installs[base] + ", or use the full path of " + base
	default:
		s.action = "check the spelling, or use the full path of the program"
	}
	if f.PATH == "" {
		s.action = "set PATH, or use the full path of the program"
	}
	return s
}

func (f *Facts) cannotStart(err error) saying {
	s := saying{plain: f.who() + " cannot start: its command cannot be run"}
	why := f.Hint
	if why == "" {
		why = f.Start
	}
	if why == "" {
		s.sentence = f.who() + " cannot start" + after(err)
		return s
	}
	s.sentence = f.who() + " cannot start: " + why
	switch {
	case strings.HasSuffix(why, "is not executable"):
		s.action = "run chmod +x " + strings.TrimSuffix(why, " is not executable")
	case strings.Contains(why, "working directory"):
		s.action = "correct " + f.flag("--cwd", "its cwd")
	case strings.Contains(why, "interpreter or loader"):
		s.action = "install the interpreter that the first line of the file names, or put the interpreter into the command"
	case strings.Contains(why, "another machine"):
		s.action = "use a build for this machine; if the file is a script, put its interpreter into the command"
	}
	if s.action != "" {
		s.plainAction = "check the command of the server"
	}
	return s
}

var httpWords = pattern.Later(`(?i)(https?://|\b(listening|running|started|serving)\b.{0,40}\b(port|:\d{2,5})\b)`)

func servesHTTP(stdout []string) bool {
	for _, l := range stdout {
		if httpWords().MatchString(l) {
			return true
		}
	}
	return false
}

func (f *Facts) within() string {
	if f.Waited > 0 {
		d := f.Waited.Round(10 * time.Millisecond)
		if d > time.Second {
			d = d.Round(100 * time.Millisecond)
		}
		return " within " + d.String()
	}
	return " in time"
}

// proxy describes a proxy that cannot be reached.
func (f *Facts) proxy(fault *net.OpError) saying {
	at := ""
	if op := (*net.OpError)(nil); errors.As(fault.Err, &op) && op.Addr != nil {
		at = " at " + op.Addr.String()
	}
	return saying{
		sentence: f.who() + " cannot be reached: its proxy" + at + " does not answer: " + Reason(fault.Err),
		action:   "correct HTTP_PROXY or HTTPS_PROXY in the environment, or add the host of the server to NO_PROXY",
	}
}

// reason returns ": " and the reason why no connection was made. It returns "" if the reason is
// unknown.
func (f *Facts) reason(err error) string {
	if f.Got != "" {
		return ": " + f.Got
	}
	return after(err)
}

// after returns ": " and the text of the first error in the chain of err that has a text. It
// returns "" if there is none.
func after(err error) string {
	for err != nil {
		if t := excerpt.Line(err.Error(), maxQuoted*2); t != "" {
			return ": " + t
		}
		err = errors.Unwrap(err)
	}
	return ""
}

// hostOf returns the host and port of a URL. It returns a general phrase if the URL has no host.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "its address"
	}
	return u.Host
}

func quoteHost(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	return strconv.Quote(u.Hostname()) + " "
}

func (f *Facts) scheme() saying {
	if rest, ok := strings.CutPrefix(f.Address, "https://"); ok {
		return saying{sentence: f.who() + " uses http at this port, but its URL begins with https", action: "use http://" + rest}
	}
	rest := strings.TrimPrefix(f.Address, "http://")
	return saying{sentence: f.who() + " uses https at this port, but its URL begins with http", action: "use https://" + rest}
}

// path describes a web server that has no MCP endpoint at the address. best is the text of its answer.
func (f *Facts) path(best string) saying {
	s := saying{
		sentence: f.who() + " has no MCP endpoint at " + f.at() + ": it answered " + strings.TrimSpace("HTTP "+strconv.Itoa(f.Status)+" "+http.StatusText(f.Status)),
		action:   "look up the URL of the MCP endpoint in the documentation of the server; its path is often /mcp or /sse",
	}
	switch {
	case !f.page():
	case signIn().MatchString(best):
		s.sentence = f.who() + " answered with a sign-in page instead of MCP (HTTP " + strconv.Itoa(f.Status) + ")" + said(best)
		s.action = "check that " + f.at() + " is the address of an MCP server; if it is, send a token with " + f.add("--header 'Authorization: Bearer …'", "headers: {Authorization: 'Bearer …'}")
	case best == "" || strings.Contains(best, http.StatusText(f.Status)):
		s.sentence += ", with a web page"
	default:
		s.sentence += ", with the web page " + strconv.Quote(best)
	}
	if len(f.Found) > 0 {
		s.action = "use " + strings.Join(f.Found, " or ") + ", where Dragoman found an MCP endpoint"
	}
	return s
}

// at returns the address of the server, or a general phrase.
func (f *Facts) at() string { return cmp.Or(f.Address, "its URL") }

var signIn = pattern.Later(`(?i)(log[- ]?in|sign[- ]?in|oauth|authorize|\bsso\b|\bauth\b|accounts?\.)`)

func (f *Facts) redirected() saying {
	if f.Location == "" {
		return saying{sentence: f.who() + " answers with a redirect (HTTP " + strconv.Itoa(f.Status) + ")", action: "use the URL of the MCP endpoint itself"}
	}
	to := f.say(f.Location, maxQuoted)
	if signIn().MatchString(f.Location) {
		return saying{
			sentence: f.who() + " redirects to a sign-in page: " + to,
			action:   "send a token with " + f.add("--header 'Authorization: Bearer …'", "headers: {Authorization: 'Bearer …'}"),
		}
	}
	return saying{sentence: f.who() + " redirects to another address: " + to, action: "if you trust this address, use " + to}
}

func (f *Facts) unauthorized(best string) saying {
	status := " (HTTP " + strconv.Itoa(f.Status) + ")"
	if f.Status == 0 {
		status = ""
	}
	header := f.add("--header 'Authorization: Bearer …'", "headers: {Authorization: 'Bearer …'}")
	switch {
	case f.Status == http.StatusProxyAuthRequired:
		return saying{sentence: "the proxy for " + f.who() + " requires credentials" + status + said(best), action: "put the credentials into HTTPS_PROXY: http://USER:PASSWORD@HOST:PORT"}
	case f.Status == http.StatusForbidden && f.Credentials:
		return saying{sentence: f.who() + " refuses access with the token in the request" + status + said(best), action: "check what the token permits, or get another token"}
	case f.Status == http.StatusForbidden && f.page():
		text := ", with a web page"
		if best != "" {
			text = ", with the web page " + strconv.Quote(best)
		}
		return saying{sentence: f.who() + " refuses access to " + f.at() + status + text, action: "check the path of the URL, which is often /mcp or /sse; if it is right, send a token with " + header}
	case f.Status == http.StatusForbidden:
		return saying{sentence: f.who() + " refuses access" + status + said(best), action: "send a token with " + header + ", and check which host name the server expects"}
	case f.Credentials:
		return saying{sentence: f.who() + " refused the token in the request" + status + said(best), action: "check whether the token is correct and has not expired, or get a new token"}
	}
	return saying{sentence: f.who() + " requires credentials" + status + said(best), action: "send a token with " + header}
}

func (f *Facts) version() saying {
	theirs, ours := strings.Join(f.Theirs, ", "), strings.Join(f.Ours, ", ")
	s := saying{sentence: f.who() + " and Dragoman have no protocol revision in common", action: "update the server or Dragoman"}
	if f.Cause == "pinned" {
		s.sentence = f.who() + " does not support the configured revision"
		if ours != "" {
			s.sentence += " " + ours
		}
		if theirs != "" {
			s.sentence += "; the server supports " + theirs
		}
		s.action = "remove " + f.flag("--revision", "revision") + ", or choose another revision"
		return s
	}
	if theirs != "" {
		s.sentence += ": the server supports " + theirs
		if ours != "" {
			s.sentence += ", and Dragoman supports " + ours
		}
	}
	if f.Answer != "" && theirs == "" {
		s.sentence += said(f.say(f.Answer, maxQuoted))
	}
	return s
}

func (f *Facts) protocol(best string) saying {
	s := saying{sentence: f.who() + " sent an answer that is not valid MCP", action: "check that the command or URL is an MCP server; `dragoman doctor` shows the messages of the server"}
	switch {
	case f.Cause == "echo":
		s.sentence = f.who() + " sends Dragoman's own messages back"
	case f.Status != 0:
		s.sentence = f.who() + " answered HTTP " + strconv.Itoa(f.Status) + " at " + f.at() + " without an MCP message" + said(best)
		s.action = "check that " + f.at() + " is the address of an MCP server; its path is often /mcp or /sse"
	case f.Got != "":
		s.sentence += ": " + f.Got
	}
	if len(f.Found) > 0 {
		s.action = "use " + strings.Join(f.Found, " or ") + ", where Dragoman found an MCP endpoint"
	}
	return s
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

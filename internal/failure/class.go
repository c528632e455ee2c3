package failure

// Class is the kind of a failure. Its value is a stable code in snake_case, for scripts and
// for links to docs/failures.md.
type Class string

// The classes. See Classes for what each means.
const (
	// Starting a command.
	CommandNotFound Class = "command_not_found"
	CannotStart     Class = "cannot_start"
	NotAdmitted     Class = "not_admitted"
	MissingVariable Class = "missing_variable"
	Exited          Class = "exited"
	NotJSON         Class = "not_json"
	OutOfFiles      Class = "out_of_files"

	// Reaching an address.
	BadAddress        Class = "bad_address"
	DNS               Class = "dns"
	ConnectionRefused Class = "connection_refused"
	Unreachable       Class = "unreachable"
	TLS               Class = "tls"
	WrongScheme       Class = "wrong_scheme"
	WrongPath         Class = "wrong_path"
	Redirected        Class = "redirected"
	Unauthorized      Class = "unauthorized"
	NeedsSignIn       Class = "needs_sign_in"
	Overloaded        Class = "overloaded"
	ServerError       Class = "server_error"

	// Talking to a server.
	Silent        Class = "silent"
	Stalled       Class = "stalled"
	WrongVersion  Class = "wrong_version"
	OtherProtocol Class = "other_protocol"
	Rejected      Class = "rejected"
	NotReady      Class = "not_ready"
	ProtocolError Class = "protocol_error"
	TooLarge      Class = "too_large"
	CutOff        Class = "cut_off"
	SessionLost   Class = "session_lost"

	// On our side.
	PortInUse    Class = "port_in_use"
	Permission   Class = "permission"
	CannotListen Class = "cannot_listen"
	Cancelled    Class = "cancelled"
	Removed      Class = "removed"
	Internal     Class = "internal"
)

// Info describes a class for docs/failures.md.
type Info struct {
	Class Class
	Means string // what happened, a sentence
	Do    string // what to do, a sentence
}

// Classes returns all classes in the order of docs/failures.md.
func Classes() []Info { return append([]Info(nil), classes...) }

// Known reports whether c is one of the classes.
func (c Class) Known() bool {
	for i := range classes {
		if classes[i].Class == c {
			return true
		}
	}
	return false
}

var classes = []Info{
	{CommandNotFound, "The command of a server does not exist: it is not in `PATH`, or there is no such file.",
		"Check the spelling, install the program, or use its full path. `npx` comes with Node.js (https://nodejs.org), `uvx` with uv (https://docs.astral.sh/uv/)."},
	{CannotStart, "The command exists, but the operating system cannot start it: it is not executable, its interpreter is missing, or its working directory cannot be used.",
		"Follow the action: usually `chmod +x FILE`, or the right working directory."},
	{NotAdmitted, "Dragoman has refused to start the program, because it does not support what it found.",
		"Follow the sentence: usually another version of the program is needed."},
	{MissingVariable, "The server exited, and its stderr names an environment variable that is missing. Or its configuration refers to one with `${NAME}`; then it is not started at all.",
		"Set the variable: `--env NAME=VALUE` on the command line, or `env` in the configuration. `serve` passes only a short list of its own variables on; `inheritEnv` adds to it."},
	{Exited, "The process of the server exited, or closed its stdout, before it had answered.",
		"Read the evidence: it is the server's stderr, the most telling lines first. Run the command by hand to see all of it."},
	{NotJSON, "The process runs, but prints text instead of MCP messages to stdout, and answers nothing.",
		"Start it in its stdio mode, and make it log to stderr. A command that serves HTTP is given as its URL."},
	{OutOfFiles, "The process has no file descriptors left, so that no server can be started or connected to.",
		"Raise the limit with `ulimit -n`, or stop some servers."},
	{BadAddress, "The URL of a server cannot be used.",
		"Write an absolute URL that begins with `http://` or `https://`."},
	{DNS, "The host name of the URL cannot be resolved.",
		"Check the spelling of the host, and the network."},
	{ConnectionRefused, "Nothing listens at the host and port of the URL.",
		"Start the server, or correct the port."},
	{Unreachable, "No connection to the server could be made, or it broke before an answer came.",
		"Check the address, the network and the proxy settings."},
	{TLS, "The server's certificate is not accepted: an unknown authority signed it, it has expired, or it is for another host.",
		"For a private authority, name its certificate file: `--cacert FILE` on the command line, or `caFile` in the configuration. Certificates are always checked."},
	{WrongScheme, "The URL says http and the port speaks https, or the reverse.",
		"Change the scheme of the URL."},
	{WrongPath, "The host answers, but there is no MCP endpoint at the path of the URL (404 or 405). Dragoman then looks at `/mcp` and `/sse` of the same host.",
		"Use the URL that the action names, or look it up in the server's documentation."},
	{Redirected, "The server redirects to another address, often a page to sign in. Dragoman follows redirects within the same origin only.",
		"Use the final URL. If it is a page to sign in, send a token with `--header 'Authorization: Bearer …'`."},
	{Unauthorized, "The server refuses access (401, 403, or 407 from a proxy): it got no credentials, or it does not accept them.",
		"Send a token with `--header 'Authorization: Bearer …'`, or `headers` in the configuration. If one was sent, get a new one."},
	{NeedsSignIn, "The server wants its users to sign in with OAuth. Signing in comes with a later release.",
		"Get a token from the provider and send it with `--header 'Authorization: Bearer …'`, or `headers` in the configuration. That works today."},
	{Overloaded, "The server, or Dragoman itself, has reached a limit (429 or 503).",
		"Try again later, after the time that the action names."},
	{ServerError, "The server failed with an HTTP status of 500 or higher.",
		"Read the server's log."},
	{Silent, "The server runs or accepts connections, but does not answer in time.",
		"Check that it speaks MCP. If it is only slow, raise `startTimeout` (or `limits.start`), for calls `callTimeout` (or `limits.call`)."},
	{Stalled, "The server has stopped reading its input.",
		"Restart it. The evidence may say what it waits for."},
	{WrongVersion, "The server and Dragoman have no protocol revision in common, or the configured `revision` is not one of the server's.",
		"Remove the configured revision, or update the server."},
	{OtherProtocol, "The server speaks a known protocol that is not MCP.",
		"Set its `dialect`."},
	{Rejected, "The server answered the handshake with an error.",
		"Read the evidence, and the server's log."},
	{NotReady, "The server still refused requests as not ready after all retries.",
		"Try again later."},
	{ProtocolError, "The server's answer is not valid MCP.",
		"Check that the command or URL is an MCP server. `dragoman doctor` shows the bytes."},
	{TooLarge, "A message of the server is over the size limit.",
		"Raise `limits.message`."},
	{CutOff, "The connection broke before an answer was complete.",
		"Call again, and read the server's log if it happens again."},
	{SessionLost, "The server no longer knows the session, usually after a restart.",
		"Call again: Dragoman opens a new session by itself."},
	{PortInUse, "Another program listens on the address already.",
		"Stop that program, or choose another address with `--listen`."},
	{Permission, "The operating system does not allow what was asked, such as listening on a port below 1024.",
		"Choose a port above 1023 with `--listen`."},
	{CannotListen, "The address to listen on cannot be used: it is not one of this machine, or it is not valid.",
		"Choose another address with `--listen`, for example `127.0.0.1:7300`."},
	{Cancelled, "The client, or the person at the terminal, gave up.",
		"Nothing."},
	{Removed, "The server was taken out of the configuration, or Dragoman is stopping.",
		"Nothing, or call again after the restart."},
	{Internal, "None of the other classes fits.",
		"Read the sentence. If it looks wrong, report it."},
}

package failure

// Class is the kind of a failure. Its value is a stable code in snake_case, for scripts and
// for links to docs/failures.md.
type Class string

// These are the classes. The function Classes returns the meaning of each class.
const (
	// Failures to start a command.
	CommandNotFound Class = "command_not_found"
	CannotStart     Class = "cannot_start"
	NotAdmitted     Class = "not_admitted"
	MissingVariable Class = "missing_variable"
	Exited          Class = "exited"
	NotJSON         Class = "not_json"
	OutOfFiles      Class = "out_of_files"

	// Failures to reach an address.
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

	// Failures in the exchange with a server.
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

	// Failures of Dragoman itself.
	PortInUse    Class = "port_in_use"
	Permission   Class = "permission"
	CannotListen Class = "cannot_listen"
	Cancelled    Class = "cancelled"
	Removed      Class = "removed"
	Stopped      Class = "stopped"
	Internal     Class = "internal"
)

// Info describes a class for docs/failures.md.
type Info struct {
	Class Class
	Means string // a sentence that says what happened
	Do    string // a sentence that says what to do
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
	{CommandNotFound, "The command of a server was not found in `PATH`, or its file does not exist.",
		"Check the spelling, install the program, or use its full path. Install Node.js (https://nodejs.org) to get `npx`, and uv (https://docs.astral.sh/uv/) to get `uvx`."},
	{CannotStart, "The command exists, but the operating system cannot start it. For example, the file is not executable, its interpreter is missing, or the working directory does not exist.",
		"Do what `action` says. Usually you have to run `chmod +x FILE`, or correct the working directory."},
	{NotAdmitted, "Dragoman did not start the program, because earlier starts failed, and the pause before the next start has not ended.",
		"Read the server's log to find out why the earlier starts failed. Usually `sentence` says when the next start is."},
	{MissingVariable, "The server exited, and its stderr names a missing environment variable. Or the configuration of the server contains `${NAME}`, and `NAME` is not set, so Dragoman did not start the server.",
		"Set the variable with `--env NAME=VALUE` on the command line, or with `env` in the configuration. `serve` passes only a short list of its own variables to servers. Add other variables with `inheritEnv`."},
	{Exited, "The process of the server exited, or closed its stdout, before it answered.",
		"Read the evidence, which shows the most important lines of the server's stderr. Run the command by hand to see its complete output."},
	{NotJSON, "The process runs, but prints text instead of MCP messages to stdout, and does not answer requests.",
		"Start the server in its stdio mode, and make it log to stderr. If the command starts an HTTP server, use the URL of that server instead of the command."},
	{OutOfFiles, "Dragoman has no free file descriptors, so it cannot start servers or connect to them.",
		"Raise the limit of open files with `ulimit -n`, or stop some servers."},
	{BadAddress, "The URL of a server is not valid.",
		"Write an absolute URL that begins with `http://` or `https://`."},
	{DNS, "The host name of the URL cannot be resolved.",
		"Check the spelling of the host name, and check the network connection."},
	{ConnectionRefused, "Nothing listens at the host and port of the URL.",
		"Start the server, or correct the port."},
	{Unreachable, "Dragoman could not connect to the server, or the connection broke before the server answered.",
		"Check the address, the network and the proxy settings."},
	{TLS, "The TLS handshake with the server failed. Usually the certificate of the server is not valid: it is signed by an unknown authority, it has expired, or it was issued for another host.",
		"For a private authority, add its certificate with `--cacert FILE` on the command line, or `caFile` in the configuration. Dragoman always checks certificates."},
	{WrongScheme, "The URL begins with http but the server uses https at this port, or the reverse.",
		"Change the scheme of the URL."},
	{WrongPath, "The host answers, but it has no MCP endpoint at the path of the URL (404 or 405). Dragoman then tries `/mcp` and `/sse` on the same host.",
		"Use the URL that the action names, or look up the URL in the server's documentation."},
	{Redirected, "The server redirects to another address, often a sign-in page. Dragoman follows redirects only within the same origin.",
		"If the final URL is a sign-in page, keep your URL and send a token with `--header 'Authorization: Bearer …'`. Otherwise, use the final URL if you trust it."},
	{Unauthorized, "The server refuses access (HTTP 401 or 403), or a proxy does (407). The credentials are missing, or they are not accepted.",
		"Send a token with `--header 'Authorization: Bearer …'`, or `headers` in the configuration. If you already send a token, get a new one."},
	{NeedsSignIn, "The server requires sign-in with OAuth, which this version of Dragoman does not support.",
		"Get a token from the provider and send it with `--header 'Authorization: Bearer …'`, or `headers` in the configuration."},
	{Overloaded, "The server, or Dragoman itself, has reached a limit (HTTP 429 or 503).",
		"Try again after the time that the action names."},
	{ServerError, "The server failed with an HTTP status of 500 or higher.",
		"Read the server's log."},
	{Silent, "The server runs, or accepts connections, but does not answer before the timeout.",
		"Check that the command starts an MCP server, or that the URL belongs to one. If the server starts slowly, raise `startTimeout`, or `limits.start` for all servers. If calls take long, raise `callTimeout`, or `limits.call` for all servers."},
	{Stalled, "The server has stopped reading its input.",
		"Restart the server. The evidence may show what the server is waiting for."},
	{WrongVersion, "The server and Dragoman have no protocol revision in common, or the server does not support the configured `revision`.",
		"Remove the configured revision, or update the server."},
	{OtherProtocol, "The server speaks a known protocol that is not MCP.",
		"Set the `dialect` of the server in the configuration."},
	{Rejected, "The server answered the handshake with an error.",
		"Read the evidence, and the server's log."},
	{NotReady, "The server refused each request, even after all retries, because it is not ready.",
		"Try again later."},
	{ProtocolError, "The server's answer is not valid MCP.",
		"Check that the command starts an MCP server, or that the URL belongs to one. `dragoman doctor` shows the messages of the server."},
	{TooLarge, "The server sent a message that is larger than `limits.message`.",
		"Raise `limits.message` in the configuration."},
	{CutOff, "The connection broke before an answer was complete.",
		"Before you repeat a call, check whether the server has executed it. If the connection breaks again, read the server's log."},
	{SessionLost, "The server has lost the session, usually because it was restarted.",
		"Call again. Dragoman opens a new session."},
	{PortInUse, "Another program already listens on the address.",
		"Stop that program, or choose another address with `--listen`."},
	{Permission, "The operating system does not permit Dragoman to listen on the address. The usual cause is a port below 1024.",
		"Choose a port above 1023 with `--listen`."},
	{CannotListen, "Dragoman cannot listen on the address, because the address is not valid, or is not an address of this machine.",
		"Choose another address with `--listen`, for example `127.0.0.1:7300`."},
	{Cancelled, "The client, or the person at the terminal, cancelled the request.",
		"Nothing needs to be done."},
	{Stopped, "An operator has stopped the server, or has restarted it while a call was running.",
		"If the server is stopped, start it in the console, or restart Dragoman. If the server was restarted, it may already have executed the call that was running. Check this before you repeat the call."},
	{Removed, "The server was removed from the configuration, or Dragoman is stopping.",
		"If Dragoman is restarting, call again after the restart."},
	{Internal, "The failure does not belong to any other class.",
		"Read `sentence`, which says what happened. If the failure looks like a bug of Dragoman, report it."},
}

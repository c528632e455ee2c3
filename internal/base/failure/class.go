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
	KeyEnded     Class = "key_ended"
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
	{CommandNotFound, "The command of a server was not found in `PATH`, or the file of the command does not exist.",
		"Check the spelling of the command, install the program, or use the full path of the program. Install Node.js (https://nodejs.org) to get `npx`, and uv (https://docs.astral.sh/uv/) to get `uvx`."},
	{CannotStart, "The command exists, but the operating system cannot start it. For example, the file is not executable, the interpreter of a script is missing, or the working directory does not exist.",
		"Do what `action` says. Usually you have to run `chmod +x FILE`, or correct the working directory."},
	{NotAdmitted, "Dragoman did not start the program of the server, because earlier starts failed, and the pause before the next start has not ended.",
		"Read the server's log to find out why the earlier starts failed. Usually `sentence` says when Dragoman starts the program again."},
	{MissingVariable, "A server lacks an environment variable or a secret. Either the server exited and its stderr names the missing variable, or Dragoman did not start the server because its configuration contains `${NAME}` or `${secret:NAME}` and nobody has set `NAME`.",
		"Set the variable with `--env NAME=VALUE` on the command line, or with `env` in the configuration. `serve` passes only a few variables of its own environment to servers. `inheritEnv` passes further variables."},
	{Exited, "The process of the server exited, or closed its stdout, before it answered a request.",
		"Read `evidence`, which has the most important lines of the server's stderr. To see all output of the server, run the command in a terminal."},
	{NotJSON, "The process of the server runs, but prints text instead of MCP messages to stdout, and does not answer requests.",
		"Start the server in its stdio mode, and let the server write its log to stderr. If the command starts an HTTP server, configure the URL of the HTTP server instead of the command."},
	{OutOfFiles, "Dragoman has no free file descriptors, so it cannot start servers or connect to them.",
		"Raise the limit of open files with `ulimit -n`, or stop some servers."},
	{BadAddress, "The URL of a server is not valid.",
		"Write an absolute URL that begins with `http://` or `https://`."},
	{DNS, "Dragoman could not resolve the host name in the URL of the server.",
		"Check the spelling of the host name, and check the network connection."},
	{ConnectionRefused, "No program listens at the host and port in the URL of the server.",
		"Start the server, or correct the port in the URL."},
	{Unreachable, "Dragoman could not connect to the server, or the connection broke before the server answered.",
		"Check the address, the network and the proxy settings."},
	{TLS, "The TLS handshake with the server failed. Usually the certificate of the server is not valid: the certificate is self-signed or signed by an unknown authority, has expired, names no host, or was issued for another host.",
		"`sentence` says which. If a private authority has signed the certificate, add the certificate of the authority with `--cacert FILE` on the command line, or with `caFile` in the configuration. Dragoman always checks the certificates of servers."},
	{WrongScheme, "The URL begins with `http` but the server uses `https` at this port, or the URL begins with `https` but the server uses `http`.",
		"Change the scheme of the URL to `https` or `http`."},
	{WrongPath, "The host answers, but has no MCP endpoint at the path of the URL: it answers with HTTP 404, 405 or 501, or with a web page. In this case, Dragoman looks for an MCP endpoint at `/mcp` and `/sse` on the same host.",
		"Use the URL in `action`, or look up the URL in the server's documentation."},
	{Redirected, "The server redirects requests to another address, often to a sign-in page. Dragoman follows redirects only within the origin of the configured URL.",
		"If the target of the redirect is a sign-in page, keep your URL and send a token with `--header 'Authorization: Bearer …'`. If the target is another page that you trust, use its URL for the server."},
	{Unauthorized, "The server refuses access (HTTP 401 or 403), or a proxy refuses access (HTTP 407). The credentials are missing or not accepted.",
		"Send a token with `--header 'Authorization: Bearer …'` on the command line, or with `headers` in the configuration. If you already send a token, get a new token."},
	{NeedsSignIn, "The server wants somebody to sign in, nobody has signed in yet, or the sign-in is over. If a sign-in has failed, `sentence` says why.",
		"Do what `action` says: usually open the link that the client shows, or run `dragoman login NAME`. If you have a token, send it with `headers` in the configuration instead."},
	{Overloaded, "The server, or Dragoman itself, has reached a limit (HTTP 429 or 503).",
		"Try again after the time that `action` names."},
	{ServerError, "The server answered with an HTTP status of 500 or higher.",
		"Read the server's log."},
	{Silent, "The process of the server runs, or the server accepts connections, but the server did not answer a request before the timeout.",
		"Check that the command starts an MCP server, or that the URL belongs to an MCP server. If the server starts slowly, raise `startTimeout`, or `limits.start` for all servers. If calls take long, raise `callTimeout`, or `limits.call` for all servers."},
	{Stalled, "The server has stopped reading its stdin.",
		"Restart the server. `evidence` may show what the server is waiting for."},
	{WrongVersion, "The server and Dragoman have no protocol revision in common, or the server does not support the `revision` that the configuration sets for the server.",
		"Remove `revision` from the configuration of the server, or update the server."},
	{OtherProtocol, "The server speaks a known protocol that is not MCP.",
		"Set the `dialect` of the server in the configuration."},
	{Rejected, "The server answered the handshake with an error.",
		"Read `evidence` and the server's log."},
	{NotReady, "The server refused a request and all retries of this request, because the server is not ready.",
		"Try again later."},
	{ProtocolError, "The server sent an answer that is not valid in MCP.",
		"Check that the command starts an MCP server, or that the URL belongs to an MCP server. `dragoman doctor` shows the messages of the server."},
	{TooLarge, "The server sent a message that is larger than `limits.message`.",
		"Raise `limits.message` in the configuration."},
	{CutOff, "The connection to the server broke before an answer was complete.",
		"Before you repeat a call, check whether the server has executed it. If the connection breaks again, read the server's log."},
	{SessionLost, "The server no longer has the session with Dragoman, usually because the server was restarted.",
		"Repeat the call. Dragoman opens a new session for this call."},
	{PortInUse, "Another program already listens on the address on which Dragoman has to listen.",
		"Stop the other program, or choose another address with `--listen`."},
	{Permission, "The operating system does not permit Dragoman to listen on the configured address. The usual cause is a port below 1024.",
		"Choose a port above 1023 with `--listen`."},
	{CannotListen, "Dragoman cannot listen on the configured address, because the address is not valid, or is not an address of this machine.",
		"Choose another address with `--listen`, for example `127.0.0.1:7300`."},
	{Cancelled, "The client, or the person at the terminal, cancelled the request.",
		"You do not need to do anything."},
	{Stopped, "An operator has stopped the server, or has restarted it while a call was running.",
		"If the server is stopped, start it in the console, or restart Dragoman. If the server was restarted, it may already have executed the call that was running. Before you repeat this call, check whether the server has executed it."},
	{Removed, "The server was removed from the configuration, or Dragoman is stopping.",
		"If Dragoman is being restarted, repeat the call after the restart. If the server was removed, add it to the configuration again."},
	{KeyEnded, "The API key with which the client came in was revoked or has expired while a call was running.",
		"Use another key. Before you repeat the call, check whether the server has executed it."},
	{Internal, "The failure does not belong to any other class.",
		"Read `sentence`, which says what happened. If the failure looks like a bug in Dragoman, report the bug with `dragoman bug`."},
}

package logcode

// Entry is one row of the table: a code and a message with this code.
type Entry struct {
	Code    string // the code, in snake_case; it never changes
	Message string // the message of the records; "" if the records have the code themselves
	Means   string // the meaning, for docs/monitoring.md
}

// Table returns all codes, in the order of the documentation. Several messages may have one
// code.
func Table() []Entry { return append([]Entry(nil), table...) }

var table = []Entry{
	// State of servers.
	{"server_ready", "server ready", "A server is ready, at first or again; `took` is how long it was needed and not ready."},
	{"server_failed", "server could not be opened", "A server could not be started, dialled or initialized; `class`, `sentence` and `action` say why, `retry_after` when it is tried again."},
	{"server_failed", "server still fails", ""},
	{"server_ended", "server ended", "The process of a server has exited. If it exits again for the same reason within ten minutes, the record is short and `times` counts."},
	{"server_ended", "server ended again", ""},
	{"server_disconnected", "connection to server ended", "The session with a server over HTTP has ended."},
	{"server_disconnected", "connection to server ended again", ""},
	{"server_unresponsive", "server does not answer", "Calls wait, and a server sends nothing and answers no ping."},
	{"server_responsive", "server answers again", "An unresponsive server answers again."},
	{"server_stalled", "server has stopped reading", "A server does not read its stdin."},
	{"server_unstalled", "server reads again", "It reads again."},
	{"server_waiting", "server is not ready", "A server reports that it is starting; the call waits."},
	{"server_stopped", "server stopped by an operator", "An operator has stopped a server; calls to it fail until it is started."},
	{"server_started", "server started by an operator", "An operator has started a server."},
	{"server_restarted", "server restarted by an operator", "An operator has restarted a server; running calls have a few seconds to end."},
	{"server_restarted", "server probed again by an operator", ""},
	{"server_not_started", "a server is not started", "The configuration of one server has a problem; the others are served."},
	{"server_era_changed", "the server has changed its era", "A server speaks the other era of MCP now."},
	{"server_broadcasts", "server sends messages meant for one session to all sessions", "A server mixes up its sessions."},
	{"server_stderr", "", "A line that a server wrote to stderr; only commands that show it, such as `record`."},
	{"server_state", "", "The state of one server after the start of `serve`."},
	{"started", "", "How many servers are ready after the start of `serve`."},
	{"instructions_truncated", "server instructions truncated", "The instructions of a server are too long."},
	{"tool_left_out", "tool left out: its x-mcp-header is invalid", "Clients do not see a tool because its schema breaks the specification."},
	{"call_retried", "retrying call", "A call that was not sent is sent again."},
	{"listen_unsupported", "server does not report changes", "A modern server has no `subscriptions/listen`."},
	{"listen_ended", "listen ended", "The subscription at a modern server ended and is renewed."},
	{"subscriptions_pending", "subscriptions are not restored yet", "The subscriptions of clients wait until a server is ready again."},
	{"codex_ready", "codex worker is ready", "A Codex app-server has accepted the handshake."},
	{"codex_failed", "codex worker refused the handshake", "A Codex app-server has refused the handshake."},
	{"codex_paused", "codex worker is not started again for a while", "A Codex app-server has failed too often."},
	{"codex_question_declined", "declined a codex question that belongs to no call", "No client could be asked."},
	{"codex_question_dropped", "dropped a codex question: its id is already used by an open one", "A Codex app-server used an id twice."},

	// Invalid messages of servers.
	{"answer_unusable", "answer cannot be used", "An answer of a server breaks the protocol; its call fails."},
	{"message_too_large", "discarded a message that is larger than the size limit", "A message of a server is over `limits.message`."},
	{"message_too_large", "discarded an SSE event that is larger than the size limit", ""},
	{"message_too_large", "discarded an SSE event that is larger than the size limit on the standalone SSE stream", ""},
	{"server_request_refused", "server request refused", "A request of a server reached no client."},
	{"server_request_refused", "request from a modern server dropped", ""},
	{"elicitation_refused", "elicitation refused", "A question of a server breaks the specification."},
	{"session_id_invalid", "ignored an invalid session id of the server", "A session id has characters that no header may have."},

	// Clients and calls.
	{"loss", "loss", "Something could not be expressed in the revision of the other side; debug level."},
	{"not_passed_on", "clients do not get this", "Clients miss an item or a message."},
	{"renamed", "an item has another name than the usual one", "Two items would have had one name."},
	{"request_refused", "", "A request was refused before it became a call; the message says why."},
	{"host_refused", "", "The Host or Origin of a request is not allowed; `fix` says what to set."},
	{"host_refused", "further hosts and origins that are refused are not logged", ""},
	{"calls_not_logged", "too many calls at once; some were not logged", "The log was too slow for the records of calls; `missed` counts them."},
	{"events_not_logged", "too many events at once; some were not logged", "The same for other events."},

	// Configuration.
	{"config_applied", "configuration applied", "A changed configuration is in use; the counts say what changed."},
	{"config_unchanged", "configuration is unchanged", "The file was read again, and nothing has changed."},
	{"config_refused", "the changed configuration is invalid; keeping the current one", "A changed file has problems; the old configuration stays."},
	{"config_empty", "the configuration file is empty and was ignored: all servers stay; to remove them, write mcpServers: {}", "An empty file was not applied."},
	{"config_empty", "the changed configuration has no servers any more: the current ones stay; they are removed after the wait, or on SIGHUP", ""},
	{"config_needs_restart", "some settings change only with a restart", "Some changed settings are used after the next start."},
	{"config_problem", "problem in the configuration", "A warning of `config check`."},
	{"config_not_watched", "the configuration file is not watched for changes", "Changes need a SIGHUP."},
	{"key_not_kept", "the key for other commands could not be written", "Commands that need the key of `serve`, such as `dragoman console`, do not work; `cause` says why."},
	{"page_failed", "a page of the console could not be made", "A template of the console failed; this is a bug. `page` and `cause` say where."},
	{"server_added", "server added", "A reload has added a server."},
	{"server_removed", "server removed", "A reload has removed a server."},
	{"server_changed", "server changed", "A reload has changed the `settings` of a server."},
	{"removed_calls_cut", "calls to removed servers are cut off", "Calls to a removed server took too long."},
	{"instructions_unreadable", "cannot read the instructions", "The file of our own instructions cannot be read."},
	{"instructions_unreadable", "the command for the instructions failed", ""},
	{"instructions_unreadable", "the instructions are too long and are left out", ""},
	{"instructions_unreadable", "the instructions are not UTF-8 and are left out", ""},

	// The process as a whole.
	{"open_to_network", "other machines can reach every tool without any credentials", "The listen address is not a loopback address."},
	{"out_of_files", "no free file descriptors: servers cannot be started or connected to; raise the limit of open files (ulimit -n)", "The process is out of file descriptors."},
	{"out_of_files", "no free file descriptors: new connections wait; raise the limit of open files (ulimit -n)", ""},
	{"accept_failed", "cannot accept connections for now", "The listener failed; it tries again."},
	{"panic", "panic while serving a request", "A bug; please report it with `dragoman bug`."},
	{"stopping", "stopping: waiting for running calls", "The process was told to stop."},
	{"calls_cut", "running calls are cut off", "Calls took too long for the stop."},
	{"stdin_ended", "stdin ended", "The client on stdin of `serve --stdio` broke off."},

	// Lines of commands for people, written as records.
	{"notice", "", "A line for people, such as where clients connect."},
	{"output", "", "Another line of a command."},
	{"error", "", "A command failed; the message says why."},
	{"failure", "", "A command failed because of a server; `class`, `sentence` and `action` say why."},
	{"hint", "", "What to do about the error before it."},
	{"note", "", "Something that a result lacks."},
	{"warning", "", "Something that a command could not do."},
	{"handshake_step", "", "One step of a handshake, with `--verbose`."},
	{"status", "", "The whole status, on SIGUSR1."},
	{"change", "", "The change that `connect --write` makes."},
}

// ofMessage maps each message to its code.
var ofMessage = func() map[string]string {
	out := make(map[string]string, len(table))
	for _, e := range table {
		if e.Message != "" {
			out[e.Message] = e.Code
		}
	}
	return out
}()

// Of returns the code of a message. It returns "" if there is none.
func Of(message string) string { return ofMessage[message] }

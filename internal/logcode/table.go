package logcode

// Entry is one row of the table: a code and a message with this code.
type Entry struct {
	Code    string // the code, in snake_case; it never changes
	Message string // the message of the records; "" if the records already have the code
	Means   string // the meaning, for docs/monitoring.md
}

// Table returns all codes, in the order of the documentation. Several messages may have one
// code.
func Table() []Entry { return append([]Entry(nil), table...) }

var table = []Entry{
	// State of servers.
	{"server_ready", "server ready", "A server is ready, for the first time or again. `took` is how long the server was needed but not ready. `for` says why Dragoman opened it, as in `handshake_step`. If each call has a process of its own, only the first record has the level info."},
	{"server_failed", "server could not be opened", "A server could not be started, connected to or initialized. `class`, `sentence` and `action` describe the failure, and `retry_after` is the time until the next attempt."},
	{"server_failed", "server could still not be opened", ""},
	{"server_ended", "server ended", "The process of a server has exited. If it exits again for the same reason within ten minutes, the record is short, and `times` is the number of exits."},
	{"server_ended", "server ended again", ""},
	{"server_disconnected", "connection to server ended", "The session with a server over HTTP has ended."},
	{"server_disconnected", "connection to server ended again", ""},
	{"server_unresponsive", "server does not answer", "A server does not answer a ping, while calls wait for it or while it is idle (setting `ping`)."},
	{"server_responsive", "server answers again", "A server that had stopped answering answers again."},
	{"server_not_pinged", "server is not pinged", "The configuration has `ping` for a server, but the server's revision or dialect has no ping."},
	{"server_stalled", "server does not read its input", "A server does not read its stdin, so messages to it wait."},
	{"server_unstalled", "server reads its input again", "A server that did not read its stdin reads it again."},
	{"server_waiting", "server is not ready", "A server answers that it is still starting. Dragoman retries the call."},
	{"server_stopped", "server stopped by an operator", "An operator has stopped a server; calls to it fail until it is started."},
	{"server_started", "server started by an operator", "An operator has started a server."},
	{"trial_started", "trying a server before it is added", "A person tries a server with *Add a server* of the console or with the API, so Dragoman starts its `command` or connects to its `host`."},
	{"trial_ended", "the trial of a server has ended", "A server that was tried has been closed. `outcome` is `connected`, `failed` or `cancelled`. After a failure, `class`, `sentence` and `action` describe it."},
	{"server_restarted", "server restarted by an operator", "An operator has restarted a server; running calls have a few seconds to end."},
	{"server_restarted", "server probed again by an operator", ""},
	{"server_not_started", "a server is not started", "The configuration of one server has a problem, so this server is not started. The other servers work."},
	{"server_era_changed", "the server now has a protocol revision of the other era (legacy or modern)", "A server used a legacy revision before and now uses a modern one, or the reverse."},
	{"server_broadcasts", "server sends messages for one session to all sessions", "A server sends messages of one session to the other sessions too."},
	{"server_stderr", "server stderr", "A line that a server wrote to stderr. The level is debug, except for commands that show stderr, such as `record`."},
	{"server_state", "", "The state of one server after the start of `serve`."},
	{"started", "", "How many servers are ready after the start of `serve`."},
	{"instructions_truncated", "server instructions truncated", "The instructions of a server are too long, so Dragoman truncates them."},
	{"tool_left_out", "tool left out: its x-mcp-header is invalid", "Clients of 2026-07-28 over HTTP do not see a tool, because its `x-mcp-header` is not valid."},
	{"call_retried", "retrying call", "A call could not be sent to the server, so Dragoman sends it again."},
	{"listen_unsupported", "server does not support subscriptions/listen, so changes are not reported", "A modern server does not support `subscriptions/listen`, so clients get no notifications about changes."},
	{"listen_ended", "subscriptions/listen ended", "The `subscriptions/listen` request to a modern server ended, and Dragoman sends it again."},
	{"subscriptions_pending", "subscriptions are not restored yet", "Dragoman could not restore the subscriptions of clients, and tries again."},
	{"codex_ready", "codex worker is ready", "A Codex app-server has accepted the handshake."},
	{"codex_failed", "handshake with codex worker failed", "The handshake with a Codex app-server has failed."},
	{"codex_paused", "codex worker failed too often and will not be started again for a while", "A Codex app-server has failed too often, so Dragoman does not start it again for a while."},
	{"codex_question_declined", "declined a question of Codex that does not belong to a call", "Codex asked a question, but Dragoman could not tell which client to ask, so it declined the question."},
	{"codex_question_dropped", "discarded a question of Codex: an open question has the same id", "A Codex app-server asked a question with the id of a question that is still open, so Dragoman discards the new question."},

	// Invalid messages of servers.
	{"answer_unusable", "answer is not valid", "An answer of a server is not valid, so the call fails."},
	{"message_too_large", "discarded a message that is larger than the size limit", "A message of a server is larger than `limits.message`."},
	{"message_too_large", "discarded an SSE event that is larger than the size limit", ""},
	{"message_too_large", "discarded an SSE event for notifications that is larger than the size limit", ""},
	{"server_request_refused", "server request refused", "A server sent a request, but Dragoman could not tell which client to ask, or the revision of the server does not allow the request."},
	{"server_request_refused", "discarded a server request that the revision of the server does not allow", ""},
	{"elicitation_refused", "elicitation refused", "A server asked the user to open a URL that is not safe or not valid."},
	{"session_id_invalid", "ignored an invalid session id of the server", "A session id of a server contains characters that are not allowed in a header, so Dragoman ignores this id."},

	// Clients and calls.
	{"initialize", "initialize", "A client has sent `initialize` or `server/discover`. `outcome` is the result of this request; with `unsupported_version` the level is warn. Repeats of one client within a minute are counted in `more`."},
	{"loss", "loss", "A part of a message was left out, because the revision of the receiver does not have it. The level is debug."},
	{"not_passed_on", "not sent to clients", "Dragoman does not send an item or a message to clients. `why` is the reason."},
	{"renamed", "renamed an item", "Clients see an item under another name. `why` is the reason."},
	{"request_refused", "", "A request was refused before it was sent to a server. The message contains the reason."},
	{"host_refused", "", "The Host or Origin header of a request is not allowed. `fix` names the setting that allows it."},
	{"host_refused", "too many refused hosts and origins; further ones are not logged", ""},
	{"calls_not_logged", "too many calls at once; some were not logged", "The output of the log was too slow, so some calls were not logged. `missed` is their number."},
	{"events_not_logged", "too many events at once; some were not logged", "The output of the log was too slow, so some events were not logged."},

	// Configuration.
	{"config_applied", "configuration applied", "A changed configuration is in use. The attributes count the changes."},
	{"config_unchanged", "configuration is unchanged", "The file was read again, and nothing has changed."},
	{"config_refused", "the changed configuration is invalid; keeping the current one", "The changed configuration file has problems, so the old configuration stays in use."},
	{"config_empty", "ignored an empty configuration file: all servers stay; to remove all servers, write mcpServers: {}", "The configuration file is empty, or lists no servers any more. Dragoman keeps the running servers for now; the message says how to remove them."},
	{"config_empty", "the changed configuration has no servers: Dragoman waits before it removes the current servers; send SIGHUP to remove them now", ""},
	{"config_needs_restart", "some settings change only with a restart", "Some changed settings take effect only after a restart of Dragoman."},
	{"config_problem", "problem in the configuration", "The configuration has a problem that `config check` reports as a warning."},
	{"config_not_watched", "the configuration file is not watched for changes", "Dragoman cannot watch the configuration file. After a change of the file, send SIGHUP to Dragoman."},
	{"env_file_not_watched", "the file of dragoman.envFile is not watched for changes", "Dragoman cannot watch the file of `dragoman.envFile`. After a change of the file, send SIGHUP to Dragoman."},
	{"key_not_kept", "the key that other commands need could not be written", "Commands that need the key of `serve`, such as `dragoman console`, do not work; `cause` is the reason."},
	{"page_failed", "a page of the console could not be made", "A template of the console failed; this is a bug. `page` is the path of the page, and `cause` is the error."},
	{"server_added", "server added", "A reload has added a server."},
	{"server_removed", "server removed", "A reload has removed a server."},
	{"server_changed", "server changed", "A reload has changed the `settings` of a server."},
	{"removed_calls_cut", "ending the running calls to removed servers", "A server was removed from the configuration, and its running calls took too long, so Dragoman ends these calls."},
	{"instructions_unreadable", "cannot read the instructions", "The instructions in the configuration (file or command) cannot be used."},
	{"instructions_unreadable", "the command for the instructions failed", ""},
	{"instructions_unreadable", "the instructions are too long, so they are not used", ""},
	{"instructions_unreadable", "the instructions are not UTF-8, so they are not used", ""},

	// Messages about the whole process.
	{"open_to_network", "other machines can use every tool without credentials", "The listen address is not a loopback address."},
	{"out_of_files", "no free file descriptors: servers cannot be started or connected to; raise the limit of open files (ulimit -n)", "Dragoman has no free file descriptors."},
	{"out_of_files", "no free file descriptors: new connections wait; raise the limit of open files (ulimit -n)", ""},
	{"accept_failed", "cannot accept connections for now", "Dragoman could not accept a new connection. It tries again."},
	{"panic", "panic while serving a request", "A bug; please report it with `dragoman bug`."},
	{"stopping", "stopping: waiting for running calls", "The process was told to stop."},
	{"calls_cut", "ending the calls that are still running", "Dragoman is stopping, and some calls took too long, so Dragoman ends these calls."},
	{"stdin_ended", "stdin ended", "The client on stdin of `serve --stdio` disconnected because of an error."},

	// Command output that is written as log records.
	{"notice", "", "A message for the user, such as the URL for clients."},
	{"output", "", "Other output of a command."},
	{"error", "", "A command failed. The message contains the reason."},
	{"failure", "", "A command failed because of a server. `class`, `sentence` and `action` describe the failure."},
	{"hint", "", "What to do about the error in the previous record."},
	{"note", "", "The result of a command is incomplete. The message says what is missing."},
	{"warning", "", "A command continues, although a part of its work failed. The message contains the reason."},
	{"handshake_step", "handshake step", "One step of a handshake with a server. A record without `got` is written when a message is sent. The record with `got` and `reason` is written when the answer is known. `for` says why Dragoman opens the server. `bytes` has the message with `--trace-bytes`. The level is debug."},
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

// Of returns the code of a message. It returns "" if the message has no code.
func Of(message string) string { return ofMessage[message] }

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
	{"server_ready", "server ready", "A server is ready, for the first time or again. `took` is the time for which the server was needed but not ready. `for` is the reason why Dragoman opened the server, as in `handshake_step`. If each call starts a process of its own, only the first such record of the server has the level info."},
	{"server_failed", "server could not be opened", "A server could not be started, connected to or initialized. `class`, `sentence` and `action` describe the failure, and `retry_after` is the time until the next attempt."},
	{"server_failed", "server could still not be opened", ""},
	{"server_ended", "server ended", "The process of a server has exited. If the process exits again for the same reason within ten minutes, the record has fewer attributes, and `times` is the number of exits."},
	{"server_ended", "server ended again", ""},
	{"server_disconnected", "connection to server ended", "The session with a server over HTTP has ended."},
	{"server_disconnected", "connection to server ended again", ""},
	{"server_unresponsive", "server does not answer", "A server does not answer a ping. Dragoman pings a server while calls wait for its answer, and with the setting `ping` also while the server is idle."},
	{"server_responsive", "server answers again", "A server answers again, after it had not answered a ping."},
	{"server_not_pinged", "server is not pinged", "The configuration has the setting `ping` for a server, but the revision or dialect of the server has no ping."},
	{"server_stalled", "server does not read its input", "A server does not read its stdin, so messages to the server wait."},
	{"server_unstalled", "server reads its input again", "A server reads its stdin again, after it had stopped reading."},
	{"server_runs_once", "server can only run once", "The first process of a server runs, and a second process for another client exited at its start, for example because a port or a profile is in use. The clients share the first process until it ends. The attributes describe why the second process exited."},
	{"server_waiting", "server is not ready", "A server has answered a call with the message that it is still starting. Dragoman retries the call."},
	{"server_stopped", "server stopped by an operator", "An operator has stopped a server. Calls to this server fail until an operator starts it."},
	{"server_started", "server started by an operator", "An operator has started a server."},
	{"trial_started", "trying a server before it is added", "Somebody tries a server before adding it, with *Add a server* in the console or with the API. Dragoman starts the `command` of the server or connects to its `host`."},
	{"trial_ended", "the trial of a server has ended", "The trial of a server has ended. `outcome` is `connected`, `failed` or `cancelled`. With `failed`, the attributes `class`, `sentence` and `action` describe the failure."},
	{"server_restarted", "server restarted by an operator", "An operator has restarted a server. Before the restart, running calls have a few seconds to end."},
	{"server_restarted", "server probed again by an operator", ""},
	{"server_not_started", "a server is not started", "The configuration of one server has a problem, so Dragoman does not start this server. Dragoman starts the other servers."},
	{"server_era_changed", "the server now has a protocol revision of the other era (legacy or modern)", "A server has changed from a legacy revision to a modern revision, or from a modern revision to a legacy revision."},
	{"probe_skipped", "server refuses initialize after server/discover, so Dragoman sends initialize first from now on", "A server, such as a bridge, opens its session with the first message that it gets. Dragoman has started the server again without the probe, and does not probe it again until its configuration changes. `cause` is the refusal."},
	{"server_broadcasts", "server sends messages for one session to all sessions", "A server sends the messages for one session to all sessions."},
	{"server_stderr", "server stderr", "The record contains a line that a server wrote to stderr. The level is debug, except for commands that show stderr, such as `record`."},
	{"server_state", "", "The record gives the state of one server after the start of `serve`."},
	{"started", "", "The record says how many servers are ready after the start of `serve`."},
	{"instructions_truncated", "server instructions truncated", "The instructions of a server are too long, so Dragoman truncates them."},
	{"tool_left_out", "an item of a list is left out", "Clients do not see the tool, prompt, resource or skill `name` of a server. `cause` is the reason: the item is nested too deep or has too many values, or one of its objects has two members with the same name."},
	{"call_retried", "retrying call", "Dragoman could not send a call to the server, so Dragoman sends the call again."},
	{"listen_unsupported", "server does not support subscriptions/listen, so changes are not reported", "A modern server does not support `subscriptions/listen`, so clients get no notifications about changes."},
	{"listen_ended", "subscriptions/listen ended", "The `subscriptions/listen` request to a modern server has ended, so Dragoman sends a new request."},
	{"subscriptions_pending", "subscriptions are not restored yet", "Dragoman could not restore the resource subscriptions of clients in a new session with the server. Dragoman tries again."},
	{"codex_ready", "codex worker is ready", "A Codex app-server has accepted the handshake."},
	{"codex_failed", "handshake with codex worker failed", "The handshake with a Codex app-server has failed."},
	{"codex_paused", "codex worker failed too often and will not be started again for a while", "A Codex app-server has failed too often, so Dragoman waits before it starts the app-server again."},
	{"codex_question_declined", "declined a question of Codex that does not belong to a call", "Codex asked a question, but Dragoman could not determine which client must answer, so Dragoman declined the question."},
	{"codex_question_dropped", "discarded a question of Codex: an open question has the same id", "A Codex app-server asked a question with the id of a question that is still open, so Dragoman discards the new question."},

	// Invalid messages of servers.
	{"answer_unusable", "answer is not valid", "An answer of a server is not valid, so the call fails."},
	{"message_too_large", "discarded a message that is larger than the size limit", "A message of a server is larger than `limits.message`, so Dragoman discards the message."},
	{"message_too_large", "discarded an SSE event that is larger than the size limit", ""},
	{"message_too_large", "discarded an SSE event for notifications that is larger than the size limit", ""},
	{"server_request_refused", "server request refused", "Dragoman refused a request of a server. Either Dragoman could not determine which client must answer, or the revision of the server does not allow the request."},
	{"server_request_refused", "discarded a server request that the revision of the server does not allow", ""},
	{"elicitation_refused", "elicitation refused", "A server wanted the user to open a URL, but the URL is not safe or not valid, so Dragoman refused the request."},
	{"session_id_invalid", "ignored an invalid session id of the server", "A session id of a server contains characters that are not allowed in a header, so Dragoman ignores this id."},

	// Clients and calls.
	{"client_delayed", "a client that opens many sessions has to wait", "A client opens sessions faster than `limits.initializePerSecond` allows, so Dragoman lets it wait for the time in `waited`. The count of such sessions is in `dragoman_door_events_total` with the event `delayed`."},
	{"initialize", "initialize", "A client has sent `initialize` or `server/discover`. `outcome` is the result of this request. If `outcome` is `unsupported_version`, the level is warn."},
	{"tools_missing", "a client that asks only once for its tools did not get the tools of some servers", "A client that sends `initialize` without `params` takes its tools from the answer and never asks again. `starting` contains the names of the servers that were not ready within `limits.manifestClient`, and `failed` those of the servers that could not be opened. Connect the client again when these servers are ready."},
	{"message_malformed", "a client sent a message that is not valid", "Dragoman refused a message of a client, because it is not JSON, not JSON-RPC 2.0, or lacks what the client's revision requires. `why` is the fault, and `method` is the method if Dragoman could read it. A malformed `initialize` or `server/discover` gets a record `initialize` instead."},
	{"loss", "loss", "Dragoman left out a part of a message that the revision of the receiver cannot express. The level is debug."},
	{"not_passed_on", "not sent to clients", "Dragoman does not send an item or a message to clients. `why` is the reason."},
	{"tools_changed", "tools of a server have changed", "The tools of a server differ from those that it listed before to clients of the same kind. `what` names the first of them, and for each changed tool the members that differ and the hashes before and after. `changed`, `added` and `removed` are their numbers. The level is warn if a tool has changed, else info. See [Changed tools](#changed-tools)."},
	{"renamed", "renamed an item", "Clients see a tool, resource or prompt of a server under another name. `why` is the reason."},
	{"request_refused", "", "Dragoman refused a request and did not send it to a server. The message contains the reason."},
	{"host_refused", "", "Dragoman refused a request, because its Host or Origin header is not allowed. `fix` names the setting that allows such requests."},
	{"host_refused", "too many refused hosts and origins; further ones are not logged", ""},
	{"calls_not_logged", "too many calls at once; some were not logged", "The output of the log was too slow, so Dragoman did not log some calls. `missed` is the number of these calls."},
	{"events_not_logged", "too many events at once; some were not logged", "The output of the log was too slow, so Dragoman did not log some events."},

	// Configuration.
	{"config_applied", "configuration applied", "Dragoman now uses the changed configuration. The attributes contain the numbers of added, changed and removed servers."},
	{"config_unchanged", "configuration is unchanged", "Dragoman has read the configuration file again, and nothing has changed."},
	{"config_refused", "the changed configuration is invalid; keeping the current one", "The changed configuration file has problems, so Dragoman keeps the old configuration."},
	{"config_empty", "ignored an empty configuration file: all servers stay; to remove all servers, write mcpServers: {}", "The changed configuration file is empty or contains no servers. Dragoman keeps the running servers for now. The message says how to remove these servers."},
	{"config_empty", "the changed configuration has no servers: Dragoman waits before it removes the current servers; send SIGHUP to remove them now", ""},
	{"config_needs_restart", "some settings change only with a restart", "Some changed settings take effect only after a restart of Dragoman."},
	{"config_problem", "problem in the configuration", "The configuration has a problem that `config check` reports as a warning."},
	{"config_not_watched", "the configuration file is not watched for changes", "Dragoman cannot watch the configuration file. After a change of the file, send SIGHUP to Dragoman."},
	{"env_file_not_watched", "the file of dragoman.envFile is not watched for changes", "Dragoman cannot watch the file of `dragoman.envFile`. After a change of the file, send SIGHUP to Dragoman."},
	{"task_key_not_kept", "the key for the ids of tasks could not be kept, so clients lose their tasks when Dragoman restarts", "The file with the key that signs the ids of tasks could not be used, so the key lasts only as long as the process. `cause` is the error."},
	{"lists_not_kept", "the lists of the servers could not be kept, so the next start shows them only when the servers are ready", "The lists of the servers could not be written to the cache folder, or other users can write to this folder, so Dragoman does not use it. `cause` is the error."},
	{"list_with_secret", "a list is not kept, because it contains a secret", "A list of a server contains a credential from the server's settings, so it is not written to the cache folder. At the next start, clients see it only when the server is ready. The record is written once for each list."},
	{"kept_list_refused", "a kept list is not used", "A list of a server in the cache folder cannot be used, for example because the file is not complete. Clients see the list when the server is ready, and Dragoman then replaces the file. `cause` is the error."},
	{"key_not_kept", "the key that other commands need could not be written", "`serve` could not write its key, or the file that says where it listens. Commands that need the key, such as `dragoman console`, do not work, and other commands find this `serve` only at the configured address or with `--listen`. `cause` is the error."},
	{"page_failed", "a page of the console could not be made", "A page of the console could not be created because of a bug in Dragoman. `page` is the path of the page, and `cause` is the error."},
	{"server_added", "server added", "A reload has added a server."},
	{"server_removed", "server removed", "A reload has removed a server."},
	{"server_changed", "server changed", "A reload has changed the `settings` of a server."},
	{"removed_calls_cut", "ending the running calls to removed servers", "A server was removed from the configuration, but its running calls did not end in time. Dragoman ends these calls."},
	{"instructions_unreadable", "cannot read the instructions", "Dragoman cannot use the instructions in the file, or from the command, that the configuration names."},
	{"instructions_unreadable", "the command for the instructions failed", ""},
	{"instructions_unreadable", "the instructions are too long, so they are not used", ""},
	{"instructions_unreadable", "the instructions are not UTF-8, so they are not used", ""},

	// Messages about the whole process.
	{"open_to_network", "other machines can use every tool without credentials", "Dragoman listens on an address that other machines can reach, and clients need no credentials."},
	{"out_of_files", "no free file descriptors: servers cannot be started or connected to; raise the limit of open files (ulimit -n)", "Dragoman has no free file descriptors."},
	{"out_of_files", "no free file descriptors: new connections wait; raise the limit of open files (ulimit -n)", ""},
	{"accept_failed", "cannot accept connections for now", "Dragoman could not accept a new connection, and tries again."},
	{"panic", "panic while serving a request", "A bug in Dragoman caused a panic while Dragoman served a request. Please report the bug with `dragoman bug`."},
	{"stopping", "stopping: waiting for running calls", "Dragoman is stopping, and waits for running calls to end."},
	{"calls_cut", "ending the calls that are still running", "Dragoman is stopping, but some calls did not end in time. Dragoman ends these calls with an error."},
	{"stdin_ended", "stdin ended", "`serve --stdio` stopped because of an error on the connection to its client."},

	// Command output that is written as log records.
	{"notice", "", "The record is a message for the user, such as the URL for clients."},
	{"output", "", "The record contains output of a command that has no other code."},
	{"error", "", "A command failed. The message contains the reason."},
	{"failure", "", "A command failed because a server does not work. `class`, `sentence` and `action` describe the failure."},
	{"hint", "", "The record says what to do about the error in the previous record."},
	{"note", "", "The result of a command is incomplete. The message says what is missing."},
	{"warning", "", "A command continues, although a part of its work failed. The message contains the reason."},
	{"handshake_step", "handshake step", "The record describes one step of a handshake with a server. [Handshakes with servers](#handshakes-with-servers) describes the attributes. The level is debug."},
	{"status", "", "The record contains the status of Dragoman and its servers. Dragoman logs this record when it receives SIGUSR1."},
	{"change", "", "`connect --write` changes the configuration file of a client. The record contains the change."},
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

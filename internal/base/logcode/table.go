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
	{"server_ready", "server ready", "A server is ready, for the first time or again. `took` is how long it was needed but not ready, `for` why it was opened, as in `handshake_step`. If each call starts a process of its own, only a server's first such record has the level info."},
	{"server_failed", "server could not be opened", "A server couldn't be started, reached or initialized. `class`, `sentence` and `action` describe the failure, and `retry_after` is the time until the next attempt."},
	{"server_failed", "server could still not be opened", ""},
	{"server_slow", "server is still starting", "A package runner such as npx has been starting the server of `run` for 10 s, so it may be downloading the package. The client waits meanwhile."},
	{"server_ended", "server ended", "A server's process has exited. If that happens again for the same reason within ten minutes, the record is shorter, and `times` counts the exits."},
	{"server_ended", "server ended again", ""},
	{"server_disconnected", "connection to server ended", "The session with a server over HTTP has ended."},
	{"server_disconnected", "connection to server ended again", ""},
	{"server_unresponsive", "server does not answer", "A server doesn't answer a ping. It's pinged while calls wait for its answer, and with the setting `ping` also while it's idle."},
	{"server_responsive", "server answers again", "A server that didn't answer a ping answers again."},
	{"server_not_pinged", "server is not pinged", "A server has the setting `ping`, but its revision or dialect has no ping."},
	{"server_stalled", "server does not read its input", "A server doesn't read its stdin, so messages to it wait."},
	{"server_unstalled", "server reads its input again", "A server that had stopped reading its stdin reads it again."},
	{"server_runs_once", "server can only run once", "While a server's first process runs, a second one for another client exited at its start, perhaps because a port or a profile is in use. The clients share the first until it ends. The attributes say why the second exited."},
	{"server_asks_roots", "server asks for roots", "A server has asked for a client's roots for the first time. From then on, each client that has roots gets a session of its own with it, unless its `isolation` is `shared`."},
	{"server_waiting", "server is not ready", "A server answered a call by saying that it's still starting. The call is retried."},
	{"server_stopped", "server stopped by an operator", "An operator has stopped a server. Calls to it fail until one starts it again."},
	{"server_started", "server started by an operator", "An operator has started a server."},
	{"trial_started", "trying a server before adding it", "Somebody tries a server before adding it, with *Add a server* in the console or through the API. Its `command` is started, or its `host` connected to."},
	{"trial_ended", "the trial of a server has ended", "The trial has ended. `outcome` is `connected`, `failed` or `cancelled`; if it failed, `class`, `sentence` and `action` say why."},
	{"server_restarted", "server restarted by an operator", "An operator has restarted a server. Running calls get a few seconds to end first."},
	{"server_restarted", "server probed again by an operator", ""},
	{"server_not_started", "a server is not started", "A server's configuration has a problem, so it isn't started. The others are."},
	{"signed_in", "signed in to a server", "Somebody has signed in to a server. `subject` is who: `local` is the user of this machine, and `shared` everybody."},
	{"sign_in_failed", "a sign-in to a server has failed", "`cause` says why. The next call of the person begins a new one."},
	{"sign_in_link_foreign", "a sign-in link was opened by somebody else", "A person with a session has opened the link with which another one signs in to a server, and was refused. `of` is whose link it is, and `by` who has opened it. Somebody may have tried to use what others are signed in to."},
	{"sign_in_needed", "a server needs a new sign-in", "An issuer no longer renews a credential, so the person must sign in again. `cause` is what the issuer said."},
	{"browser_not_started", "no browser could be started", "The person must open the link by themselves. `cause` is the error."},
	{"sign_ins_unread", "the sign-ins could not be read", "The store couldn't be read, so a sign-in or sign-out of another process counts only after a restart. `cause` is the error."},
	{"server_era_changed", "server has changed its era (legacy or modern)", "A server has changed from a legacy revision to a modern one, or back."},
	{"probe_skipped", "server refuses initialize after server/discover; from now on it gets initialize first", "A server, such as a bridge, opens its session with the first message that it gets, whatever that is. So it was started again without the probe, and isn't probed until its configuration changes. `cause` is the refusal."},
	{"server_broadcasts", "server sends every session's messages to all sessions", "A server sends what is meant for one session to all of them."},
	{"server_stderr", "server stderr", "A line that a server wrote to stderr. The level is debug, except in commands that show stderr, such as `record`."},
	{"server_state", "", "How one server is after `serve` has started."},
	{"started", "", "How many servers are ready after `serve` has started."},
	{"instructions_truncated", "server instructions truncated", "A server's instructions are too long, so they're cut."},
	{"tool_left_out", "an item of a list is left out", "Clients don't see the tool, prompt, resource or skill `name` of a server. `cause` says why: it's nested too deep, has too many values, or one of its objects has two members with the same name."},
	{"question_waits", "a question waits for a person", "A call waits for a person who answers a question of its server, or confirms the call, because its client can't show the question. `kind` is confirmation, form or link, and `name` the tool, prompt or resource of the call. `dragoman questions` shows it."},
	{"question_answered", "a question was answered", "Somebody (`by`) has answered a question that waited for a person, and the call goes on. `answer` is accept, decline or cancel."},
	{"question_unanswered", "a question has no answer", "A question waits for a person no more, because its time is up, its call has ended, or Dragoman stops (`why`)."},
	{"definition_changed", "definitions have changed since they were approved", "Tools, prompts or templates of a server (`what`) aren't as they were when they were first seen or approved. `then` says whether they are held until somebody decides with `dragoman tools approve` or `reject`."},
	{"definition_decided", "a changed definition was decided about", "Somebody has approved or rejected a changed definition. `state` says which, `by` who."},
	{"pins_unread", "the pins could not be read", "What definitions were before this start can't be read. With `pins: hold`, all tools, prompts and templates are held."},
	{"pins_not_kept", "the pins could not be kept, so a change is not noticed after the next start", "What definitions are now couldn't be written. `cause` is the error."},
	{"call_retried", "retrying call", "A call couldn't be sent to the server, and is sent again."},
	{"listen_unsupported", "server does not support subscriptions/listen, so changes are not reported", "A modern server doesn't support `subscriptions/listen`, so clients don't hear of changes."},
	{"listen_ended", "subscriptions/listen ended", "The `subscriptions/listen` to a modern server has ended; a new one follows."},
	{"subscriptions_pending", "subscriptions are not restored yet", "A new session with the server doesn't have its clients' resource subscriptions yet. We try again."},
	{"codex_ready", "codex worker is ready", "A Codex app-server has accepted the handshake."},
	{"codex_failed", "handshake with codex worker failed", "The handshake with a Codex app-server has failed."},
	{"codex_paused", "codex worker failed too often; waiting before the next start", "A Codex app-server has failed too often. We wait before we start it again."},
	{"codex_question_declined", "declined a question of Codex that belongs to no call", "Codex asked a question, but nothing says which client it is for, so we declined it."},
	{"codex_question_dropped", "discarded a question of Codex: an open question has the same id", "A Codex app-server asked a question with the id of one that is still open. We dropped the new one."},

	// Our own authorization server.
	{"grant_replayed", "a code or a refresh token was used again, so what came of it was revoked", "A client has sent a code or a refresh token that had been used already, so somebody else may have it. What came of it was revoked, and the `client` has to sign in again."},
	{"signin_unstored", "the authorization server cannot use the database", "Nobody can sign a client in, because the database can't be used, for the `cause`."},

	// Issuers of access tokens.
	{"issuer_keys_missing", "the keys of an issuer cannot be fetched", "The keys with which the tokens of the `issuer` are checked can't be fetched, for the `cause`. The last ones serve for a day."},
	{"issuer_keys_found", "the keys of an issuer can be fetched again", "They can be fetched again."},
	{"issuer_silent", "an issuer cannot be asked about tokens", "The `issuer` can't be asked about an opaque token, for the `cause`. Clients with such tokens get 503 meanwhile."},
	{"login_failed", "nobody can sign in at the identity provider", "Somebody wanted to sign in to the console, and the `provider`, or what it answered, couldn't be used, for the `cause`."},
	{"issuer_answers", "an issuer can be asked about tokens again", "It answers again."},

	// Invalid messages of servers.
	{"answer_unusable", "answer is not valid", "A server's answer isn't valid, so the call fails."},
	{"message_too_large", "discarded a message over the size limit", "A server's message is larger than `limits.message`, and was dropped."},
	{"message_too_large", "discarded an SSE event over the size limit", ""},
	{"message_too_large", "discarded an SSE event over the size limit on the notification stream", ""},
	{"server_request_refused", "server request refused", "A server's request was refused, because nothing says which client it is for, or because the server's revision doesn't allow it."},
	{"server_request_refused", "discarded a server request that its revision does not allow", ""},
	{"elicitation_refused", "elicitation refused", "A server wanted the user to open a URL that isn't safe or valid. We refused."},
	{"session_id_invalid", "ignored the server's session id, which is invalid", "A server's session id has characters that a header can't carry, so it's ignored."},

	// Clients and calls.
	{"client_delayed", "a client that opens too many sessions has to wait", "A client opens sessions faster than `limits.initializePerSecond` allows, and had to wait for `waited`. `dragoman_door_events_total` counts these sessions as `delayed`."},
	{"initialize", "initialize", "A client has sent `initialize` or `server/discover`, and `outcome` is how it went. With `unsupported_version`, the level is warn."},
	{"tools_missing", "a client that asks for its tools only once missed those of some servers", "A client that sends `initialize` without `params` takes its tools from the answer and never asks again. `starting` names the servers that weren't ready within `limits.manifestClient`, `failed` those that couldn't be opened. Reconnect the client when they're ready."},
	{"message_malformed", "a client sent a message that is not valid", "A client's message was refused: it isn't JSON, isn't JSON-RPC 2.0, or lacks what its revision requires. `why` is the fault, `method` the method if it could be read. A malformed `initialize` or `server/discover` gets a record `initialize` instead."},
	{"loss", "loss", "We left out a part of a message that the receiver's revision can't express. The level is debug."},
	{"not_passed_on", "not sent to clients", "An item or a message doesn't go on to clients. `why` is the reason."},
	{"tools_changed", "tools of a server have changed", "A server's tools differ from those that it listed before to clients of the same kind. `what` names the first few, and for each changed tool the members that differ and the hashes before and after. `changed`, `added` and `removed` count them. The level is warn if a tool has changed, else info. With [pins](pins.md), changed ones are left to `definition_changed`. See [Changed tools](#changed-tools)."},
	{"renamed", "renamed an item", "Clients see a server's tool, resource or prompt under another name. `why` is the reason."},
	{"request_refused", "", "A request was refused before it got to a server. The message says why."},
	{"host_refused", "", "A request was refused because its Host or Origin header isn't allowed. `fix` names the setting that allows it."},
	{"host_refused", "too many refused hosts and origins; further ones are not logged", ""},
	{"calls_not_logged", "too many calls at once; some were not logged", "The log's output was too slow, so `missed` calls weren't logged."},
	{"traces_on", "calls are traced", "Spans of calls are sent to the collector at `endpoint`; see [Traces](#traces)."},
	{"traces_settings", "settings for traces could not be used", "A variable or a setting for traces can't be used, and `cause` says which. If it is the endpoint, calls aren't traced."},
	{"traces_not_sent", "traces could not be sent", "The collector can't be reached or refuses spans. Those that don't fit into the queue meanwhile are dropped. You get this record once until it works again."},
	{"traces_sent", "traces are sent again", "The collector takes spans again."},
	{"events_not_logged", "too many events at once; some were not logged", "The log's output was too slow, so some events weren't logged."},

	// Configuration.
	{"config_applied", "configuration applied", "The changed configuration is in use. The attributes count the servers that were added, changed, removed and disabled."},
	{"config_unchanged", "configuration is unchanged", "We have read the configuration file again, and nothing has changed."},
	{"config_refused", "the changed configuration is invalid; keeping the current one", "The changed configuration file has problems, so the old configuration stays."},
	{"config_refused", "the changed configuration is refused, because it can't be recorded", ""},
	{"config_empty", "ignored an empty configuration file: all servers stay; to remove them, write mcpServers: {}", "The changed configuration file is empty or has no servers. The running ones stay for now; the message says how to remove them."},
	{"config_unrecorded", "the changed configuration is used, but can't be recorded in the audit", "The database can't take the [act](audit.md#acts) of a changed configuration file, and `audit.onFailure` says that it's used nevertheless."},
	{"config_empty", "the changed configuration has no servers: the current ones stay for a while; run `dragoman reload` to remove them now", ""},
	{"config_needs_restart", "some settings change only with a restart", "Some of the changed settings need a restart."},
	{"config_problem", "problem in the configuration", "The configuration has something that `config check` warns about."},
	{"config_not_watched", "the configuration file is not watched for changes", "We can't watch the configuration file. Run `dragoman reload` after you change it."},
	{"env_file_not_watched", "the file in dragoman.envFile is not watched for changes", "We can't watch the file of `dragoman.envFile`. Run `dragoman reload` after you change it."},
	{"task_key_not_kept", "the key for task ids could not be kept, so clients lose their tasks at a restart", "The file with the key that signs task ids couldn't be used, so the key lasts only as long as the process. `cause` is the error."},
	{"store_in_memory", "nothing can be stored, so secrets and other changes last until dragoman ends", "The [store](store.md) has no database, because its file can't be created. `cause` says why."},
	{"store_lost", "the store cannot be read, so changes by other processes are missed", "The store's database can't be read at the moment. What `serve` knows stays as it was. `cause` says why."},
	{"store_found", "the store can be read again", "The store's database can be read again, with all changes."},
	{"audit_stopped", "requests cannot be recorded in the audit", "The file of the [audit](audit.md) can't be written. `cause` says why, and `refused` whether requests are refused until it can be, or go on."},
	{"audit_goes_on", "requests are recorded in the audit again", "The file of the audit can be written again. A line in it says how many requests are missing."},
	{"audit_not_dropped", "old files of the audit cannot be deleted", "There are more files than `dragoman.audit.files` allows. `cause` says why."},
	{"audit_not_noted", "the store does not know of a file of the audit", "A file of the audit began, ended or was deleted, and the store couldn't keep an act of that. So if lines are deleted at its end, `dragoman audit verify` may not notice. `cause` says why."},
	{"lists_not_kept", "the servers' lists could not be kept, so after the next start clients see them only when the servers are ready", "The servers' lists couldn't be written to the cache folder, or it isn't used because other users can write to it. `cause` is the error."},
	{"list_with_secret", "a list is not kept, because it contains a secret", "A server's list contains a credential from its settings, so it isn't written to the cache folder. After the next start, clients see it only when the server is ready. You get this record once for each list."},
	{"kept_list_refused", "a kept list is not used", "A server's list in the cache folder can't be used, perhaps because the file is incomplete. Clients see the list when the server is ready, and the file is then replaced. `cause` is the error."},
	{"certificate_unused", "the certificate is not used, because only this machine can reach the address", "`dragoman.tls` is only for an `address` that other machines can reach."},
	{"certificate_exposed", "others can read the key of the certificate", "Every user of the machine can read the file of `dragoman.tls.key`. `cause` names it, `action` says what to do."},
	{"certificate_read", "the certificate was read again", "The files of `dragoman.tls` have changed, and new connections get the new certificate."},
	{"certificate_refused", "the new certificate cannot be used; keeping the one before", "The files of `dragoman.tls` have changed, but can't be used. `cause` says why. You get this record once."},
	{"seal_keys_read", "the sealing keys were read again", "The file of `dragoman.sealKeys` has changed. `seconds` is how long a new key only opens what others seal; see cluster.md."},
	{"seal_keys_refused", "the new sealing keys cannot be used; keeping the ones before", "The file of `dragoman.sealKeys` has changed, but can't be used. `cause` says why, `action` what to do. You get this record once."},
	{"replica_called_dead", "another replica has called this one dead, so it goes on under another incarnation", "This process was silent for too long, for example because the machine was suspended. What it has is still here, but requests for it that come to other replicas are refused."},
	{"replica_dead", "a replica is dead: it has written nothing and doesn't answer", "What the `replica` at `address` had is lost. `seconds` is how long it had been silent. See cluster.md."},
	{"replica_unreachable", "another replica cannot be reached at its address", "At our start, the `replica` at `address` didn't answer."},
	{"replica_unreachable", "another replica cannot reach this one; set dragoman.cluster.advertise to the address where it can", ""},
	{"replica_cut_off", "this replica can't reach most of the others, while others can; it isn't ready until it does", "For ten seconds, this replica has `reached` fewer than half of the others that it `tried`, at the addresses where they listen for replicas. `/readyz` says 503, so that a balancer sends clients to the others. See cluster.md."},
	{"replica_reaches", "this replica reaches the others again", "It's ready again."},
	{"replica_clock", "the clocks of this machine and of the database differ; let a time server set them", "The clock of this machine is `seconds` ahead of the database's, or behind if that's negative. What is good for a while, such as a question to a client, may be refused at other replicas."},
	{"replicas_lost", "the replicas' database cannot be reached; this one goes on with the members that it knows", "The database of the replicas can't be reached, for the `cause`. You get this record once until it can."},
	{"replicas_found", "the replicas' database can be reached again", "It can be reached again."},
	{"seal_keys_not_watched", "the sealing keys are not watched for changes", "We can't watch the file of `dragoman.sealKeys`. Start `serve` again after you replace it. `cause` is the error."},
	{"certificate_not_watched", "the certificate is not watched for changes", "We can't watch a file of `dragoman.tls`. Start `serve` again after you replace it. `cause` is the error."},
	{"key_not_kept", "the key that other commands need could not be written", "`serve` couldn't write its key, or the file that says where it listens. Commands that need the key, such as `dragoman console`, don't work, and the others find this `serve` only at the configured address or with `--listen`. `cause` is the error."},
	{"page_failed", "a page of the console could not be made", "A bug kept us from making a page of the console. `page` is its path, `cause` the error."},
	{"server_added", "server added", "A reload has added a server."},
	{"server_removed", "server removed", "A reload has removed a server."},
	{"server_disabled", "server disabled", "A reload has ended a server that is now disabled."},
	{"server_changed", "server changed", "A reload has changed a server's `settings`."},
	{"project_added", "project added", "A project was added, to the configuration file or to the [store](projects.md#projects-in-the-store)."},
	{"project_changed", "project changed", "A project of the store was changed."},
	{"project_removed", "project removed", "A project was removed. Its sessions and streams end."},
	{"project_unusable", "a project of the file cannot be used", "A project has a problem. If it was served before, it stays as it was. The others are as the file or the store says."},
	{"project_unusable", "a project of the store cannot be used", ""},
	{"removed_calls_cut", "ending the running calls to removed servers", "A server was removed from the configuration, and calls to it didn't end in time. They end now."},
	{"instructions_unreadable", "cannot read the instructions", "The instructions in the file, or from the command, that the configuration names can't be used."},
	{"instructions_unreadable", "the command for the instructions failed", ""},
	{"instructions_unreadable", "the instructions are too long, so they are not used", ""},
	{"instructions_unreadable", "the instructions are not UTF-8, so they are not used", ""},

	// Messages about the whole process.
	{"open_to_network", "other machines can use every tool without credentials", "Other machines can reach the address that we listen on, and clients need no credentials."},
	{"keys_unreadable", "the API keys could not be read, so nobody can come in with one", "The [API keys](access.md) of the store can't be used, so clients with one are refused. `cause` says why."},
	{"people_forged", "the database has people, roles or grants that dragoman hasn't made", "Somebody else has written or changed that many rows about [people](access.md#people), their roles, invitations or sessions. They count for nothing. If it wasn't you, change the database's password, and look at `dragoman people`."},
	{"keys_forged", "the database has API keys that dragoman hasn't made", "Somebody else has written or changed that many rows of [API keys](access.md). They open nothing. If it wasn't you, change the database's password; revoke the keys and make new ones."},
	{"out_of_files", "no free file descriptors: servers cannot be started or connected to; raise the limit of open files (ulimit -n)", "There are no free file descriptors."},
	{"out_of_files", "no free file descriptors: new connections wait; raise the limit of open files (ulimit -n)", ""},
	{"accept_failed", "cannot accept connections for now", "A new connection couldn't be accepted. We try again."},
	{"panic", "panic while serving a request", "A bug caused a panic while a request was served. Please report it with `dragoman bug`."},
	{"stopping", "stopping: waiting for running calls", "We're stopping, and wait for running calls to end."},
	{"calls_cut", "ending the calls that are still running", "We're stopping, and some calls didn't end in time. They end with an error."},
	{"stdin_ended", "stdin ended", "`serve --stdio` stopped because of an error on its client's connection."},

	// Command output that is written as log records.
	{"notice", "", "A message for you, such as the URL for clients."},
	{"output", "", "A command's output that has no other code."},
	{"error", "", "A command failed. The message says why."},
	{"failure", "", "A command failed because a server doesn't work. `class`, `sentence` and `action` describe the failure."},
	{"hint", "", "What to do about the error in the record before."},
	{"note", "", "A command's result is incomplete. The message says what is missing."},
	{"warning", "", "A command goes on, although a part of its work failed. The message says why."},
	{"handshake_step", "handshake step", "One step of a handshake with a server; see [Handshakes with servers](#handshakes-with-servers). The level is debug."},
	{"status", "", "The status of everything, logged on SIGUSR1."},
	{"change", "", "What `connect --write` changes in a client's configuration file."},
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

package logscreen

import (
	"strings"
	"time"
)

// saying says how a record is put into words, by its message.
type saying struct {
	// text is the sentence. The attribute replaces its {key}. If the record lacks one of them, it's
	// shown like one that the table doesn't know.
	text string
	// say makes the sentence from the attributes that it takes. It's used instead of text.
	say func(f *fields) string
	// counted is what a count of such records calls them, if their message is only a word.
	counted string
	// again says that the record is about a failure that was shown before: the server could again not be
	// opened, or it ended again.
	again   string
	ready   bool // the server is ready
	fresh   bool // something else has happened to the server
	start   bool // the table that serve prints after its start says this too
	place   bool // of an Advice, only the place is new
	problem bool // an Advice is the sentence
	told    bool // the command prints the same itself
}

const (
	ended  = "ended"
	closed = "not opened"
)

// sayings are by the message of a record. Those that aren't here show their message.
var sayings = map[string]saying{
	"server ready":                                  {say: ready, ready: true, start: true},
	"server could not be opened":                    {fresh: true, start: true},
	"server could still not be opened":              {text: "server {server} still can't be opened, after {attempts} attempts", again: closed},
	"server ended":                                  {fresh: true},
	"server ended again":                            {text: "server {server} has ended again for the same reason, {times} times by now", again: ended},
	"connection to server ended":                    {fresh: true},
	"connection to server ended again":              {text: "the connection to server {server} has ended again for the same reason, {times} times by now", again: ended},
	"server does not answer":                        {text: "server {server} doesn't answer"},
	"server answers again":                          {text: "server {server} answers again"},
	"server is not pinged":                          {text: "server {server} isn't pinged: {reason}"},
	"server does not read its input":                {text: "server {server} doesn't read its input"},
	"server reads its input again":                  {text: "server {server} reads its input again"},
	"server can only run once":                      {text: "server {server} can only run once, so its clients share it"},
	"server asks for roots":                         {text: "server {server} asks for roots, so each client that has roots gets a session of its own"},
	"server is not ready":                           {text: "server {server} is still starting: {step}"},
	"server stopped by an operator":                 {text: "server {server} was stopped by an operator {by}", fresh: true},
	"server started by an operator":                 {text: "server {server} was started by an operator {by}", fresh: true},
	"server restarted by an operator":               {text: "server {server} was restarted by an operator {by}", fresh: true},
	"server probed again by an operator":            {text: "server {server} is probed again, as an operator asked {by}"},
	"a server is not started":                       {start: true, place: true},
	"a project of the file cannot be used":          {text: "the project {project} of the configuration file can't be used"},
	"a project of the store cannot be used":         {text: "the project {project} of the store can't be used: {cause}"},
	"server has changed its era (legacy or modern)": {text: "server {server} has changed its era (legacy or modern)"},
	"server refuses initialize after server/discover; from now on it gets initialize first": {text: "server {server} refuses initialize after server/discover, so from now on it gets initialize first: {cause}"},
	"server sends every session's messages to all sessions":                                 {text: "server {server} sends the messages for one session to all of its sessions"},
	"server does not support subscriptions/listen, so changes are not reported":             {text: "server {server} doesn't report changes: {cause}"},
	"server stderr":                                    {text: "{server} | {line}"},
	"server instructions truncated":                    {text: "the instructions of server {server} are cut: {cause}"},
	"an item of a list is left out":                    {text: "clients don't see {name} of server {server}: {cause}"},
	"a list is not kept, because it contains a secret": {text: "the {list} of server {server} isn't kept for the next start, because it contains a secret"},
	"a kept list is not used":                          {text: "the {list} of server {server} that was kept from the last start isn't used: {cause}"},
	"retrying call":                                    {text: "a call couldn't be sent to server {server} and is sent again: {cause}"},
	"trying a server before adding it":                 {text: "server {server} is tried before it's added"},
	"the trial of a server has ended":                  {text: "the trial of server {server} has ended: {outcome}"},
	"subscriptions/listen ended":                       {text: "the subscription at server {server} has ended, and a new one follows: {cause}"},
	"handshake step":                                   {say: step},
	"call":                                             {say: call},
	"initialize":                                       {say: opening, counted: "handshake of a client"},
	"a client sent a message that is not valid":        {text: "a client at {remote} sent a message that isn't valid: {why}"},
	"answer is not valid":                              {text: "server {server} gave an answer that can't be used: {cause}"},
	"not sent to clients":                              {say: lost},
	"renamed an item":                                  {text: "clients see {name} of server {server} under another name: {why}"},
	"tools of a server have changed":                   {say: changed},
	"the changed configuration is invalid; keeping the current one": {text: "the changed configuration has errors, so the current one stays"},
	"problem in the configuration":                                  {problem: true},
	"server added":                                                  {text: "server {server} was added"},
	"server removed":                                                {text: "server {server} was removed", fresh: true},
	"server changed":                                                {text: "server {server} was changed ({settings}): {effect}", fresh: true},
	"configuration applied":                                         {say: applied},
	"configuration is unchanged":                                    {text: "the configuration file was read again, and nothing has changed"},
	"stopping: waiting for running calls":                           {told: true},
	"some settings change only with a restart":                      {text: "restart Dragoman to change {settings}"},
}

// ready leaves out the time if the server was quick.
func ready(f *fields) string {
	text := "server " + f.server() + " is ready"
	took, err := time.ParseDuration(f.take("took"))
	if err == nil && took >= time.Second {
		text += " after " + took.Round(100*time.Millisecond).String()
	}
	if n := f.take("attempts"); n != "" && n != "0" && n != "1" {
		text += " and " + n + " attempts"
	}
	return text
}

func step(f *fields) string {
	f.take("for")
	text := f.server() + " " + f.take("n") + ": " + f.take("sent")
	if got := f.take("got"); got != "" {
		text += " -> " + got + "; " + f.take("reason")
	}
	return text
}

func call(f *fields) string {
	what := f.take("method")
	for _, key := range []string{"tool", "prompt", "uri"} {
		if name := f.take(key); name != "" {
			what = strings.TrimSpace(what + " " + word(name))
		}
	}
	text := what
	if f.peek("server") != "" {
		text += " of server " + f.server()
	}
	if client := f.take("client"); client != "" {
		text += " by " + word(client)
	}
	text += ": " + f.take("outcome")
	if code := f.take("error_code"); code != "" {
		text += " " + code
	}
	return text + " after " + f.take("took")
}

// opening says how the handshake of a client went.
func opening(f *fields) string {
	client := "a client"
	if name := f.take("client"); name != "" {
		client = "client " + word(name)
		if version := f.take("client_version"); version != "" {
			client += " " + word(version)
		}
	}
	asked, got, outcome := f.take("requested"), f.take("revision"), f.take("outcome")
	f.take("took")
	f.take("method")
	if from := f.peek("remote"); from == "127.0.0.1" || from == "::1" {
		f.take("remote")
	}
	switch outcome {
	case "ok":
		return client + " has connected with " + got
	case "negotiated":
		return client + " asked for " + asked + " and has connected with " + got
	case "unsupported_version":
		return client + " asked for " + asked + ", which isn't accepted"
	case "malformed":
		return client + " couldn't connect: its request isn't valid"
	case "rate_limited":
		return client + " couldn't connect: it opens too many sessions"
	}
	return client + " couldn't connect: " + outcome
}

// lost names the method of which a part gets lost.
func lost(f *fields) string {
	text := f.take("what")
	if f.peek("server") != "" {
		text += " of server " + f.server()
	}
	return text + " loses something: " + inSentence(f.take("why"))
}

func changed(f *fields) string {
	for _, key := range []string{"changed", "added", "removed"} {
		f.take(key) // the text counts them too
	}
	return "the tools of server " + f.server() + " have changed: " + f.take("what")
}

// applied counts what a reload has changed.
func applied(f *fields) string {
	var parts []string
	for _, key := range []string{"added", "removed", "changed"} {
		if n := f.take(key); n != "" && n != "0" {
			parts = append(parts, n+" "+key)
		}
	}
	f.take("kept")
	text := "the changed configuration is in use"
	if len(parts) > 0 {
		text += "; servers: " + strings.Join(parts, ", ")
	}
	if settings := f.take("settings"); settings != "" {
		text += "; settings: " + settings
	}
	return text
}

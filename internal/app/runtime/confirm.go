package runtime

import (
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// confirm is the step that asks the person about each use of an item of which a rule says so. Whoever agrees lets
// this one call pass: the bridge binds the question to the seat, the server, the method and the params, lets it be
// answered once, and seals it with a key of the project. See bridge.Ask.
type confirm struct{ rules *rules }

// stepConfirm is the name of the question in a requestState; see policy.Ask.
const stepConfirm = "confirm"

// Before implements policy.Step.
func (s confirm) Before(_ context.Context, c *policy.Call) policy.Verdict {
	kind, name := itemOf(c)
	if c.Server == "" || kind == catalog.KindServer || c.Request.Msg.Method == mcp.MethodSubscribe {
		return policy.Verdict{} // nothing of an item is used
	}
	// What the person has said counts, even if the rules have changed since then, unless they deny the item now: the
	// steps before this one were asked before the person was.
	switch answer := c.Answered(stepConfirm).Action(); {
	case answer == "accept":
		if show := s.rules.inForce().filter(c.Who); show != nil && !show.Shows(kind, c.Server, name) {
			return policy.Verdict{Refuse: notConfirmed(c, mcp.FromGateway, "denied",
				"%s was not sent: a person has confirmed it, but meanwhile the rules have changed, and deny it", described(kind, c))}
		}
		return policy.Verdict{}
	case answer != "":
		return policy.Verdict{Refuse: notConfirmed(c, mcp.FromClient, "declined",
			"%s was not sent, because the person who was asked did not agree; don't repeat it unless they want you to", described(kind, c))}
	case c.Resumed, !s.rules.confirms[c.Server]:
		return policy.Verdict{}
	}
	said := s.rules.filterFor(s.rules, s.rules.caller(c.Who)).say(kind, c.Server, name)
	if said.Do != policy.Confirm {
		return policy.Verdict{}
	}
	by := said.Match
	unasked := notConfirmed(c, mcp.FromGateway, "cannot_ask",
		"%s was not sent: the rule for %s wants a person to confirm it, and this client can't ask one; use a client with elicitation, set questions: console so that such calls wait until somebody answers in the console of dragoman serve, or change the rule to do: allow", described(kind, c), quoted(by))
	unasked.Data = []byte(`{"requiredCapabilities":{"elicitation":{"form":{}}}}`)
	// The run of a key is answered with that key, which never answers its own question. A person at the console does.
	others := c.Who != nil && c.Who.Run == identity.API && !c.Who.IsLocal()
	if others {
		unasked = notConfirmed(c, mcp.FromGateway, "cannot_ask",
			"%s was not sent: the rule for %s wants a person to confirm it, and a key doesn't confirm its own run; run it in the console, or set questions: console so that somebody else is asked", described(kind, c), quoted(by))
	}
	return policy.Verdict{Ask: &policy.Ask{Step: stepConfirm, Question: &mcp.Question{Message: questionAbout(kind, c, by)}, Else: unasked, Others: others}}
}

// After implements policy.Step.
func (confirm) After(context.Context, *policy.Call, *policy.Answer) {}

// notConfirmed returns the error for a call that nobody has confirmed. It isn't the result of a tool, since no tool
// has run: an error says so in its outcome, to the client as well as to the record of calls.
func notConfirmed(c *policy.Call, from mcp.Origin, cause, format string, args ...any) *mcp.Error {
	return &mcp.Error{Origin: from, Upstream: c.Server, Cause: cause, Outcome: mcp.NotSent, Message: fmt.Sprintf(format, args...)}
}

// described returns what a call would do, as the beginning of a sentence.
func described(kind catalog.Kind, c *policy.Call) string {
	what := "the call of the tool "
	switch kind {
	case catalog.KindPrompt:
		what = "the request for the prompt "
	case catalog.KindResource:
		what = "the request for the resource "
	}
	return what + quoted(c.Name) + " of " + c.Server
}

// These constants bound the text of a question.
const (
	mostArguments = 20  // what comes after them is counted
	mostOfValue   = 400 // bytes of each argument
	mostOfName    = 200 // bytes of each name, URI or pattern
)

// questionAbout returns what the person reads before they decide. Each argument has a line of its own and is cut
// by itself, so that a long one can't push another out of sight.
func questionAbout(kind catalog.Kind, c *policy.Call, by string) string {
	ask := "Do you want " + c.Server + " to run its tool "
	switch kind {
	case catalog.KindPrompt:
		ask = "Do you want " + c.Server + " to fill in its prompt "
	case catalog.KindResource:
		ask = "Do you want " + c.Server + " to send its resource "
	}
	ask += quoted(c.Name)
	raw := c.Args.Raw()
	n, lines := 0, ""
	for m := range jsonrpc.Members(raw, jsonrpc.Whole(raw)) {
		if n++; n <= mostArguments {
			key, _ := jsonrpc.Text(raw, m.Key)
			lines += "\n" + quoted(key) + ": " + cutTo(mostOfValue, drawn(nil, raw, m.Value))
		}
	}
	if whole := jsonrpc.Whole(raw); n == 0 && !c.Args.Absent() && jsonrpc.KindOf(raw, whole) != '{' { // the server would get it
		lines = "\n" + cutTo(mostOfValue, drawn(nil, raw, whole))
	}
	if n > mostArguments {
		lines += fmt.Sprintf("\nand %d more arguments, which are not shown", n-mostArguments)
	}
	if lines != "" {
		ask += " with these arguments?" + lines
	} else {
		ask += "?"
	}
	return ask + "\n(Dragoman asks because of the rule for " + quoted(by) + ".)"
}

// drawn appends a JSON value as people read it: strings are decoded and quoted again, so that characters that are
// invisible or turn the direction are drawn, and those that hide behind escapes aren't. It stops soon after
// mostOfValue bytes.
func drawn(dst, raw []byte, at jsonrpc.Span) []byte {
	separate := func() {
		if end := dst[len(dst)-1]; end != '{' && end != '[' {
			dst = append(dst, ", "...)
		}
	}
	switch jsonrpc.KindOf(raw, at) {
	case '{':
		dst = append(dst, '{')
		for m := range jsonrpc.Members(raw, at) {
			if separate(); len(dst) > mostOfValue {
				return dst
			}
			dst = drawn(append(drawn(dst, raw, m.Key), ": "...), raw, m.Value)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for e := range jsonrpc.Elements(raw, at) {
			if separate(); len(dst) > mostOfValue {
				return dst
			}
			dst = drawn(dst, raw, e)
		}
		return append(dst, ']')
	case '"':
		text, _ := jsonrpc.Text(raw, at)
		if len(text) > 2*mostOfValue {
			text = text[:2*mostOfValue]
		}
		return append(dst, quote(text)...)
	}
	return append(dst, at.Of(raw)...)
}

// cutTo returns a drawn value, or its beginning with a remark that there is more.
func cutTo(most int, b []byte) string {
	if len(b) <= most {
		return string(b)
	}
	return excerpt.Cut(string(b), most) + " (cut)"
}

// quoted returns a name, a URI or a pattern in quotes.
func quoted(name string) string { return quote(excerpt.Cut(name, mostOfName)) }

// quote returns a text in quotes, with escapes for what people can't see.
func quote(text string) string {
	var out []byte
	before := rune(0)
	for _, r := range strconv.Quote(text) {
		if excerpt.Invisible(r, before) {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = utf8.AppendRune(out, r)
		}
		before = r
	}
	return string(out)
}

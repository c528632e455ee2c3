package fake

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// askTools returns the tools that send requests to the client.
func askTools() []tool {
	return []tool{
		{name: "ask_all", about: "Sends requests for a sample, for a form (if the revision has forms) and for the roots. It sends them at the same time if the revision allows it.", of: always, waits: true, run: askAll},
		{name: "ask_twice", about: "Requests two samples. The second request contains the text of the first sample.", of: always, waits: true, run: askTwice},
		{name: "elicit", about: "Asks the user for a name and an age.", of: forms, waits: true, run: elicit},
		{name: "elicit_rich", about: "Asks the user to fill in a form with titles, lists of options and default values.", of: richForms, waits: true, run: elicitRich},
		{name: "elicit_url", about: "Asks the user to open a page.", of: formModes, waits: true, run: elicitURL},
		{name: "roots", about: "Requests the client's roots.", of: always, waits: true, run: roots},
		{name: "sample", about: "Requests a sample from the client's model.", of: always, args: shape{need("prompt", aString)}, waits: true, run: sample},
	}
}

func sample(x *exchange, args jsonrpc.Span) (string, error) {
	a, err := x.ask(x.c.ed.askSample("sample", x.text(args, "prompt")))
	if err != nil {
		return "", err
	}
	return textResult(sampled(a[0])), nil
}

func elicit(x *exchange, _ jsonrpc.Span) (string, error) {
	a, err := x.ask(x.c.ed.askForm("elicit"))
	if err != nil {
		return "", err
	}
	return textResult(filled(a[0])), nil
}

func elicitRich(x *exchange, _ jsonrpc.Span) (string, error) {
	a, err := x.ask(x.c.ed.askRichForm("rich", "What shall we paint?"))
	if err != nil {
		return "", err
	}
	whole := jsonrpc.Whole(a[0])
	text, _ := jsonrpc.Text(a[0], jsonrpc.Find(a[0], whole, "action"))
	for _, name := range richFields {
		if v := jsonrpc.Find(a[0], jsonrpc.Find(a[0], whole, "content"), name); !v.IsZero() {
			text += " " + name + "=" + string(v.Of(a[0]))
		}
	}
	return textResult(text), nil
}

func elicitURL(x *exchange, _ jsonrpc.Span) (string, error) {
	a, err := x.ask(x.c.ed.askURL("page"))
	if err != nil {
		return "", err
	}
	action := filled(a[0])
	if action == "accept" && x.c.ed.has(elicitationIDs) {
		// 2025-11-25 §Elicitation, "Completion Notifications for URL Mode Elicitation".
		x.notify(mcp.NoteElicitComplete, `{"elicitationId":"elicitation-page"}`)
	}
	return textResult(action), nil
}

func roots(x *exchange, _ jsonrpc.Span) (string, error) {
	a, err := x.ask(x.c.ed.askRoots("roots"))
	if err != nil {
		return "", err
	}
	return textResult(rooted(a[0])), nil
}

func askAll(x *exchange, _ jsonrpc.Span) (string, error) {
	qs := []question{x.c.ed.askSample("sample", "Say something.")}
	read := []func([]byte) string{sampled, rooted}
	if x.c.ed.has(forms) {
		qs = append(qs, x.c.ed.askForm("elicit"))
		read = []func([]byte) string{sampled, filled, rooted}
	}
	a, err := x.ask(append(qs, x.c.ed.askRoots("roots"))...)
	if err != nil {
		return "", err
	}
	answers := make([]string, 0, len(a))
	for i := range a {
		answers = append(answers, read[i](a[i]))
	}
	return textResult(strings.Join(answers, "; ")), nil
}

func askTwice(x *exchange, _ jsonrpc.Span) (string, error) {
	first, err := x.ask(x.c.ed.askSample("first", "Say something."))
	if err != nil {
		return "", err
	}
	second, err := x.ask(x.c.ed.askSample("second", "You said: "+sampled(first[0])))
	if err != nil {
		return "", err
	}
	return textResult(sampled(first[0]) + "; " + sampled(second[0])), nil
}

// sampled returns the text of a sampling answer, with all blocks joined.
func sampled(answer []byte) string {
	content := jsonrpc.Find(answer, jsonrpc.Whole(answer), "content")
	blocks := []jsonrpc.Span{content}
	if jsonrpc.KindOf(answer, content) == '[' {
		blocks = nil
		for e := range jsonrpc.Elements(answer, content) {
			blocks = append(blocks, e)
		}
	}
	var all string
	for _, b := range blocks {
		s, _ := jsonrpc.Text(answer, jsonrpc.Find(answer, b, "text"))
		all += s
	}
	return all
}

// filled returns an elicitation answer as text: the action, the name and the age.
func filled(answer []byte) string {
	whole := jsonrpc.Whole(answer)
	action, _ := jsonrpc.Text(answer, jsonrpc.Find(answer, whole, "action"))
	content := jsonrpc.Find(answer, whole, "content")
	if name, ok := jsonrpc.Text(answer, jsonrpc.Find(answer, content, "name")); ok && action == "accept" {
		action += " " + name
		if age := jsonrpc.Find(answer, content, "age"); !age.IsZero() {
			action += " " + string(age.Of(answer))
		}
	}
	return action
}

// rooted returns the URIs of the roots, separated by spaces.
func rooted(answer []byte) string {
	var uris []string
	for e := range jsonrpc.Elements(answer, jsonrpc.Find(answer, jsonrpc.Whole(answer), "roots")) {
		uri, _ := jsonrpc.Text(answer, jsonrpc.Find(answer, e, "uri"))
		uris = append(uris, uri)
	}
	return strings.Join(uris, " ")
}

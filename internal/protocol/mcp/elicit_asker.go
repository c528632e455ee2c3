package mcp

import (
	"net/url"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// editor is a jsonrpc.Edits or a jsonrpc.EditList.
type editor interface {
	Replace(why jsonrpc.Reason, at jsonrpc.Span, with []byte)
	Object(why jsonrpc.Reason, raw []byte, obj jsonrpc.Span, drop func(key []byte) bool, set ...jsonrpc.Field)
}

// SayWhoAsks adds an edit to e that puts the name of the server in front of the message of an
// elicitation, as in "github asks: …". If the elicitation is about a page on the user's machine or
// network, this text says so. Clients must show which server requests information (2025-11-25
// and later §Elicitation, "Security Considerations" 1), but a client of several servers behind one
// endpoint knows only the name of Dragoman. The name always comes first, so a message that
// itself begins with the name of another server deceives nobody. Sampling and roots have no text for
// the user. SayWhoAsks changes nothing in them.
func SayWhoAsks(e editor, raw []byte, method string, params jsonrpc.Span, server string) {
	if method != MethodElicit {
		return
	}
	sayWhoAsks(e, raw, params, server)
}

// SayWhoAsksAll does the same as SayWhoAsks for each input request in asks, an object of input
// requests (2026-07-28 §MRTR), or absent.
func SayWhoAsksAll(e editor, raw []byte, asks jsonrpc.Span, server string) {
	for ask := range jsonrpc.Members(raw, asks) {
		method, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, ask.Value, "method"))
		SayWhoAsks(e, raw, method, jsonrpc.Find(raw, ask.Value, "params"), server)
	}
}

// SayWhoNeeds does the same as SayWhoAsks for each elicitation in a URLElicitationRequired error
// (2025-11-25 §Elicitation, "URL Elicitation Required Error"). list is the array of elicitations.
func SayWhoNeeds(e editor, raw []byte, list jsonrpc.Span, server string) {
	for params := range jsonrpc.Elements(raw, list) {
		sayWhoAsks(e, raw, params, server)
	}
}

// NameElicitation adds an edit to e that puts the name of the server in front of the elicitationId in
// params, so that the ids of several servers differ. The params are those of an elicitation in URL
// mode, or of the notification that the user is done (2025-11-25 §Elicitation, "URL Mode").
func NameElicitation(e editor, raw []byte, params jsonrpc.Span, server string) {
	if at := jsonrpc.Find(raw, params, "elicitationId"); jsonrpc.KindOf(raw, at) == '"' {
		head := jsonrpc.AppendQuote(nil, ElicitationID(server, ""))
		e.Replace(WhyAsker, at, append(head[:len(head)-1], at.Of(raw)[1:]...))
	}
}

// ElicitationID returns the id by which a client of several servers knows an elicitation.
func ElicitationID(server, id string) string { return server + "/" + id }

func sayWhoAsks(e editor, raw []byte, params jsonrpc.Span, server string) {
	NameElicitation(e, raw, params, server)
	asks := " asks: "
	// Clients should show the address, but few people know which addresses are their own.
	if text, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, params, "url")); ok {
		if u, err := url.Parse(text); err == nil && PlaceOf(u) != "" {
			asks = " asks you to open a page on " + PlaceOf(u) + ": "
		}
	}
	head := jsonrpc.AppendQuote(nil, server+asks)
	at := jsonrpc.Find(raw, params, "message")
	if jsonrpc.KindOf(raw, at) != '"' {
		// The message is required, but a client may show the form without it.
		e.Object(WhyAsker, raw, params, nil, jsonrpc.Field{Key: "message", Value: head})
		return
	}
	// Keep the escapes of the server: only the quotes between the two texts go.
	e.Replace(WhyAsker, at, append(head[:len(head)-1], at.Of(raw)[1:]...))
}

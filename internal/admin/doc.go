// Package admin is what operators see of the running program: the model of its state with
// its JSON, the same as text for a terminal, the readiness check, and the HTTP API.
//
// The model is exported types without behaviour, so that a page or a command can read a
// Report that came over HTTP. API fills a Report from the runtime whenever it is asked. It
// keeps no state of its own but the key of the aliases that stand for principals.
//
// It changes nothing: it asks the runtime for reports, and neither servers nor clients.
package admin

// Package admin reports the state of the running program to operators. It has the model of
// the state with its JSON form, the same state as text, the readiness check, and the HTTP
// API.
//
// The model has exported types without behaviour, so a page or a command can decode a Report
// that it received over HTTP. API builds a Report from the runtime for each request. Its only
// own state is the key for the aliases of principals.
//
// Package admin is read-only. It asks the runtime for reports, and sends nothing to servers
// or clients.
package admin

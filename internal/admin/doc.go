// Package admin reports the state of the running program to operators. It has the model of the
// state with its JSON form, the same state as text, the readiness check, and the HTTP API.
//
// The model has exported types without behaviour, so a page or a command can decode a Report
// that it received over HTTP. API builds a Report from the runtime for each request. The only state
// of API itself is the key for the aliases of principals.
//
// routes is the table of all routes below /api/v1. The mux, the OpenAPI document and
// docs/api.md are made from it. Most routes ask the runtime for reports, and send nothing to
// servers or clients. Routes that change something need the key or a session cookie; see
// Access.
package admin

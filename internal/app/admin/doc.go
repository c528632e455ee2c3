// Package admin shows the state of the running program to its operators. It contains the types for
// the state and their JSON format, the state as text, the readiness check, and the HTTP API.
//
// The types for the state are exported, so a program can decode a Report that it received over HTTP.
// API builds a Report from the runtime for each request. It consists of one type per subject, which
// has only what the subject needs; they keep nothing but runs, examinations, drafts, and the key for the
// aliases of principals.
//
// routes is the table of all routes below /api/v1. The mux, the OpenAPI document and docs/api.md
// are generated from this table. Most routes only read reports of the runtime, and send nothing to
// servers or clients. They need a role, which API keys, the sessions of browsers and the local user have
// (see Access); those with open answer every program on this machine.
package admin

// Package issuers tests how Dragoman signs in at authorization servers that others made: oidc-provider
// from npm, and the example provider of zitadel/oidc, which runs in the test. Each protects an MCP server
// made with the Go SDK, and `dragoman run URL` stands before that server, in an empty home, with the
// browser of package tab.
//
// The test with oidc-provider needs npm, so it runs only if DRAGOMAN_ISSUERS is set: see `make issuers`.
// The lock file pins the version, which is installed below .cache.
package issuers

// Package oauth speaks OAuth to the issuers that protect MCP servers: it reads challenges and metadata,
// registers clients, makes authorization URLs, judges callbacks, and asks token endpoints.
//
// It follows the authorization pages of MCP 2026-07-28 (index, authorization-server-discovery,
// client-registration, security-considerations; AU, AD, AR and AS in comments) and accepts what the
// earlier revisions allow, down to the fixed paths of 2025-03-26 (AU03). Every document of a peer goes
// through a strict, pure Read function: one JSON object, no name twice, bounded size and depth, no value of
// another type. What is present and wrong is an error, and never a reason to try the next place.
//
// The package keeps nothing, starts nothing and opens no connection: requests go through a [Doer], which
// says how far they may reach, and package signin keeps credentials and runs the flows. Secrets are
// secret.Text from the moment they are read. Errors are a [*Fault] (something published or answered is
// wrong), an [*Error] (the issuer refused, RFC 6749 §5.2), or weather, which [Weather] tells apart.
//
// Everything is safe for concurrent use unless it says otherwise.
package oauth

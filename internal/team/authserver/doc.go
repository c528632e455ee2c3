// Package authserver is a small OAuth authorization server for our own endpoints: the authorization code flow with
// PKCE, refresh, and revocation (OAuth 2.1 draft 13, RFC 8414, 7591, 7009, 8707, 9207, and client ID metadata
// documents). It is off unless somebody turns it on with access.signIn (docs/adr/0041).
//
// A client is known by the URL of a document that its vendor publishes, or it has registered itself. A person is
// who has a session of the console; this package asks for it and makes none. Codes and tokens are made, kept and
// revoked by access.Ledger, and accepted by access.Gate. The pages are shown by a function that its user gives
// it, so it has no HTML.
//
// Whoever sends us somebody is a stranger until that person has agreed: a bad client or redirect URI gets a page of
// ours and never a redirect, and nobody is sent to the address of an unknown client without a click.
package authserver

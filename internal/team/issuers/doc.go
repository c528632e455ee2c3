// Package issuers knows the access tokens that issuers outside of Dragoman have made for it: JWTs, whose
// signature it checks, and opaque tokens, about which it asks the issuer (RFC 7662). It says who has a token, and
// which roles the issuer's claims give them. Package access asks it at the door.
//
// A token counts only for the endpoint that it was issued for, or for all below its audience (MCP 2026-07-28
// §Authorization, "Access Token Usage"). The rules stand in [Set.Principal] and docs/adr/0040; each of them is a
// row of TestTA04.
//
// Nothing here trusts what a request says of itself: neither the keys that a token brings along, nor the headers
// in which proxies name a user. A proxy's signed assertion is a token like any other, in a header of its own.
//
// An issuer's keys are kept as long as its answer allows, and are fetched again when a token names one that we
// don't have, once a minute at most. When the issuer is down, the last ones serve for a day. Requests to issuers
// go through an oauth.Doer, which decides how far they may reach.
package issuers

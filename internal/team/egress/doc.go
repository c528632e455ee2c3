// Package egress makes the HTTP requests to addresses that a document, a challenge or a client named:
// discovery, registration and token requests of a sign-in, and the documents of clients
// (docs/adr/0038).
//
// Its rule is that of nearness. The internet is farther away than the networks of an organisation, and
// these are farther than this machine. An address that a server named may be no nearer than that server
// is itself, so that a public server cannot make us talk to what only we can reach, while sign-in at a
// private server works. What counts is the address that is dialled, not an earlier look at the name.
// Link-local, multicast and unspecified addresses, and those where clouds keep the credentials of a
// machine, are never reached. IPv6 forms that carry an IPv4 address count as what they carry.
//
// Requests have a time limit, answers a size limit, and redirects stay on their origin. There are no
// cookies, and no connection is used twice, since another caller may be allowed less. The package knows
// neither OAuth nor MCP. What people can do something about is an *Error: a sentence and a next step.
package egress

// Package access says who has sent a request, and which roles they have: it knows API keys, and people who
// were invited, with the sessions of their browsers.
//
// A key is a text that is shown once. We keep its id and an HMAC of its secret. The key of the
// HMAC lies sealed in the store, so a row that somebody has written into the database lets nobody in
// (docs/adr/0033).
// The keys in force stand in an immutable [Keys], and people in an immutable [People], which a change
// replaces, so no request waits for the database, and a key that was revoked gets no further request.
//
// A person opens an invitation once and gets a session. Of both we keep HMACs, too (docs/adr/0035). A key that
// acts for a person never does more than the person may do at that moment.
package access

// Package access says who has sent a request. It knows API keys, so far.
//
// A key is a text that is shown once. We keep its id and an HMAC of its secret. The key of the
// HMAC lies sealed in the store, so a row that somebody has written into the database lets nobody in
// (docs/adr/0033).
// The keys in force stand in an immutable [Keys], which a change replaces, so no request waits for the
// database, and a key that was revoked gets no further request.
package access

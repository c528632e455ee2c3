// Package access says who has sent a request. It knows API keys, so far.
//
// A key is a text that is shown once. We keep its id and an HMAC of its secret, under a key that is
// derived from the one of the vault: a row that somebody has written into the database lets nobody in.
// The keys in force stand in an immutable [Keys], which a change replaces, so no request waits for the
// database, and a key that was revoked gets no further request.
package access

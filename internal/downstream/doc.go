// Package downstream holds our conversations with clients. An Endpoint takes clients in and
// makes a Session of each conversation: a legacy session, a pipe on which both eras may be
// spoken, or a single modern HTTP request.
//
// A Session knows who the client is and what it speaks, which of its requests are in
// flight and which questions it has been asked. Its requests are answered by a Handler.
// A request ends exactly once: by its answer, its cancellation or the end of the
// conversation, and nothing follows its answer. Everything exported is safe for concurrent
// use unless it says otherwise.
package downstream

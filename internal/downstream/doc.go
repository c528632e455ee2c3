// Package downstream holds our conversations with clients. An Endpoint accepts clients and
// makes a Session for each conversation: a legacy session, a pipe on which both eras may be
// used, or a single modern HTTP request.
//
// A Session knows the client and its revision, its requests in flight, and the open server
// requests that were sent to it. A Handler answers its requests. A request ends exactly
// once: by its answer, its cancellation or the end of the conversation, and nothing follows
// its answer. Everything exported is safe for concurrent use unless it says otherwise.
package downstream

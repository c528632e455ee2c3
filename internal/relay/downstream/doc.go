// Package downstream handles the sessions with clients. An Endpoint accepts clients, and creates a
// Session for each conversation. A conversation is a legacy session, or a pipe on which both eras
// may be used. The Endpoint also creates a Session for each independent request, such as a modern
// HTTP request.
//
// A Session knows the client and its revision, the client's requests in flight, and the server
// requests that wait for the client's answer. A Handler answers the requests. A request ends
// exactly once: by its answer, by its cancellation, or with the conversation. No message of the
// request is sent after its answer. Everything exported is safe for concurrent use unless its
// comment says otherwise.
package downstream

// Package audit keeps a trail of what clients ask for: a line of JSON for each request, with who has sent it,
// through what, and what became of it, also if it was refused or names something that doesn't exist.
//
// A Trail is the policy.Auditor of all projects of a process. A request waits for no file: its line is kept in
// memory, within a limit, and written within a second. Each line has the hash of the one before, as the acts
// of the store have, and the two chains know each other: a file begins and ends with an act, and with the hash of
// the act that was the newest. So Verify finds lines and acts that were changed, moved or deleted, unless
// somebody has replaced everything at both places.
//
// The files of a process begin with calls-, and its name and the number of the file follow. Several processes may
// use a folder.
package audit

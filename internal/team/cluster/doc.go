// Package cluster lets several replicas of dragoman serve stand behind a balancer that knows nothing: whichever
// replica gets a request passes it on to the one that has what the request is about.
//
// Each replica has a row in PostgreSQL with its address and the fingerprint of its key, and writes every second that it
// lives. Nothing is decided by the clocks of replicas: the database says how long ago that was. A replica is buried only
// by three witnesses (see buries), because a pause costs waiting, and a death costs calls.
//
// Sessions, streams, parked calls and tasks of old servers are in one process. What clients get of them begins with
// the name of the replica and its incarnation, which is new at each start ([Cluster.Mark]). A request with such an id
// goes to its home over one connection, whole and with its credentials: the home checks the client itself. Replicas
// reach each other at listeners of their own, with TLS in both directions. They trust no issuer, but the fingerprints
// of the replicas that live.
//
// Clients without a session share one with a legacy server, and it's at one replica. Who that is stands in the rows of
// seats ([Cluster.Sit]), as it does for clients' sessions that have moved ([Cluster.Find]).
//
// While the database can't be reached, everybody keeps the members that they know, and nobody is buried.
//
// A Cluster is safe for concurrent use.
package cluster

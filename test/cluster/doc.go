// Package cluster tests three replicas of `dragoman serve`, which share a PostgreSQL database, behind balancers.
//
// The configurations of HAProxy and nginx, and the commands that start everything, are those of examples/cluster and
// docs/cluster.md; only ports are replaced. The tests are skipped without a PostgreSQL, which .ci/postgres starts for a
// command, and without the programs, which .ci/remote unpacks.
//
// What takes longer runs only if DRAGOMAN_CLUSTER_TEST is set: the matrix through a balancer, and a soak in which replicas
// are killed and drained, and the database is away. `make cluster-test` runs all of it.
package cluster
